// The cost of being sampled, as the target sees it: a pinned spinner reads the clock in a loop and sums the gaps
// that are longer than a loop can take.
// usage: gaps CPU MS THRESHOLD_NS [STACK_KB]      prints `gaps=N gap_ns=SUM wall_ns=T median_gap_ns=M`
#include "common.h"
#include <sched.h>
#include <string.h>

#define KEPT 1000000
static uint32_t kept[KEPT];

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[1]), &set);
    sched_setaffinity(0, sizeof set, &set);
    uint64_t wall_ns = strtoull(argv[2], NULL, 10) * 1000000u, threshold = strtoull(argv[3], NULL, 10);
    size_t stack_bytes = argc > 4 ? strtoull(argv[4], NULL, 10) * 1024 : 1;
    char *stack = __builtin_alloca(stack_bytes);
    memset(stack, 1, stack_bytes);
    __asm__ volatile("" : : "r"(stack) : "memory");
    uint64_t start = clock_ns(CLOCK_MONOTONIC), last = start, gaps = 0, sum = 0, now;
    do {
        now = clock_ns(CLOCK_MONOTONIC);
        uint64_t gap = now - last;
        if (gap > threshold) {
            if (gaps < KEPT) kept[gaps] = gap > UINT32_MAX ? UINT32_MAX : (uint32_t)gap;
            gaps++;
            sum += gap;
        }
        last = now;
    } while (now - start < wall_ns);
    uint64_t n = gaps < KEPT ? gaps : KEPT;
    qsort(kept, n, sizeof kept[0], by_size);
    printf("gaps=%llu gap_ns=%llu wall_ns=%llu median_gap_ns=%llu\n", (unsigned long long)gaps, (unsigned long long)sum,
           (unsigned long long)(now - start), (unsigned long long)(n ? kept[n / 2] : 0));
    return 0;
}
