// A parent, two children, and a child of one of them: they free blocks that they have from their parents, and take their
// own. Prints `NS: CHILD of PARENT`, with the time of the fork, and `PROCESS keeps BYTES`.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 100000, BLOCKS = 100 };
static void *blocks[4][BLOCKS];
static long live;

static void take(int who) {
    for (int i = 0; i < BLOCKS; i++) blocks[who][i] = malloc(SIZE), live += SIZE;
}

static void drop(int who, int count) {
    for (int i = 0; i < count; i++) free(blocks[who][i]), live -= SIZE;
}

static void say(void) {
    char text[60];
    int length = snprintf(text, sizeof text, "%d keeps %ld\n", getpid(), live);
    if (write(1, text, length) != length) _exit(1);
}

static int forked(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int parent = getpid(), child = fork();
    if (child == 0) {
        char text[90];
        long ns = time.tv_sec * 1000000000L + time.tv_nsec;
        int length = snprintf(text, sizeof text, "%ld: %d of %d\n", ns, getpid(), parent);
        if (write(1, text, length) != length) _exit(1);
    }
    return child;
}

static void wait_all(void) {
    int status;
    while (wait(&status) > 0)
        if (status) _exit(2);
}

int main(void) {
    take(0);
    if (forked() == 0) {
        drop(0, 30);
        take(1);
        if (forked() == 0) {
            drop(1, 100);
            take(2);
            say();
            _exit(0);
        }
        drop(1, 10);
        wait_all();
        say();
        _exit(0);
    }
    if (forked() == 0) {
        drop(0, 100);
        say();
        _exit(0);
    }
    wait_all();
    drop(0, 50);
    say();
    return 0;
}
