#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::displaced::Displaced;
use super::executable::{Executable, ReferenceKind};
use super::functions::known_functions;
use super::slot::{CONTINUATION, PatchSlot};
use super::{LeftOut, PatchAddresses, PatchPlan, PlacedWrite, SLOT_BYTES, linked_allocators};
use crate::heap::wire::{MESSAGE_WORDS, Outcome, PATCH_CODE_BYTES, Question, VARIABLE};
use crate::heap::{PRELOAD, patch_answers};

const AT: PatchAddresses = PatchAddresses {
    bias: 0x5555_5555_4000,
    code: 0x5555_5000_0000,
    countdown: -64,
    slow: 0x7fff_0000_1000,
    filter: 0x7fff_0000_2000,
};

/// A library made of assembly or C, with no other one.
fn build(source: &str, ending: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("allocator.{ending}"));
    fs::write(&path, source).unwrap();
    let library = folder.path().join("allocator.so");
    let mut cc = Command::new("cc");
    cc.args([
        "-O2",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-nostdlib",
        "-Wl,-Bsymbolic",
        "-o",
    ]);
    let output = cc.arg(&library).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(library).unwrap()
}

fn decode(code: &[u8], address: u64, count: usize) -> Vec<Instruction> {
    { Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter() }
        .take(count)
        .collect()
}

/// Asserts that code at the slot does what the function's first instructions do, and goes on behind them.
fn assert_same(function: &str, original: &[Instruction], moved: &[Instruction], bias: u64) {
    let (back, moved) = moved.split_last().unwrap();
    let end = original.last().unwrap().next_ip();
    assert_eq!(back.near_branch_target(), end + bias, "{function}");
    for (original, moved) in original.iter().zip(moved) {
        if original.op0_kind() == OpKind::NearBranch64 {
            assert_eq!(original.mnemonic(), moved.mnemonic(), "{function}");
            assert_eq!(
                original.near_branch_target() + bias,
                moved.near_branch_target(),
                "{function}"
            );
        } else if original.is_ip_rel_memory_operand() {
            let mut expected = *original;
            expected.set_memory_displacement64(original.ip_rel_memory_address() + bias);
            assert_eq!(expected, *moved, "{function}");
        } else {
            assert_eq!(original, moved, "{function}");
        }
    }
}

/// Libraries with an allocator that this system has: that of C always.
fn libraries() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc")));
    let folder = Path::new(libc.unwrap()).parent().unwrap();
    let mut libraries = vec![PathBuf::from(libc.unwrap())];
    let others = ["libmimalloc.so", "libjemalloc.so.2", "libtcmalloc_minimal.so.4"];
    libraries.extend(
        others
            .map(|name| folder.join(name))
            .into_iter()
            .filter(|path| path.exists()),
    );
    libraries
}

#[test]
fn displaced_instructions_do_the_same_in_a_slot_for_nearly_all_functions_of_real_libraries() {
    let function = known_functions()["mi_heap_recalloc"];
    for path in libraries() {
        let bytes = fs::read(&path).unwrap();
        let executable = Executable::read(bytes.as_slice()).unwrap();
        let (mut moved, mut all) = (0, 0);
        for entry in executable.function_starts() {
            all += 1;
            let Ok(displaced) = Displaced::new(&executable, entry) else {
                continue;
            };
            moved += 1;
            let name = format!("{path:?} {entry:#x}");
            let slot = PatchSlot::new(&function, function.call.unwrap(), &displaced, |_| None).expect(&name);
            let code = slot.place(0, &AT).expect(&name);
            let count = displaced.instructions.len();
            let original = decode(executable.code_from(displaced.start).unwrap(), displaced.start, count);
            assert!(displaced.end - displaced.start >= 5 && displaced.end == original.last().unwrap().next_ip());
            let continuation = decode(&code[CONTINUATION..], AT.code + CONTINUATION as u64, count + 1);
            assert_same(&name, &original, &continuation, AT.bias);
            // After the counting, before the padding (int3).
            let used = code[..CONTINUATION].iter().rposition(|byte| *byte != 0xcc).unwrap() + 1;
            let entry = decode(&code[..used], AT.code, SLOT_BYTES);
            assert_same(&name, &original, &entry[entry.len() - count - 1..], AT.bias);
            for (original, moved) in original.iter().zip(&continuation) {
                let offset = (moved.ip() - AT.code) as usize;
                assert_eq!(slot.original(offset), Some(original.ip()), "{name}");
            }
        }
        assert!(moved * 100 >= all * 85, "{path:?}: {moved} of {all}");
    }
}

