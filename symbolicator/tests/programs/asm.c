// Jumps, calls, parts and functions without a size. Compiled without a C library for arm64: no headers.
int puts(const char *text);
int putchar(int c);
void abort(void);

#define NOINLINE __attribute__((noinline))

NOINLINE unsigned leaf(unsigned x) {
    __asm__ volatile("");
    return x * 3;
}

NOINLINE unsigned loops(const unsigned char *text, unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        if (text[i] == '\n') {
            puts("a line");
            continue;
        }
        sum += leaf(text[i]);
        while (sum > 1000)
            sum = leaf(sum) >> 4;
    }
    return sum;
}

NOINLINE unsigned recursive(unsigned n) { return n < 2 ? 1 : recursive(n - 1) * 5 + recursive(n - 2); }

NOINLINE unsigned tail(unsigned n) { return leaf(n + 1); }

NOINLINE unsigned switched(unsigned n) {
    switch (n) {
    case 0: return leaf(4);
    case 1: putchar('1'); return 8;
    case 2: return tail(n) ^ 1;
    case 3: putchar('3'); return 16;
    case 4: return recursive(9);
    default: return n;
    }
}

static __attribute__((cold, noinline)) void seldom(unsigned n) {
    putchar((int)n);
    puts("seldom");
}

// gcc moves the branch to `split.cold`.
NOINLINE unsigned split(unsigned n) {
    if (n > 1000) {
        seldom(n);
        puts("too many");
        abort();
    }
    return n * 7 + leaf(n);
}

// By hand, without type, size and unwind rules. On x86_64 a jump skips the `lock` of an instruction, as in older C libraries.
#if defined(__x86_64__)
__asm__(".text\n.globl by_hand\nby_hand:\n  mov %edi, %ecx\n1:\n  dec %ecx\n  jnz 1b\n  cmp %eax, %eax\n  je 2f\n  .byte 0xf0\n2: incl -8(%rsp)\n  call leaf\n  jmp by_hand_too\n"
        ".globl by_hand_too\nby_hand_too:\n  xor %eax, %eax\n  ret\n");
#else
__asm__(".text\n.globl by_hand\nby_hand:\n  mov w1, w0\n1:\n  sub w1, w1, #1\n  cbnz w1, 1b\n  tbz w0, #3, 1b\n  b by_hand_too\n"
        ".globl by_hand_too\nby_hand_too:\n  mov w0, wzr\n  ret\n");
#endif
void by_hand(unsigned n);

NOINLINE unsigned behind(unsigned n) {
    by_hand(n);
    return leaf(n) + 1;
}

int main(int argc, char **argv) {
    return (int)(loops((unsigned char *)argv[0], (unsigned)argc) + switched((unsigned)argc) + split((unsigned)argc) +
                 behind(1));
}
