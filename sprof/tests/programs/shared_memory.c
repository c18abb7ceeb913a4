// A second process in the memory of the first (CLONE_VM). The first loads LIBRARY after that, and the second works in there.
#include "common.h"
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORK_NS 300000000u

static void (*volatile work)(uint64_t);

NOINLINE static int second(void *unused) {
    (void)unused;
    while (!work) usleep(1000);
    work(WORK_NS);
    KEEP_FRAME();
    _exit(0);
}

int main(int argc, char **argv) {
    size_t size = 1 << 20;
    char *stack = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pid = clone(second, stack + size, CLONE_VM | SIGCHLD, NULL);
    // The process is known before the library is mapped.
    usleep(100000);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library || pid < 0) return 1;
    work = (void (*)(uint64_t))dlsym(library, "library_work");
    return waitpid(pid, NULL, 0) != pid;
}
