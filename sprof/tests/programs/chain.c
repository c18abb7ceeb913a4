// Works, and then executes the program that its arguments name, as one process.
#include "common.h"
#include <unistd.h>

NOINLINE static void work_of(const char *milliseconds) {
    uint64_t ns = (uint64_t)atoi(milliseconds) * 1000000u, last = thread_cpu_ns();
    for (uint64_t worked = 0; worked < ns; worked += step_ns(&last)) xorshift(1, 20000);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    work_of(argv[1]);
    if (argc > 2) {
        execv(argv[2], argv + 2);
        perror(argv[2]);
        return 1;
    }
    return 0;
}
