// Stacks that start, end or go on in unusual ways: code in assembly, coroutines, registers that few unwind rules name.
// usage: stacks WAY CPU_MS
#include "common.h"
#include <string.h>
#include <ucontext.h>

static uint64_t end_ns;
static volatile uint64_t sink;

NOINLINE void spins(void) {
    while (thread_cpu_ns() < end_ns) sink += xorshift(3, 100000);
    KEEP_FRAME();
}

#ifdef __x86_64__
// Each spins for so many rounds, with a frame that only its own rules or its code describe.
void with_subroutine(uint64_t rounds);
void with_wrong_rule(uint64_t rounds);
void with_aligned_stack(uint64_t rounds);
void with_register(uint64_t rounds);
void without_rules(uint64_t rounds);

#define SPIN "1: dec %rdi\n jnz 1b\n"
#define BEGIN(name) ".globl " name "\n.type " name ",@function\n" name ":\n"
#define END(name) ".size " name ",.-" name "\n"

__asm__(
    ".text\n"
    // The subroutine has one word more on the stack than the rules say, as in LuaJIT's interpreter. They find the 0.
    BEGIN("with_subroutine") ".cfi_startproc\n"
    "push $0\n .cfi_adjust_cfa_offset 8\n"
    "push %rbp\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %rbp, 0\n"
    "call 2f\n"
    "pop %rbp\n .cfi_adjust_cfa_offset -8\n .cfi_restore %rbp\n"
    "pop %rax\n .cfi_adjust_cfa_offset -8\n"
    "ret\n"
    ".cfi_adjust_cfa_offset 16\n"
    "2:\n" SPIN "ret\n"
    ".cfi_endproc\n" END("with_subroutine")
    // The rules have missed a word, and find a 0.
    BEGIN("with_wrong_rule") ".cfi_startproc\n"
    "push $0\n push $0\n .cfi_adjust_cfa_offset 8\n" SPIN
    "add $16, %rsp\n .cfi_adjust_cfa_offset -8\n"
    "ret\n"
    ".cfi_endproc\n" END("with_wrong_rule")
    // As gcc begins functions that align their stack.
    BEGIN("with_aligned_stack") ".cfi_startproc\n"
    "lea 8(%rsp), %r10\n .cfi_def_cfa %r10, 0\n"
    "and $-64, %rsp\n sub $128, %rsp\n" SPIN
    "lea -8(%r10), %rsp\n .cfi_def_cfa %rsp, 8\n"
    "ret\n"
    ".cfi_endproc\n" END("with_aligned_stack")
    // As C libraries' vfork: the return address is in a register.
    BEGIN("with_register") ".cfi_startproc\n"
    "pop %rdx\n .cfi_adjust_cfa_offset -8\n .cfi_register %rip, %rdx\n" SPIN
    "push %rdx\n .cfi_adjust_cfa_offset 8\n .cfi_offset %rip, -8\n"
    "ret\n"
    ".cfi_endproc\n" END("with_register")
    BEGIN("without_rules")
    "push %rbx\n push %r12\n sub $40, %rsp\n"
    "mov %rdi, %rbx\n jmp 3f\n"
    "2: mov $1000, %rdi\n" SPIN
    "dec %rbx\n"
    "3: test %rbx, %rbx\n jnz 2b\n"
    "add $40, %rsp\n pop %r12\n pop %rbx\n"
    "ret\n" END("without_rules")
    // switch_to(&from, to)
    BEGIN("switch_to")
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    "ret\n" END("switch_to")
    BEGIN("coroutine_start")
    "call *%r12\n ud2\n" END("coroutine_start"));

NOINLINE void calls(void (*function)(uint64_t), uint64_t rounds) {
    while (thread_cpu_ns() < end_ns) {
        function(rounds);
        KEEP_FRAME();
    }
}

static void *main_stack, *other_stack;
static ucontext_t main_context, other_context;
void switch_to(void **from, void *to);
void coroutine_start(void);

NOINLINE void coroutine(void) {
    spins();
    switch_to(&other_stack, main_stack);
    KEEP_FRAME();
}

NOINLINE void context(void) {
    spins();
    KEEP_FRAME();
}

NOINLINE void crash(void) { abort(); }
NOINLINE void never_called(void) {
    __asm__ volatile("nop; nop; nop; nop");
    puts("");
}

// Starts `coroutine` on a stack of its own. It returns to `caller`, or is called by `coroutine_start`.
NOINLINE void start(void *caller, int is_called) {
    enum { BYTES = 1 << 16 };
    char *stack = aligned_alloc(4096, BYTES);
    memset(stack, 0, BYTES);
    uint64_t *top = (uint64_t *)(stack + BYTES);
    // What lies above a stack's first frame is anything: these look like return addresses.
    for (int i = 1; i <= 8; i++) top[-i] = (uint64_t)never_called + 6;
    top -= is_called ? 10 : 9;
    if (is_called) {
        *--top = (uint64_t)coroutine_start;
    } else {
        *--top = (uint64_t)caller;
        *--top = (uint64_t)coroutine;
    }
    uint64_t saved[6] = {0, 0, 0, (uint64_t)coroutine, 0, 0x1234567};
    top -= 6;
    memcpy(top, saved, sizeof saved);
    switch_to(&main_stack, top);
    KEEP_FRAME();
}

NOINLINE void start_context(void) {
    enum { BYTES = 1 << 16 };
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = malloc(BYTES);
    other_context.uc_stack.ss_size = BYTES;
    other_context.uc_link = &main_context;
    makecontext(&other_context, context, 0);
    swapcontext(&main_context, &other_context);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    end_ns = strtoull(argv[2], NULL, 10) * 1000000u;
    const char *way = argv[1];
    // Of the first two, a sample before or behind the loop has another stack: it must be rare.
    if (strcmp(way, "subroutine") == 0) calls(with_subroutine, 50000000);
    if (strcmp(way, "wrong_rule") == 0) calls(with_wrong_rule, 50000000);
    if (strcmp(way, "aligned") == 0) calls(with_aligned_stack, 1000000);
    if (strcmp(way, "register") == 0) calls(with_register, 1000000);
    if (strcmp(way, "no_rules") == 0) calls(without_rules, 1000);
    if (strcmp(way, "context") == 0) start_context();
    if (strcmp(way, "started") == 0) start(NULL, 1);
    if (strcmp(way, "zero") == 0) start(NULL, 0);
    if (strcmp(way, "crash") == 0) start((void *)crash, 0);
    return 0;
}
#else
int main(void) { return 3; }
#endif
