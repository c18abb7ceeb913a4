// Has an allocator of its own, by the name of one that programs are linked with, and calls it as often as it is told.
// As one of another file, it may change all registers that a call may (noipa).
#include <stddef.h>
#include <stdlib.h>

// Without a symbol that all versions of that allocator have, its names are those of a program's own functions.
const char _mi_page_empty = 1;

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
