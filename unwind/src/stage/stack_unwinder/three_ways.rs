//! The three ways to take a step find the same frames, on both machines: for random functions with random rules, for
//! random stacks of them, and after random earlier walks of the thread.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{StackUnwinder, ThreadState, UnwindOptions};
use crate::arch::Arch;
use crate::arch::aarch64::Aarch64;
use crate::arch::x86_64::X86_64;
use crate::files::machine::Machine;
use crate::walk::outcome::WalkEnd;
use crate::walk::step_counts::{self, ONLY_FULL_STEPS};
use recording::clock::Timestamp;
use recording::event::{Mapping, Pid, ProcessEvent, Thread};
use recording::sink::{InMemory, ModuleFile, ModuleFiles, ModuleMiss, TargetMemory};
use recording::stack::{FurtherRegisters, Registers, Snapshot};

const PID: Pid = Pid(7);
/// Where the file is mapped.
const BASE: u64 = 0x5555_0000_0000;
/// The offset of the first function, and the bytes of each.
const CODE: u64 = 0x1000;
const FUNCTION_BYTES: u64 = 64;
/// The root's caller would have its frame here.
const STACK_TOP: u64 = 0x7fff_0000_4000;
const STACK_BYTES: u64 = 0x4000;

/// What the table says of a function. Sizes are in bytes, and multiples of 16. Where a function has a frame, the return
/// address is stored at CFA - 8.
#[derive(Clone, Copy, Debug)]
enum FunctionKind {
    /// CFA = sp + size.
    BySp(u64),
    /// CFA = sp + size, and the frame pointer is stored at CFA - 16.
    StoresFp(u64),
    /// CFA = frame pointer + 16, and the caller's frame pointer is stored there. The frame is this large.
    ByFp(u64),
    /// The CFA at entry in the first 8 bytes, then sp + size.
    WithPrologue(u64),
    /// CFA = sp + size by a DWARF expression.
    ByExpression(u64),
    /// The return address is undefined.
    IsRoot,
    /// No table describes the function, which has a frame record.
    Undescribed,
}

impl FunctionKind {
    /// The instructions of its FDE. DWARF 5, section 6.4.2.
    fn cfa_program<A: Arch>(self) -> Option<Vec<u8>> {
        const ADVANCE_8: u8 = 0x48;
        const DEF_CFA_OFFSET: u8 = 0x0e;
        let (sp, fp, ra) = dwarf_numbers::<A>();
        let (stores_ra, stores_fp) = ([OFFSET | ra, 1], [OFFSET | fp, 2]);
        Some(match self {
            FunctionKind::BySp(size) => [&[DEF_CFA_OFFSET, size as u8][..], &stores_ra].concat(),
            FunctionKind::StoresFp(size) => [&[DEF_CFA_OFFSET, size as u8][..], &stores_ra, &stores_fp].concat(),
            FunctionKind::ByFp(_) => [&[DEF_CFA, fp, 16][..], &stores_ra, &stores_fp].concat(),
            FunctionKind::WithPrologue(size) => [&[ADVANCE_8, DEF_CFA_OFFSET, size as u8][..], &stores_ra].concat(),
            // DW_CFA_def_cfa_expression: DW_OP_breg0 + sp, a signed number.
            FunctionKind::ByExpression(size) => [&[0x0f, 3, 0x70 + sp, size as u8 | 0x80, 0][..], &stores_ra].concat(),
            FunctionKind::IsRoot => vec![0x07, ra],
            FunctionKind::Undescribed => return None,
        })
    }

    fn frame_bytes(self) -> u64 {
        match self {
            FunctionKind::BySp(size)
            | FunctionKind::StoresFp(size)
            | FunctionKind::ByFp(size)
            | FunctionKind::WithPrologue(size)
            | FunctionKind::ByExpression(size) => size,
            FunctionKind::IsRoot | FunctionKind::Undescribed => 32,
        }
    }
}

/// DW_CFA_def_cfa, and DW_CFA_offset of register 0.
const DEF_CFA: u8 = 0x0c;
const OFFSET: u8 = 0x80;

