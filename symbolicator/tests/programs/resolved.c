// Functions that are chosen when the program starts, as glibc chooses its `memcpy`: their stubs have relocations without a symbol.
int plain(int value) { return value + 1; }
static int twice(int value) { return value * 2; }

// The resolvers have the shorter names, and the second function is as local as its resolver.
static int (*pick(void))(int) { return twice; }
int chosen(int value) __attribute__((ifunc("pick")));

static int (*any(void))(int) { return plain; }
static int chosen_here(int value) __attribute__((ifunc("any")));

int main(int argc, char **argv) {
    (void)argv;
    return chosen(argc) + chosen_here(argc) == 0;
}
