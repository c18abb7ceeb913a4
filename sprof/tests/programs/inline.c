// Inline frames and lines that are known: see the line numbers in the comments.
// usage: inline CPU_MS
#include "common.h"

static volatile uint64_t sink;

static inline __attribute__((always_inline)) uint64_t innermost(uint64_t x) {
    for (int i = 0; i < 1000; i++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17; // INNERMOST_LINE
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

static inline __attribute__((always_inline)) uint64_t middle(uint64_t x) {
    return innermost(x + 1) + 1; // MIDDLE_LINE
}

NOINLINE uint64_t not_inlined(uint64_t x) {
    return middle(x) * 3; // OUTER_LINE
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint64_t cpu_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    while (thread_cpu_ns() < cpu_ns) {
        for (int i = 0; i < 1000; i++) sink += not_inlined(sink); // CALL_LINE
    }
    print_cpu_time();
    return 0;
}