/// Stack pointer, frame pointer and return address.
fn dwarf_numbers<A: Arch>() -> (u8, u8, u8) {
    let number = |register: gimli::Register| register.0 as u8;
    (number(A::CFA_AT_ENTRY.0), number(A::COLUMNS.fp), number(A::COLUMNS.ra))
}

/// `e_machine`, a function of nops, and a call, whose target is in no code or is itself.
fn machine_code<A: Arch>() -> (u16, [u8; 4], &'static [u8]) {
    match A::MACHINE {
        Machine::X86_64 => (62, [0x90; 4], &[0xe8, 0, 0, 0, 0x70]),
        Machine::Aarch64 => (183, [0x1f, 0x20, 0x03, 0xd5], &[0, 0, 0, 0x94]),
    }
}

/// An ELF file with these functions, `.eh_frame_hdr` and `.eh_frame`, without section headers.
fn elf<A: Arch>(functions: &[FunctionKind]) -> Vec<u8> {
    let code_end = CODE + functions.len() as u64 * FUNCTION_BYTES;
    let described: Vec<(u64, Vec<u8>)> = { functions.iter().zip(0u64..) }
        .filter_map(|(kind, at)| Some((CODE + at * FUNCTION_BYTES, kind.cfa_program::<A>()?)))
        .collect();
    let index_at = code_end;
    let section_at = index_at + 12 + described.len() as u64 * 8;
    let (sp, _, ra) = dwarf_numbers::<A>();
    let (elf_machine, nop, call) = machine_code::<A>();
    let at_entry = A::CFA_AT_ENTRY.1 as u8;
    // The CIE: version 1, "zR", pc-relative sdata4; the CFA at entry; the return address at CFA - 8 if a call pushes
    // it.
    let mut section = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, ra, 1, 0x1b];
    section.extend([DEF_CFA, sp, at_entry]);
    section.extend(if at_entry > 0 { [OFFSET | ra, 1] } else { [0, 0] });
    section.extend([0, 0]);
    let mut index = vec![1, 0x1b, 3, 0x3b];
    index.extend((section_at.wrapping_sub(index_at + 4) as u32).to_le_bytes());
    index.extend((described.len() as u32).to_le_bytes());
    for (start, mut program) in described {
        let fde_at = section_at + section.len() as u64;
        index.extend((start.wrapping_sub(index_at) as u32).to_le_bytes());
        index.extend((fde_at.wrapping_sub(index_at) as u32).to_le_bytes());
        program.resize((13 + program.len()).next_multiple_of(8) - 13 + 4, 0);
        section.extend((13 + program.len() as u32).to_le_bytes());
        section.extend((section.len() as u32).to_le_bytes());
        section.extend((start.wrapping_sub(fde_at + 8) as u32).to_le_bytes());
        section.extend((FUNCTION_BYTES as u32).to_le_bytes());
        section.push(0);
        section.extend(program);
    }
    section.extend([0; 4]);
    let end = section_at + section.len() as u64;
    let mut file = vec![0; CODE as usize];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &3u16.to_le_bytes()); // ET_DYN
    put(18, &elf_machine.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &2u16.to_le_bytes());
    // PT_LOAD, readable and executable; PT_GNU_EH_FRAME.
    for (at, kind, flags, start, size) in [
        (64, 1u32, 5u32, 0, end),
        (120, 0x6474_e550, 4, index_at, section_at - index_at),
    ] {
        put(at, &kind.to_le_bytes());
        put(at + 4, &flags.to_le_bytes());
        for (field, value) in [(8, start), (16, start), (24, start), (32, size), (40, size), (48, 8)] {
            put(at + field, &value.to_le_bytes());
        }
    }
    for _ in functions {
        let mut code = nop.repeat(FUNCTION_BYTES as usize / nop.len());
        for site in SITES.map(|site| site as usize) {
            code[site - call.len()..site].copy_from_slice(call);
        }
        file.extend(code);
    }
    file.extend(index);
    file.extend(section);
    file
}

/// The return addresses of a function's calls, from its start. The last one is the first byte behind it.
const SITES: [u64; 3] = [24, 40, FUNCTION_BYTES];

