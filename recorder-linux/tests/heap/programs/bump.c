// An allocator that a signal handler may interrupt, and jump out of: each block is taken by one addition. Nothing is freed
// but the blocks of handlers, which is counted.
#include <stddef.h>
#include <string.h>

static char memory[1L << 33] __attribute__((aligned(64)));
static size_t used;
long freed;

void *malloc(size_t size) {
    for (volatile int i = 0; i < 200; i++) {}
    return memory + __atomic_fetch_add(&used, (size + 63) & ~63UL, __ATOMIC_RELAXED);
}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
    void *to = malloc(size);
    return block ? memcpy(to, block, size) : to;
}
void free(void *block) { freed += block != NULL; }
