// Line numbers matter: the tests name them.
#include <stdio.h>

static volatile int sink;

static inline __attribute__((always_inline)) void innermost(int x) {
    sink = x * 3; // line 7
}

static inline __attribute__((always_inline)) void middle(int x) {
    sink = x + 1;
    innermost(x); // line 12
}

__attribute__((noinline)) void _outer(int x) {
    sink = x;
    middle(x); // line 17
}

int main(int argc, char **argv) {
    (void)argv;
    _outer(argc); // line 22
    puts("done");
    return 0;
}