struct OneFile(ModuleFile);

impl ModuleFiles for OneFile {
    fn open(&mut self, _pid: Pid, _mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        Ok(self.0.clone())
    }
}

/// The words of the stack, the lowest first.
struct StackWords {
    words: Vec<Cell<u64>>,
    now: Cell<Timestamp>,
}

impl StackWords {
    fn at(&self, address: u64) -> &Cell<u64> {
        let at = (address - (STACK_TOP - STACK_BYTES)) / 8;
        &self.words[at as usize]
    }

    fn bytes_from(&self, address: u64) -> Vec<u8> {
        let at = (address - (STACK_TOP - STACK_BYTES)) as usize / 8;
        self.words[at..]
            .iter()
            .flat_map(|word| word.get().to_le_bytes())
            .collect()
    }
}

impl TargetMemory for &StackWords {
    fn read(&mut self, _pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        if !(STACK_TOP - STACK_BYTES..STACK_TOP).contains(&address) {
            return 0;
        }
        let bytes = self.bytes_from(address / 8 * 8);
        let bytes = &bytes[(address % 8) as usize..];
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        len
    }

    fn now(&self) -> Timestamp {
        self.now.get()
    }
}

/// A call on the stack: a function, and the place where it has called the next one.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: usize,
    site: usize,
}

/// An address on the stack, and another value.
type Overwritten = Option<(u64, u64)>;

/// What happens between two samples of the thread.
#[derive(Clone, Debug)]
struct Change {
    /// Number of calls that return.
    returns: usize,
    calls: Vec<Call>,
    overwritten_before_copy: Overwritten,
    overwritten_after_copy: Overwritten,
    /// After this sample was walked.
    overwritten_between_walks: Overwritten,
    /// Where the leaf is in its function.
    leaf_at: u64,
    copied_bytes: usize,
    /// Since the thread's last walk, memory of no file was mapped over all but two functions, or the file again.
    remapped: bool,
    /// The stacks of the samples up to this one are walked now.
    ends_round: bool,
}

/// Writes the frames of these calls, the root first, and returns the leaf's registers.
fn push_frames<A: Arch>(stack: &StackWords, functions: &[FunctionKind], calls: &[Call], leaf_at: u64) -> Registers {
    // Bits of a signature that are not part of the address.
    let signed = |address: u64| match A::MACHINE {
        Machine::X86_64 => address,
        Machine::Aarch64 => address | 0x55 << 48,
    };
    let (mut sp, mut fp, mut lr, mut return_address) = (STACK_TOP - 64, 0, 0, 0);
    let mut ip = BASE;
    for (at, call) in (1..).zip(calls) {
        let kind = functions[call.function];
        let start = BASE + CODE + call.function as u64 * FUNCTION_BYTES;
        let cfa = sp;
        let in_prologue = at == calls.len() && leaf_at < 8 && matches!(kind, FunctionKind::WithPrologue(_));
        let frame_bytes = if in_prologue {
            A::CFA_AT_ENTRY.1 as u64
        } else {
            kind.frame_bytes()
        };
        sp = cfa - frame_bytes;
        if frame_bytes > 0 {
            stack.at(cfa - 8).set(return_address);
        }
        match kind {
            FunctionKind::StoresFp(_) => stack.at(cfa - 16).set(std::mem::replace(&mut fp, cfa ^ 0x5a5a)),
            FunctionKind::ByFp(_) | FunctionKind::Undescribed => {
                stack.at(cfa - 16).set(std::mem::replace(&mut fp, cfa - 16));
            }
            _ => {}
        }
        let own = signed(start + SITES[call.site]);
        // Behind the prologue, its own calls have returned.
        lr = if in_prologue { return_address } else { own };
        return_address = own;
        ip = start + leaf_at;
    }
    match A::MACHINE {
        Machine::X86_64 => Registers::X86_64 { ip, sp, bp: fp },
        Machine::Aarch64 => Registers::Aarch64 { pc: ip, sp, fp, lr },
    }
}

