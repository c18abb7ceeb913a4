// Busy threads `worker-000`, `worker-001`... that each use the same CPU time, all at once.
// usage: threads COUNT CPU_MS_EACH
#include "common.h"
#include <pthread.h>

static volatile uint64_t sink;
static uint64_t cpu_ns_each;
static pthread_barrier_t all_started;

NOINLINE void thread_work(uint64_t cpu_ns) {
    while (thread_cpu_ns() < cpu_ns) sink += xorshift(11, 200000);
    KEEP_FRAME();
}

static void *thread_main(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "worker-%03d", (int)(intptr_t)argument);
    pthread_setname_np(pthread_self(), name);
    pthread_barrier_wait(&all_started);
    thread_work(cpu_ns_each);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int count = atoi(argv[1]);
    if (count < 1 || count > 1000) return 2;
    cpu_ns_each = strtoull(argv[2], NULL, 10) * 1000000u;
    static pthread_t handles[1000];
    pthread_barrier_init(&all_started, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) pthread_create(&handles[i], NULL, thread_main, (void *)(intptr_t)i);
    for (int i = 0; i < count; i++) pthread_join(handles[i], NULL);
    print_cpu_time();
    return 0;
}
