// Work in rounds: in each round three functions run one after the other, each for its part of the program's work.
// usage: rounds ROUNDS MULTIPLY SORT HASH (the work of each function in all, in millions of loop rounds)
#include "common.h"

static volatile uint64_t sink;

NOINLINE void multiply(uint64_t rounds) { sink += xorshift(0x51, rounds); }
NOINLINE void sort(uint64_t rounds) { sink += xorshift(0x52, rounds); }
NOINLINE void hash(uint64_t rounds) { sink += xorshift(0x53, rounds); }

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    uint64_t rounds = strtoull(argv[1], NULL, 10), work[3];
    for (int i = 0; i < 3; i++) work[i] = strtoull(argv[i + 2], NULL, 10) * 1000000 / rounds;
    for (uint64_t i = 0; i < rounds; i++) {
        multiply(work[0]);
        sort(work[1]);
        hash(work[2]);
        KEEP_FRAME();
    }
    return 0;
}
