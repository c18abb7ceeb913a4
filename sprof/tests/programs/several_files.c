// Functions whose lines come from several files: by #include inside of the function, as in interpreters, and by #line, as yacc writes it.
#include <stdlib.h>

volatile unsigned long sink;

__attribute__((noinline)) static unsigned long interpret(unsigned long rounds, unsigned long sum) {
#include "several_files_first.h"
#include "several_files_second.h"
    return sum;
}

static inline __attribute__((always_inline)) unsigned long inlined(unsigned long rounds, unsigned long sum) {
#include "several_files_first.h"
#include "several_files_second.h"
    return sum;
}

__attribute__((noinline)) static unsigned long outer(unsigned long rounds, unsigned long sum) {
    return inlined(rounds, sum) + 1;
}

__attribute__((noinline)) static unsigned long parse(unsigned long rounds, unsigned long sum) {
    for (unsigned long round = 0; round < rounds; round++) {
        sum += round * 3;
#line 70 "grammar.y"
        sum ^= sum >> 7;
        sum -= round * 5;
#line 80 "grammar.y"
        sum ^= sum << 3;
#line 33 "several_files.c"
    }
    return sum;
}

int main(void) {
    for (int run = 0; run < 100; run++) {
        sink += interpret(500000, sink) + outer(500000, sink) + parse(500000, sink);
    }
}
