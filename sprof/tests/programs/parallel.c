// Rounds of a serial phase, in which `serial_work` runs alone, and a parallel one, in which two threads run
// `parallel_work`. It prints how long each kind of phase lasted, and the CPU time in it: ns.
// usage: parallel ROUNDS SERIAL_MS PARALLEL_MS
#include "common.h"
#include <pthread.h>

static volatile uint64_t sink;
static uint64_t parallel_ns;
static pthread_barrier_t begin, end;
static uint64_t cpu_of[2];

static uint64_t wall_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

NOINLINE void serial_work(uint64_t cpu_ns) {
    uint64_t until = thread_cpu_ns() + cpu_ns;
    while (thread_cpu_ns() < until) sink += xorshift(11, 2000);
    KEEP_FRAME();
}

NOINLINE void parallel_work(uint64_t cpu_ns) {
    uint64_t until = thread_cpu_ns() + cpu_ns;
    while (thread_cpu_ns() < until) sink += xorshift(13, 2000);
    KEEP_FRAME();
}

static void half(int which) {
    uint64_t before = thread_cpu_ns();
    parallel_work(parallel_ns);
    cpu_of[which] += thread_cpu_ns() - before;
}

static void *helper(void *rounds) {
    for (intptr_t round = 0; round < (intptr_t)rounds; round++) {
        pthread_barrier_wait(&begin);
        half(1);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    intptr_t rounds = atoi(argv[1]);
    uint64_t serial_ns = strtoull(argv[2], NULL, 10) * 1000000u;
    parallel_ns = strtoull(argv[3], NULL, 10) * 1000000u;
    pthread_barrier_init(&begin, NULL, 2);
    pthread_barrier_init(&end, NULL, 2);
    pthread_t other;
    pthread_create(&other, NULL, helper, (void *)rounds);
    uint64_t serial_wall = 0, serial_cpu = 0, parallel_wall = 0, before = wall_ns();
    for (intptr_t round = 0; round < rounds; round++) {
        uint64_t cpu = thread_cpu_ns();
        serial_work(serial_ns);
        serial_cpu += thread_cpu_ns() - cpu;
        uint64_t now = wall_ns();
        serial_wall += now - before;
        pthread_barrier_wait(&begin);
        half(0);
        pthread_barrier_wait(&end);
        before = wall_ns();
        parallel_wall += before - now;
    }
    pthread_join(other, NULL);
    printf("serial_wall_ns=%llu serial_cpu_ns=%llu parallel_wall_ns=%llu first_cpu_ns=%llu second_cpu_ns=%llu\n",
           (unsigned long long)serial_wall, (unsigned long long)serial_cpu, (unsigned long long)parallel_wall,
           (unsigned long long)cpu_of[0], (unsigned long long)cpu_of[1]);
    return 0;
}
