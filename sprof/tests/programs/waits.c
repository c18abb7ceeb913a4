// The main thread spends equal quarters of its time spinning, sleeping, reading an empty pipe and waiting for a mutex.
// A thread `helper` writes to the pipe and holds the mutex. Prints the time spent in each quarter, the least that three
// of them waited, how long the host made the first pause, and how long the helper took to lock the mutex.
// usage: waits ROUNDS MS [told] [forever]: rounds of four times MS; `told` begins when it reads a line; `forever` reads
// an empty pipe afterwards until it is killed
#include "common.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static volatile uint64_t sink;
static uint64_t part_ns, paused_ns;
static int requests[2], answers[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void sleep_part(void) {
    struct timespec t = {(time_t)(part_ns / 1000000000u), (long)(part_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t)) {}
}

static char ask(char what) {
    char answer = 0;
    if (write(requests[1], &what, 1) != 1 || read(answers[0], &answer, 1) != 1) exit(3);
    return answer;
}

// A main thread that has not got a CPU yet waits for that, and for nothing else.
static void wait_until_main_waits(void) {
    char path[64], stat[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    for (;; usleep(100)) {
        int fd = open(path, O_RDONLY);
        ssize_t bytes = read(fd, stat, sizeof stat - 1);
        close(fd);
        if (bytes < 0) exit(3);
        stat[bytes] = 0;
        if (strncmp(strrchr(stat, ')'), ") S", 3) == 0) return;
    }
}

static void *helper_main(void *unused) {
    pthread_setname_np(pthread_self(), "helper");
    char what;
    while (read(requests[0], &what, 1) == 1) {
        if (what == 'm') {
            pthread_mutex_lock(&mutex);
            if (write(answers[1], "m", 1) != 1) exit(3);
        }
        wait_until_main_waits();
        sleep_part();
        if (what == 'm') pthread_mutex_unlock(&mutex);
        else if (write(answers[1], "p", 1) != 1) exit(3);
    }
    return unused;
}

NOINLINE void spin_quarter(void) {
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + part_ns, last = thread_cpu_ns();
    while (clock_ns(CLOCK_MONOTONIC) < end) {
        sink += xorshift(5, 20000);
        uint64_t now = thread_cpu_ns();
        if (now - last > PAUSE_NS) paused_ns += now - last;
        last = now;
    }
    KEEP_FRAME();
}

NOINLINE void sleep_quarter(void) {
    sleep_part();
    KEEP_FRAME();
}

NOINLINE void pipe_quarter(void) {
    ask('p');
    KEEP_FRAME();
}

NOINLINE void lock_quarter(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    KEEP_FRAME();
}

NOINLINE void wait_forever(void) {
    static int nothing[2];
    char byte;
    if (pipe(nothing) || read(nothing[0], &byte, 1) != 1) exit(3);
    KEEP_FRAME();
}

NOINLINE void wait_to_be_told(void) {
    char byte;
    if (read(0, &byte, 1) != 1) exit(3);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3 || pipe(requests) || pipe(answers)) return 2;
    int rounds = atoi(argv[1]);
    part_ns = strtoull(argv[2], NULL, 10) * 1000000u;
    pthread_t helper;
    pthread_create(&helper, NULL, helper_main, NULL);
    if (argc > 3 && strcmp(argv[3], "told") == 0) wait_to_be_told();
    uint64_t spent[5] = {0};
    for (int i = 0; i < rounds; i++) {
        uint64_t t0 = clock_ns(CLOCK_MONOTONIC);
        spin_quarter();
        uint64_t t1 = clock_ns(CLOCK_MONOTONIC);
        sleep_quarter();
        uint64_t t2 = clock_ns(CLOCK_MONOTONIC);
        pipe_quarter();
        uint64_t t3 = clock_ns(CLOCK_MONOTONIC);
        ask('m');
        uint64_t t4 = clock_ns(CLOCK_MONOTONIC);
        lock_quarter();
        uint64_t t5 = clock_ns(CLOCK_MONOTONIC);
        spent[0] += t1 - t0;
        spent[1] += t2 - t1;
        spent[2] += t3 - t2;
        spent[3] += t5 - t4;
        spent[4] += t4 - t3;
    }
    printf("spin_ns=%llu sleep_ns=%llu pipe_ns=%llu lock_ns=%llu least_ns=%llu paused_ns=%llu ask_ns=%llu\n",
           (unsigned long long)spent[0], (unsigned long long)spent[1], (unsigned long long)spent[2],
           (unsigned long long)spent[3], (unsigned long long)(part_ns * (uint64_t)rounds),
           (unsigned long long)paused_ns, (unsigned long long)spent[4]);
    fflush(stdout);
    if (strcmp(argv[argc - 1], "forever") == 0) wait_forever();
    return 0;
}
