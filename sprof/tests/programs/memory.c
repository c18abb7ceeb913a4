// Memory in four steps: each touches 32 MiB more and sleeps; then all is given back, and the program works a while.
// Prints what it had in memory at its start (base), when each sleep began and ended (from_N, to_N: wall clock, ns), and
// when all was given back (freed).
// usage: memory SLEEP_MS_EACH
#include "common.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEPS 4
#define STEP_BYTES (32u << 20)

static volatile uint64_t sink;

// The second number of /proc/self/statm is in pages.
static uint64_t resident_bytes(void) {
    char text[256];
    int file = open("/proc/self/statm", O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    if (bytes < 0) exit(3);
    text[bytes] = 0;
    const char *second = strchr(text, ' ');
    if (!second) exit(3);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    useconds_t sleep_us = (useconds_t)atoi(argv[1]) * 1000u;
    uint64_t base = resident_bytes(), from[STEPS], to[STEPS];
    char *bytes = mmap(NULL, (size_t)STEPS * STEP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return 1;
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t at = 0; at < STEP_BYTES; at += 4096) bytes[step * STEP_BYTES + at] = 1;
        from[step] = clock_ns(CLOCK_REALTIME);
        usleep(sleep_us);
        to[step] = clock_ns(CLOCK_REALTIME);
    }
    munmap(bytes, (size_t)STEPS * STEP_BYTES);
    uint64_t freed = clock_ns(CLOCK_REALTIME);
    while (thread_cpu_ns() < 400000000u) sink += xorshift(23, 200000);
    printf("base=%llu freed=%llu ", (unsigned long long)base, (unsigned long long)freed);
    for (int step = 0; step < STEPS; step++)
        printf("from_%d=%llu to_%d=%llu ", step, (unsigned long long)from[step], step, (unsigned long long)to[step]);
    print_cpu_time();
    return 0;
}
