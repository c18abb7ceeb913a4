// Freestanding code for Windows: functions with calls, and inlined calls, whose lines the tests know.

volatile int sink;

static inline __attribute__((always_inline)) int inner(int x) {
    sink = x * 3;
    return sink + 7;
}

static inline __attribute__((always_inline)) int middle(int x) {
    sink = x + 1;
    return inner(sink) * 5;
}

__attribute__((noinline)) int outer(int x) {
    sink = x;
    int y = middle(x);
    sink = y;
    return y ^ x;
}

int start(void) {
    int x = outer(sink);
    sink = x;
    return outer(x) + 1;
}
