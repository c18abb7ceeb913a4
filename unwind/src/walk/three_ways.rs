//! The three ways to take a step find the same frames: for random functions with random rules, for random stacks of
//! them, and after random earlier walks of the thread.

use std::sync::Arc;

use proptest::prelude::*;

use crate::arch::x86_64::X86_64;
use crate::tables::mappings::Mappings;
use crate::tables::modules::Modules;
use crate::walk::code_cache::CodeCache;
use crate::walk::copied_stack::CopiedStack;
use crate::walk::leaf_first::LeafFirst;
use crate::walk::outcome::{FramePoint, WalkEnd, WalkOutcome};
use crate::walk::reuse::{LastWalk, NewSteps, Reuse};
use crate::walk::stack_memory::{LiveBlocks, StackMemory};
use crate::walk::stack_walk::StackWalk;
use recording::clock::Timestamp;
use recording::event::{Mapping, Pid};
use recording::quality::Quality;
use recording::sink::{InMemory, ModuleFile, ModuleFiles, ModuleMiss, TargetMemory};
use recording::stack::{FurtherRegisters, Registers};

const PID: Pid = Pid(7);
/// Where the file is mapped.
const BASE: u64 = 0x5555_0000_0000;
/// The offset of the first function, and the bytes of each.
const CODE: u64 = 0x1000;
const FUNCTION_BYTES: u64 = 64;
/// The root's caller would have its frame here.
const STACK_TOP: u64 = 0x7fff_0000_4000;
const STACK_BYTES: u64 = 0x4000;

/// What the table says of a function. Sizes are in bytes, and multiples of 8.
#[derive(Clone, Copy, Debug)]
enum FunctionKind {
    /// CFA = rsp + size.
    BySp(u64),
    /// CFA = rsp + this number, and rbp is stored at CFA - 16.
    StoresFp(u64),
    /// CFA = rbp + 16, and rbp is stored there. The frame is this large.
    ByFp(u64),
    /// CFA = rsp + 8 in the first 8 bytes, then rsp + size.
    WithPrologue(u64),
    /// CFA = rsp + size by a DWARF expression.
    ByExpression(u64),
    /// The return address is undefined.
    IsRoot,
    /// No table describes the function, which has a frame record.
    Undescribed,
}

