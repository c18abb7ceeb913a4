static volatile int calls;

static inline __attribute__((always_inline)) int counted(int x) {
    ++calls;
    return x + calls;
}

__attribute__((noinline)) int from_archive(int x) {
    return counted(x) * counted(x + 1);
}