fn function_kind() -> impl Strategy<Value = FunctionKind> {
    let size = (1u64..8).prop_map(|pairs| pairs * 16);
    prop_oneof![
        4 => size.clone().prop_map(FunctionKind::BySp),
        2 => size.clone().prop_map(FunctionKind::StoresFp),
        2 => size.clone().prop_map(FunctionKind::ByFp),
        2 => size.clone().prop_map(FunctionKind::WithPrologue),
        1 => size.prop_map(FunctionKind::ByExpression),
        1 => Just(FunctionKind::IsRoot),
        1 => Just(FunctionKind::Undescribed),
    ]
}

fn call(functions: usize) -> impl Strategy<Value = Call> {
    (1..functions, 0..SITES.len()).prop_map(|(function, site)| Call { function, site })
}

fn change(functions: usize) -> impl Strategy<Value = Change> {
    let words = prop_oneof![3 => 1..100u64, 1 => 1..STACK_BYTES / 8];
    let value = prop_oneof![
        Just(0),
        any::<u64>(),
        (0..functions as u64, 0..SITES.len())
            .prop_map(|(function, site)| BASE + CODE + function * FUNCTION_BYTES + SITES[site]),
        (0..STACK_BYTES / 8).prop_map(|word| STACK_TOP - STACK_BYTES + word * 8),
    ];
    let word = words.prop_map(|words| STACK_TOP - words * 8);
    let overwritten = prop::option::weighted(0.15, (word, value));
    let calls = (0..5usize, prop::collection::vec(call(functions), 0..6));
    let overwritten = [overwritten.clone(), overwritten.clone(), overwritten];
    let leaf_at = prop_oneof![(0..FUNCTION_BYTES / 4).prop_map(|word| word * 4), Just(24)];
    let copied_bytes = prop_oneof![2 => 0..600usize, 1 => Just(0x4000)];
    let remapped = prop::bool::weighted(0.1);
    (calls, overwritten, leaf_at, copied_bytes, remapped, any::<bool>()).prop_map(
        |((returns, calls), overwritten, leaf_at, copied_bytes, remapped, ends_round)| Change {
            returns,
            calls,
            overwritten_before_copy: overwritten[0],
            overwritten_after_copy: overwritten[1],
            overwritten_between_walks: overwritten[2],
            leaf_at,
            copied_bytes,
            remapped,
            ends_round,
        },
    )
}

/// What the walks found that may reuse steps.
#[derive(Debug, Default)]
struct WalkCounts {
    walks: usize,
    rooted: usize,
    /// As in [`step_counts::take`].
    steps: [usize; 5],
}

