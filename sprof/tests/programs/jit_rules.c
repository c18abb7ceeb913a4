// Two generated functions without frame pointers call back into C, and a jitdump has unwind rules for them (or has not).
//
// They push three registers, keep junk in the frame pointer and go on in a loop after the call: neither a frame pointer nor
// the code that follows says where their caller is. Each stack is main, run, outer, middle, inner, leaf.
// usage: jit_rules CPU_MS DUMP_FOLDER rules|bare
#include "common.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "no code for this processor"
#endif

// 0 push %rbx; 1 push %rbp; 2 push %r12; 4 sub $0x20,%rsp; 8 mov %rdi,%rbx; 11 mov %rsi,%r12; 14 mov $0x2f,%ebp;
// 19 1: call *%rbx; 21 dec %r12; 24 jnz 1b; 26 add $0x20,%rsp; 30 pop %r12; 32 pop %rbp; 33 pop %rbx; 34 ret
static const uint8_t CODE[] = {0x53, 0x55, 0x41, 0x54, 0x48, 0x83, 0xec, 0x20, 0x48, 0x89, 0xfb, 0x49,
                               0x89, 0xf4, 0xbd, 0x2f, 0x00, 0x00, 0x00, 0xff, 0xd3, 0x49, 0xff, 0xcc,
                               0x75, 0xf9, 0x48, 0x83, 0xc4, 0x20, 0x41, 0x5c, 0x5d, 0x5b, 0xc3};
// Where perf puts the rules: behind the code, at a multiple of 8.
#define RULES_AT 40

// DW_CFA_def_cfa_offset, DW_CFA_offset, DW_CFA_advance_loc.
#define CFA(bytes) 0x0e, bytes
#define SAVED(reg, words) 0x80 | reg, words
#define AFTER(bytes) 0x40 | bytes

static const uint8_t RULES[] = {
    // CIE: 20 bytes, id 0, version 1, "zR", code 1, data -8, return address 16, pc-relative sdata4; CFA = rsp + 8.
    20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, SAVED(16, 1), 0, 0,
    // FDE: 44 bytes, 28 bytes after its CIE; the code starts RULES_AT + 32 bytes before this field.
    44, 0, 0, 0, 28, 0, 0, 0, 0xb8, 0xff, 0xff, 0xff, sizeof CODE, 0, 0, 0, 0,
    // push %rbx (3), %rbp (6), %r12; sub $0x20,%rsp
    AFTER(1), CFA(16), SAVED(3, 2), AFTER(1), CFA(24), SAVED(6, 3), AFTER(2), CFA(32), SAVED(12, 4), AFTER(4), CFA(64),
    // add $0x20,%rsp; pops
    AFTER(22), CFA(32), AFTER(2), CFA(24), AFTER(1), CFA(16), AFTER(1), CFA(8), 0,
    // The end.
    0, 0, 0, 0};

static FILE *dump;
static uint8_t *memory;

static void record(uint32_t kind, uint32_t size) {
    uint32_t head[] = {kind, 16 + size};
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    fwrite(head, sizeof head, 1, dump);
    fwrite(&now, sizeof now, 1, dump);
}

static void made(int slot, const char *name, int with_rules) {
    uint64_t address = (uint64_t)(memory + 256 * slot);
    memcpy(memory + 256 * slot, CODE, sizeof CODE);
    if (with_rules) {
        // perf wants an .eh_frame_hdr behind them; here it is empty.
        static const uint8_t header[20] = {1, 0xff, 0xff, 0xff};
        uint64_t sizes[] = {sizeof RULES + sizeof header, sizeof header, 0};
        record(4, sizeof sizes + sizeof RULES + sizeof header);
        fwrite(sizes, sizeof sizes, 1, dump);
        fwrite(RULES, sizeof RULES, 1, dump);
        fwrite(header, sizeof header, 1, dump);
    }
    uint64_t ids[] = {(uint32_t)getpid() | (uint64_t)getpid() << 32, address, address, sizeof CODE, (uint64_t)slot};
    record(0, sizeof ids + strlen(name) + 1 + sizeof CODE);
    fwrite(ids, sizeof ids, 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(CODE, sizeof CODE, 1, dump);
    fflush(dump);
}

typedef void (*generated)(void (*callback)(void), uint64_t times);

static volatile uint64_t sink;
static uint64_t until_ns;

NOINLINE void leaf(void) {
    sink += xorshift(5, 20000);
    KEEP_FRAME();
}

NOINLINE void middle(void) {
    ((generated)(memory + 256))(leaf, 10);
    KEEP_FRAME();
}

NOINLINE void run(void) {
    while (thread_cpu_ns() < until_ns) {
        ((generated)memory)(middle, 10);
        KEEP_FRAME();
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    until_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    int with_rules = strcmp(argv[3], "rules") == 0;
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", argv[2], getpid());
    dump = fopen(path, "w+");
    uint32_t head[] = {0x4A695444, 1, 40, 62, 0, (uint32_t)getpid()};
    uint64_t rest[] = {clock_ns(CLOCK_MONOTONIC), 0};
    fwrite(head, sizeof head, 1, dump);
    fwrite(rest, sizeof rest, 1, dump);
    fflush(dump);
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
    made(0, "outer", with_rules);
    made(1, "inner", with_rules);
    run();
    fclose(dump);
    print_cpu_time();
    return 0;
}
