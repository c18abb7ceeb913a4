// Writes machine code into memory and runs it, as JIT compilers do, and tells of it in a jitdump file or a perf map.
//
// In the first half of the time `mover` has 60 % and `stayer` 40 %. Then `mover` is moved, and `replacement`, which takes its
// place, has the 40 %. So of the whole, `mover` has 60 %, the others 20 % each; one who does not know the time of the
// move gives the samples before it at the old place to `replacement`.
// usage: jit CPU_MS rwx|dual DUMP_FOLDER|map|none
#include "common.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
// push %rbp; mov %rsp,%rbp; mov %rdi,%rax; 1: imul $31,%rax,%rax; inc %rax; dec %rdi; jnz 1b; pop %rbp; ret
static const uint8_t CODE[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x6b, 0xc0, 0x1f, 0x48,
                               0xff, 0xc0, 0x48, 0xff, 0xcf, 0x75, 0xf4, 0x5d, 0xc3};
#define LOOP 7
#define MACHINE 62
#elif defined(__aarch64__)
// stp x29,x30,[sp,#-16]!; mov x29,sp; mov x1,x0; mov x2,#31; 1: madd x1,x1,x2,x1; subs x0,x0,#1; b.ne 1b;
// ldp x29,x30,[sp],#16; ret
static const uint32_t CODE[] = {0xa9bf7bfd, 0x910003fd, 0xaa0003e1, 0xd28003e2, 0x9b020421,
                                0xf1000400, 0x54ffffc1, 0xa8c17bfd, 0xd65f03c0};
#define LOOP 16
#define MACHINE 183
#else
#error "no code for this processor"
#endif

#define SLOT 4096
static uint8_t *writable, *executable;
static FILE *dump, *map;

static void record(uint32_t kind, uint32_t size) {
    uint32_t head[] = {kind, 16 + size};
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    fwrite(head, sizeof head, 1, dump);
    fwrite(&now, sizeof now, 1, dump);
}

static void told(uint64_t index, int slot, const char *name, uint32_t line) {
    uint64_t address = (uint64_t)(executable + slot * SLOT);
    if (map) {
        fprintf(map, "%llx %zx %s\n", (unsigned long long)address, sizeof CODE, name);
        fflush(map);
    }
    if (!dump) return;
    static const char file[] = "/generated/source.txt";
    uint64_t lines[] = {address, 2, address, line};
    record(2, sizeof lines + sizeof file + 16 + 2);
    fwrite(lines, sizeof lines, 1, dump);
    fwrite(file, sizeof file, 1, dump);
    uint64_t in_loop[] = {address + LOOP, line + 1};
    fwrite(in_loop, sizeof in_loop, 1, dump);
    fwrite("\xff", 2, 1, dump);
    uint64_t ids[] = {(uint32_t)getpid() | (uint64_t)getpid() << 32, address, address, sizeof CODE, index};
    record(0, sizeof ids + strlen(name) + 1 + sizeof CODE);
    fwrite(ids, sizeof ids, 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(CODE, sizeof CODE, 1, dump);
}

static void made(uint64_t index, int slot, const char *name, uint32_t line) {
    memcpy(writable + slot * SLOT, CODE, sizeof CODE);
    __builtin___clear_cache((char *)executable + slot * SLOT, (char *)executable + (slot + 1) * SLOT);
    told(index, slot, name, line);
}

static void moved(uint64_t index, int from, int to) {
    memcpy(writable + to * SLOT, CODE, sizeof CODE);
    __builtin___clear_cache((char *)executable + to * SLOT, (char *)executable + (to + 1) * SLOT);
    if (!dump) return;
    uint64_t old = (uint64_t)(executable + from * SLOT), new = (uint64_t)(executable + to * SLOT);
    uint64_t ids[] = {(uint32_t)getpid() | (uint64_t)getpid() << 32, new, old, new, sizeof CODE, index};
    record(1, sizeof ids);
    fwrite(ids, sizeof ids, 1, dump);
}

typedef uint64_t (*generated)(uint64_t rounds);

static volatile uint64_t sink;

NOINLINE void run_split(uint64_t until_ns, int sixty, int forty) {
    generated run_sixty = (generated)(executable + sixty * SLOT), run_forty = (generated)(executable + forty * SLOT);
    uint64_t chance = 88172645463325252u;
    while (thread_cpu_ns() < until_ns) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        uint64_t unit = 4000 + (chance >> 32) % 32000;
        sink += run_sixty(6 * unit);
        sink += run_forty(4 * unit);
    }
    KEEP_FRAME();
}

static void begin_dump(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", folder, getpid());
    dump = fopen(path, "w+");
    // What is told stays in memory until the end, as with V8 and CPython.
    setvbuf(dump, NULL, _IOFBF, 1 << 20);
    uint32_t head[] = {0x4A695444, 1, 40, MACHINE, 0, (uint32_t)getpid()};
    uint64_t rest[] = {clock_ns(CLOCK_MONOTONIC), 0};
    fwrite(head, sizeof head, 1, dump);
    fwrite(rest, sizeof rest, 1, dump);
    fflush(dump);
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    uint64_t cpu_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    if (strcmp(argv[2], "dual") == 0) {
        int memory = (int)syscall(SYS_memfd_create, "jit", 0);
        if (ftruncate(memory, 4 * SLOT)) return 3;
        writable = mmap(NULL, 4 * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        executable = mmap(NULL, 4 * SLOT, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
    } else {
        executable = mmap(NULL, 4 * SLOT, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        writable = executable;
    }
    if (strcmp(argv[3], "map") == 0) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        map = fopen(path, "w");
    } else if (strcmp(argv[3], "none") != 0) {
        begin_dump(argv[3]);
    }
    uint64_t start = thread_cpu_ns();
    made(1, 0, "mover", 10);
    made(2, 1, "stayer", 20);
    run_split(start + cpu_ns / 2, 0, 1);
    moved(1, 0, 2);
    // A perf map tells nothing of moves: there the function has a second entry.
    if (map) fprintf(map, "%llx %zx mover\n", (unsigned long long)(uintptr_t)(executable + 2 * SLOT), sizeof CODE);
    made(3, 0, "replacement", 30);
    run_split(start + cpu_ns, 2, 0);
    if (dump) fclose(dump);
    if (map) fclose(map);
    print_cpu_time();
    return 0;
}
