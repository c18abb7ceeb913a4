// Memory in four steps: each touches 32 MiB more and sleeps; then all is given back, and the program works a while.
// usage: memory SLEEP_MS_EACH
#include "common.h"
#include <sys/mman.h>
#include <unistd.h>

#define STEPS 4
#define STEP_BYTES (32u << 20)

static volatile uint64_t sink;

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    useconds_t sleep_us = (useconds_t)atoi(argv[1]) * 1000u;
    char *bytes = mmap(NULL, (size_t)STEPS * STEP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return 1;
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t at = 0; at < STEP_BYTES; at += 4096) bytes[step * STEP_BYTES + at] = 1;
        usleep(sleep_us);
    }
    munmap(bytes, (size_t)STEPS * STEP_BYTES);
    while (thread_cpu_ns() < 400000000u) sink += xorshift(23, 200000);
    print_cpu_time();
    return 0;
}
