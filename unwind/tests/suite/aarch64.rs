//! aarch64 on any machine: a file and a stack made by hand.

#![cfg(unix)]

use std::sync::Arc;

use crate::common::{Captured, Collector, PID, map, sample};
use recording::address::Avma;
use recording::event::{Mapping, Pid};
use recording::quality::Quality;
use recording::sink::{EventSink, InMemory, ModuleFile, ModuleFiles, ModuleMiss, TargetMemory};
use recording::stack::{Frame, Registers, StackMark};
use unwind::{UnwindOptions, Unwinder};

const EH_FRAME_HDR: u64 = 0x2000;
const EH_FRAME: u64 = 0x3000;
const BASE: u64 = 0x5555_0000_0000;
const SP: u64 = 0x7fff_0000_0000;

/// A function of 0x100 bytes and its rules. `code` is one of the call frame instructions of DWARF 5, section 6.4.2.
struct Function {
    svma: u64,
    signal_frame: bool,
    rules: &'static [u8],
}

const CFA_OFFSET: u8 = 0x0e; // DW_CFA_def_cfa_offset
const FP_AT: u8 = 0x80 | 29; // DW_CFA_offset x29, in units of -8
const LR_AT: u8 = 0x80 | 30; // DW_CFA_offset x30
const NEGATE_RA_STATE: u8 = 0x2d; // DW_CFA_AARCH64_negate_ra_state
const UNDEFINED: u8 = 0x07; // DW_CFA_undefined

/// readelf --debug-dump=frames would show, with CFA = sp + 0 unless said otherwise:
///   leaf        no instructions: the return address is in lr
///   plain       CFA = sp + 32, x29 at CFA - 32, x30 at CFA - 24
///   signed      the same after DW_CFA_AARCH64_negate_ra_state (paciasp)
///   by_fp       CFA = x29 + 16, x29 at CFA - 16, x30 at CFA - 8
///   sigreturn   augmentation "zRS"
///   start       x30 undefined
///   no_record   CFA = sp + 32, x30 at CFA - 24
const FUNCTIONS: [Function; 7] = [
    Function {
        svma: 0x1000,
        signal_frame: false,
        rules: &[],
    },
    Function {
        svma: 0x1100,
        signal_frame: false,
        rules: &[CFA_OFFSET, 32, FP_AT, 4, LR_AT, 3],
    },
    Function {
        svma: 0x1200,
        signal_frame: false,
        rules: &[NEGATE_RA_STATE, CFA_OFFSET, 32, FP_AT, 4, LR_AT, 3],
    },
    Function {
        svma: 0x1300,
        signal_frame: false,
        rules: &[0x0c, 29, 16, FP_AT, 2, LR_AT, 1],
    },
    Function {
        svma: 0x1400,
        signal_frame: true,
        rules: &[],
    },
    Function {
        svma: 0x1500,
        signal_frame: false,
        rules: &[UNDEFINED, 30],
    },
    Function {
        svma: 0x1600,
        signal_frame: false,
        rules: &[CFA_OFFSET, 32, LR_AT, 3],
    },
];
const LEAF: u64 = BASE + 0x1010;
const PLAIN: u64 = BASE + 0x1110;
const SIGNED: u64 = BASE + 0x1210;
const BY_FP: u64 = BASE + 0x1310;
const SIGRETURN: u64 = BASE + 0x1400;
const START: u64 = BASE + 0x1510;
const NO_RECORD: u64 = BASE + 0x1610;
const BLR_X21: u32 = 0xd63f_02a0;
/// In start, behind a `bl` to plain and one to no_record.
const CALLED_PLAIN: u64 = BASE + 0x1520;
const CALLED_NO_RECORD: u64 = BASE + 0x1530;
/// Behind a `bl` to leaf, which ends with a jump to no_record.
const CALLED_LEAF: u64 = BASE + 0x1540;
/// Without rules, in a file that has some.
const ASSEMBLY: u64 = BASE + 0x1710;
/// In a file without rules.
const GENERATED: u64 = BASE + 0x8010;

