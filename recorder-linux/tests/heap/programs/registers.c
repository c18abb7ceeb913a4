// registers ROUNDS [writes]: has an allocator that changes rax at most, and calls it as a compiler may that knows its code: with
// values in all registers, and with a stack of any alignment. Prints which registers changed. May write to its code.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char pool[64 << 20];
char *next = pool;
long freed;

struct registers {
    uint64_t vectors[32];
    uint64_t rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11;
};

union words {
    struct registers registers;
    uint64_t words[41];
};

void call(struct registers *registers, void *function);

#define FUNCTION(name) ".globl " name "\n.type " name ", @function\n" name ":\n"
#define BUMP "andq $-16, %rax\n xaddq %rax, next(%rip)\n ret\n"
#define LOAD(n) "movups 16 * " #n "(%rbx), %xmm" #n "\n"
#define STORE(n) "movups %xmm" #n ", 16 * " #n "(%rbx)\n"
#define VECTORS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)

asm(FUNCTION("malloc") "leaq 15(%rdi), %rax\n" BUMP
    FUNCTION("calloc") "movq %rdi, %rax\n imulq %rsi, %rax\n leaq 15(%rax), %rax\n" BUMP
    FUNCTION("realloc") "leaq 15(%rsi), %rax\n" BUMP
    FUNCTION("free") "incq freed(%rip)\n ret\n"
    FUNCTION("call") "push %rbx\n push %rsi\n movq %rdi, %rbx\n" VECTORS(LOAD)
    "movq 256(%rbx), %rax\n movq 264(%rbx), %rcx\n movq 272(%rbx), %rdx\n movq 280(%rbx), %rsi\n movq 288(%rbx), %rdi\n"
    "movq 296(%rbx), %r8\n movq 304(%rbx), %r9\n movq 312(%rbx), %r10\n movq 320(%rbx), %r11\n"
    "call *(%rsp)\n" VECTORS(STORE)
    "movq %rax, 256(%rbx)\n movq %rcx, 264(%rbx)\n movq %rdx, 272(%rbx)\n movq %rsi, 280(%rbx)\n movq %rdi, 288(%rbx)\n"
    "movq %r8, 296(%rbx)\n movq %r9, 304(%rbx)\n movq %r10, 312(%rbx)\n movq %r11, 320(%rbx)\n"
    "pop %rsi\n pop %rbx\n ret\n");

// Calls the function, and returns what it returns.
static void *check(const char *name, void *function, uint64_t first, uint64_t second) {
    union words before, after;
    for (int i = 0; i < 41; i++)
        before.words[i] = 0x1234567812345678 * (uint64_t)(i + 1);
    before.registers.rdi = first;
    before.registers.rsi = second;
    after = before;
    call(&after.registers, function);
    void *result = (void *)after.registers.rax;
    if (function != (void *)free)
        after.registers.rax = before.registers.rax;
    for (int i = 0; i < 41; i++)
        if (before.words[i] != after.words[i])
            printf("%s changed word %d\n", name, i);
    return result;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (long i = 0; i < rounds; i++) {
        void *block = check("malloc", malloc, 1000 + i % 7, 5);
        block = check("realloc", realloc, (uint64_t)block, 2000);
        check("free", free, (uint64_t)block, 5);
        check("free", free, (uint64_t)check("calloc", calloc, 10, 100), 5);
    }
    if (argc > 2)
        *(volatile char *)free = *(volatile char *)free;
    printf("%ld\n", freed);
    return 0;
}
