// Takes memory in four ways for a second, in blocks of 64 KiB: `fills` keeps 200 from the start, `leaks` keeps one each
// 2 ms, `temporary` frees four each 2 ms at once. A thread takes 300 in the first quarter and frees all of them after
// 0.6 s (`frees_all`).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BYTES 65536
#define STEPS 500

static char *volatile kept[200], *volatile leaked[STEPS], *volatile freed[300];
static struct timespec start;

// So many steps of 2 ms after the start, also where the machine is busy.
static void until(int step) {
    struct timespec at = start;
    long ns = at.tv_nsec + step * 2000000L;
    at.tv_sec += ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

__attribute__((noinline)) static void fills(void) {
    for (int at = 0; at < 200; at++)
        (kept[at] = malloc(BYTES))[0] = 1;
}

__attribute__((noinline)) static void leaks(int step) {
    (leaked[step] = malloc(BYTES))[0] = 1;
}

__attribute__((noinline)) static void temporary(void) {
    for (int at = 0; at < 4; at++) {
        char *volatile block = malloc(BYTES);
        block[0] = 1;
        free(block);
    }
}

__attribute__((noinline)) static void *frees_all(void *nothing) {
    for (int at = 0; at < 300; at++) {
        (freed[at] = malloc(BYTES))[0] = 1;
        if (at % 3 == 0)
            until(at * STEPS / 1200);
    }
    until(STEPS * 6 / 10);
    for (int at = 0; at < 300; at++)
        free(freed[at]);
    return nothing;
}

int main(void) {
    pthread_t thread;
    // A block that is sampled for certain, taken by code of the C library. While a thread connects to sprof, the samples
    // of other threads are lost.
    char *volatile first = getcwd(NULL, 16 << 20);
    free(first);
    clock_gettime(CLOCK_MONOTONIC, &start);
    pthread_create(&thread, NULL, frees_all, NULL);
    pthread_setname_np(thread, "frees");
    fills();
    for (int step = 0; step < STEPS; step++) {
        leaks(step);
        temporary();
        until(step + 1);
    }
    pthread_join(thread, NULL);
    return 0;
}
