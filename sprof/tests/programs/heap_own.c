// Has an allocator of its own, by the name of one that programs are linked with, or of C's (OWN_MALLOC), and calls it as often
// as it is told.
// As one of another file, it may change all registers that a call may (noipa).
#include <stddef.h>
#include <stdlib.h>

#ifdef OWN_MALLOC
#define mi_malloc malloc
__attribute__((noipa, used)) void free(void *block) {
    *(void *volatile *)block = 0;
}
#endif

// Without a symbol that all versions of that allocator have, its names are those of a program's own functions.
#ifndef OWN_MALLOC
const char _mi_page_empty = 1;
#endif

static char memory[64 << 20];
static size_t used;

__attribute__((noipa, used)) void *mi_malloc(size_t bytes) {
    used = (used + bytes) % sizeof memory;
    return memory + used;
}

int main(int argc, char **argv) {
    for (int count = atoi(argv[1]); count > 0; count--)
        *(volatile char *)mi_malloc(10000) = 1;
    return argc - 2;
}
