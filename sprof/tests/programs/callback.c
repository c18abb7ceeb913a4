// Through libc and back: main -> sort_all -> qsort (libc) -> compare -> compare_leaf.
// usage: callback CPU_MS
#include "common.h"

static uint64_t values[512];

NOINLINE uint64_t compare_leaf(uint64_t x) { return xorshift(x, 200); }

NOINLINE int compare(const void *a, const void *b) {
    uint64_t x = compare_leaf(*(const uint64_t *)a), y = compare_leaf(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

NOINLINE void sort_all(void) {
    for (unsigned i = 0; i < 512; i++) values[i] = i * 2654435761u;
    qsort(values, 512, sizeof values[0], compare);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint64_t cpu_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    while (thread_cpu_ns() < cpu_ns) sort_all();
    print_cpu_time();
    return 0;
}
