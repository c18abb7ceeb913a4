// C++ names: namespaces, templates, overloads, operators, lambdas, an anonymous namespace.
// usage: names CPU_MS
#include "common.h"
#include <vector>

static volatile uint64_t sink;

namespace outer_space {
template <typename T> struct Holder {
    NOINLINE static uint64_t spin(T seed) { return xorshift((uint64_t)seed, 100000); }
};
NOINLINE uint64_t overloaded(int x) { return Holder<int>::spin(x) + 1; }
NOINLINE uint64_t overloaded(const std::vector<int> &x) { return Holder<long>::spin((long)x.size()) + 1; }
} // namespace outer_space

namespace {
NOINLINE uint64_t hidden(uint64_t x) { return xorshift(x, 100000); }
} // namespace

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint64_t cpu_ns = strtoull(argv[1], nullptr, 10) * 1000000u;
    std::vector<int> values(3);
    while (thread_cpu_ns() < cpu_ns) {
        sink += outer_space::overloaded(1);
        sink += outer_space::overloaded(values);
        sink += hidden(4);
    }
    print_cpu_time();
    return 0;
}
