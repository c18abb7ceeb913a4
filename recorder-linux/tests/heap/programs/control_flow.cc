// control_flow [TURNS]: prints sums of functions with all the control flow that compilers make: tables of switches, computed
// gotos, loops to the first instruction, tail calls, recursion, exceptions, longjmp, signals with backtrace, threads.
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <sys/time.h>

#define KEEP __attribute__((noinline, noclone))
#define COLD __attribute__((noinline, noclone, cold))

KEEP static uint64_t table(unsigned what, uint64_t x) {
    switch (what) {
    case 0: return x * 3;
    case 1: return x ^ 0x55;
    case 2: return x >> 3;
    case 3: return x << 5 | 1;
    case 4: return ~x;
    case 5: return x * x;
    case 6: return x % 1000003;
    case 7: return x + 77;
    case 9: return x - 9;
    default: return x | 4;
    }
}

// The table leads back to near the start.
KEEP static uint64_t machine(const unsigned char *code, uint64_t x) {
    for (;;)
        switch (*code++) {
        case 0: return x;
        case 1: x += 3; break;
        case 2: x *= 5; break;
        case 3: x ^= x >> 7; break;
        case 4: if (x & 1) code++; break;
        case 5: x = table(x % 11, x); break;
        case 6: x -= 11; break;
        case 7: x = x << 3 | x >> 61; break;
        default: x ^= 0xffff;
        }
}

KEEP static uint64_t threaded(const unsigned char *code, uint64_t x) {
    static const void *const labels[] = {&&end, &&add, &&multiply, &&mix};
    goto *labels[*code++ & 3];
add:
    x += 3;
    goto *labels[*code++ & 3];
multiply:
    x *= 5;
    goto *labels[*code++ & 3];
mix:
    x ^= x >> 9;
    goto *labels[*code++ & 3];
end:
    return x;
}

