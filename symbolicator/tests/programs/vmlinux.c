// A kernel of two functions: the linker puts it where x86 kernels are.
static inline __attribute__((always_inline)) int inner(int value) {
    return value * value + 3; // inner
}

__attribute__((noinline)) int helper(int value) {
    return inner(value) ^ value; // helper
}

int _start(void) { return helper(1) + helper(2); }
