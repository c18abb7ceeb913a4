// Functions without a readable linkage name: inlined ones have none, and few demanglers read that of the generic lambda.
#include <cstdlib>

volatile unsigned long sink;

namespace {
struct Worker {
    static inline __attribute__((always_inline)) unsigned long step(unsigned long rounds) {
        unsigned long sum = rounds;
        for (unsigned long round = 0; round < rounds; round++) {
            sum = sum * 3 + round;
            sum ^= sum >> 7;
        }
        return sum;
    }
};
}  // namespace

namespace outside {
__attribute__((noinline)) unsigned long run(unsigned long rounds) {
    auto inner = [](unsigned long count) __attribute__((always_inline)) {
        unsigned long sum = count;
        for (unsigned long round = 0; round < count; round++) {
            sum = sum * 5 + round;
            sum ^= sum >> 9;
        }
        return sum;
    };
    return inner(rounds) + Worker::step(rounds);
}
}  // namespace outside

inline auto make() {
    return []<typename T>(T rounds) __attribute__((noinline)) {
        unsigned long sum = rounds;
        for (T round = 0; round < rounds; round++) {
            sum = sum * 7 + round;
            sum ^= sum >> 5;
        }
        return sum;
    };
}

int main() {
    // The compiler knows no result.
    volatile unsigned long rounds = 500000;
    auto generic = make();
    for (int run = 0; run < 100; run++) {
        sink += outside::run(rounds) + generic(static_cast<unsigned long>(rounds));
    }
}
