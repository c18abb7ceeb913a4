// A library (-DLIBRARY) whose constructor takes a block of 64 MiB by `malloc`, after it has started a thread if it has to
// (-DTHREAD), and a program that takes one of 1 MiB.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LIBRARY
void *volatile library_block;

#ifdef THREAD
static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;

static void *wait(void *argument) {
    pthread_mutex_lock(&never);
    return argument;
}
#endif

__attribute__((constructor)) static void start(void) {
#ifdef THREAD
    pthread_t thread;
    pthread_mutex_lock(&never);
    pthread_create(&thread, NULL, wait, NULL);
#endif
    library_block = malloc(64 << 20);
}
#else
extern void *volatile library_block;

int main(void) {
    void *volatile block = malloc(1 << 20);
    puts(library_block && block ? "done" : "none");
    return 5;
}
#endif
