// Two threads on each CPU that yield to each other: nothing but switches. Prints how many there were a second, on all CPUs.
// usage: yields MS
#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t end_ns;

static void *yield_all_the_time(void *unused) {
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
        for (int i = 0; i < 100; i++) syscall(SYS_sched_yield);
    }
    return unused;
}

static long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    enum { MOST_CPUS = 256 };
    static pthread_t threads[2 * MOST_CPUS];
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return 2;
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    end_ns = start_ns + strtoull(argv[1], NULL, 10) * 1000000u;
    int started = 0;
    for (int cpu = 0; cpu < MOST_CPUS; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
        for (int i = 0; i < 2; i++) {
            if (pthread_create(&threads[started++], &attributes, yield_all_the_time, NULL)) return 3;
        }
    }
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9;
    printf("switches_per_s=%.0f\n", (double)switches() / seconds);
    print_cpu_time();
    return 0;
}
