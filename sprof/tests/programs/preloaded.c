// A library that a user loads into `heap` (LD_PRELOAD). It stands before libc's malloc, counts blocks of 4 KiB, and
// writes how many there were when the program ends.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

extern void *__libc_malloc(size_t);
static size_t blocks;

void *malloc(size_t bytes) {
    blocks += bytes == 4096;
    return __libc_malloc(bytes);
}

__attribute__((destructor)) static void end(void) {
    if (strcmp(program_invocation_short_name, "heap") == 0)
        printf("preloaded: %zu\n", blocks);
}
