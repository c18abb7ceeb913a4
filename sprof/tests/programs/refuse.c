// Runs a program for which a system call fails, as in most containers: by a seccomp filter.
// usage: refuse eperm|enosys [ptrace|openat2|only-ptrace] COMMAND [ARGS]...
// Refuses perf_event_open, or with `ptrace` both, or openat2 or ptrace alone.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    unsigned error = strcmp(argv[1], "enosys") == 0 ? ENOSYS : EPERM;
    int ptrace_too = strcmp(argv[2], "ptrace") == 0, openat2 = strcmp(argv[2], "openat2") == 0;
    int only_ptrace = strcmp(argv[2], "only-ptrace") == 0;
    int first = openat2 ? SYS_openat2 : only_ptrace ? SYS_ptrace : SYS_perf_event_open;
    int second = ptrace_too ? SYS_ptrace : first;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        return 3;
    }
    char **command = argv + 2 + (ptrace_too || openat2 || only_ptrace);
    execvp(command[0], command);
    perror(command[0]);
    return 127;
}
