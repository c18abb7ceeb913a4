// Time in a BPF program, which the kernel runs on request and which is unloaded before the end.
// usage: bpf CPU_MS; status 3 if this user may not load one
#include "common.h"
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ADDITIONS = 2000 };
static struct bpf_insn code[ADDITIONS + 2];

static int bpf(int command, union bpf_attr *attr) { return (int)syscall(SYS_bpf, command, attr, sizeof *attr); }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    // r0 = 0; r0 += 1, many times; return r0.
    code[0] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K};
    for (int i = 1; i <= ADDITIONS; i++) code[i] = (struct bpf_insn){.code = BPF_ALU64 | BPF_ADD | BPF_K, .imm = 1};
    code[ADDITIONS + 1] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    union bpf_attr load;
    memset(&load, 0, sizeof load);
    load.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    load.insns = (uintptr_t)code;
    load.insn_cnt = ADDITIONS + 2;
    load.license = (uintptr_t) "GPL";
    strcpy(load.prog_name, "additions");
    int program = bpf(BPF_PROG_LOAD, &load);
    if (program < 0) return 3;
    static char packet[64];
    uint64_t cpu_ns = strtoull(argv[1], NULL, 10) * 1000000u;
    while (thread_cpu_ns() < cpu_ns) {
        union bpf_attr run;
        memset(&run, 0, sizeof run);
        run.test.prog_fd = program;
        run.test.data_in = (uintptr_t)packet;
        run.test.data_size_in = sizeof packet;
        run.test.repeat = 1000;
        if (bpf(BPF_PROG_TEST_RUN, &run) != 0 || run.test.retval != ADDITIONS) return 4;
    }
    close(program);
    print_cpu_time();
    return 0;
}
