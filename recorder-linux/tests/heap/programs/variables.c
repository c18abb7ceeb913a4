// Variables of threads: each thread has them as their initializers say, aligned, and keeps its own. Blocks: 1,000 of 2,000
// bytes in each of 20 threads.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef ALIGNMENT
#define ALIGNMENT 8
#endif

static int target = 7;
static __thread int *pointer = &target;
static __thread _Alignas(ALIGNMENT) int first = 11;
static __thread char text[] = "text";
static __thread _Alignas(ALIGNMENT) int zero;
static __thread char rest[33];

static int is_right(int extra) {
    for (int i = 0; i < 33; i++)
        if (rest[i]) return 0;
    return *pointer == 7 && first == 11 + extra && text[0] == 't' && text[4] == 0 && zero == extra &&
           (uintptr_t)&first % ALIGNMENT == 0 && (uintptr_t)&zero % ALIGNMENT == 0;
}

static void *work(void *argument) {
    int extra = (int)(intptr_t)argument;
    if (!is_right(0)) return NULL;
    first += extra, zero += extra;
    for (int i = 0; i < 1000; i++) free(malloc(2000));
    return is_right(extra) ? argument : NULL;
}

int main(void) {
    pthread_t threads[20];
    int right = work((void *)100L) != NULL;
    for (long i = 0; i < 20; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 20; i++) {
        void *result;
        pthread_join(threads[i], &result);
        right += result != NULL;
    }
    printf("%d right\n", right);
    return right != 21;
}
