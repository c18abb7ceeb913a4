// Calls functions a known number of times, and passes marks for tracers (USDT).
//
//     probes calls [N]          `probed` N times from `one` and 3 N times from `three`; then the same in a thread and in a child
//     probes marks [N]          the mark `request` N times with arguments, `guarded` N times if a tracer counts its semaphore up
//     probes wait [N]           waits for the end of stdin, then as `calls`
//     probes again [N]          `again`, which executes the program again until it was called N times
//     probes sleep              until a signal ends it
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "breakpoints.h"

// A note as systemtap's sys/sdt.h lays it out: location, base, semaphore, provider, name, arguments.
#define MARK(name, semaphore, arguments, ...)                      \
    __asm__ volatile("990: nop\n"                                  \
                     ".pushsection .note.stapsdt,\"\",%%note\n"    \
                     ".balign 4\n"                                 \
                     ".4byte 992f-991f, 994f-993f, 3\n"            \
                     "991: .asciz \"stapsdt\"\n"                   \
                     "992: .balign 4\n"                            \
                     "993: .8byte 990b, mark_base, " semaphore "\n" \
                     ".asciz \"probes\", \"" name "\", \"" arguments "\"\n" \
                     "994: .balign 4\n"                            \
                     ".popsection\n" ::__VA_ARGS__)

__asm__(".pushsection .stapsdt.base,\"a\",%progbits\n"
        ".globl mark_base\n"
        ".hidden mark_base\n"
        "mark_base: .space 1\n"
        ".popsection\n");

unsigned short guarded_semaphore __attribute__((section(".probes")));

static volatile long sink;

// So that the recorder keeps up on a busy machine: each call is a record of 8 KB, and a ring holds 500 of them.
static void pause_now_and_then(long i) {
    if (i % 16 == 15)
        usleep(4000);
}

// Begins with `push %rbp` and, with -fcf-protection, with `endbr64` before it.
__attribute__((noinline)) long framed(long x) {
    __asm__ volatile("" : "+r"(x) : "r"(__builtin_frame_address(0)) : "memory");
    return x - 1;
}

// Has no frame at all.
__attribute__((noinline)) long probed(long x) {
    __asm__ volatile("" : "+r"(x)::"memory");
    return x + 1;
}

__attribute__((noinline)) void one(long n) {
    for (long i = 0; i < n; i++) {
        sink += probed(i);
        sink += framed(i);
        pause_now_and_then(i);
    }
}

__attribute__((noinline)) void three(long n) {
    for (long i = 0; i < 3 * n; i++) {
        sink += probed(i);
        sink += framed(i);
        pause_now_and_then(i);
    }
}

static void *calls(void *n) {
    one((long)n);
    three((long)n);
    sink++;
    return NULL;
}

__attribute__((noinline)) void again(char *program, long n, long called) {
    char rest[24], so_far[24];
    snprintf(rest, sizeof rest, "%ld", n - 1);
    snprintf(so_far, sizeof so_far, "%ld", called + 1);
    if (n > 1)
        execl("/proc/self/exe", program, "again", rest, so_far, (char *)NULL);
    printf("again=%s\n", so_far);
}

__attribute__((noinline)) void marks(int n) {
    for (int i = 0; i < n; i++) {
        int minus = -i;
        long big = 1000000007L * i;
        long stored[2] = {i, 2L * i};
        MARK("request", "0", "-4@%0 8@%1 8@%2 -4@%3", "r"(minus), "r"(big), "m"(stored[1]), "i"(7));
        if (guarded_semaphore)
            MARK("guarded", "guarded_semaphore", "", );
        pause_now_and_then(i);
    }
}

int main(int argc, char **argv) {
    outlive_breakpoints_without_a_cause();
    const char *what = argc > 1 ? argv[1] : "calls";
    long n = argc > 2 ? atol(argv[2]) : 1000;
    if (strcmp(what, "sleep") == 0)
        pause();
    if (strcmp(what, "again") == 0) {
        again(argv[0], n, argc > 3 ? atol(argv[3]) : 0);
        return 0;
    }
    if (strcmp(what, "wait") == 0)
        getchar();
    if (strcmp(what, "marks") == 0) {
        marks((int)n);
        printf("semaphore=%d\n", guarded_semaphore);
        return 0;
    }
    calls((void *)n);
    pthread_t thread;
    pthread_create(&thread, NULL, calls, (void *)n);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        calls((void *)n);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("calls=%ld\n", 3 * 4 * n);
    return 0;
}
