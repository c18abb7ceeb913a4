// 60 % of the CPU time in `sixty`, 30 % in `thirty`, 10 % in `ten`: the same loop, 6 : 3 : 1 rounds. Their length
// varies by chance, so that no sampling rate can be in step with them.
// usage: split CPU_MS [THREADS]
#include "common.h"
#include <pthread.h>
#include <string.h>

static volatile uint64_t sink;

NOINLINE void sixty(uint64_t unit) { sink += xorshift(0x60, 6 * unit); }
NOINLINE void thirty(uint64_t unit) { sink += xorshift(0x30, 3 * unit); }
NOINLINE void ten(uint64_t unit) { sink += xorshift(0x10, 1 * unit); }

NOINLINE void one_round(uint64_t unit) {
    sixty(unit);
    thirty(unit);
    ten(unit);
    KEEP_FRAME();
}

NOINLINE void run_split(uint64_t cpu_ns) {
    uint64_t chance = 88172645463325252u;
    while (thread_cpu_ns() < cpu_ns) {
        for (int i = 0; i < 50; i++) {
            chance = chance * 6364136223846793005u + 1442695040888963407u;
            one_round(4000 + (chance >> 32) % 32000);
        }
    }
    KEEP_FRAME();
}

static uint64_t cpu_ns_each;

static void *thread_main(void *name) {
    pthread_setname_np(pthread_self(), name);
    run_split(cpu_ns_each);
    return NULL;
}

int main(int argc, char **argv) {
    cpu_ns_each = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * 1000000u;
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    if (threads == 0) {
        run_split(cpu_ns_each);
    } else {
        pthread_t handles[64];
        static char names[64][16];
        if (threads > 64) return 2;
        for (int i = 0; i < threads; i++) {
            snprintf(names[i], sizeof names[i], "splitter-%d", i);
            pthread_create(&handles[i], NULL, thread_main, names[i]);
        }
        for (int i = 0; i < threads; i++) pthread_join(handles[i], NULL);
    }
    print_cpu_time();
    return 0;
}
