// 200 threads that grow and shrink blocks, and pass them on: another thread gets the addresses at once.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile shared[64];

static void *work(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    for (int i = 0; i < 2000; i++) {
        void *block = __atomic_exchange_n(&shared[rand_r(&seed) % 64], NULL, __ATOMIC_ACQ_REL);
        block = realloc(block, 1 + rand_r(&seed) % 3000);
        free(__atomic_exchange_n(&shared[rand_r(&seed) % 64], block, __ATOMIC_ACQ_REL));
    }
    return argument;
}

int main(void) {
    // A sample, before there are threads: samples are lost while another thread connects to the recorder.
    free(*(void *volatile *)shared = malloc(1 << 22)), shared[0] = NULL;
    pthread_t threads[200];
    for (long i = 0; i < 200; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1))) return 1;
    for (int i = 0; i < 200; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++) free(shared[i]);
    puts("done");
    return 0;
}
