// Writes spans into files as the crate tracing-samply does: one file for each thread, which it maps for a moment.
// usage: span_files FOLDER ROUNDS [wait | slow]
//        span_files map FILE...   maps files that are there, for a moment each, and works for a second
// Each round is a span `request` of 4 ms of CPU time (`compute`) and 6 ms of sleep (`sleep`). Before them a thread
// writes `early` and ends, and a child writes `child`. wait: for a line on stdin between the first round and the others.
// slow: of twenty rounds one takes 40 ms of CPU time more, in `rehash`.
#include "common.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder;
static volatile uint64_t sink;

static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void map_for_a_moment(int fd) {
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) perror("mmap"), exit(1);
    munmap(at, 4096);
}

static FILE *open_file(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/marker-%d-%ld.txt", folder, (int)getpid(), syscall(SYS_gettid));
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0) perror(path), exit(1);
    map_for_a_moment(fd);
    return fdopen(fd, "w");
}

static void put(FILE *file, uint64_t began, const char *name) {
    fprintf(file, "%" PRIu64 " %" PRIu64 " %s\n", began, now(), name);
}

NOINLINE void compute(uint64_t ns) {
    uint64_t end = thread_cpu_ns() + ns;
    while (thread_cpu_ns() < end) sink += xorshift(1, 1000);
    KEEP_FRAME();
}

NOINLINE void rehash(uint64_t ns) {
    uint64_t end = thread_cpu_ns() + ns;
    while (thread_cpu_ns() < end) sink += xorshift(2, 1000);
    KEEP_FRAME();
}

static void *early(void *unused) {
    (void)unused;
    FILE *file = open_file();
    uint64_t began = now();
    compute(2000000);
    put(file, began, "early");
    fclose(file);
    return NULL;
}

static void round_of(FILE *file, int is_slow) {
    uint64_t request = now();
    compute(4000000);
    put(file, request, "compute");
    if (is_slow) rehash(40000000);
    uint64_t sleep_began = now();
    struct timespec rest = {0, 6000000};
    nanosleep(&rest, NULL);
    put(file, sleep_began, "sleep");
    put(file, request, "request");
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    folder = argv[1];
    if (strcmp(folder, "map") == 0) {
        for (int at = 2; at < argc; at++) map_for_a_moment(open(argv[at], O_RDONLY));
        for (uint64_t end = now() + 1000000000; now() < end; usleep(50000)) compute(1000000);
        return 0;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, early, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        FILE *file = open_file();
        uint64_t began = now();
        compute(2000000);
        put(file, began, "child");
        fclose(file);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    FILE *file = open_file();
    int is_slow = argc > 3 && strcmp(argv[3], "slow") == 0;
    round_of(file, 0);
    if (argc > 3 && !is_slow) {
        puts("ready");
        fflush(stdout);
        if (getchar() == EOF) return 3;
    }
    for (int rounds = atoi(argv[2]); rounds > 0; rounds--) round_of(file, is_slow && rounds % 20 == 0);
    fclose(file);
    return 0;
}
