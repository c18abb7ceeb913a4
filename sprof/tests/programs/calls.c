// Calls for tools that count: plain ones, recursion, two functions that call each other, memory that is kept and memory that is freed.
// usage: calls SCALE
#include <stdlib.h>

volatile unsigned long sink;
void *volatile kept[16];

__attribute__((noinline)) void leaf(int rounds) {
    for (int i = 0; i < rounds; i++) sink += i; // leaf-loop
}

__attribute__((noinline)) int fib(int n) {
    leaf(10);
    if (n < 2) return n;
    return fib(n - 1) + fib(n - 2);
}

void odd(int n);

__attribute__((noinline)) void even(int n) {
    leaf(20);
    if (n) odd(n - 1);
    sink++;
}

__attribute__((noinline)) void odd(int n) {
    leaf(5);
    if (n) even(n - 1);
    sink++;
}

__attribute__((noinline)) void scaled(int scale) {
    for (int i = 0; i < 1000 * scale; i++) sink += i;
}

__attribute__((noinline)) void keep(void) {
    for (int i = 0; i < 3; i++) kept[i] = malloc(1000);
}

__attribute__((noinline)) void churn(void) {
    for (int i = 0; i < 50; i++) {
        kept[15] = malloc(200);
        free(kept[15]);
    }
}

int main(int argc, char **argv) {
    fib(12);
    even(9);
    leaf(100);
    scaled(argc > 1 ? atoi(argv[1]) : 1);
    keep();
    churn();
    return 0;
}
