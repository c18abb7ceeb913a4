// Code without unwind rules, in a program at a fixed low address, that has numbers in its frame: as V8's builtins.
// usage: builtin CPU_MS
#include "common.h"

// At -no-pie, addresses of code are numbers as others.
NOINLINE uint64_t innocent(uint64_t seed) { return xorshift(seed, 10); }

// A frame with a frame pointer. The lowest word is a number that looks like an address in `innocent`, then like one that is
// behind a call, in `calls_innocent`.
__asm__(
    ".text\n"
    ".type builtin, @function\n"
    "builtin:\n"
    "push %rbp\n"
    "mov %rsp, %rbp\n"
    "sub $32, %rsp\n"
    "movq $0x77, 8(%rsp)\n"
    "movq $0x77, 16(%rsp)\n"
    "movq $0x77, 24(%rsp)\n"
    "movq %rsi, (%rsp)\n"
    "1: dec %rdi\n"
    "jnz 1b\n"
    "leave\n"
    "ret\n"
    ".size builtin, . - builtin\n");
void builtin(uint64_t rounds, uint64_t number);

extern char after_call[];
NOINLINE uint64_t calls_innocent(uint64_t seed) {
    uint64_t sum = 0;
    // As a call that a compiler makes; the label is where it returns to.
    __asm__ volatile(
        "sub $136, %%rsp\n"
        "call innocent\n"
        ".globl after_call\n"
        "after_call:\n"
        "add $136, %%rsp\n"
        : "=a"(sum)
        : "D"(seed)
        : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
    return sum;
}

NOINLINE void uses_builtin(void) {
    builtin(300000, (uint64_t)&innocent + 3);
    builtin(300000, (uint64_t)&after_call);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    uint64_t end_ns = strtoull(argc > 1 ? argv[1] : "500", NULL, 10) * 1000000u;
    uint64_t sum = calls_innocent(1);
    while (thread_cpu_ns() < end_ns) uses_builtin();
    print_cpu_time();
    return sum == 1;
}
