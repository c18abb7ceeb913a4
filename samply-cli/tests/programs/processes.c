// Processes and names.
// usage: processes fork CPU_MS        a child without exec works in `child_work`, the parent in `parent_work`
//        processes exec CPU_MS        the child becomes `processes work CPU_MS` through exec
//        processes work CPU_MS        only `exec_work`
//        processes rename CPU_MS      the main thread calls itself first, second, third
//        processes many COUNT         COUNT children, one after the other, of about 1 ms each
#include "common.h"
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

static inline __attribute__((always_inline)) void burn(uint64_t cpu_ns) {
    uint64_t end = thread_cpu_ns() + cpu_ns;
    while (thread_cpu_ns() < end) sink += xorshift(13, 20000);
    KEEP_FRAME();
}

NOINLINE void child_work(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void parent_work(uint64_t cpu_ns) { burn(cpu_ns); }
NOINLINE void exec_work(uint64_t cpu_ns) { burn(cpu_ns); }
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
