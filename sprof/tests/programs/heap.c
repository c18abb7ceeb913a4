// Takes and frees known amounts of memory, each in a function of its own.
//
// heap MIB KIB [STEP]...: takes MIB in blocks of 4 KiB and keeps them (`keeps`), takes as much in blocks of KIB KiB and
// frees each at once (`frees`). Then the steps, in order: `fork` (a child that does the same and ends), `exec` (executes
// itself without the steps that are done), `thread` (`frees` in a thread of its own),
// `deep` (`frees` below 40 frames of 1 KiB, for a second), `map` (maps 64 MiB and writes to them), `rest` (for half a
// second), `succeed` (ends with status 0, not 7), `wait` (for a signal).
// Writes what it did.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t mib, kib;
static void **kept;

__attribute__((noinline)) static void *take(size_t bytes) {
    char *block = malloc(bytes);
    block[0] = 1;
    block[bytes - 1] = 1;
    return block;
}

__attribute__((noinline)) static void keeps(void) {
    size_t blocks = mib * 256;
    kept = malloc(blocks * sizeof *kept);
    for (size_t at = 0; at < blocks; at++)
        kept[at] = take(4096);
    printf("kept %zu\n", blocks);
}

__attribute__((noinline)) static void frees(void) {
    size_t blocks = mib * 1024 / kib;
    for (size_t at = 0; at < blocks; at++)
        free(take(kib * 1024));
    printf("freed %zu\n", blocks);
}

__attribute__((noinline)) static void deep(int depth) {
    volatile char frame[1000];
    frame[0] = 1;
    if (depth > 0) {
        deep(depth - 1);
        frame[1] = 1;
        return;
    }
    for (int round = 0; round < 20; round++) {
        frees();
        usleep(50000);
    }
}

static void *in_thread(void *nothing) {
    frees();
    return nothing;
}

int main(int count, char **words) {
    mib = strtoul(words[1], NULL, 10);
    kib = strtoul(words[2], NULL, 10);
    keeps();
    frees();
    fflush(stdout);
    for (int at = 3; at < count; at++) {
        if (strcmp(words[at], "fork") == 0) {
            pid_t child = fork();
            if (child == 0) {
                keeps();
                frees();
                fflush(stdout);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        } else if (strcmp(words[at], "thread") == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, in_thread, NULL);
            pthread_join(thread, NULL);
            fflush(stdout);
        } else if (strcmp(words[at], "deep") == 0) {
            deep(40);
            fflush(stdout);
        } else if (strcmp(words[at], "map") == 0) {
            memset(mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 64 << 20);
        } else if (strcmp(words[at], "rest") == 0) {
            for (int round = 0; round < 10; round++) {
                usleep(50000);
                frees();
            }
        } else if (strcmp(words[at], "exec") == 0) {
            words[at] = words[2];
            words[at - 1] = words[1];
            words[at - 2] = words[0];
            execv("/proc/self/exe", words + at - 2);
        } else if (strcmp(words[at], "succeed") == 0) {
            return 0;
        } else {
            puts("waits");
            fflush(stdout);
            pause();
        }
    }
    return 7;
}
