// Kernel time: `read_all_zeros` reads /dev/zero, all of it in one system call after the other.
// usage: reader CPU_MS
#include "common.h"
#include <fcntl.h>
#include <unistd.h>

static char buffer[1 << 20];

NOINLINE void read_all_zeros(int file, uint64_t cpu_ns) {
    while (thread_cpu_ns() < cpu_ns) {
        for (int i = 0; i < 10; i++) {
            if (read(file, buffer, sizeof buffer) <= 0) return;
        }
    }
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int file = open("/dev/zero", O_RDONLY);
    read_all_zeros(file, strtoull(argv[1], NULL, 10) * 1000000u);
    print_cpu_time();
    return 0;
}
