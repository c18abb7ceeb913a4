// Two threads on one CPU hand a byte to and fro through two pipes: as many context switches as the machine can do. Prints how
// many there were a second.
// usage: pingpong CPU MS
#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static int there[2], back[2];
static uint64_t end_ns;

static void *answer(void *unused) {
    char byte;
    while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {}
    return unused;
}

NOINLINE uint64_t ping(void) {
    uint64_t rounds = 0;
    char byte = 0;
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
        for (int i = 0; i < 100; i++, rounds++) {
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) exit(3);
        }
    }
    return rounds;
}

int main(int argc, char **argv) {
    if (argc < 3 || pipe(there) || pipe(back)) return 2;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((unsigned)atoi(argv[1]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) return 2;
    pthread_t thread;
    pthread_create(&thread, NULL, answer, NULL);
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    end_ns = start_ns + strtoull(argv[2], NULL, 10) * 1000000u;
    uint64_t rounds = ping();
    double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9;
    close(there[1]);
    pthread_join(thread, NULL);
    printf("switches_per_s=%.0f\n", 2.0 * (double)rounds / seconds);
    print_cpu_time();
    return 0;
}