/// Names of those that are not patched, and why.
fn left_out(plan: &PatchPlan) -> HashMap<&str, LeftOut> {
    { plan.left_out().iter() }
        .map(|(name, reason)| (name.as_str(), *reason))
        .collect()
}

/// What the writes do at the entries and at calls: address in the file, and where it leads to.
fn jumps(plan: &PatchPlan) -> Vec<(u64, u64)> {
    let placed = plan.place(&AT).unwrap();
    let jump = |PlacedWrite {
                    address,
                    content: bytes,
                    before,
                }: &PlacedWrite| {
        assert_eq!(bytes.len(), before.len());
        assert!(bytes.len() == 4 || (bytes.len() == 5 && bytes[0] == 0xe9));
        let end = address + bytes.len() as u64;
        let distance = i32::from_le_bytes(*bytes.last_chunk().unwrap());
        (address - AT.bias, end.wrapping_add_signed(distance.into()) - AT.code)
    };
    placed.writes.iter().map(jump).collect()
}

#[test]
fn functions_that_can_not_be_patched_are_named_with_the_reason() {
    let function = |name: &str, code: &str| {
        format!(".globl {name}\n.type {name}, @function\n.p2align 4\n{name}:\n{code}\n.size {name}, . - {name}\n")
    };
    let long = "movq %rdi, %rax\n movq %rsi, %rax\n ret";
    let mut source: String = [
        ("mi_malloc", "call other\n ret"),
        ("mi_zalloc", "ret"),
        ("mi_malloc_small", "movq %rdi, %rax\n movq %rsi, %rdx\n jne mi_malloc_small\n ret"),
        ("mi_zalloc_small", "movq %rdi, %rax\n 1: movq %rsi, %rax\n jmp 1b"),
        ("mi_calloc", "xorl %eax, %eax\n 1: loop 1b\n movq %rdi, %rax\n ret"),
        ("mi_new", "movq data(%rip), %rax\n ret"),
        ("mi_malloc_aligned", "endbr64\n movq %rdi, %rax\n jmp mi_new\n ret"),
        ("mi_strdup", long),
        ("mi_heap_destroy", long),
        ("mi_free", "call other\n ret"),
        ("mi_memalign", long),
        ("mi_valloc", "testq %rdi, %rdi\n je other\n movq %rdi, %rax\n ret"),
        ("into_memalign", "jmp mi_memalign + 3\n ret"),
        // What a `switch` in a loop and a computed goto make.
        (
            "mi_heap_malloc",
            "movq %rdi, %rax\n .Lcase: movq %rsi, %rdx\n leaq .Lcases(%rip), %rcx\n movslq (%rcx), %r8\n addq %rcx, %r8\n \
             jmp *%r8",
        ),
        ("mi_heap_zalloc", "movq %rdi, %rax\n .Llabel: movq %rsi, %rdx\n ret"),
        ("mi_heap_calloc", "movq %rdi, %rax\n .Lgoto: leaq .Lgoto(%rip), %rdx\n jmp *%rdx"),
        ("_Znwm", long),
        // A program.
        (
            "other",
            "call mi_strdup\n call mi_malloc\n call mi_zalloc\n call mi_calloc\n call mi_malloc_small\n call mi_zalloc_small\n\
             call mi_memalign\n call mi_heap_malloc\n call mi_heap_zalloc\n call mi_heap_calloc\n ret",
        ),
        ("mi_own", "call mi_heap_destroy\n call mi_free\n ret"),
    ]
    .map(|(name, code)| function(name, code))
    .concat();
    // These would refuse all of it, if anybody else called them.
    source.push_str(
        ".hidden mi_free\n .hidden mi_heap_destroy\n .data\n _mi_page_empty:\n data: .quad 0, .Llabel\n \
                     .section .rodata\n .p2align 3\n .ascii \"TEXTTEXT\"\n .Lcases: .long .Lcase - .Lcases\n \
                     .section .note.GNU-stack\n",
    );
    let mut bytes = build(&source, "s");
    let plan = PatchPlan::new(bytes.as_slice()).unwrap();
    assert_eq!(plan.allocators().collect::<Vec<_>>(), ["mimalloc"]);
    let expected = HashMap::from([
        ("mi_malloc", LeftOut::Call),
        ("mi_zalloc", LeftOut::Short),
        ("mi_malloc_small", LeftOut::ShortJump),
        ("mi_zalloc_small", LeftOut::Jump),
        ("mi_memalign", LeftOut::Jump),
        ("mi_heap_malloc", LeftOut::Jump),
        ("mi_heap_zalloc", LeftOut::Jump),
        ("mi_heap_calloc", LeftOut::Jump),
        ("mi_calloc", LeftOut::Immovable),
        ("mi_strdup", LeftOut::UnknownSize),
    ]);
    assert_eq!(left_out(&plan), expected);
    // mi_new, mi_malloc_aligned behind its endbr64, mi_valloc.
    assert_eq!((plan.entries(), plan.code_bytes()), (3, 3 * SLOT_BYTES));
    let jumps = jumps(&plan);
    assert_eq!(jumps.len(), 3, "{jumps:x?}");
    for (slot, (address, target)) in jumps.iter().enumerate() {
        assert_eq!(*target, (slot * SLOT_BYTES) as u64);
        assert_eq!(plan.original(*target), Some(*address));
    }
    assert_eq!(plan.original(plan.code_bytes() as u64), None);
    // A short text looks like an address behind the first one's start.
    let text = bytes.windows(8).position(|word| word == b"TEXTTEXT").unwrap();
    bytes[text..text + 8].copy_from_slice(&(plan.original(0).unwrap() + 3).to_le_bytes());
    assert_eq!(PatchPlan::new(bytes.as_slice()).unwrap().entries(), 3);
    // Its jump to another entry is among what is displaced.
    let code = plan.place(&AT).unwrap().code;
    let aligned = decode(
        &code[SLOT_BYTES + CONTINUATION..],
        AT.code + (SLOT_BYTES + CONTINUATION) as u64,
        2,
    );
    assert_eq!(aligned[1].near_branch_target(), AT.code + CONTINUATION as u64);
    let far = PatchAddresses {
        code: AT.code - (3 << 30),
        ..AT
    };
    assert!(plan.place(&far).is_none());
}

