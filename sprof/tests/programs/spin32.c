// A program of 32 bits that needs no C library of 32 bits. Works for ever with an argument, ends at once without.
// usage: spin_32 [-]
__attribute__((noinline)) void spin(void) {
    for (volatile int i = 0;; i++) {
    }
}

static void leave(void) { __asm__ volatile("int $0x80" : : "a"(1), "b"(0)); }

__attribute__((used)) void begin(int arguments) {
    if (arguments > 1) spin();
    leave();
}

// The number of arguments lies on top of the stack.
__asm__(".globl _start\n_start:\n\tpushl (%esp)\n\tcall begin\n");