KEEP static unsigned collatz(uint64_t n) {
    unsigned steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

KEEP static uint64_t tail(uint64_t n, uint64_t sum) { return n ? tail(n - 1, sum * 31 + n) : sum; }
KEEP static uint64_t odd(uint64_t n);
KEEP static uint64_t even(uint64_t n) { return n ? odd(n - 1) + 1 : 5; }
KEEP static uint64_t odd(uint64_t n) { return n ? even(n - 1) * 3 : 7; }
KEEP static uint64_t fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

// With an array below the stack pointer, as leaf functions may have.
KEEP static uint64_t red_zone(uint64_t x) {
    volatile uint64_t last[8];
    for (int i = 0; i < 8; i++)
        last[i] = x * (i + 1);
    uint64_t sum = 0;
    while (x) {
        last[x % 8] += x;
        sum += last[x * 3 % 8];
        x /= 2;
    }
    return sum;
}

KEEP static double variadic(int count, ...) {
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += i % 2 ? va_arg(list, double) : va_arg(list, int);
    va_end(list);
    return sum;
}

struct large {
    uint64_t words[9];
};

KEEP static large structs(large a, large b, int shift) {
    for (int i = 0; i < 9; i++)
        a.words[i] = a.words[i] * 3 + (b.words[8 - i] >> shift);
    return a;
}

KEEP static unsigned __int128 wide(unsigned __int128 a, uint64_t b) { return a * b + (a >> 60); }
KEEP static long double x87(long double a, double b) { return a * b + 1 / (a + 2); }
typedef float floats __attribute__((vector_size(16)));
KEEP static floats vectors(floats a, floats b, floats c) { return a * b + c; }

// Functions whose code the compiler knows when it compiles their caller.
KEEP static uint64_t small(uint64_t x) { return x * 7 + 1; }
KEEP static void nothing(uint64_t *x) { *x += 1; }
KEEP static uint64_t many(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    uint64_t e = a ^ b, f = c ^ d, g = a + d, h = b * c;
    for (int i = 0; i < 10; i++) {
        a = small(a) + e;
        nothing(&b);
        e = small(b) ^ f;
        f += g * h + a;
        h ^= small(c) + d;
    }
    return a + b * 3 + c * 5 + d * 7 + e + f + g + h;
}

struct counts_end {
    uint64_t &count;
    KEEP ~counts_end() { count++; }
};

COLD static void fail(uint64_t x) { throw x; }
KEEP static uint64_t deep(uint64_t n, uint64_t &count) {
    counts_end counts{count};
    if (__builtin_expect(n % 50 == 49, 0)) fail(n);
    return n ? deep(n - 1, count) + 1 : 0;
}
KEEP static uint64_t caught(uint64_t n) {
    uint64_t count = 0;
    try {
        return deep(n, count) + count;
    } catch (uint64_t at) {
        return at * 1000 + count;
    }
}

static jmp_buf back;
KEEP static void jump(int n) {
    if (!n) longjmp(back, 42);
    jump(n - 1);
    nothing((uint64_t *)back);
}
KEEP static int jumped(int n) {
    int got = setjmp(back);
    if (!got) jump(n);
    return got + n;
}

struct shape {
    virtual ~shape() {}
    virtual uint64_t area(uint64_t x) const { return x; }
};
struct square : shape {
    uint64_t area(uint64_t x) const override { return x * x; }
};
KEEP static uint64_t areas(const shape *const *shapes, int count, uint64_t (shape::*of)(uint64_t) const) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (shapes[i]->*of)(i + 3);
    return sum;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// What compilers write at the start of a function seldom.
extern "C" {
uint64_t asm_jump_first(uint64_t), asm_jcc_first(uint64_t), asm_lea(uint64_t), asm_load(uint64_t), asm_call(uint64_t);
uint64_t asm_loop(uint64_t), asm_inside(uint64_t), asm_into(uint64_t), asm_rep(uint64_t), asm_table(uint64_t);
uint64_t asm_tiny(uint64_t), asm_self(uint64_t, uint64_t), asm_next(uint64_t), asm_flags(uint64_t, uint64_t);
}
#define FUNCTION(name, code) ".globl " name "\n.type " name ", @function\n" name ":\n" code "\n.size " name ", . - " name "\n"
asm(".text\n"
    FUNCTION("asm_jump_first", "jmp 1f\n nop\n nop\n nop\n 1: leaq 3(%rdi), %rax\n ret")
    FUNCTION("asm_jcc_first", "testq %rdi, %rdi\n je 1f\n leaq 5(%rdi), %rax\n ret\n 1: movl $9, %eax\n ret")
    FUNCTION("asm_lea", "leaq asm_data(%rip), %rax\n addq (%rax), %rdi\n movq %rdi, %rax\n ret")
    FUNCTION("asm_load", "cmpl $7, asm_data(%rip)\n sete %al\n movzbl %al, %eax\n addq %rdi, %rax\n ret")
    FUNCTION("asm_call", "call asm_lea\n incq %rax\n ret")
    FUNCTION("asm_loop", "movl $4, %ecx\n xorl %eax, %eax\n 1: addq %rdi, %rax\n loop 1b\n ret")
    FUNCTION("asm_inside", "incq %rdi\n movq %rdi, %rax\n shlq $2, %rax\n ret")
    FUNCTION("asm_into", "decq %rdi\n jmp asm_inside + 3")
    FUNCTION("asm_rep", "cld\n leaq asm_bytes(%rip), %rsi\n pushq %rdi\n movq %rsp, %rdi\n movl $8, %ecx\n rep movsb\n popq %rax\n ret")
    // A table of distances leads behind the first instruction.
    FUNCTION("asm_table", "incq %rdi\n .Linside: cmpq $50, %rdi\n ja 1f\n imulq $3, %rdi\n leaq .Ltable(%rip), %rdx\n movl %edi, %eax\n"
        " andl $1, %eax\n movslq (%rdx, %rax, 4), %rax\n addq %rdx, %rax\n jmp *%rax\n 1: movq %rdi, %rax\n ret")
    FUNCTION("asm_tiny", "incl asm_count(%rip)\n ret")
    // It loops to its first instruction, with a value below the stack pointer.
    FUNCTION("asm_self", "addq %rsi, %rdi\n movq %rdi, %rax\n testq %r8, %r8\n jne 2f\n movq $5, -8(%rsp)\n 2: movl $1, %r8d\n"
        " decq %rsi\n je 1f\n movq -8(%rsp), %rcx\n imulq $3, %rcx\n addq %rdi, %rcx\n movq %rcx, -8(%rsp)\n jmp asm_self\n"
        " .fill 100, 1, 0x90\n 1: addq -8(%rsp), %rax\n ret")
    FUNCTION("asm_next", "xorl %r8d, %r8d\n movl $20, %esi\n jmp asm_self")
    // Needs a flag that its own loop leaves.
    FUNCTION("asm_flags", "jmp 2f\n 1: adcq %rdi, %rax\n decq %rsi\n jne 1b\n ret\n 2: xorl %eax, %eax\n jmp 1b")
    ".section .rodata\n .p2align 2\n .Ltable: .long .Linside - .Ltable, .Linside - .Ltable\n"
    "asm_data: .quad 7\n asm_bytes: .ascii \"abcdefgh\"\n .bss\n asm_count: .quad 0\n .text\n");

static volatile sig_atomic_t signals, frames;
static void handler(int) {
    void *stack[64];
    frames += backtrace(stack, 64) > 0;
    signals++;
}

static pthread_key_t key;
static void at_end(void *value) { __atomic_fetch_add((uint64_t *)value, collatz(97), __ATOMIC_RELAXED); }
static uint64_t ended;
static void *thread(void *value) {
    pthread_setspecific(key, &ended);
    *(uint64_t *)value = fibonacci(12) + caught(*(uint64_t *)value) + many(1, 2, 3, *(uint64_t *)value);
    return value;
}

int main(int argc, char **argv) {
    int turns = argc > 1 ? atoi(argv[1]) : 3;
    void *stack[4];
    backtrace(stack, 4);
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, nullptr);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_PROF, &often, nullptr);
    const unsigned char code[] = {1, 2, 3, 5, 4, 6, 7, 8, 5, 2, 1, 3, 0, 0};
    pthread_key_create(&key, at_end);
    uint64_t sum = 0;
    double real = 0;
    for (int turn = 0; turn < turns; turn++) {
        for (uint64_t i = 0; i < 400; i++) {
            sum = sum * 31 + table(i % 11, i) + machine(code, i) + threaded(code, i) + collatz(i + 1) + tail(i, 1);
            sum = sum * 31 + even(i % 20) + red_zone(i * 12345) + (uint64_t)wide(i, sum) + many(i, sum, 3, 4);
            sum = sum * 31 + caught(i % 120) + (uint64_t)jumped(i % 9);
            large a = {{i, 2, 3, 4, 5, 6, 7, 8, 9}};
            a = structs(a, a, i % 5);
            sum ^= a.words[i % 9];
            floats f = vectors(floats{1, 2, 3, (float)i}, floats{4, 5, 6, 7}, floats{8, 9, 10, 11});
            real += variadic(5, 1, 2.5, (int)i, 3.25, 4) + (double)x87(i, 0.5) + f[i % 4];
            sum += asm_jump_first(i) + asm_jcc_first(i % 3) + asm_lea(i) + asm_load(i) + asm_call(i) + asm_loop(i);
            sum += asm_inside(i) + asm_into(i) + asm_rep(i) + asm_table(i) + asm_next(i) + asm_flags(i, 5);
            asm_tiny(i);
        }
        sum += fibonacci(15);
        shape plain;
        square square;
        const shape *shapes[] = {&plain, &square, &square};
        sum += areas(shapes, 3, &shape::area);
        uint32_t numbers[200];
        for (int i = 0; i < 200; i++)
            numbers[i] = (uint32_t)(sum >> (i % 32)) * 2654435761u;
        qsort(numbers, 200, sizeof *numbers, compare);
        sum += numbers[10];
        pthread_t threads[4];
        uint64_t values[4] = {60, 70, 30, 10};
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], nullptr, thread, &values[i]);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], nullptr);
            sum = sum * 7 + values[i];
        }
    }
    setitimer(ITIMER_PROF, nullptr, nullptr);
    char text[200];
    int length = snprintf(text, sizeof text, "%016jx %.6f %ju %d\n", (uintmax_t)sum, real, (uintmax_t)ended, signals == frames);
    return fwrite(text, 1, length, stdout) != (size_t)length;
}
