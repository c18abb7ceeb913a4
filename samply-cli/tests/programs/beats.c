// Works for a part of a millisecond and then sleeps as long, over and over: each sample of CPU time comes some µs after a wait.
// usage: beats ROUNDS US
#include "common.h"
#include <unistd.h>

static volatile uint64_t sink;

NOINLINE void work_us(uint64_t us) {
    uint64_t end = thread_cpu_ns() + us * 1000u;
    while (thread_cpu_ns() < end) sink += xorshift(5, 500);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    uint64_t us = strtoull(argv[2], NULL, 10);
    for (int i = 0; i < atoi(argv[1]); i++) {
        work_us(us);
        struct timespec t = {0, (long)(us * 1000u)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
    print_cpu_time();
    return 0;
}
