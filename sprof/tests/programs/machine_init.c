// The only program of an emulated machine besides those that it runs: each line of /commands is a name and a command, which writes
// /tmp/NAME. Prints exit status and file, in hexadecimal digits, to the console, and turns the machine off.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(char **argv) {
    pid_t child = fork();
    if (child == 0) {
        execv(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void print_file(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/tmp/%s", name);
    FILE *file = fopen(path, "r");
    int byte, column = 0;
    while (file && (byte = fgetc(file)) != EOF) {
        printf("%02x", byte);
        if (++column % 64 == 0) printf("\n");
    }
    if (file) fclose(file);
}

int main(void) {
    const char *mounts[][2] = {
        {"/proc", "proc"}, {"/sys", "sysfs"}, {"/sys/kernel/tracing", "tracefs"}, {"/dev", "devtmpfs"}, {"/tmp", "tmpfs"}};
    for (int i = 0; i < 5; i++) {
        mkdir(mounts[i][0], 0755);
        mount(mounts[i][1], mounts[i][0], mounts[i][1], 0, "");
    }
    int console = open("/dev/console", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(console, fd);
    // Emulated interrupts take long. The kernel would lower the rate that it permits.
    FILE *limit = fopen("/proc/sys/kernel/perf_cpu_time_max_percent", "w");
    if (limit) {
        fputs("0", limit);
        fclose(limit);
    }
    FILE *commands = fopen("/commands", "r");
    char line[1024];
    while (commands && fgets(line, sizeof line, commands)) {
        char *argv[64];
        int argc = 0;
        for (char *word = strtok(line, " \n"); word && argc < 63; word = strtok(NULL, " \n")) argv[argc++] = word;
        argv[argc] = NULL;
        if (argc < 2) continue;
        int status = run(argv + 1);
        printf("\n@begin %s %d\n", argv[0], status);
        print_file(argv[0]);
        printf("\n@end\n");
        fflush(stdout);
    }
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
