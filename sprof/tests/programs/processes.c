// Processes and names.
// usage: processes fork CPU_MS        a child without exec works in `child_work`, the parent in `parent_work`
//        processes exec CPU_MS        the child becomes `processes work CPU_MS` through exec
//        processes work CPU_MS        only `exec_work`
//        processes rename CPU_MS      the main thread calls itself first, second, third
//        processes daemon WALL_MS     a grandchild works in `daemon_work` for this long, while the program ends at once
//        processes many COUNT         COUNT children, one after the other, of about 1 ms each
#include "common.h"
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

static inline __attribute__((always_inline)) void burn(uint64_t cpu_ns) {
    uint64_t last = thread_cpu_ns();
    for (uint64_t worked = 0; worked < cpu_ns; worked += step_ns(&last)) sink += xorshift(13, 20000);
    KEEP_FRAME();
}

NOINLINE void child_work(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void parent_work(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void exec_work(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void daemon_work(uint64_t wall_ns) {
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + wall_ns;
    while (clock_ns(CLOCK_MONOTONIC) < end) sink += xorshift(13, 20000);
    KEEP_FRAME();
}
NOINLINE void renamed_work(uint64_t cpu_ns) { burn(cpu_ns); }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *mode = argv[1];
    uint64_t cpu_ns = strtoull(argv[2], NULL, 10) * 1000000u;
    if (strcmp(mode, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            child_work(cpu_ns);
            _exit(0);
        }
        parent_work(cpu_ns);
        waitpid(child, NULL, 0);
        printf("child=%d\n", (int)child);
    } else if (strcmp(mode, "exec") == 0) {
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", "processes-after-exec", "work", argv[2], (char *)NULL);
            _exit(127);
        }
        waitpid(child, NULL, 0);
        printf("child=%d\n", (int)child);
    } else if (strcmp(mode, "work") == 0) {
        exec_work(cpu_ns);
        printf("euid=%d\n", (int)geteuid());
    } else if (strcmp(mode, "daemon") == 0) {
        int ids[2];
        if (pipe(ids) != 0) return 1;
        pid_t child = fork();
        if (child == 0) {
            setsid();
            pid_t grandchild = fork();
            if (grandchild == 0) {
                // Whoever reads the program's output does not wait for the daemon.
                for (int fd = 0; fd < 3; fd++) close(fd);
                daemon_work(cpu_ns);
                _exit(0);
            }
            _exit(write(ids[1], &grandchild, sizeof grandchild) != sizeof grandchild);
        }
        waitpid(child, NULL, 0);
        pid_t grandchild = 0;
        if (read(ids[0], &grandchild, sizeof grandchild) != sizeof grandchild) return 1;
        printf("daemon=%d\n", (int)grandchild);
    } else if (strcmp(mode, "rename") == 0) {
        const char *names[] = {"first", "second", "third"};
        for (int i = 0; i < 3; i++) {
            prctl(PR_SET_NAME, names[i]);
            renamed_work(cpu_ns / 3);
        }
    } else if (strcmp(mode, "many") == 0) {
        int count = atoi(argv[2]);
        for (int i = 0; i < count; i++) {
            pid_t child = fork();
            if (child == 0) {
                child_work(1000000);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
    }
    print_cpu_time();
    return 0;
}
