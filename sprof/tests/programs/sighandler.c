// A timer signal whose handler uses most of the CPU time, over a `main -> outer -> interrupted_work` that never ends early.
// usage: sighandler normal|alternate CPU_MS
#include "common.h"
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static volatile uint64_t sink;
static volatile uint64_t handled;

NOINLINE void handler_spin(void) {
    // About 3 ms of every 4 ms period, by time and not by count, so that slow machines do the same.
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + 3000000u;
    while (clock_ns(CLOCK_MONOTONIC) < end) sink += xorshift(5, 20000);
    KEEP_FRAME();
}

NOINLINE void on_timer(int number) {
    (void)number;
    handler_spin();
    handled++;
    KEEP_FRAME();
}

NOINLINE void interrupted_work(uint64_t cpu_ns) {
    // Seldom enough that few signals come while the clock is read, whose callers no earlier reading has seen. With a
    // fifth of the steps 2 % came on a machine whose host was busy.
    while (thread_cpu_ns() < cpu_ns) sink += xorshift(7, 5000000);
    KEEP_FRAME();
}

NOINLINE void outer(uint64_t cpu_ns) {
    interrupted_work(cpu_ns);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_timer;
    action.sa_flags = SA_RESTART;
    if (strcmp(argv[1], "alternate") == 0) {
        stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16, .ss_flags = 0};
        sigaltstack(&stack, NULL);
        action.sa_flags |= SA_ONSTACK;
    }
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {.it_interval = {0, 4000}, .it_value = {0, 4000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    outer(strtoull(argv[2], NULL, 10) * 1000000u);
    timer.it_value.tv_usec = 0;
    timer.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("handled=%llu\n", (unsigned long long)handled);
    print_cpu_time();
    return 0;
}
