// Calls functions a known number of times, and measures the calls.
//
//     called sleeps [N]        `sleeps` N times in the main thread, in two that it starts, and in a child
//     called wait [N]          waits for the end of stdin, then as `sleeps`
//     called ways              `down` 10 deep; `jumps`, `throws` 10 times, and each other time left without a return; `tail` and
//                              `chosen` 10 times
//     called often [N]         `often` N times without a pause
//     called naps [N]          4 threads do nothing but to call `naps`: "half" after N calls, and after all another 300 the
//                              nanoseconds around the longest call
//
// A line for each call of `sleeps`: its thread, and nanoseconds that passed inside of it, and around it.
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "breakpoints.h"

#define APART __attribute__((noinline, noclone))

static volatile long sink;
static jmp_buf out;

static long now() {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

APART long sleeps(long ms) {
    long start = now();
    usleep(ms * 1000);
    sink = sink + 1;
    return now() - start;
}

APART long down(long depth) {
    if (depth == 0)
        return 1;
    long below = down(depth - 1);
    sink = sink + below;
    return below + 1;
}

APART void jumps(long i) {
    sink = sink + 1;
    if (i % 2)
        longjmp(out, 1);
    sink = sink + 1;
}

APART void throws(long i) {
    sink = sink + 1;
    if (i % 2)
        throw i;
    sink = sink + 1;
}

APART void other() {
    usleep(1000);
    sink = sink + 1;
}

APART void tail() {
    sink = sink + 1;
    other();
}

// Several instructions return.
APART long chosen(long i) {
    switch (i % 5) {
    case 0: __asm__ volatile("nop\n\tret");
    case 1: __asm__ volatile("nop\n\tnop\n\tret");
    case 2: __asm__ volatile("nop\n\tnop\n\tnop\n\tret");
    case 3: __asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tret");
    }
    return sink;
}

// Begins with its loop.
APART void loops(long n) {
    do {
        __asm__ volatile("" : "+r"(n));
    } while (--n);
}

APART void often() {
    sink = sink + 1;
}

APART void naps() {
    usleep(1000);
    sink = sink + 1;
}

static std::atomic<long> longest, half;

static void nap(long n) {
    for (long i = 0; i < n + 300; i++) {
        long start = now();
        naps();
        long around = now() - start, before = longest;
        while (around > before && !longest.compare_exchange_weak(before, around))
            ;
        if (i == n && half++ == 3) {
            printf("half\n");
            fflush(stdout);
        }
    }
}

static void all(long n) {
    long id = syscall(SYS_gettid);
    for (long i = 0; i < n; i++) {
        long start = now();
        long inside = sleeps(1 + i % 3);
        long around = now() - start;
        char line[80];
        int bytes = snprintf(line, sizeof line, "%ld %ld %ld\n", id, inside, around);
        if (write(1, line, bytes) != bytes)
            abort();
    }
}

int main(int argc, char **argv) {
    outlive_breakpoints_without_a_cause();
    const char *what = argc > 1 ? argv[1] : "sleeps";
    long n = argc > 2 ? atol(argv[2]) : 10;
    if (strcmp(what, "ways") == 0) {
        sink = sink + down(9);
        for (volatile long i = 0; i < 10; i = i + 1)
            if (!setjmp(out))
                jumps(i);
        for (long i = 0; i < 10; i++) {
            try {
                throws(i);
            } catch (long) {
            }
        }
        for (long i = 0; i < 10; i++)
            tail();
        for (long i = 0; i < 10; i++)
            chosen(i);
        loops(3);
        return 0;
    }
    if (strcmp(what, "often") == 0) {
        for (long i = 0; i < n; i++)
            often();
        return 0;
    }
    if (strcmp(what, "naps") == 0) {
        printf("start\n");
        fflush(stdout);
        std::thread threads[4];
        for (std::thread &thread : threads)
            thread = std::thread(nap, n);
        for (std::thread &thread : threads)
            thread.join();
        printf("longest=%ld\n", longest.load());
        return 0;
    }
    if (strcmp(what, "wait") == 0)
        getchar();
    all(n);
    std::thread first(all, n), second(all, n);
    first.join();
    second.join();
    if (fork() == 0) {
        all(n);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
