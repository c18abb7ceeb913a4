// One function, called NAME, that uses CPU_MS of CPU time, and is called at least 50 times for each millisecond.
// Two such programs can have one build id.
// usage: forged CPU_MS
#include "common.h"

volatile uint64_t NAME_sum;

__attribute__((noinline)) void NAME(void) {
    for (int i = 0; i < 10000; i++) NAME_sum += i;
}

int main(int argc, char **argv) {
    uint64_t ms = argc > 1 ? atoi(argv[1]) : 100;
    uint64_t end = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ms * 1000000;
    // The CPU time may hold time that the host of a virtual machine took away, and in which there is no sample.
    for (uint64_t calls = 0; calls < 50 * ms || clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end; calls++) NAME();
    return 0;
}
