// What every test program needs: work that costs CPU time, clocks, and its own account of the CPU time it used.
#ifndef SPROF_TEST_COMMON_H
#define SPROF_TEST_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
// Stops the compiler from turning the call before it into a jump, which would hide the caller from every unwinder.
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t thread_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// The loop body is the same wherever it is inlined; `seed` keeps identical functions from being merged.
static inline __attribute__((always_inline)) uint64_t xorshift(uint64_t seed, uint64_t rounds) {
    uint64_t x = seed | 1;
    for (uint64_t i = 0; i < rounds; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

// 20,000 rounds take some 20 us. A step that takes a millisecond of CPU time was a pause that the host of a virtual machine
// made: no timer ticks in it.
#define PAUSE_NS 1000000u

// CPU time of the thread since `*last`, which it sets to now. A pause counts as a millisecond at most.
static inline uint64_t step_ns(uint64_t *last) {
    uint64_t now = thread_cpu_ns(), step = now - *last;
    *last = now;
    return step < PAUSE_NS ? step : PAUSE_NS;
}

static inline void print_cpu_time(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
                  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    printf("cpu_ns=%llu end_ns=%llu\n", (unsigned long long)us * 1000u, (unsigned long long)clock_ns(CLOCK_REALTIME));
    fflush(stdout);
}

#endif
