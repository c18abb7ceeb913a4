// Runs a command, and puts a FIFO at the place of a file between two of its system calls.
// usage: swap FOLDER PATTERN NUMBER COMMAND [ARGS]...
// When the command, with all its threads and without its children, has named a file of FOLDER whose name fits PATTERN
// (fnmatch(3)) in that many system calls that succeeded, the file is replaced. Whoever then opens it by name, and
// waits, waits forever.
// Ends as the command does; prints `swapped` to stderr if it has come to that.
#define _GNU_SOURCE
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_THREADS 4096

static const char *folder, *pattern;
static long number, named;
// The name that each thread has in the system call that it is in; NULL: none that fits.
static struct {
    pid_t tid;
    char *name;
} threads[MAX_THREADS];

static char **name_of(pid_t tid) {
    int at = 0;
    while (at < MAX_THREADS - 1 && threads[at].tid != tid && threads[at].tid) at++;
    threads[at].tid = tid;
    return &threads[at].name;
}

// The argument of a system call that is a path; -1: it has none.
static int path_argument(unsigned long call) {
    switch (call) {
    case SYS_openat:
    case SYS_openat2:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_readlinkat:
        return 1;
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_readlink:
        return 0;
#endif
    default:
        return -1;
    }
}

static char *read_path(pid_t tid, unsigned long address) {
    static char path[4097];
    size_t got = 0;
    // To the end of the page: the next one may not be there.
    while (got < sizeof path - 1) {
        size_t part = 4096 - (address + got) % 4096;
        if (part > sizeof path - 1 - got) part = sizeof path - 1 - got;
        struct iovec to = {path + got, part}, from = {(void *)(address + got), part};
        ssize_t more = process_vm_readv(tid, &to, 1, &from, 1, 0);
        if (more <= 0) return NULL;
        got += (size_t)more;
        if (memchr(path, 0, got)) return path;
    }
    return NULL;
}

static void put_fifo(const char *name) {
    char fifo[4096], place[4096];
    snprintf(fifo, sizeof fifo, "%s/.swap-%d", folder, getpid());
    snprintf(place, sizeof place, "%s/%s", folder, name);
    if (mkfifo(fifo, 0644) || rename(fifo, place)) {
        perror(place);
        exit(3);
    }
    fprintf(stderr, "swapped\n");
}

static void at_system_call(pid_t tid) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0) return;
    char **name = name_of(tid);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        free(*name);
        *name = NULL;
        int argument = path_argument(info.entry.nr);
        char *path = argument < 0 ? NULL : read_path(tid, info.entry.args[argument]);
        if (!path) return;
        char *last = strrchr(path, '/');
        last = last ? last + 1 : path;
        if (fnmatch(pattern, last, 0) == 0) *name = strdup(last);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && *name && !info.exit.is_error) {
        if (++named == number) put_fifo(*name);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    folder = argv[1];
    pattern = argv[2];
    number = atol(argv[3]);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(3);
        raise(SIGSTOP);
        execvp(argv[4], argv + 4);
        _exit(127);
    }
    int status;
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || ptrace(PTRACE_SETOPTIONS, child, 0, options)) {
        perror("ptrace");
        return 3;
    }
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0) return 3;
        if (!WIFSTOPPED(status)) {
            if (tid != child) continue;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) at_system_call(tid);
        // Stops of the tracer's own, and the first of a new thread.
        int is_own = signal == (SIGTRAP | 0x80) || signal == SIGTRAP || signal == SIGSTOP;
        ptrace(PTRACE_SYSCALL, tid, 0, is_own ? 0 : signal);
    }
}
