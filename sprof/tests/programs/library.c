// A library that `dlopen.c` loads while it runs; also built without unwind tables.
#include "common.h"

static volatile uint64_t sink;

NOINLINE void library_leaf(uint64_t rounds) { sink += xorshift(19, rounds); }

__attribute__((visibility("default"))) void library_work(uint64_t cpu_ns) {
    uint64_t end = thread_cpu_ns() + cpu_ns;
    while (thread_cpu_ns() < end) library_leaf(100000);
    KEEP_FRAME();
}
