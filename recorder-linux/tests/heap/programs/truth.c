// Calls all functions of malloc's family, N times, in a fixed order, and counts what it gets. Its output does not allocate.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef NO_REALLOCARRAY
#define reallocarray(block, count, size) realloc(block, (count) * (size))
#endif

static uint64_t random_state = 88172645463325252;
static uint64_t allocations, bytes, frees;

static uint64_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void *taken(void *block, size_t size) {
    if (!block) abort();
    allocations++;
    bytes += size;
    return block;
}

int main(int argc, char **argv) {
    static void *slots[3000];
    for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--) {
        void **slot = &slots[random_number() % 3000], *block = *slot;
        size_t size = random_number() % 2000;
        switch (random_number() % 9) {
        case 0: *slot = taken(malloc(size), size); break;
        case 1: *slot = taken(calloc(size, 3), size * 3); break;
        case 2:
            // realloc(block, 0) may free or not.
            frees += block != NULL;
            *slot = taken(realloc(block, size + 1), size + 1);
            continue;
        case 3:
            frees += block != NULL;
            *slot = taken(reallocarray(block, size + 1, 2), size * 2 + 2);
            continue;
        case 4: *slot = taken(aligned_alloc(64, size), size); break;
        case 5: *slot = taken(memalign(256, size), size); break;
        case 6: *slot = NULL; if (posix_memalign(slot, 128, size)) abort(); taken(*slot, size); break;
        case 7: *slot = taken(valloc(size), size); break;
        default: *slot = NULL;
        }
        frees += block != NULL;
        free(block);
    }
    char text[100];
    int length = snprintf(text, sizeof text, "%ju %ju %ju\n", (uintmax_t)allocations, (uintmax_t)bytes, (uintmax_t)frees);
    return write(1, text, length) != length;
}
