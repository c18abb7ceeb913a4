// A function of more machine code than sprof disassembles at once: 6 M instructions, the same CPU time for each.
// usage: large CPU_MS
#include "common.h"

NOINLINE void large(void) { __asm__ volatile(".rept 6 * 1024 * 1024\n nop\n .endr"); }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint64_t cpu_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    while (thread_cpu_ns() < cpu_ns) large();
    print_cpu_time();
    return 0;
}
