// One function, called NAME, that uses CPU_MS of CPU time: two such programs can have one build id.
// usage: forged CPU_MS
#include "common.h"

volatile uint64_t NAME_sum;

__attribute__((noinline)) void NAME(void) {
    for (int i = 0; i < 10000; i++) NAME_sum += i;
}

int main(int argc, char **argv) {
    uint64_t end = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + (argc > 1 ? atoi(argv[1]) : 100) * 1000000ull;
    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end) NAME();
    return 0;
}
