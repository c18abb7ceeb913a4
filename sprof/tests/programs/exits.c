// Ways to end, and not to.
// usage: exits status N       exit status N after a little work
//        exits segv           dies of SIGSEGV
//        exits abort          dies of SIGABRT
//        exits sleep          works a little, then sleeps until a signal ends it
//        exits ignore-int     the same, SIGINT ignored
//        exits ignore-term    the same, SIGTERM ignored
//        exits catch-int      SIGINT makes it print `caught` and exit with status 7
//        exits tree           a child and a grandchild; all sleep until a signal ends them
//        exits idle MS        sleeps without using CPU time, then exits 0
//        exits busy MS        works that long on the wall clock, then exits 0
//        exits memory MIB     touches that much memory, which the kernel takes back page by page, and exits 0
//        exits stdin          copies standard input to standard output and `err` to standard error
#include "common.h"
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

NOINLINE void busy_work(uint64_t ns) {
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns;
    while (clock_ns(CLOCK_MONOTONIC) < end) sink += xorshift(17, 20000);
    KEEP_FRAME();
}

NOINLINE void crash(void) {
    *(volatile int *)(uintptr_t)(sink & 0) = 1;
    KEEP_FRAME();
}

static void sleep_until_signal(void) {
    // It may come as soon as `ready` is printed.
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        sigsuspend(&before);
        if (caught) {
            printf("caught\n");
            fflush(stdout);
            exit(7);
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *mode = argv[1];
    const char *argument = argc > 2 ? argv[2] : "0";
    if (strcmp(mode, "idle") == 0) {
        usleep((useconds_t)atoi(argument) * 1000);
        return 0;
    }
    if (strcmp(mode, "memory") == 0) {
        size_t bytes = (size_t)atoi(argument) << 20;
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 1;
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
        return 0;
    }
    if (strcmp(mode, "stdin") == 0) {
        int c;
        while ((c = getchar()) != EOF) putchar(c);
        fprintf(stderr, "err\n");
        return 0;
    }
    if (strcmp(mode, "busy") == 0) {
        busy_work(strtoull(argument, NULL, 10) * 1000000u);
        return 0;
    }
    if (strcmp(mode, "ignore-int") == 0) signal(SIGINT, SIG_IGN);
    if (strcmp(mode, "ignore-term") == 0) signal(SIGTERM, SIG_IGN);
    if (strcmp(mode, "catch-int") == 0) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = on_signal;
        sigaction(SIGINT, &action, NULL);
    }
    // By CPU time: on a busy machine, 100 ms on the wall may be 20 ms of work, and as few samples. A pause that the
    // host makes counts as CPU time on some kernels, and has no samples: a step counts at most what it lasts without.
    for (uint64_t worked = 0; worked < 100000000u;) {
        uint64_t before = thread_cpu_ns();
        busy_work(5000000u);
        uint64_t step = thread_cpu_ns() - before;
        worked += step < 5000000u ? step : 5000000u;
    }
    if (strcmp(mode, "status") == 0) return atoi(argument);
    if (strcmp(mode, "segv") == 0) crash();
    if (strcmp(mode, "abort") == 0) abort();
    if (strcmp(mode, "tree") == 0) {
        // `ready` is the word of all three.
        int ready[2];
        char byte = 0;
        if (pipe(ready) != 0) return 1;
        if (fork() == 0) {
            if (fork() == 0 && write(ready[1], &byte, 1) != 1) return 1;
            for (;;) pause();
        }
        if (read(ready[0], &byte, 1) != 1) return 1;
    }
    sleep_until_signal();
    return 0;
}
