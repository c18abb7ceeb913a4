// Sorts on three threads: the C library calls back from functions of its own, some of which nobody else can see.
// usage: sorts CPU_MS
#include "common.h"
#include <pthread.h>

enum { COUNT = 20000 };
static uint64_t cpu_ns;

NOINLINE int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

NOINLINE int sorts(void) {
    static __thread int values[COUNT];
    int sum = 0;
    while (thread_cpu_ns() < cpu_ns) {
        for (int i = 0; i < COUNT; i++) values[i] = (i * 7919) % 20011;
        qsort(values, COUNT, sizeof *values, compare);
        sum += values[7];
    }
    return sum;
}

NOINLINE void *thread_body(void *argument) {
    volatile int sum = sorts();
    (void)sum;
    return argument;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    cpu_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread_body, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    volatile int sum = sorts();
    (void)sum;
    return 0;
}
