// signals MODE: 10,000 signals a second interrupt allocations. The handler jumps out of them (j), or allocates (a). Then
// 256 MiB are allocated in blocks of 1,000 bytes, without signals: "phase" separates both by a block of 77,777,777 bytes.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static sigjmp_buf out;
static volatile sig_atomic_t hits, jumps;
static void *volatile kept;

static void handler(int signal) {
    (void)signal;
    hits++;
    if (jumps) siglongjmp(out, 1);
    void *block = malloc(3000);
    free(block);
}

int main(int argc, char **argv) {
    jumps = argc > 1 && *argv[1] == 'j';
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &action, NULL);
    sigsetjmp(out, 1);
    struct itimerval timer = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    while (hits < 2000) {
        kept = malloc(500);
        free(kept);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    signal(SIGALRM, SIG_IGN);
    kept = malloc(77777777);
    for (int i = 0; i < (256 << 20) / 1000; i++) kept = malloc(1000);
    puts("done");
    return 0;
}
