// A fixed amount of work on one thread, for measuring what slows it down.
// usage: work MILLION_ROUNDS
#include "common.h"

static volatile uint64_t sink;

NOINLINE void fixed_work(uint64_t millions) {
    for (uint64_t i = 0; i < millions; i++) sink += xorshift(23, 1000000);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    fixed_work(strtoull(argv[1], NULL, 10));
    printf("wall_ns=%llu\n", (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - start_ns));
    print_cpu_time();
    return 0;
}
