// Measures pauses of a CPU, also those that are not counted as stolen: for how long a thread that has precedence over
// all others did not run.
//   pauses CPU    until its standard input ends; prints their sum in ms
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { INTERVAL_NS = 10000000, LATE_NS = 2000000 };

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(atoi(argv[1]), &cpu);
    // An ordinary user has no precedence: its turns would be late because of others.
    struct sched_param first = {.sched_priority = 99};
    if (sched_setaffinity(0, sizeof cpu, &cpu) || sched_setscheduler(0, SCHED_FIFO, &first)) return 1;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    struct timespec interval = {.tv_nsec = INTERVAL_NS};
    long paused = 0;
    for (int ended = 0; !ended;) {
        long before = now_ns();
        ended = ppoll(&input, 1, &interval, NULL);
        long late = now_ns() - before - INTERVAL_NS;
        // A pause may have begun with the interval.
        if (late > LATE_NS) paused += late + INTERVAL_NS;
    }
    printf("%ld\n", paused / 1000000);
    return 0;
}