impl FunctionKind {
    /// The instructions of its FDE. DWARF 5, section 6.4.2.
    fn cfa_program(self) -> Option<Vec<u8>> {
        const ADVANCE_8: u8 = 0x48;
        const DEF_CFA_OFFSET: u8 = 0x0e;
        const OFFSET_RBP: [u8; 2] = [0x86, 2];
        Some(match self {
            FunctionKind::BySp(size) => vec![DEF_CFA_OFFSET, size as u8],
            FunctionKind::StoresFp(size) => [&[DEF_CFA_OFFSET, size as u8][..], &OFFSET_RBP].concat(),
            FunctionKind::ByFp(_) => [&[0x0c, 6, 16][..], &OFFSET_RBP].concat(),
            FunctionKind::WithPrologue(size) => vec![ADVANCE_8, DEF_CFA_OFFSET, size as u8],
            // DW_CFA_def_cfa_expression: DW_OP_breg7, a signed number.
            FunctionKind::ByExpression(size) => vec![0x0f, 3, 0x77, size as u8 | 0x80, 0],
            FunctionKind::IsRoot => vec![0x07, 16],
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

/// An ELF file with these functions, `.eh_frame_hdr` and `.eh_frame`, without section headers.
fn elf(functions: &[FunctionKind]) -> Vec<u8> {
    let code_end = CODE + functions.len() as u64 * FUNCTION_BYTES;
    let described: Vec<(u64, Vec<u8>)> = { functions.iter().zip(0u64..) }
        .filter_map(|(kind, at)| Some((CODE + at * FUNCTION_BYTES, kind.cfa_program()?)))
        .collect();
    let index_at = code_end;
    let section_at = index_at + 12 + described.len() as u64 * 8;
    // The CIE: version 1, "zR", pc-relative sdata4; CFA = rsp + 8, return address at CFA - 8.
    let mut section = vec![
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
    ];
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
    put(18, &62u16.to_le_bytes()); // EM_X86_64
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
        let mut code = [0x90; FUNCTION_BYTES as usize];
        for site in SITES {
            // call rel32
            code[site as usize - 5] = 0xe8;
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
    words: Vec<u64>,
    now: Timestamp,
}

impl StackWords {
    fn at(&mut self, address: u64) -> &mut u64 {
        let at = (address - (STACK_TOP - STACK_BYTES)) / 8;
        &mut self.words[at as usize]
    }

    fn bytes_from(&self, address: u64) -> Vec<u8> {
        let at = (address - (STACK_TOP - STACK_BYTES)) as usize / 8;
        self.words[at..].iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl TargetMemory for StackWords {
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
        self.now
    }
}

/// A call on the stack: a function, and the place where it has called the next one.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: usize,
    site: usize,
}

/// What happens between two samples of the thread.
#[derive(Clone, Debug)]
struct Change {
    /// Number of calls that return.
    returns: usize,
    calls: Vec<Call>,
    /// A word of the stack that gets another value.
    overwritten: Option<(u64, u64)>,
    /// Else between the copy and the reading of live memory.
    overwritten_before_copy: bool,
    /// Where the leaf is in its function.
    leaf_at: u64,
    copied_bytes: usize,
    /// The mappings have changed since the thread's last walk.
    remapped: bool,
}

/// Writes the frames of these calls, the root first, and returns the leaf's registers.
fn push_frames(stack: &mut StackWords, functions: &[FunctionKind], calls: &[Call], leaf_at: u64) -> Registers {
    let (mut sp, mut bp, mut return_address) = (STACK_TOP - 64, 0, 0);
    let mut ip = BASE;
    for call in calls {
        let kind = functions[call.function];
        let cfa = sp;
        *stack.at(cfa - 8) = return_address;
        sp = cfa - kind.frame_bytes();
        match kind {
            FunctionKind::StoresFp(_) => *stack.at(cfa - 16) = std::mem::replace(&mut bp, cfa ^ 0x5a5a),
            FunctionKind::ByFp(_) | FunctionKind::Undescribed => {
                *stack.at(cfa - 16) = std::mem::replace(&mut bp, cfa - 16);
            }
            _ => {}
        }
        let start = BASE + CODE + call.function as u64 * FUNCTION_BYTES;
        return_address = start + SITES[call.site];
        ip = start + leaf_at;
    }
    Registers::X86_64 { ip, sp, bp }
}

/// One thread, its file, and its last walk in each way.
struct Setup<'f> {
    modules: Modules<'f>,
    mappings: Mappings,
    code_cache: CodeCache,
    quality: Quality,
    live: LiveBlocks,
    new_steps: NewSteps,
}

impl Setup<'_> {
    fn new(functions: &[FunctionKind]) -> Setup<'static> {
        let bytes = elf(functions);
        let len = bytes.len() as u64;
        let mut modules = Modules::new(OneFile(ModuleFile {
            readable_path: None,
            bytes: Arc::new(InMemory(bytes)),
        }));
        let mapping = Mapping {
            start: BASE,
            len,
            file_offset: 0,
            path: b"/program",
            build_id: None,
            inode: None,
        };
        let mut quality = Quality::default();
        let mut mappings = Mappings::default();
        mappings.insert(modules.region(PID, &mapping, &mut quality));
        Setup {
            modules,
            mappings,
            code_cache: CodeCache::default(),
            quality,
            live: LiveBlocks::default(),
            new_steps: NewSteps::default(),
        }
    }

    /// Walks a sample. `points` are those of the thread's last walk, and then of this one. Returns how it ended, and
    /// how many rootmost frames were taken over.
    fn walk(
        &mut self,
        registers: &Registers,
        copy: &[u8],
        memory: &mut StackWords,
        last: (&mut LastWalk, &mut LeafFirst<FramePoint>, u64),
        only_full_steps: bool,
    ) -> (Option<WalkOutcome>, usize) {
        let (last_walk, points, version) = last;
        let sp = registers.sp();
        let mut new_points = Vec::new();
        let mut walk = StackWalk {
            space: &self.mappings,
            region: None,
            modules: &mut self.modules,
            code_cache: &mut self.code_cache,
            time: Timestamp(0),
            quality: &mut self.quality,
            stack: StackMemory {
                pid: PID,
                copy: CopiedStack::new(sp, copy, None),
                memory,
                live: &mut self.live,
                callers: &[],
                floor: sp,
                unchanged_from: u64::MAX,
                used_live: false,
                live_start: None,
                live_bytes: 0,
            },
            further: FurtherRegisters::default(),
            reuse: Reuse::new(last_walk, &mut self.new_steps, version),
            sp_is_bound: false,
            points: &mut new_points,
            shared_rootmost: 0,
            max_frames: 64,
            only_full_steps,
        };
        let outcome = walk.run::<X86_64>(registers);
        let shared = walk.shared_rootmost;
        walk.reuse.finish();
        points.replace(shared, &new_points);
        (outcome, shared)
    }
}

fn function_kind() -> impl Strategy<Value = FunctionKind> {
    let size = (2u64..12).prop_map(|words| words * 8);
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
    (0..functions, 0..SITES.len()).prop_map(|(function, site)| Call { function, site })
}

fn change(functions: usize) -> impl Strategy<Value = Change> {
    let word = (STACK_BYTES / 8 / 2..STACK_BYTES / 8).prop_map(|word| STACK_TOP - STACK_BYTES + word * 8);
    let value = prop_oneof![
        Just(0),
        any::<u64>(),
        (0..functions as u64, 0..SITES.len())
            .prop_map(|(function, site)| BASE + CODE + function * FUNCTION_BYTES + SITES[site]),
        (0..STACK_BYTES / 8).prop_map(|word| STACK_TOP - STACK_BYTES + word * 8),
    ];
    (
        0..6usize,
        prop::collection::vec(call(functions), 0..6),
        prop::option::weighted(0.3, (word, value)),
        any::<bool>(),
        prop_oneof![0..FUNCTION_BYTES, Just(24), Just(24)],
        prop_oneof![0..600usize, Just(0x4000)],
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(returns, calls, overwritten, overwritten_before_copy, leaf_at, copied_bytes, remapped)| Change {
                returns,
                calls,
                overwritten,
                overwritten_before_copy,
                leaf_at,
                copied_bytes,
                remapped,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_ways_to_step_find_the_same_frames(
        (functions, changes) in prop::collection::vec(function_kind(), 3..10).prop_flat_map(|functions| {
            let changes = prop::collection::vec(change(functions.len()), 2..12);
            (Just(functions), changes)
        }),
    ) {
        let mut setup = Setup::new(&functions);
        let mut stack = StackWords { words: vec![0; STACK_BYTES as usize / 8], now: Timestamp(0) };
        let mut calls: Vec<Call> = Vec::new();
        let (mut last_walk, mut points) = (LastWalk::default(), LeafFirst::default());
        let mut version = 1;
        for (at, change) in changes.iter().enumerate() {
            version += u64::from(change.remapped);
            calls.truncate(calls.len().saturating_sub(change.returns));
            calls.extend(&change.calls);
            calls.truncate(60);
            let registers = push_frames(&mut stack, &functions, &calls, change.leaf_at);
            let overwrite = |stack: &mut StackWords| {
                if let Some((address, value)) = change.overwritten {
                    *stack.at(address) = value;
                }
            };
            if change.overwritten_before_copy {
                overwrite(&mut stack);
            }
            let mut copy = stack.bytes_from(registers.sp());
            copy.truncate(change.copied_bytes / 8 * 8);
            overwrite(&mut stack);
            let sampled = Timestamp(at as u64 * 100);
            stack.now = Timestamp(sampled.0 + 10);
            setup.live.begin(sampled, 0);
            let last = (&mut last_walk, &mut points, version);
            let (outcome, _) = setup.walk(&registers, &copy, &mut stack, last, false);
            for only_full_steps in [false, true] {
                let (mut nothing, mut frames) = (LastWalk::default(), LeafFirst::default());
                let last = (&mut nothing, &mut frames, version);
                let (again, shared) = setup.walk(&registers, &copy, &mut stack, last, only_full_steps);
                prop_assert_eq!(shared, 0);
                prop_assert_eq!((&outcome, &points[..]), (&again, &frames[..]), "sample {}, {}", at, only_full_steps);
            }
        }
    }
}

/// The property would also hold if nothing were ever reused and every stack ended at its leaf.
#[test]
fn the_same_stack_is_taken_over_whole() {
    let functions = [
        FunctionKind::IsRoot,
        FunctionKind::BySp(24),
        FunctionKind::StoresFp(48),
        FunctionKind::ByFp(64),
        FunctionKind::WithPrologue(32),
    ];
    let mut setup = Setup::new(&functions);
    let mut stack = StackWords {
        words: vec![0; STACK_BYTES as usize / 8],
        now: Timestamp(10),
    };
    let calls = [0, 1, 2, 3, 4, 3, 1].map(|function| Call { function, site: 0 });
    let registers = push_frames(&mut stack, &functions, &calls, 24);
    let copy = stack.bytes_from(registers.sp());
    let (mut last_walk, mut points) = (LastWalk::default(), LeafFirst::default());
    for shared in [0, calls.len()] {
        let last = (&mut last_walk, &mut points, 1);
        let (outcome, taken_over) = setup.walk(&registers, &copy, &mut stack, last, false);
        assert_eq!(
            (outcome.map(|outcome| outcome.end), taken_over),
            (Some(WalkEnd::Root), shared)
        );
        assert_eq!(points.len(), calls.len());
    }
}
