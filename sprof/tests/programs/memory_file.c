// Copies itself to a file that is on no path, and works there: `memfd` (executed), `shm FILE` (the same of a file that is deleted
// at once), `library FILE` (a library, loaded from a memory file whose descriptor is closed then).
#include "common.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK_NS 300000000u

NOINLINE static void from_memory_leaf(void) {
    uint64_t end = thread_cpu_ns() + WORK_NS;
    while (thread_cpu_ns() < end) xorshift(1, 20000);
    KEEP_FRAME();
}

NOINLINE static void from_memory(void) {
    from_memory_leaf();
    KEEP_FRAME();
}

static int copy(const char *from, int to) {
    int source = open(from, O_RDONLY);
    struct stat status;
    if (source < 0 || to < 0 || fstat(source, &status) || sendfile(to, source, 0, status.st_size) != status.st_size) {
        perror(from);
        exit(1);
    }
    close(source);
    return to;
}

int main(int argc, char **argv) {
    char *words[] = {"payload", NULL};
    extern char **environ;
    if (argc == 1) {
        from_memory();
        return 0;
    }
    if (!strcmp(argv[1], "memfd")) {
        fexecve(copy("/proc/self/exe", memfd_create("payload", MFD_CLOEXEC)), words, environ);
    } else if (!strcmp(argv[1], "shm")) {
        close(copy("/proc/self/exe", open(argv[2], O_CREAT | O_WRONLY, 0700)));
        int file = open(argv[2], O_RDONLY | O_CLOEXEC);
        unlink(argv[2]);
        fexecve(file, words, environ);
    } else {
        char path[64];
        int file = copy(argv[2], memfd_create("library", MFD_CLOEXEC));
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        void *library = dlopen(path, RTLD_NOW);
        close(file);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        void (*work)(uint64_t) = (void (*)(uint64_t))dlsym(library, "library_work");
        work(WORK_NS);
        KEEP_FRAME();
        return 0;
    }
    perror(argv[1]);
    return 1;
}
