// Loads LIBRARY after it has started, and spends its time in there.
// With `unlink`, the library is deleted as soon as it is loaded, as Java programs do with those that they unpack.
// usage: dlopen LIBRARY CPU_MS [unlink]
#include "common.h"
#include <dlfcn.h>
#include <unistd.h>

NOINLINE void through_library(void (*work)(uint64_t), uint64_t cpu_ns) {
    work(cpu_ns);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    if (argc > 3) unlink(argv[1]);
    void (*work)(uint64_t) = (void (*)(uint64_t))dlsym(library, "library_work");
    through_library(work, strtoull(argv[2], NULL, 10) * 1000000u);
    print_cpu_time();
    return 0;
}
