// Does known numbers of things that events count, in functions of their own.
//   events faults N        touches N fresh pages in few_pages, 3N in many_pages
//   events ask N [MS]      asks for its parent N times (getppid), in ask_parent, on one CPU; prints both ids; before that it
//                          works for MS ms of CPU time in busy_work
//   events sleep N         sleeps N times, in nap
//   events both N          faults N, then sleep N/100; prints how often it left its CPU in naps, and how often it had to
//   events flood N MS      asks N times, then works for MS ms of CPU time in busy_work
//   events open N          opens /nonexistent/local/I for I from 0 to N - 1, with the path in a local buffer that it then
//                          overwrites, and as often /nonexistent/heap/I with the path on the heap
//   events values N        getpgid of 7 N times, of 11 2N times, and of 1000 to 1000 + N/5 - 1 once each, on one CPU, in ask_group
//   events loops N         N iterations in short_loop, 3N in long_loop, of the same code
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
enum { PAGE = 4096 };

static NOINLINE void few_pages(volatile char *memory, long n) {
    for (long i = 0; i < n; i++)
        memory[i * PAGE] = 1;
    __asm__ volatile("");
}

static NOINLINE void many_pages(volatile char *memory, long n) {
    for (long i = 0; i < n; i++)
        memory[i * PAGE] = 2;
    __asm__ volatile("");
}

static NOINLINE void ask_parent(long n) {
    for (long i = 0; i < n; i++)
        syscall(SYS_getppid);
    __asm__ volatile("");
}

static NOINLINE void ask_group(long id, long n) {
    for (long i = 0; i < n; i++)
        syscall(SYS_getpgid, id);
    __asm__ volatile("");
}

// A recording has an event on each CPU, and each counts its own periods. 501 calls with a period of 10 gave 49 samples instead of
// 50 in 14 recordings of 60: the program had changed its CPU.
static void stay_on_this_cpu(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        exit(3);
}

static NOINLINE void nap(long n) {
    struct timespec ms = {0, 1000000};
    for (long i = 0; i < n; i++)
        nanosleep(&ms, 0);
    __asm__ volatile("");
}

static NOINLINE void busy_work(long ms) {
    struct timespec now;
    volatile uint64_t x = 0;
    do {
        for (int i = 0; i < 10000; i++)
            x += i;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
}

static NOINLINE void open_path(char *path, size_t bytes, const char *where, long n) {
    for (long i = 0; i < n; i++) {
        snprintf(path, bytes, "/nonexistent/%s/%ld", where, i);
        syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
        memset(path, 'x', bytes - 1);
        __asm__ volatile("" : : "r"(path) : "memory");
    }
}

// The same instructions in both: volatile keeps the loops as they are.
static NOINLINE void short_loop(long n) {
    for (volatile long i = 0; i < n; i++) {
    }
}

static NOINLINE void long_loop(long n) {
    for (volatile long i = 0; i < n; i++) {
    }
}

static void faults(long n) {
    char *memory = mmap(0, 4 * n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    // A fault for each page, and not for each 2 MiB.
    madvise(memory, 4 * n * PAGE, MADV_NOHUGEPAGE);
    few_pages(memory, n);
    many_pages(memory + n * PAGE, 3 * n);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    long n = argc > 2 ? atol(argv[2]) : 0;
    if (strcmp(mode, "faults") == 0) {
        faults(n);
    } else if (strcmp(mode, "ask") == 0) {
        stay_on_this_cpu();
        if (argc > 3)
            busy_work(atol(argv[3]));
        ask_parent(n);
        printf("pid=%d parent=%d\n", getpid(), getppid());
    } else if (strcmp(mode, "sleep") == 0) {
        nap(n);
    } else if (strcmp(mode, "both") == 0) {
        faults(n);
        struct rusage before, usage;
        getrusage(RUSAGE_SELF, &before);
        nap(n / 100);
        getrusage(RUSAGE_SELF, &usage);
        // A timer may be over before the thread has left its CPU.
        printf("slept=%ld preempted=%ld\n", usage.ru_nvcsw - before.ru_nvcsw, usage.ru_nivcsw);
    } else if (strcmp(mode, "flood") == 0) {
        ask_parent(n);
        busy_work(argc > 3 ? atol(argv[3]) : 100);
    } else if (strcmp(mode, "open") == 0) {
        char local[64];
        open_path(local, sizeof local, "local", n);
        open_path(calloc(64, 1), 64, "heap", n);
    } else if (strcmp(mode, "values") == 0) {
        stay_on_this_cpu();
        ask_group(7, n);
        ask_group(11, 2 * n);
        for (long i = 0; i < n / 5; i++)
            ask_group(1000 + i, 1);
    } else if (strcmp(mode, "loops") == 0) {
        short_loop(n);
        long_loop(3 * n);
    } else {
        return 2;
    }
    return 0;
}
