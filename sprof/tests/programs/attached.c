// To be attached to. All threads are busy until the program ends.
// usage: attached stages             `early` is busy from the start; a line on standard input starts the thread `late`, the
//                                    next one a child process that works in `child_work`; the end of the input ends all
//        attached burst COUNT CPU_MS starts `burst-000`, `burst-001`... one a millisecond; a line on standard input lets each
//                                    use that much CPU time; then prints how much it was, without pauses that the host made
//        attached churn              starts threads that end at once, all the time, until the end of its input
//        attached crowd COUNT        COUNT threads; a line on standard input prints the work done so far and the CPU time
//                                    that it took, the end of the input ends the program
//        attached leaderless MS      the main thread ends at once, another one works in `orphan_work`
#include "common.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 256
static volatile uint64_t sink;
static volatile int stop;
static volatile uint64_t work[MOST];
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static uint64_t burst_ns;
static uint64_t cpu_ns[MOST];

static inline __attribute__((always_inline)) void burn(int at) {
    while (!stop) {
        sink += xorshift(19, 20000);
        work[at]++;
    }
    KEEP_FRAME();
}

NOINLINE void early_work(void) { burn(0); }
NOINLINE void late_work(void) { burn(1); }
NOINLINE void child_work(void) { burn(2); }
NOINLINE void crowd_work(int at) { burn(at); }
NOINLINE void orphan_work(int at) { burn(at); }

static void *early(void *unused) {
    pthread_setname_np(pthread_self(), "early");
    early_work();
    return unused;
}

static void *late(void *unused) {
    pthread_setname_np(pthread_self(), "late");
    late_work();
    return unused;
}

static void *orphan(void *ms) {
    struct timespec pause = {0, 50 * 1000 * 1000};
    nanosleep(&pause, NULL);
    alarm((unsigned)(uintptr_t)ms / 1000);
    orphan_work(0);
    return NULL;
}

static void *crowd(void *at) {
    crowd_work((int)(intptr_t)at);
    return NULL;
}

// Returns the CPU time of the thread without such pauses.
NOINLINE uint64_t burst_work(uint64_t end_ns) {
    uint64_t now = thread_cpu_ns(), paused = 0;
    while (now < end_ns) {
        sink += xorshift(23, 20000);
        uint64_t last = now;
        now = thread_cpu_ns();
        if (now - last > PAUSE_NS) paused += now - last;
    }
    KEEP_FRAME();
    return now - paused;
}

static void *one_of_many(void *unused) {
    usleep(300);
    return unused;
}

static void *wait_for_the_end(void *unused) {
    while (getchar() != EOF) {}
    stop = 1;
    return unused;
}

static void *burst(void *argument) {
    int at = (int)(intptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "burst-%03d", at);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    cpu_ns[at] = burst_work(burst_ns);
    return NULL;
}

static int next_line(void) {
    char line[64];
    return fgets(line, sizeof line, stdin) != NULL;
}

static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int count = argc > 2 ? atoi(argv[2]) : 0;
    static pthread_t threads[MOST];
    if (strcmp(argv[1], "stages") == 0) {
        pthread_create(&threads[0], NULL, early, NULL);
        say("early");
        if (!next_line()) return 0;
        pthread_create(&threads[1], NULL, late, NULL);
        say("late");
        if (!next_line()) return 0;
        pid_t child = fork();
        if (child == 0) {
            // Ends with the program: the pipe is its parent's, and so are all other ends of it.
            alarm(60);
            child_work();
            _exit(0);
        }
        printf("child=%d\n", (int)child);
        fflush(stdout);
        next_line();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return 0;
    }
    if (strcmp(argv[1], "churn") == 0) {
        pthread_attr_t detached;
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        pthread_create(&threads[0], NULL, wait_for_the_end, NULL);
        say("ready");
        while (!stop) {
            pthread_t thread;
            pthread_create(&thread, &detached, one_of_many, NULL);
            usleep(20);
        }
        return 0;
    }
    if (count < 1) return 2;
    if (strcmp(argv[1], "leaderless") == 0) {
        pthread_create(&threads[0], NULL, orphan, (void *)(uintptr_t)count);
        say("ready");
        pthread_exit(NULL);
    }
    if (count > MOST) return 2;
    if (strcmp(argv[1], "burst") == 0) {
        burst_ns = (argc > 3 ? strtoull(argv[3], NULL, 10) : 1) * 1000000u;
        pthread_mutex_lock(&gate);
        say("ready");
        for (int i = 0; i < count; i++) {
            pthread_create(&threads[i], NULL, burst, (void *)(intptr_t)i);
            usleep(1000);
        }
        next_line();
        pthread_mutex_unlock(&gate);
        for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < count; i++) printf("burst-%03d=%llu\n", i, (unsigned long long)cpu_ns[i]);
        fflush(stdout);
        return 0;
    }
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, crowd, (void *)(intptr_t)i);
    say("ready");
    while (next_line()) {
        uint64_t sum = 0;
        for (int i = 0; i < count; i++) sum += work[i];
        printf("work=%llu cpu_ns=%llu\n", (unsigned long long)sum,
               (unsigned long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        fflush(stdout);
    }
    stop = 1;
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
