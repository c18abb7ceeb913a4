// Stacks of a known size.
// usage: deep spin STACK_KB CPU_MS      recursion of that size, then all the time in `deep_leaf`
//        deep updown STACK_KB CPU_MS    recursion that keeps going down and up, working at every level
//        deep cleared STACK_KB CPU_MS   work in a frame of that size, whose memory is zero soon after
//        deep turns STACK_KB CPU_MS TURN_US
//                                       recursion of that size, by way of `left` and of `right` by turns
//        deep rests STACK_KB WAITS      the same by way of `left_rest` and `right_rest`, to wait for 1 ms each time
#include "common.h"
#include <string.h>
#include <sys/resource.h>
#include <pthread.h>
#include <unistd.h>

// One frame of `descend` is this array and a few saved registers: about 256 bytes.
#ifndef FRAME_BYTES
#define FRAME_BYTES 200
#endif

static volatile uint64_t sink;
static uint64_t end_ns;
static uint64_t turn_ns;

NOINLINE void deep_leaf(void) {
    while (thread_cpu_ns() < end_ns) sink += xorshift(1, 2000000);
    KEEP_FRAME();
}

NOINLINE uint64_t descend(char *stack_top, uint64_t stack_bytes) {
    volatile char frame[FRAME_BYTES];
    frame[0] = 1;
    frame[FRAME_BYTES - 1] = 2;
    if ((uint64_t)(stack_top - (char *)__builtin_frame_address(0)) < stack_bytes)
        descend(stack_top, stack_bytes);
    else
        deep_leaf();
    return (uint64_t)frame[0] + (uint64_t)frame[FRAME_BYTES - 1];
}

NOINLINE uint64_t down_and_up(char *stack_top, uint64_t stack_bytes) {
    volatile char frame[FRAME_BYTES];
    frame[0] = 1;
    sink += xorshift(2, 3000);
    if ((uint64_t)(stack_top - (char *)__builtin_frame_address(0)) < stack_bytes)
        down_and_up(stack_top, stack_bytes);
    sink += xorshift(3, 3000);
    return (uint64_t)frame[0];
}

NOINLINE void spin_deep(uint64_t stack_bytes) {
    char here;
    sink += descend(&here, stack_bytes);
    KEEP_FRAME();
}

NOINLINE void wander(uint64_t stack_bytes) {
    char here;
    while (thread_cpu_ns() < end_ns) sink += down_and_up(&here, stack_bytes);
    KEEP_FRAME();
}

NOINLINE void large_frame(uint64_t stack_bytes) {
    volatile char *frame = __builtin_alloca(stack_bytes);
    frame[0] = 1;
    sink += xorshift(4, 4000000) + (uint64_t)frame[0];
    KEEP_FRAME();
}

// Puts the return address of `large_frame` among what `clear` overwrites.
NOINLINE void below(uint64_t stack_bytes) {
    volatile char frame[1024];
    frame[0] = 1;
    large_frame(stack_bytes);
    sink += (uint64_t)frame[0];
}

NOINLINE void clear(uint64_t stack_bytes) {
    char *frame = __builtin_alloca(stack_bytes + 4096);
    memset(frame, 0, stack_bytes + 4096);
    __asm__ volatile("" : : "r"(frame) : "memory");
    usleep(20000);
    KEEP_FRAME();
}

NOINLINE void work_and_clear(uint64_t stack_bytes) {
    while (thread_cpu_ns() < end_ns) {
        below(stack_bytes);
        clear(stack_bytes);
    }
}

NOINLINE void left_leaf(uint64_t until_ns) {
    while (thread_cpu_ns() < until_ns) sink += xorshift(5, 5000);
    KEEP_FRAME();
}

NOINLINE void right_leaf(uint64_t until_ns) {
    while (thread_cpu_ns() < until_ns) sink += xorshift(6, 5000);
    KEEP_FRAME();
}

NOINLINE void rest(uint64_t us) {
    usleep((useconds_t)us);
    KEEP_FRAME();
}

NOINLINE void go_down(char *stack_top, uint64_t stack_bytes, void (*leaf)(uint64_t), uint64_t argument) {
    volatile char frame[FRAME_BYTES];
    frame[0] = 1;
    if ((uint64_t)(stack_top - (char *)__builtin_frame_address(0)) < stack_bytes)
        go_down(stack_top, stack_bytes, leaf, argument);
    else
        leaf(argument);
    sink += (uint64_t)frame[0];
}

NOINLINE void left(uint64_t stack_bytes) {
    char here;
    go_down(&here, stack_bytes, left_leaf, thread_cpu_ns() + turn_ns);
    KEEP_FRAME();
}

NOINLINE void right(uint64_t stack_bytes) {
    char here;
    go_down(&here, stack_bytes, right_leaf, thread_cpu_ns() + turn_ns);
    KEEP_FRAME();
}

NOINLINE void take_turns(uint64_t stack_bytes) {
    while (thread_cpu_ns() < end_ns) {
        left(stack_bytes);
        right(stack_bytes);
    }
}

NOINLINE void left_rest(uint64_t stack_bytes) {
    char here;
    go_down(&here, stack_bytes, rest, 1000);
    KEEP_FRAME();
}

NOINLINE void right_rest(uint64_t stack_bytes) {
    char here;
    // Not the same number: the compiler would make one function of two.
    go_down(&here, stack_bytes, rest, 1001);
    KEEP_FRAME();
}

NOINLINE void rest_in_turns(uint64_t stack_bytes, uint64_t waits) {
    for (uint64_t at = 0; at < waits; at++) {
        if (at % 2) left_rest(stack_bytes);
        else right_rest(stack_bytes);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    uint64_t stack_bytes = strtoull(argv[2], NULL, 10) * 1024;
    end_ns = strtoull(argv[3], NULL, 10) * 1000000u;
    if (argc > 4) turn_ns = strtoull(argv[4], NULL, 10) * 1000u;
    if (strcmp(argv[1], "spin") == 0) spin_deep(stack_bytes);
    else if (strcmp(argv[1], "cleared") == 0) work_and_clear(stack_bytes);
    else if (strcmp(argv[1], "turns") == 0) take_turns(stack_bytes);
    else if (strcmp(argv[1], "rests") == 0) rest_in_turns(stack_bytes, strtoull(argv[3], NULL, 10));
    else wander(stack_bytes);
    print_cpu_time();
    return 0;
}
