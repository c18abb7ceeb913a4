// Two versions of a program: ROUNDS rounds through eight functions, each with four fifths of the work of the one before. In
// the second version one of them has more work.
// usage: versions ROUNDS [FUNCTION PERCENT]
#include "common.h"

static volatile uint64_t sink;
static uint64_t percent_of[8] = {100, 100, 100, 100, 100, 100, 100, 100};

#define FUNCTION(n) \
    NOINLINE void version_##n(uint64_t rounds) { sink += xorshift(0x40 + n, rounds * percent_of[n] / 100); }
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7)

NOINLINE void one_round(uint64_t unit) {
    version_0(unit);
    version_1(unit * 80 / 100);
    version_2(unit * 64 / 100);
    version_3(unit * 51 / 100);
    version_4(unit * 41 / 100);
    version_5(unit * 33 / 100);
    version_6(unit * 26 / 100);
    version_7(unit * 21 / 100);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    if (argc > 3) percent_of[atoi(argv[2]) & 7] = strtoull(argv[3], NULL, 10);
    uint64_t chance = 88172645463325252u;
    for (uint64_t i = 0; i < rounds; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        one_round(100000 + (chance >> 32) % 100000);
    }
    return 0;
}