/// Walks the stack after each change in the three ways, and compares the results.
fn compare<A: Arch>(
    functions: &[FunctionKind],
    changes: &[Change],
    counts: &mut WalkCounts,
) -> Result<(), TestCaseError> {
    let stack = StackWords {
        words: vec![Cell::new(0); STACK_BYTES as usize / 8],
        now: Cell::default(),
    };
    let overwrite = |overwritten: Overwritten| {
        if let Some((address, value)) = overwritten {
            stack.at(address).set(value);
        }
    };
    let bytes = elf::<A>(functions);
    let map = |start: u64, path: &'static [u8]| Mapping {
        start,
        len: bytes.len() as u64,
        file_offset: 0,
        path,
        build_id: None,
        inode: None,
    };
    let file = OneFile(ModuleFile {
        readable_path: None,
        bytes: Arc::new(InMemory(bytes.clone())),
    });
    let options = UnwindOptions {
        max_frames: 64,
        ..UnwindOptions::default()
    };
    let mut unwinder = StackUnwinder::new(&stack, file, options);
    unwinder.on_process(PID, ProcessEvent::Map(&map(BASE, b"/program")));
    let mut calls = vec![Call { function: 0, site: 0 }];
    let mut state = ThreadState::new(PID);
    let mut has_file = true;
    for (round, changes) in (1..).zip(changes.split_inclusive(|change| change.ends_round)) {
        let samples: Vec<(Registers, Vec<u8>)> = { changes.iter() }
            .map(|change| {
                calls.truncate(calls.len().saturating_sub(change.returns).max(1));
                calls.extend(&change.calls);
                calls.truncate(60);
                let registers = push_frames::<A>(&stack, functions, &calls, change.leaf_at);
                overwrite(change.overwritten_before_copy);
                let mut copy = stack.bytes_from(registers.sp());
                copy.truncate(change.copied_bytes / 8 * 8);
                overwrite(change.overwritten_after_copy);
                (registers, copy)
            })
            .collect();
        stack.now.set(Timestamp(round * 1000));
        for (at, ((registers, copy), change)) in samples.iter().zip(changes).enumerate() {
            if change.remapped {
                has_file = !has_file;
                let mapping = match has_file {
                    true => map(BASE, b"/program"),
                    false => map(BASE + CODE + 2 * FUNCTION_BYTES, b"//anon"),
                };
                unwinder.on_process(PID, ProcessEvent::Map(&mapping));
            }
            let snapshot = Snapshot {
                kernel: &[],
                registers: *registers,
                further: FurtherRegisters::default(),
                stack_bytes: copy,
                next_copy: None,
            };
            let time = Timestamp((round - 1) * 1000 + at as u64 + 1);
            let mut walk = |state: &mut ThreadState, only_full_steps| {
                ONLY_FULL_STEPS.set(only_full_steps);
                let walked = unwinder.walk_thread::<A>(time, Thread::main(PID), &snapshot, state);
                ONLY_FULL_STEPS.set(false);
                (walked.outcome, walked.shared_rootmost)
            };
            step_counts::take();
            let (outcome, _) = walk(&mut state, false);
            let steps = step_counts::take();
            counts.walks += 1;
            counts.rooted += usize::from(outcome.is_some_and(|outcome| outcome.end == WalkEnd::Root));
            for (sum, more) in counts.steps.iter_mut().zip(steps) {
                *sum += more;
            }
            for only_full_steps in [false, true] {
                let mut new = ThreadState::new(PID);
                let (again, shared) = walk(&mut new, only_full_steps);
                prop_assert_eq!(shared, 0);
                prop_assert_eq!(
                    (&outcome, &state.points[..]),
                    (&again, &new.points[..]),
                    "sample {} of round {}, {}",
                    at,
                    round,
                    only_full_steps
                );
            }
            overwrite(change.overwritten_between_walks);
        }
    }
    Ok(())
}

fn all_ways_to_step_find_the_same_frames<A: Arch>() {
    let root = prop_oneof![4 => Just(FunctionKind::IsRoot), 1 => function_kind()];
    let functions =
        (root, prop::collection::vec(function_kind(), 3..10)).prop_map(|(root, others)| [vec![root], others].concat());
    let cases = functions.prop_flat_map(|functions| {
        let changes = prop::collection::vec(change(functions.len()), 2..16);
        (Just(functions), changes)
    });
    let counts = Cell::new(WalkCounts::default());
    let mut runner = TestRunner::new(ProptestConfig {
        // The same cases in each run.
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    });
    runner
        .run(&cases, |(functions, changes)| {
            let mut more = counts.take();
            let result = compare::<A>(&functions, &changes, &mut more);
            counts.set(more);
            result
        })
        .unwrap();
    // If one way took few steps, the comparison would show little.
    let counts = counts.take();
    let [reused, fast, full, unchanged, readings] = counts.steps;
    let is_share = |part: usize, of: usize, one_in: usize| part * one_in > of;
    let all = reused + fast + full;
    assert!(
        [reused, fast, full].iter().all(|steps| is_share(*steps, all, 6)),
        "{counts:?}"
    );
    assert!(is_share(counts.rooted, counts.walks, 2), "{counts:?}");
    assert!(is_share(unchanged, counts.walks, 20), "{counts:?}");
    assert!(is_share(readings, counts.walks, 100), "{counts:?}");
}

#[test]
fn all_ways_to_step_find_the_same_frames_on_x86_64() {
    all_ways_to_step_find_the_same_frames::<X86_64>();
}

#[test]
fn all_ways_to_step_find_the_same_frames_on_aarch64() {
    all_ways_to_step_find_the_same_frames::<Aarch64>();
}