/// Without section headers, as stripped by the strictest tools.
fn elf() -> Vec<u8> {
    let mut file = vec![0; 0x4000];
    let mut put = |at: u64, bytes: &[u8]| file[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[3, 0, 183, 0]); // ET_DYN, EM_AARCH64
    put(32, &64u64.to_le_bytes());
    put(54, &[56, 0, 2, 0]);
    let mut segment = |index: u64, kind: u32, flags: u32, start: u64, size: u64| {
        let at = 64 + index * 56;
        put(at, &kind.to_le_bytes());
        put(at + 4, &flags.to_le_bytes());
        for (field, value) in [
            (8, start),
            (16, start),
            (24, start),
            (32, size),
            (40, size),
            (48, 0x1000),
        ] {
            put(at + field, &value.to_le_bytes());
        }
    };
    segment(0, 1, 5, 0, 0x4000);
    let mut eh_frame = Vec::new();
    let mut table = Vec::new();
    for function in &FUNCTIONS {
        let cie_at = eh_frame.len();
        // id 0, version 1, augmentation, code alignment 1, data alignment -8, return address x30, FDE encoding sdata4
        // pcrel.
        let mut cie = vec![0, 0, 0, 0, 1];
        cie.extend_from_slice(if function.signal_frame { b"zRS\0" } else { b"zR\0" });
        cie.extend_from_slice(&[1, 0x78, 30, 1, 0x1b, 0x0c, 31, 0]);
        append(&mut eh_frame, cie);
        let fde_at = eh_frame.len();
        table.push((function.svma, EH_FRAME + fde_at as u64));
        let mut fde = ((fde_at + 4 - cie_at) as u32).to_le_bytes().to_vec();
        let pc_at = EH_FRAME + fde_at as u64 + 8;
        fde.extend_from_slice(&((function.svma as i64 - pc_at as i64) as i32).to_le_bytes());
        fde.extend_from_slice(&0x100u32.to_le_bytes());
        fde.push(0);
        fde.extend_from_slice(function.rules);
        append(&mut eh_frame, fde);
    }
    segment(1, 0x6474_e550, 4, EH_FRAME_HDR, 12 + 8 * table.len() as u64);
    put(EH_FRAME, &eh_frame);
    put(EH_FRAME_HDR, &[1, 0x1b, 0x03, 0x3b]);
    put(EH_FRAME_HDR + 4, &((EH_FRAME - EH_FRAME_HDR - 4) as u32).to_le_bytes());
    put(EH_FRAME_HDR + 8, &(table.len() as u32).to_le_bytes());
    for (index, (svma, fde)) in table.iter().enumerate() {
        let at = EH_FRAME_HDR + 12 + 8 * index as u64;
        put(at, &((*svma as i64 - EH_FRAME_HDR as i64) as i32).to_le_bytes());
        put(at + 4, &((*fde - EH_FRAME_HDR) as u32).to_le_bytes());
    }
    for function in &FUNCTIONS {
        put(function.svma + 0xc, &BLR_X21.to_le_bytes());
    }
    // bl, and b.
    let mut branch = |at: u64, instruction: u32, target: u64| {
        let words = (target as i64 - at as i64) / 4;
        put(at, &(instruction | (words as u32 & 0x03ff_ffff)).to_le_bytes());
    };
    for (return_address, target) in [
        (CALLED_PLAIN, 0x1100),
        (CALLED_NO_RECORD, 0x1600),
        (CALLED_LEAF, 0x1000),
    ] {
        branch(return_address - BASE - 4, 0x9400_0000, target);
    }
    branch(0x1050, 0x1400_0000, 0x1600);
    // mov x8, #139; svc #0
    put(0x1400, &[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]);
    file
}

fn append(section: &mut Vec<u8>, mut entry: Vec<u8>) {
    entry.resize(entry.len().next_multiple_of(8) + 4, 0);
    section.extend_from_slice(&(entry.len() as u32).to_le_bytes());
    section.extend_from_slice(&entry);
}

struct OneFile;

impl ModuleFiles for OneFile {
    fn open(&mut self, _pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        if mapping.path == b"/stripped" {
            return Err(ModuleMiss::NotFound);
        }
        Ok(ModuleFile {
            readable_path: None,
            bytes: Arc::new(InMemory(elf())),
        })
    }
}

/// Target memory: some words at some address.
#[derive(Default)]
struct Words(Vec<(u64, Vec<u8>)>);