/// All blocks would look leaked.
#[test]
fn an_allocator_whose_free_can_not_be_patched_is_left_alone() {
    let function =
        |name: &str, code: &str| format!(".type {name}, @function\n{name}:\n{code}\n.size {name}, . - {name}\n");
    let long = "movq %rdi, %rax\n movq %rsi, %rax\n ret";
    let plan = |names: [&str; 2], other: &str| {
        let [malloc, free] = names;
        let code =
            [(malloc, long), (free, "call other\n ret"), ("other", other)].map(|(name, code)| function(name, code));
        let rest = ".data\n _mi_page_empty: .quad 0\n .section .note.GNU-stack\n";
        let source = format!(".globl malloc\n.globl free\n{}{rest}", code.concat());
        PatchPlan::new(build(&source, "s").as_slice()).unwrap()
    };
    for (names, other, called) in [
        (["mi_malloc", "mi_free"], "ret", false),
        (["mi_malloc", "mi_free"], "call mi_free\n ret", true),
        (
            ["mi_malloc", "mi_free"],
            "ret\n.data\n.p2align 3\n.quad mi_free\n.text",
            true,
        ),
        (["mi_malloc", "mi_realloc"], "jmp mi_realloc", true),
        // A library calls it.
        (["malloc", "free"], "ret", true),
    ] {
        let plan = plan(names, other);
        let refused = called.then(|| (names[1].to_owned(), LeftOut::Call));
        assert_eq!(
            (plan.is_empty(), plan.refused()),
            (called, refused.as_ref()),
            "{names:?} {other}"
        );
        assert_eq!((plan.left_out(), plan.allocators().count()), ([].as_slice(), 1));
    }
}

/// An allocator whose `mi_realloc` works by another function, and what else calls that function.
fn realloc_by_another_function(other: &str) -> PatchPlan {
    plan_with(other, 3)
}

