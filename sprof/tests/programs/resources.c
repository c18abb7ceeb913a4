// Runs short of a CPU, reads and writes a disk, and loses datagrams: each by a number that it prints.
//
// resources MS FILE [REST_MS]: two threads on one CPU for that long; FILE is written with O_DSYNC, read again from the
// disk, and removed. Then all sleep for REST_MS (500), in which others read the last of it.
#define _GNU_SOURCE
#include "common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAGES = 256, WRITES = 16, CHUNK = 65536, DATAGRAMS = 4000 };

static volatile int stop;
static pthread_barrier_t spun;
static int tids[2];

static void *spin(void *number) {
    tids[(intptr_t)number] = gettid();
    uint64_t x = 1;
    while (!stop) x = xorshift(x, 1000);
    pthread_barrier_wait(&spun);
    pause();
    return (void *)(uintptr_t)x;
}

// The second number of schedstat.
static uint64_t waited_ns(int tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    FILE *file = fopen(path, "r");
    unsigned long long cpu = 0, waited = 0;
    if (!file || fscanf(file, "%llu %llu", &cpu, &waited) != 2) exit(3);
    fclose(file);
    return waited;
}

static uint64_t written_bytes(void) {
    char text[512] = {0};
    int fd = open("/proc/self/io", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) exit(4);
    close(fd);
    return strtoull(strstr(text, "\nwrite_bytes: ") + 14, NULL, 10);
}

static void write_and_fault(const char *path) {
    static char chunk[CHUNK];
    memset(chunk, 1, sizeof chunk);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600);
    if (fd < 0) exit(5);
    for (int i = 0; i < WRITES; i++)
        if (write(fd, chunk, CHUNK) != CHUNK) exit(6);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    volatile char *map = mmap(NULL, PAGES * 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) exit(7);
    madvise((void *)map, PAGES * 4096, MADV_RANDOM);
    for (int page = 0; page < PAGES; page++) (void)map[page * 4096];
    munmap((void *)map, PAGES * 4096);
    close(fd);
    unlink(path);
}

// Sends datagrams to a socket that nobody reads, and then counts those that it had room for.
static int dropped(void) {
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0), bytes = 4096, room = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    setsockopt(in, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (bind(in, (struct sockaddr *)&address, length) || getsockname(in, (struct sockaddr *)&address, &length)) exit(8);
    char datagram[64] = {0};
    for (int i = 0; i < DATAGRAMS; i++)
        if (sendto(out, datagram, sizeof datagram, 0, (struct sockaddr *)&address, length) < 0) exit(9);
    while (recv(in, datagram, sizeof datagram, MSG_DONTWAIT) > 0) room++;
    return DATAGRAMS - room;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    uint64_t before = waited_ns(getpid());
    int lost = dropped();
    write_and_fault(words[2]);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_barrier_init(&spun, NULL, 3);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, spin, (void *)(intptr_t)i);
    usleep(atoi(words[1]) * 1000);
    stop = 1;
    pthread_barrier_wait(&spun);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    // The threads sleep from now on: their numbers stay.
    usleep((count > 3 ? atoi(words[3]) : 500) * 1000);
    uint64_t waited = waited_ns(getpid()) + waited_ns(tids[0]) + waited_ns(tids[1]);
    printf("waited_before_ns=%llu waited_ns=%llu written=%llu major_faults=%ld dropped=%d\n", (unsigned long long)before,
           (unsigned long long)waited,
           (unsigned long long)written_bytes(), usage.ru_majflt, lost);
    print_cpu_time();
    return 0;
}
