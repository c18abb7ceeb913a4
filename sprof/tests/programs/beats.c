// Works for a part of a millisecond and then sleeps as long, over and over: each sample of CPU time comes some µs after a wait.
// Prints the CPU time of its work alone (working_ns) and all CPU time, with the kernel's for the switches (cpu_ns).
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
    uint64_t working = 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        uint64_t start = thread_cpu_ns();
        work_us(us);
        working += thread_cpu_ns() - start;
        struct timespec t = {0, (long)(us * 1000u)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
    printf("working_ns=%llu ", (unsigned long long)working);
    print_cpu_time();
    return 0;
}
