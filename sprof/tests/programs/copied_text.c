// Moves its code to memory without a file, at the same addresses, as programs do that want their code in huge pages
// (intel/iodlr). With `at-once` the memory is executable when it is mapped, before the code is there. Prints a line
// then, and works for CPU_MS.
// usage: copied_text before|at-once CPU_MS
#include "common.h"
#include <string.h>
#include <sys/mman.h>

static uint64_t work_ns = 200000000u;

NOINLINE static void spin(uint64_t seed) {
    uint64_t end = thread_cpu_ns() + work_ns;
    while (thread_cpu_ns() < end) xorshift(seed, 20000);
    KEEP_FRAME();
}

NOINLINE static void before_move(void) {
    spin(1);
    KEEP_FRAME();
}

NOINLINE static void inner_after(void) {
    spin(3);
    KEEP_FRAME();
}

NOINLINE static void outer_after(void) {
    inner_after();
    KEEP_FRAME();
}

static inline __attribute__((always_inline)) long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

// In a page that stays where it is. What it calls is gone meanwhile.
__attribute__((noinline, section(".mover"), aligned(4096))) static int move_text(char *text, size_t size, char *copy, int at_once) {
    long first = PROT_READ | PROT_WRITE | (at_once ? PROT_EXEC : 0);
    if (call(9, (long)text, size, first, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (long)text) return 1;
    for (size_t i = 0; i < size; i += 8) *(volatile uint64_t *)(text + i) = *(uint64_t *)(copy + i);
    return at_once ? 0 : call(10, (long)text, size, PROT_READ | PROT_EXEC, 0, 0, 0) != 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    before_move();
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long start = 0, end = 0, self = (unsigned long)main;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && self >= from && self < to) start = from, end = to;
    }
    fclose(maps);
    // Of the pages in front of the mover and behind it, those with `main`.
    unsigned long mover = (unsigned long)move_text & ~4095ul;
    if (self < mover) end = mover;
    else start = mover + 4096;
    char *copy = mmap(0, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, (void *)start, end - start);
    if (move_text((char *)start, end - start, copy, argv[1][0] == 'a')) return 1;
    work_ns = strtoull(argv[2], NULL, 10) * 1000000u;
    puts("moved");
    fflush(stdout);
    outer_after();
    return 0;
}
