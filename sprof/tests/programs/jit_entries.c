// Generated code that is mostly entered and left: a loop calls a function that makes its frame and does next to nothing.
//
// Until the frame is made, the frame pointer is still the caller's, and after it is gone, too: one who goes by it alone there
// takes the caller's caller for the caller. Each stack is main, run, outer, inner.
// On aarch64 a frame record need not lie next to the caller's frame. With `bottom`, `outer` keeps registers in between.
// usage: jit_entries CPU_MS [bottom]
#include "common.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
// push %rbp; mov %rsp,%rbp; push %rbx; sub $8,%rsp; mov %rdi,%rbx; 1: call *%rsi; dec %rbx; jnz 1b; add $8,%rsp;
// pop %rbx; pop %rbp; ret
static const uint8_t OUTER[] = {0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xfb, 0xff, 0xd6,
                                0x48, 0xff, 0xcb, 0x75, 0xf9, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3};
// endbr64; push %rbp; mov %rsp,%rbp; mov (%rsp),%rax; pop %rbp; ret
static const uint8_t INNER[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x04, 0x24, 0x5d, 0xc3};
#elif defined(__aarch64__)
// stp x29,x30,[sp,#-16]!; mov x29,sp; stp x19,x20,[sp,#-16]!; mov x19,x0; mov x20,x1; 1: blr x20; subs x19,x19,#1; b.ne 1b;
// ldp x19,x20,[sp],#16; ldp x29,x30,[sp],#16; ret
static const uint32_t OUTER[] = {0xa9bf7bfd, 0x910003fd, 0xa9bf53f3, 0xaa0003f3, 0xaa0103f4, 0xd63f0280,
                                 0xf1000673, 0x54ffffc1, 0xa8c153f3, 0xa8c17bfd, 0xd65f03c0};
// stp x29,x30,[sp,#-32]!; mov x29,sp; stp x19,x20,[sp,#16]; the same loop; ldp x19,x20,[sp,#16]; ldp x29,x30,[sp],#32; ret
static const uint32_t BOTTOM[] = {0xa9be7bfd, 0x910003fd, 0xa90153f3, 0xaa0003f3, 0xaa0103f4, 0xd63f0280,
                                  0xf1000673, 0x54ffffc1, 0xa94153f3, 0xa8c27bfd, 0xd65f03c0};
// bti c; sub sp,sp,#32; stp x29,x30,[sp,#16]; add x29,sp,#16; ldp x29,x30,[sp,#16]; add sp,sp,#32; ret
static const uint32_t INNER[] = {0xd503245f, 0xd10083ff, 0xa9017bfd, 0x910043fd, 0xa9417bfd, 0x910083ff, 0xd65f03c0};
#else
#error "no code for this processor"
#endif

#define INNER_AT 256

typedef void (*generated)(uint64_t times, void *inner);

NOINLINE void run(generated outer, void *inner, uint64_t until_ns) {
    while (thread_cpu_ns() < until_ns) outer(100000, inner);
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 3;
    memcpy(memory, OUTER, sizeof OUTER);
#if defined(__aarch64__)
    if (argc > 2) memcpy(memory, BOTTOM, sizeof BOTTOM);
#endif
    memcpy(memory + INNER_AT, INNER, sizeof INNER);
    __builtin___clear_cache((char *)memory, (char *)memory + 4096);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    if (!map) return 4;
    fprintf(map, "%llx %zx outer\n", (unsigned long long)(uintptr_t)memory, sizeof OUTER);
    fprintf(map, "%llx %zx inner\n", (unsigned long long)(uintptr_t)memory + INNER_AT, sizeof INNER);
    fclose(map);
    run((generated)(void *)memory, memory + INNER_AT, thread_cpu_ns() + strtoull(argv[1], NULL, 10) * 1000000u);
    print_cpu_time();
    return 0;
}
