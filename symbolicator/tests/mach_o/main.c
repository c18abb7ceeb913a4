// Line numbers matter: the answers name them.
int from_archive(int x);
int shape_area(int x);
int words_sum(int x);
void *malloc(unsigned long size);

static volatile int sink;

// The linker drops it, and what follows in the object file moves.
__attribute__((noinline)) int dropped(int x) {
    return x * 11 + sink;
}

static inline __attribute__((always_inline)) int innermost(int x) {
    sink = x * 3;
    return sink + 1;
}

static inline __attribute__((always_inline)) int middle(int x) {
    int y = innermost(x);
    return y * sink;
}

__attribute__((noinline)) static int hidden(int x) {
    for (int i = 0; i < x; ++i) sink += i;
    return sink;
}

__attribute__((noinline)) int outer(int x) {
    sink = x;
    return middle(x) + hidden(x);
}

int main(int argc, char **argv) {
    int *volatile kept = malloc(sizeof(int) * (unsigned long)argc);
    kept[0] = outer(argc) + from_archive(argc);
    return kept[0] + shape_area(argc) + words_sum(argc);
}
