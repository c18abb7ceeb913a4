// throws ROUNDS: `operator new` throws, and the caller goes on with what it had in registers. Prints the sum.
#include <cstdio>
#include <cstdlib>
#include <new>

void *volatile block;

__attribute__((noinline)) static long attempt(long a, long b, long c, long d, long e, long f) {
    try {
        block = operator new(1ul << 60);
        return 0;
    } catch (const std::bad_alloc &) {
        return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f;
    }
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1, sum = 0;
    for (long i = 0; i < rounds; i++)
        sum += attempt(i, i + 1, i + 2, i + 3, i + 4, i + 5);
    std::printf("%ld\n", sum);
}