impl TargetMemory for Words {
    fn read(&mut self, _pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        let Some((start, bytes)) = self
            .0
            .iter()
            .find(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&address))
        else {
            return 0;
        };
        let bytes = &bytes[(address - start) as usize..];
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        len
    }

    fn now(&self) -> recording::clock::Timestamp {
        recording::clock::Timestamp(0)
    }
}

fn unwind(path: &str, memory: Words, registers: Registers, words: &[u64]) -> (Vec<Frame>, Quality) {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut unwinder = Unwinder::new(Collector::default(), memory, OneFile, UnwindOptions::default());
    map(&mut unwinder, PID, BASE, 0x4000, 0, path.as_bytes());
    map(&mut unwinder, PID, BASE + 0x8000, 0x1000, 0, b"/stripped");
    unwinder.on_event(&sample(&Captured { registers, bytes }));
    let (mut collector, quality) = unwinder.finish();
    (collector.stacks.remove(0), quality)
}

fn leaf(address: u64) -> Frame {
    Frame::InstructionPointer(Avma(address))
}

fn caller(address: u64) -> Frame {
    Frame::ReturnAddress(Avma(address))
}

#[test]
fn a_leaf_has_its_caller_in_lr_and_signed_addresses_are_stripped() {
    let signature = 0x00ab_0000_0000_0000;
    let registers = Registers::Aarch64 {
        pc: LEAF,
        sp: SP,
        fp: 0xdead,
        lr: PLAIN,
    };
    let fp = SP + 64;
    #[rustfmt::skip]
    let stack = [
        0xbeef, SIGNED | signature, 0, 0,   // plain's frame
        fp, BY_FP | signature, 0, 0,        // signed's frame
        0, START,                           // by_fp's frame: its caller had no frame pointer
    ];
    let (frames, quality) = unwind("/elf", Words::default(), registers, &stack);
    assert_eq!(
        frames,
        [leaf(LEAF), caller(PLAIN), caller(SIGNED), caller(BY_FP), caller(START)]
    );
    assert_eq!((quality.rooted, quality.by_frame_pointer), (1, 0));
}

#[test]
fn a_signal_frame_gives_back_the_interrupted_registers() {
    // plain is the handler. The kernel's frame: siginfo, then ucontext with x0.. at 312, sp at 560, pc at 568.
    let mut stack = vec![0; 4 + 580 / 8 + 8];
    stack[1] = SIGRETURN;
    let frame = 4;
    let interrupted_sp = SP + 0x10_0000;
    for (offset, value) in [(544, 0u64), (552, BY_FP + 4), (560, interrupted_sp), (568, LEAF + 8)] {
        stack[frame + offset / 8] = value;
    }
    // by_fp goes by the interrupted x29.
    stack[frame + 544 / 8] = interrupted_sp + 16;
    let memory: Vec<u8> = [0, 0, 0, START]
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect();
    let memory = Words(vec![(interrupted_sp & !0xfff, memory)]);
    let registers = Registers::Aarch64 {
        pc: PLAIN,
        sp: SP,
        fp: 0,
        lr: 0,
    };
    let (frames, quality) = unwind("/elf", memory, registers, &stack);
    // The interrupted leaf still has its caller in lr. The rest is on another stack, read live.
    // Nobody called the trampoline: it is looked up at its first instruction, not before it.
    let found = [leaf(PLAIN), leaf(SIGRETURN), leaf(LEAF + 8), caller(BY_FP + 4)];
    assert_eq!(
        frames,
        [&found[..], &[Frame::Mark(StackMark::Unverified), caller(START)]].concat()
    );
    assert_eq!((quality.rooted, quality.unverified), (0, 1));
}

#[test]
fn without_rules_it_goes_by_frame_pointer_and_stops_outside_of_code() {
    let registers = Registers::Aarch64 {
        pc: BY_FP,
        sp: SP,
        fp: SP + 16,
        lr: 0,
    };
    let (frames, quality) = unwind(
        "/stripped",
        Words::default(),
        registers,
        &[0, 0, SP + 32, PLAIN, SP + 48, 0x1234],
    );
    assert_eq!(
        frames,
        [leaf(BY_FP), caller(PLAIN), Frame::Mark(StackMark::TruncatedNoRule)]
    );
    assert_eq!(
        (quality.by_frame_pointer, quality.truncated_no_rule, quality.rooted),
        (1, 1, 0)
    );
}

