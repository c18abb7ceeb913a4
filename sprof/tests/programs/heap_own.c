// Has an allocator of its own, by the name of one that programs are linked with, and uses it.
#include <stddef.h>
#include <stdio.h>

static char memory[64 << 20];
static size_t used;

__attribute__((noinline, used)) void *mi_malloc(size_t bytes) {
    used += bytes;
    return memory + used - bytes;
}

int main(void) {
    for (int count = 0; count < 1000; count++)
        *(volatile char *)mi_malloc(10000) = 1;
    return 0;
}
