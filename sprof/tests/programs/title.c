// Writes a title over its command line, as setproctitle(3) does, and works before and after.
// usage: title BEFORE_MS AFTER_MS TITLE [REST...]   the area of the arguments is as long as they are
#include "common.h"
#include <string.h>

static volatile uint64_t sink;

NOINLINE void work_for(uint64_t ms) {
    uint64_t end = thread_cpu_ns() + ms * 1000000;
    while (thread_cpu_ns() < end) sink += xorshift(1, 10000);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    uint64_t before_ms = strtoull(argv[1], NULL, 10), after_ms = strtoull(argv[2], NULL, 10);
    char title[256];
    snprintf(title, sizeof title, "%s", argv[3]);
    work_for(before_ms);
    size_t space = argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0];
    memset(argv[0], 0, space);
    snprintf(argv[0], space, "%s", title);
    work_for(after_ms);
    return 0;
}