fn plan_with(other: &str, entries: usize) -> PatchPlan {
    let source = "
        #define NOINLINE __attribute__((noinline, noclone))
        #define API __attribute__((visibility(\"default\"), noinline, noclone))
        const char _mi_page_empty = 1;
        static char memory[1 << 20], *end = memory;
        API void *mi_malloc(unsigned long size) { char *start = end; end += size + 16; return start; }
        API void mi_free(void *block) { *(void *volatile *)block = 0; }
        NOINLINE static void *work(void *block, unsigned long size) {
            void *new = mi_malloc(size * 2);
            mi_free(block);
            return *(char *)new ? 0 : new;
        }
        API void *mi_realloc(void *block, unsigned long size) {
            void *new = work(block, size ? size * 3 : 1);
            return *(char *)new ? new : block;
        }
    ";
    let plan = PatchPlan::new(build(&format!("{source}\n{other}"), "c").as_slice()).unwrap();
    assert_eq!((plan.entries(), plan.left_out()), (entries, [].as_slice()));
    plan
}

#[test]
fn entries_that_an_entry_calls_through_a_function_of_its_own_do_not_count() {
    let continuation_of_others = |plan: &PatchPlan| {
        let targets = jumps(plan).into_iter().map(|(_, target)| target as usize % SLOT_BYTES);
        targets.filter(|target| *target == CONTINUATION).count()
    };
    assert_eq!(continuation_of_others(&realloc_by_another_function("")), 2);
    let by_allocator = "API void *mi_other(void *p) { return (char *)work(p, 1) + 1; }";
    assert_eq!(continuation_of_others(&realloc_by_another_function(by_allocator)), 2);
    // The cold part of a function is jumped to anywhere.
    let cold = r#"asm(".globl mi_memalign\n .type mi_memalign, @function\n mi_memalign: movq %rdi, %rax\n"
        " movq %rsi, %rdx\n jmp mi_memalign.cold + 1\n .size mi_memalign, . - mi_memalign\n"
        ".type mi_memalign.cold, @function\n mi_memalign.cold: nop\n call mi_malloc\n ret\n"
        ".size mi_memalign.cold, . - mi_memalign.cold\n");"#;
    assert_eq!(continuation_of_others(&plan_with(cold, 4)), 3);
    // The function also works for others: their calls count.
    for other in [
        "API void *other(void *p) { return (char *)work(p, 1) + 1; }",
        "API void *(*const other)(void *, unsigned long) = work;",
        "API void *other(void *p) { return work; }",
    ] {
        assert_eq!(
            continuation_of_others(&realloc_by_another_function(other)),
            0,
            "{other}"
        );
    }
}

#[test]
fn nothing_in_real_programs_jumps_into_what_is_displaced() {
    for path in libraries() {
        let bytes = fs::read(&path).unwrap();
        let plan = PatchPlan::new(bytes.as_slice()).unwrap();
        let executable = Executable::read(bytes.as_slice()).unwrap();
        let ranges: Vec<_> = (0..plan.entries() as u64)
            .map(|slot| slot * SLOT_BYTES as u64)
            .map(|slot| plan.original(slot).unwrap()..plan.original(slot + CONTINUATION as u64 - 1).unwrap())
            .collect();
        assert!(ranges.len() > 5, "{path:?}");
        let functions = executable.function_starts();
        let jumps = functions.flat_map(|function| executable.references(function));
        for jump in jumps.filter(|jump| jump.kind != ReferenceKind::Address) {
            let inner = ranges
                .iter()
                .find(|range| range.contains(&jump.target) && range.start != jump.target);
            assert_eq!(inner, None, "{path:?}: {jump:x?}");
        }
        // Each write is of code.
        for (address, target) in self::jumps(&plan) {
            assert!(executable.code_from(address).is_some() && target < plan.code_bytes() as u64);
        }
    }
}

