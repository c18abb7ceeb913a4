// Sends sprof what no library sends, by the socket that the environment names, and then takes memory as usual.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address = {AF_UNIX};

static int connected(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        perror("connect");
    return fd;
}

static void hello(uint64_t *words, int memory) {
    int fd = connected();
    struct iovec bytes = {words, 64};
    char space[CMSG_SPACE(sizeof memory)] = {0};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (memory >= 0) {
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        struct cmsghdr *beside = CMSG_FIRSTHDR(&message);
        beside->cmsg_level = SOL_SOCKET;
        beside->cmsg_type = SCM_RIGHTS;
        beside->cmsg_len = CMSG_LEN(sizeof memory);
        memcpy(CMSG_DATA(beside), &memory, sizeof memory);
    }
    sendmsg(fd, &message, 0);
    close(fd);
}

// An allocator to be patched.
const char _mi_page_empty = 1;
__attribute__((noipa, used)) void *mi_malloc(size_t bytes) { return malloc(bytes + 1); }

int main(void) {
    const char *value = getenv("SPROF_HEAP_PRELOAD");
    uint64_t interval, stack, ring;
    if (value == NULL || sscanf(value, "%lu:%lu:%lu:%*u:%107s", &interval, &stack, &ring, address.sun_path) != 4)
        return 3;
    size_t length = 4096 + ring;
    // Connections without a word, and with the wrong one.
    for (int count = 0; count < 200; count++) {
        int fd = connected();
        if (count % 2)
            write(fd, "nonsense", 8);
        if (count % 3)
            close(fd);
    }
    // recorder-linux/src/heap/wire.rs. Questions with any addresses, and outcomes of any kind.
    uint64_t words[8] = {0}, state = 1;
    for (int count = 0; count < 400; count++) {
        memcpy(words, count % 2 ? "sprofhq\2" : "sprofho\2", 8);
        for (int at = 1; at < (count % 2 ? 6 : 2); at++) {
            state = state * 6364136223846793005 + 1442695040888963407;
            words[at] = state >> state % 64 & (count % 4 == 1 ? ~255l : ~0l);
        }
        hello(words, -1);
    }
    memset(words, 0, sizeof words);
    // Magic, machine and pid, length of a ring, refusal.
    memcpy(words, "sprofhp\2", 8);
#ifdef __aarch64__
    uint64_t machine = 183;
#else
    uint64_t machine = 62;
#endif
    words[1] = machine | (uint64_t)getpid() << 32;
    words[2] = ring;
    // Without memory, with a file instead, with memory that can still shrink.
    hello(words, -1);
    hello(words, open("/dev/zero", O_RDWR));
    int open_memory = memfd_create("heap", MFD_ALLOW_SEALING);
    ftruncate(open_memory, length);
    hello(words, open_memory);
    ftruncate(open_memory, 0);
    // Of another size.
    words[2] = ring * 2;
    hello(words, open_memory);
    words[2] = ring;
    // Right, and full of nonsense that changes while it is read.
    int memory = memfd_create("heap", MFD_ALLOW_SEALING);
    ftruncate(memory, length);
    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    uint64_t *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    for (size_t at = 0; at < length / 8; at++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        mapped[at] = at % 3 ? state >> 33 : state % 4096;
    }
    memcpy(mapped, "sprofhp\2", 8);
    // Each record looks whole.
    for (size_t at = 0; at < ring; at += 64)
        mapped[(4096 + at) / 8] = ~(uint64_t)at;
    mapped[8] = ring;
    // And once more: it has one ring, however often it comes.
    for (int count = 0; count < 100; count++)
        hello(words, memory);
    for (int round = 0; round < 40; round++) {
        for (size_t at = 512; at < length / 8; at += 8) {
            state = state * 6364136223846793005 + 1442695040888963407;
            mapped[at + 1] = (state >> 60) * 64 | (state % 12) << 32;
            mapped[at + 2] = (uint64_t)getpid() | (state % 65536) << 32;
            mapped[at + 3] = state >> 30;
        }
        mapped[8] = mapped[9] + ring;
        usleep(5000);
    }
    for (int count = 0; count < 4000; count++) {
        volatile char *block = malloc(100000);
        block[0] = 1;
        free((char *)block);
    }
    puts("done");
    return 5;
}
