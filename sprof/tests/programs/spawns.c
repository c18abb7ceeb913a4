// Waits for children: for each in vfork, until the child ends.
// usage: spawns COUNT MS
#include "common.h"
#include <sys/wait.h>
#include <unistd.h>

NOINLINE void spawn_one(useconds_t us) {
    pid_t child = vfork();
    if (child == 0) {
        usleep(us);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    KEEP_FRAME();
}

NOINLINE void spawner(int count, useconds_t us) {
    for (int i = 0; i < count; i++) spawn_one(us);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    spawner(atoi(argv[1]), (useconds_t)atoi(argv[2]) * 1000);
    return 0;
}