/// As programs have them that were written without an allocator in mind, and wrap that of libc.
#[test]
fn functions_of_a_program_with_names_of_an_allocator_are_left_alone() {
    let names = "
        #define API __attribute__((visibility(\"default\"), noinline, noclone))
        #define OWN __attribute__((noinline, noclone, used)) static
        void *realloc(void *, unsigned long);
    ";
    let take = |name: &str| format!("void *{name}(unsigned long size) {{ return realloc(0, size * 3 + size / 7); }}\n");
    let free = |name: &str| format!("void {name}(void *block) {{ *(void *volatile *)block = 0; }}\n");
    let found = |functions: [String; 3]| {
        let bytes = build(&format!("{names}{}", functions.concat()), "c");
        let plan = PatchPlan::new(bytes.as_slice()).unwrap();
        assert_eq!(plan.left_out(), []);
        (plan.entries(), linked_allocators(bytes.as_slice()).unwrap().len())
    };
    for prefix in ["tc_", "mi_", "je_", "_rjem_", "rp"] {
        let api = |name: &str| format!("API {}", take(&format!("{prefix}{name}")));
        assert_eq!(
            found([api("malloc"), api("valloc"), free(&format!("{prefix}free"))]),
            (0, 0),
            "{prefix}"
        );
    }
    let shim =
        "API void *reallocarray(void *block, unsigned long a, unsigned long b) { return realloc(block, a * b); }";
    let api = |function: String| format!("API {function}");
    let own = |function: String| format!("OWN {function}");
    assert_eq!(
        found([shim.to_owned(), own(take("valloc")), api(free("cfree"))]),
        (0, 0)
    );
    // That of libraries is not called.
    assert_eq!(found([api(take("malloc")), own(free("free")), shim.to_owned()]), (0, 1));
    assert_eq!(found([own(take("malloc")), own(free("free")), shim.to_owned()]), (0, 0));
    assert_eq!(
        found([api(take("malloc")), api(free("free")), own(take("valloc"))]),
        (2, 1)
    );
}

