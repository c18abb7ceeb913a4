// Takes all hardware counters of all CPUs for itself (`pinned`, see perf_event_open(2)), runs the command, and exits as it did.
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = PERF_COUNT_HW_CPU_CYCLES;
    attr.pinned = 1;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < cpus; cpu++) {
        long taken = 0, value[1];
        // One that finds no counter opens all the same, and has nothing to read.
        for (long fd; (fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0)) >= 0;) {
            if (read(fd, value, sizeof value) != sizeof value) break;
            taken++;
        }
        if (taken == 0) return 99;
    }
    pid_t child = fork();
    if (child == 0 && argc > 1) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
