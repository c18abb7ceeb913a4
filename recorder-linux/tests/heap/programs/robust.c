// What programs do with malloc, and what could break if another library stands before it. The output is the same each time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static pthread_key_t key;
static volatile int hits;
static sigjmp_buf out;

static void check(const char *what, int is_right) { printf("%s: %s\n", what, is_right ? "ok" : "WRONG"); }

static int is_aligned(void *block, size_t alignment) { return block && (uintptr_t)block % alignment == 0; }

static void sizes(void) {
    void *volatile block;
    volatile size_t huge = SIZE_MAX, half = (size_t)1 << 63, many = (size_t)1 << 33;
    free(NULL);
    free(malloc(0));
    block = realloc(realloc(NULL, 100), 0);
    free(block);
    errno = 0, block = malloc(huge);
    check("malloc(SIZE_MAX)", !block && errno == ENOMEM);
    errno = 0, block = malloc(half);
    check("malloc(2^63)", !block && errno == ENOMEM);
    errno = 0, block = calloc(many, many);
    check("calloc overflow", !block && errno == ENOMEM);
    errno = 0, block = reallocarray(NULL, many, many);
    check("reallocarray overflow", !block && errno == ENOMEM);
    char *text = malloc(1 << 20);
    strcpy(text, "kept");
    errno = 0, block = realloc(text, huge - 100);
    check("realloc(2^64 - 101)", !block && errno == ENOMEM && !strcmp(text, "kept"));
    errno = 5;
    for (int i = 1; i < 200; i++) {
        text = realloc(text, 10 + i * 9973 % 100000);
        if (strcmp(text, "kept")) puts("WRONG contents");
    }
    check("errno", errno == 5);
    free(text);
    for (int i = 4; i < 16; i++) {
        size_t alignment = (size_t)1 << i;
        void *stored = NULL, *aligned = aligned_alloc(alignment, 3 << 15), *old = memalign(alignment, 300000);
        int error = posix_memalign(&stored, alignment, 300000);
        if (error || !is_aligned(stored, alignment) || !is_aligned(aligned, alignment) || !is_aligned(old, alignment))
            puts("WRONG alignment");
        free(aligned), free(old), free(stored);
    }
    void *stored = (void *)7;
    check("posix_memalign(3)", posix_memalign(&stored, 3, 100) == EINVAL && stored == (void *)7);
    block = valloc(1000);
    check("valloc", is_aligned(block, getpagesize()));
    free(block);
    check("malloc_usable_size", malloc_usable_size(block = malloc(1000)) >= 1000);
    free(block);
}

static void destructor(void *block) {
    free(block);
    free(malloc(777));
}

static void *thread(void *argument) {
    void *blocks[50];
    pthread_setspecific(key, malloc(1000));
    for (int i = 0; i < 50; i++) blocks[i] = malloc(100 + i * 331);
    for (int i = 0; i < 50; i++) free(blocks[i]);
    return argument;
}

static void threads(void) {
    pthread_t threads[200];
    long sum = 0;
    pthread_key_create(&key, destructor);
    for (int round = 0; round < 3; round++) {
        for (long i = 0; i < 200; i++)
            if (pthread_create(&threads[i], NULL, thread, (void *)i)) puts("WRONG thread");
        for (int i = 0; i < 200; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (long)result;
        }
    }
    printf("threads: %ld\n", sum);
}

static void libraries(void) {
    for (int i = 0; i < 20; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library) {
            double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
            if (cosine(0) != 1) puts("WRONG cos");
            dlclose(library);
        }
    }
    dlsym(RTLD_DEFAULT, "no_such_function");
    check("dlerror", dlerror() != NULL);
}

static int finish(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

static void processes(void) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) memset(blocks[i] = malloc(1 << 18), i, 1 << 18);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 64; k++) free(blocks[k]);
            for (int k = 0; k < 100; k++) free(memset(malloc(300000), 1, 300000));
            pthread_t other;
            void *result;
            pthread_create(&other, NULL, thread, (void *)9L);
            pthread_join(other, &result);
            exit(3 + (result != (void *)9L));
        }
        printf("fork: %d\n", finish(child));
    }
    for (int i = 0; i < 64; i++) free(blocks[i]);
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 4", NULL);
        _exit(9);
    }
    printf("vfork: %d\n", finish(child));
    char *arguments[] = {"sh", "-c", "exit 5", NULL};
    posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ);
    printf("posix_spawn: %d\n", finish(child));
    printf("system: %d\n", WEXITSTATUS(system("exit 6")));
    // All descriptors are the program's.
    for (int i = 3; i < 100; i++) close(i);
    check("open", open_memstream(&(char *){0}, &(size_t){0}) != NULL && dup(0) == 3);
    close(3);
}

static void on_usr1(int signal) {
    (void)signal;
    free(memset(malloc(200000), 1, 200000));
    hits++;
}

static void on_alarm(int signal) {
    (void)signal;
    if (++hits % 3 == 0) siglongjmp(out, 1);
}

static void signals(void) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    printf("handlers: %d\n", hits);
    hits = 0;
    signal(SIGALRM, on_alarm);
    struct itimerval timer = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    sigsetjmp(out, 1);
    while (hits < 60) {}
    setitimer(ITIMER_REAL, &off, NULL);
    puts("jumps: ok");
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 1000);
    sizes();
    threads();
    libraries();
    processes();
    signals();
    printf("arguments: %d %s\n", argc, argc > 1 ? argv[1] : "");
    return 7;
}