#[test]
fn a_malloc_that_goes_on_to_that_of_a_library_is_left_alone() {
    let forwards = "
        void *dlsym(void *, const char *);
        __attribute__((visibility(\"default\"))) void *malloc(unsigned long size) {
            static void *(*next)(unsigned long);
            if (!next)
                next = dlsym((void *)-1, NAME);
            return next(size);
        }
        __attribute__((visibility(\"default\"))) void free(void *block) { *(void *volatile *)block = 0; }
    ";
    let entries = |defined: &str| {
        let plan = PatchPlan::new(build(&format!("{defined}\n{forwards}"), "c").as_slice()).unwrap();
        plan.entries()
    };
    assert_eq!(entries("#define NAME \"malloc\""), 0);
    // A part of the family is a library's.
    let by_calloc = "
        #define API __attribute__((visibility(\"default\")))
        void *calloc(unsigned long, unsigned long);
        API void *malloc(unsigned long size) { return (char *)calloc(size, 1) + (size > 99); }
        API void free(void *block) { *(void *volatile *)block = 0; }
    ";
    assert!(PatchPlan::new(build(by_calloc, "c").as_slice()).unwrap().is_empty());
    // jemalloc looks for another function.
    assert_eq!(entries("#define NAME \"pthread_create\""), 2);
    // That of another allocator is its own.
    let other =
        "const char _mi_page_empty = 1; void *mi_malloc(unsigned long size) { return (void *)(size * 3 + size / 7); }";
    assert_eq!(entries(&format!("#define NAME \"malloc\"\n{other}")), 3);
}

/// Link-time optimization makes such files.
#[test]
fn an_allocator_that_is_a_part_of_other_functions_is_left_alone_and_named() {
    let function =
        |name: &str, code: &str| format!(".type {name}, @function\n{name}:\n{code}\n.size {name}, . - {name}\n");
    let long = "movq %rdi, %rax\n movq %rsi, %rax\n jmp _mi_malloc_generic.part.0";
    let rest = ".data\n _mi_page_empty: .quad 0\n .section .note.GNU-stack\n";
    for (caller, is_inlined) in [("mi_other", false), ("__libc_malloc", false), ("main", true)] {
        let code = [
            ("mi_malloc", long),
            ("mi_free", "movq %rdi, %rax\n movq %rsi, %rdx\n ret"),
            ("_mi_malloc_generic.part.0", "ret"),
            (caller, "call mi_free\n call _mi_malloc_generic.part.0\n ret"),
        ];
        let code = code.map(|(name, code)| function(name, code)).concat();
        let plan = PatchPlan::new(build(&format!("{code}{rest}"), "s").as_slice()).unwrap();
        let refused = is_inlined.then(|| ("_mi_malloc_generic.part.0".to_owned(), LeftOut::Inlined));
        assert_eq!(
            (plan.is_empty(), plan.refused()),
            (is_inlined, refused.as_ref()),
            "{caller}"
        );
    }
    // No function is left that has its name.
    let bytes = build(&format!("{}{rest}", function("main", "ret")), "s");
    assert!(PatchPlan::new(bytes.as_slice()).unwrap().is_empty());
    assert_eq!(
        Vec::from_iter(linked_allocators(bytes.as_slice()).unwrap()),
        ["mimalloc"]
    );
}

/// The loader changes it.
#[test]
fn code_with_relocations_is_left_alone() {
    let code = ".globl mi_malloc\n.type mi_malloc, @function\nmi_malloc: movabsq $data, %rax\n addq %rdi, %rax\n ret\n\
                .size mi_malloc, . - mi_malloc\n.data\n _mi_page_empty: data: .quad 0\n .section .note.GNU-stack\n";
    let entries = |code: &str| PatchPlan::new(build(code, "s").as_slice()).unwrap().entries();
    let without = code.replace("movabsq $data, %rax", "leaq data(%rip), %rax");
    assert_eq!([entries(code), entries(&without)], [0, 1]);
}

#[test]
fn a_file_that_makes_no_sense_has_no_plan_and_takes_little_time() {
    // Many allocators in one place, and functions that all reach to the end.
    let overlapping = |name: &str, count: usize| -> String {
        let one = |at| format!(".type {name}{at}, @function\n.size {name}{at}, 1048576\n{name}{at}:\nnop\n");
        (0..count).map(one).collect()
    };
    let calls: String = (0..2000).map(|at| format!("call f{at}\n")).collect();
    let code = format!(
        ".type mi_malloc, @function\n.size mi_malloc, 20000\nmi_malloc: movq %rdi, %rax\n movq %rsi, %rdx\n{calls}\n\
         {}.fill 1048576, 1, 0x90\n_mi_page_empty:\n.section .note.GNU-stack\n",
        overlapping("f", 2000)
    );
    let plan = PatchPlan::new(build(&code, "s").as_slice()).unwrap();
    assert!(plan.is_empty());
    // Code and functions at the end of all addresses.
    let source = ".globl mi_free\n.type mi_free, @function\nmi_free: movq %rdi, %rax\n movq %rsi, %rdx\n ret\n\
                  .size mi_free, 7\n_mi_page_empty:\n.section .note.GNU-stack\n";
    let bytes = build(source, "s");
    assert_eq!(PatchPlan::new(bytes.as_slice()).unwrap().entries(), 1);
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let place = PatchPlan::new(bytes.as_slice()).unwrap().original(0).unwrap();
    let words = (0..bytes.len() - 8).step_by(8).filter(|at| word(*at) == place);
    let words: Vec<usize> = words.collect();
    assert!(words.len() > 1);
    for behind in 0..16 {
        let mut moved = bytes.clone();
        for at in &words {
            moved[*at..at + 8].copy_from_slice(&(u64::MAX - behind).to_le_bytes());
        }
        assert!(PatchPlan::new(moved.as_slice()).is_ok_and(|plan| plan.is_empty()));
    }
}

#[test]
fn other_files_have_no_plan() {
    assert!(PatchPlan::new(b"#!/bin/sh".as_slice()).is_err());
    let own = fs::read(std::env::current_exe().unwrap()).unwrap();
    let plan = PatchPlan::new(own.as_slice()).unwrap();
    assert!(plan.is_empty() && plan.left_out().is_empty());
    assert_eq!(plan.place(&AT).unwrap().writes.len(), 0);
    // A file that ends early is refused, or has nothing.
    let libc = fs::read(&libraries()[0]).unwrap();
    for bytes in [64, 1000, libc.len() / 2, libc.len() - 1000] {
        assert!(
            PatchPlan::new(&libc[..bytes]).is_ok_and(|plan| plan.is_empty()) || PatchPlan::new(&libc[..bytes]).is_err()
        );
    }
}

/// What a program prints whose code is changed by this plan.
fn output_with(plan: &PatchPlan, folder: &Path, program: &Path, arguments: &[&str]) -> Output {
    let library = folder.join("library.so");
    if !library.exists() {
        fs::write(&library, PRELOAD).unwrap();
    }
    // A name for each call: a child that another test has forked may still have the socket of the last one.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!(
        "sprof-patch-test-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Relaxed)
    );
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    // No block is a sample.
    let settings = format!("{}:0:65536:1:@{name}", 1_u64 << 60);
    let child = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library)
        .env(VARIABLE, settings)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stream, _) = listener.accept().unwrap();
    let words = |mut stream: &UnixStream| {
        let mut message = [0; 8 * MESSAGE_WORDS];
        stream.read_exact(&mut message).unwrap();
        let words = message.as_chunks::<8>().0;
        std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
    };
    let question = Question::from_words(words(&stream)).unwrap();
    let answer = patch_answers::bytes(plan, &question).unwrap();
    (&stream).write_all(&answer).unwrap();
    let outcome = Outcome::from_words(words(&stream)).unwrap();
    assert_eq!((outcome.refused_step, outcome.error), (0, 0));
    child.wait_with_output().unwrap()
}

/// Changes all functions of a program that can be changed, as those of an allocator that free, and asserts that it does
/// the same. Returns how many they are, of how many.
fn assert_same_with_all_functions_patched(folder: &Path, program: &Path, arguments: &[&str]) -> (usize, usize) {
    let free = known_functions()["free"];
    let bytes = fs::read(program).unwrap();
    let plain = Command::new(program).args(arguments).output().unwrap();
    assert!(plain.status.success() && plain.stdout.len() > 10, "{plain:?}");
    let (mut patched, mut all) = (0, 0);
    for part in 0.. {
        let mut is_part = false;
        let executable = Executable::read_with(bytes.as_slice(), |executable| {
            let most = PATCH_CODE_BYTES / SLOT_BYTES;
            let starts = executable.function_starts().skip(part * most).take(most);
            let known: BTreeMap<_, _> = starts.map(|start| (start, vec![("", free)])).collect();
            is_part = !known.is_empty();
            all += known.len();
            executable.known = known;
        });
        if !is_part {
            break;
        }
        let plan = PatchPlan::of_all(&executable.unwrap());
        if !plan.is_empty() {
            patched += plan.entries();
            let output = output_with(&plan, folder, program, arguments);
            assert_eq!(output, plain, "{program:?}, part {part}");
        }
    }
    (patched, all)
}

/// Compilers that this system has, with flags that change how functions begin.
const COMPILERS: [(&str, &[&str]); 8] = [
    ("g++", &["-O2", "-fcf-protection=full", "-fno-plt"]),
    ("g++", &["-O3", "-no-pie"]),
    ("clang++", &["-O2", "-fcf-protection=full"]),
    ("g++", &["-O0"]),
    ("g++", &["-Os", "-flto", "-fomit-frame-pointer"]),
    (
        "g++",
        &[
            "-O1",
            "-fno-omit-frame-pointer",
            "-ffunction-sections",
            "-fuse-ld=gold",
            "-Wl,--icf=all",
        ],
    ),
    ("clang++", &["-O0", "-no-pie"]),
    ("clang++", &["-O3", "-march=x86-64-v3", "-fno-pie", "-no-pie"]),
];

fn with_all_functions_patched(compilers: &[(&str, &[&str])]) {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heap/programs/control_flow.cc");
    for (compiler, flags) in compilers {
        let program = folder.path().join("program");
        let mut compile = Command::new(compiler);
        compile
            .args(*flags)
            .args(["-w", "-pthread", "-o"])
            .arg(&program)
            .arg(&source);
        if compile.output().is_ok_and(|output| output.status.success()) {
            let (patched, all) = assert_same_with_all_functions_patched(folder.path(), &program, &["2"]);
            assert!(
                patched > 20 && patched * 100 >= all * 75,
                "{compiler} {flags:?}: {patched} of {all}"
            );
        }
    }
}

#[test]
fn programs_do_the_same_with_all_of_their_functions_patched() {
    with_all_functions_patched(&COMPILERS[..3]);
}

#[test]
#[ignore = "takes minutes, and needs the archives of Lua, SQLite and zlib"]
fn large_programs_do_the_same_with_all_of_their_functions_patched() {
    with_all_functions_patched(&COMPILERS[3..]);
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heap/programs/libraries.c");
    for flags in [["-O2", "-pie"], ["-O2", "-no-pie"]] {
        let program = folder.path().join("program");
        let archives = [
            "-l:libsqlite3.a",
            "-l:liblua5.4.a",
            "-l:libz.a",
            "-lm",
            "-ldl",
            "-lpthread",
        ];
        let mut compile = Command::new("cc");
        compile.args(flags).arg("-o").arg(&program).arg(&source).args(archives);
        let output = compile.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (patched, all) = assert_same_with_all_functions_patched(folder.path(), &program, &[]);
        assert!(
            patched > 2500 && patched * 100 >= all * 85,
            "{flags:?}: {patched} of {all}"
        );
    }
}
