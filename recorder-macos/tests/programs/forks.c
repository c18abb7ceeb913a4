// A process that forks, and one that executes itself. What each does is busy for so many milliseconds of CPU time.
// usage: forks fork MS   the child works in `child_work`, the parent in `parent_work`
//        forks exec MS   the child executes `forks work MS`
//        forks work MS   `exec_work`
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long long sink;

static inline __attribute__((always_inline)) void burn(long ms) {
    clock_t end = clock() + ms * (CLOCKS_PER_SEC / 1000);
    while (clock() < end)
        for (int i = 0; i < 100000; i++) sink = sink * 3 + 1;
}

__attribute__((noinline)) void child_work(long ms) { burn(ms); }
__attribute__((noinline)) void parent_work(long ms) { burn(ms); }
__attribute__((noinline)) void exec_work(long ms) { burn(ms); }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long ms = atol(argv[2]);
    if (strcmp(argv[1], "work") == 0) {
        exec_work(ms);
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        if (strcmp(argv[1], "exec") == 0) {
            execl(argv[0], argv[0], "work", argv[2], (char *)NULL);
            _exit(127);
        }
        child_work(ms);
        _exit(0);
    }
    parent_work(ms);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
