// What is hard for a tracer.
// usage: traced thread-exec CPU_MS   a thread that is not the first becomes `traced work CPU_MS` through exec
//        traced vfork CPU_MS         a child of vfork becomes `traced work CPU_MS`; prints its status
//        traced work CPU_MS          only `exec_work`; exits with status 4
//        traced stop CPU_MS          works, stops itself with SIGSTOP, prints `continued`, works again in `after_stop`
//        traced signals CPU_MS       a timer interrupts the work 1000 times a second; prints how often it did
#include "common.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile sig_atomic_t ticks;
static const char *cpu_ms;

static inline __attribute__((always_inline)) void burn(uint64_t cpu_ns) {
    uint64_t end = thread_cpu_ns() + cpu_ns;
    while (thread_cpu_ns() < end) sink += xorshift(19, 200000);
    KEEP_FRAME();
}

NOINLINE void exec_work(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void before_stop(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void after_stop(uint64_t cpu_ns) { burn(cpu_ns); }

static void on_tick(int number) { ticks += number == SIGALRM; }

static void become_worker(void) { execl("/proc/self/exe", "traced", "work", cpu_ms, (char *)NULL); }

static void *other_thread(void *unused) {
    become_worker();
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *mode = argv[1];
    cpu_ms = argc > 2 ? argv[2] : "0";
    uint64_t cpu_ns = strtoull(cpu_ms, NULL, 10) * 1000000u;
    if (strcmp(mode, "work") == 0) {
        exec_work(cpu_ns);
        return 4;
    }
    if (strcmp(mode, "thread-exec") == 0) {
        pthread_t idle[2], thread;
        for (int i = 0; i < 2; i++) pthread_create(&idle[i], NULL, (void *(*)(void *))(void *)pause, NULL);
        pthread_create(&thread, NULL, other_thread, NULL);
        pthread_join(thread, NULL);
    } else if (strcmp(mode, "vfork") == 0) {
        int status = 0;
        pid_t child = vfork();
        if (child == 0) {
            become_worker();
            _exit(127);
        }
        waitpid(child, &status, 0);
        printf("status=%d\n", WEXITSTATUS(status));
    } else if (strcmp(mode, "stop") == 0) {
        before_stop(cpu_ns);
        printf("ready\n");
        fflush(stdout);
        raise(SIGSTOP);
        printf("continued\n");
        after_stop(cpu_ns);
    } else if (strcmp(mode, "signals") == 0) {
        struct itimerval every = {{0, 1000}, {0, 1000}};
        signal(SIGALRM, on_tick);
        setitimer(ITIMER_REAL, &every, NULL);
        exec_work(cpu_ns);
        printf("ticks=%d\n", (int)ticks);
    }
    return 0;
}
