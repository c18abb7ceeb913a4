// Two files of a module: the second is compiled with -DSECOND.
static inline __attribute__((always_inline)) int inner(int value) {
    return value * value + 3; // inner
}

static inline __attribute__((always_inline)) int middle(int value) {
    return inner(value + 1) ^ inner(value); // middle
}

// In both files.
static __attribute__((noinline)) int twice(int value) {
#ifdef SECOND
    return middle(value) * 5; // second
#else
    return inner(value) + 7; // first
#endif
}

#ifdef SECOND
__attribute__((noinline)) int other(int value) { return twice(value) + inner(value); }
#else
int other(int value);

__attribute__((noinline)) int work(int value) {
    int sum = middle(value);
    for (int i = 0; i < value; i++)
        sum += other(i) + twice(i);
    return sum;
}

static __attribute__((noinline, section(".init.text"))) int start(int value) {
    return inner(value) ^ work(value);
}

__attribute__((section(".init.text"))) int init_module(void) { return start(3); }
#endif