#[test]
fn without_rules_a_frame_pointer_of_zero_is_the_root() {
    let registers = Registers::Aarch64 {
        pc: BY_FP,
        sp: SP,
        fp: SP + 16,
        lr: 0,
    };
    let (frames, quality) = unwind("/stripped", Words::default(), registers, &[0, 0, 0, START, 7, 7]);
    assert_eq!(frames, [leaf(BY_FP), caller(START)]);
    assert_eq!((quality.by_frame_pointer, quality.rooted), (1, 1));
}

/// A function without rules that has `words` between its frame record and the frame of its caller, whose frame pointer
/// is `fp`.
fn called_from_generated_code(caller_frame: &[u64], words: usize, fp: Option<u64>) -> Vec<Frame> {
    let fp = fp.unwrap_or(SP + 32 + 8 * words as u64);
    let stack = [&[0, 0, fp, caller_frame[0]], &vec![7; words][..], &caller_frame[1..]].concat();
    let registers = Registers::Aarch64 {
        pc: GENERATED,
        sp: SP,
        fp: SP + 16,
        lr: 0,
    };
    unwind("/elf", Words::default(), registers, &stack).0
}

const CUT: Frame = Frame::Mark(StackMark::TruncatedNoRule);

#[test]
fn a_frame_pointer_does_not_tell_where_the_callers_stack_is() {
    // The caller has a frame record at its end: there the frame pointer decides. It was called by `blr`, or by name.
    for from in [START, CALLED_PLAIN] {
        for words in [0, 2, 4, 40] {
            let frames = called_from_generated_code(&[PLAIN, SP + 1000, from, 0, 0], words, None);
            assert_eq!(frames, [leaf(GENERATED), caller(PLAIN), caller(from)], "{words}");
        }
    }
    // It has none. Right where nothing lies between. A tail call may have led to it.
    for from in [START, CALLED_NO_RECORD, CALLED_LEAF] {
        let frame = [NO_RECORD, 0, from, 0, 0];
        let frames = called_from_generated_code(&frame, 0, None);
        assert_eq!(frames, [leaf(GENERATED), caller(NO_RECORD), caller(from)]);
        assert_eq!(called_from_generated_code(&frame, 2, None)[2], CUT);
    }
}

#[test]
fn what_has_not_called_a_function_is_not_its_caller() {
    // Code, but behind no call; a call of another function.
    for other in [PLAIN + 8, CALLED_PLAIN] {
        let frames = called_from_generated_code(&[NO_RECORD, 0, other, 0, 0], 0, None);
        assert_eq!(frames, [leaf(GENERATED), caller(NO_RECORD), CUT], "{other:x}");
    }
    // plain has saved the frame pointer, and left it its caller's: two stacks are possible.
    let outer = [SP + 1000, START];
    let stack = [&[PLAIN, 0, START, 0, 0], &outer[..]].concat();
    let frames = called_from_generated_code(&stack, 0, Some(SP + 64));
    assert_eq!(frames, [leaf(GENERATED), caller(PLAIN), CUT]);
    // The end of the dump.
    let frames = called_from_generated_code(&[PLAIN, 0], 0, None);
    let no_memory = Frame::Mark(StackMark::TruncatedNoMemory);
    assert_eq!(frames, [leaf(GENERATED), caller(PLAIN), no_memory]);
}

#[test]
fn a_leaf_in_assembly_has_left_the_stack_pointer_alone() {
    let registers = Registers::Aarch64 {
        pc: ASSEMBLY,
        sp: SP,
        fp: SP + 64,
        lr: PLAIN,
    };
    // Above plain's frame is the record of an outer one, which the frame pointer still is.
    let stack = [0, START, 0, 0, 0, 0, 0, 0, SP + 1000, BY_FP];
    let (frames, _) = unwind("/elf", Words::default(), registers, &stack);
    assert_eq!(frames, [leaf(ASSEMBLY), caller(PLAIN), caller(START)]);
}
