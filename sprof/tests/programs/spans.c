/* Spans by sprof.h: of two threads, and of a fork. The argument is the number of spans of each name. With `closes` the
 * program gives the number of its memory to a file of its own, and succeeds if nothing is written there. */
#include "sprof.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *task) {
    SPROF_SPAN("in thread");
    SPROF_END((sprof_span *)task, sprof_bool("ok", 1));
    return NULL;
}

static void work(int number) {
    SPROF_SPAN("work", sprof_i64("number", -number), sprof_text("text", "hällo"), sprof_f64("half", 0.5));
    {
        SPROF_SPAN("inner");
        usleep(200);
    }
    SPROF_INSTANT("instant", sprof_u64("number", (uint64_t)number));
    SPROF_PLOT("plot", number);
    SPROF_FRAME("frame");
}

static int closes(void) {
    sprof_span task = SPROF_BEGIN_ASYNC("task");
    FILE *file = tmpfile();
    struct stat written;
    pthread_t other;
    int number;
    if (!file || ftruncate(fileno(file), (off_t)1 << 32) != 0) return 1;
    for (number = 100; number < 110; number++) dup2(fileno(file), number);
    if (pthread_create(&other, NULL, thread, &task) != 0) return 1;
    pthread_join(other, NULL);
    return fstat(fileno(file), &written) != 0 || written.st_blocks != 0 || sprof_head_[SPROF_LOST_] != 2;
}

int main(int argc, char **argv) {
    int number, count = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t other;
    sprof_span task, step;
    if (argc > 1 && strcmp(argv[1], "closes") == 0) return closes();
    task = SPROF_BEGIN_ASYNC("task");
    sprof_pause();
    sprof_pause();
    for (number = 0; number < count; number++) work(number);
    if (pthread_create(&other, NULL, thread, &task) != 0) return 1;
    pthread_join(other, NULL);
    step = SPROF_BEGIN("step");
    SPROF_END(&step);
    if (fork() == 0) {
        sprof_resume();
        for (number = 0; number < count; number++) {
            SPROF_SPAN("child");
            SPROF_INSTANT("instant", sprof_u64("number", (uint64_t)number));
        }
        _exit(0);
    }
    {
        SPROF_SPAN("parent");
        wait(NULL);
    }
    return 0;
}
