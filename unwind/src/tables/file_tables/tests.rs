//! Steps by our rules beside framehop's, on files of this machine: each function of each file, with made-up registers
//! and stacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use gimli::{AArch64, X86_64 as Dwarf};
use recording::sink::InMemory;

use super::*;
use crate::arch::Unreadable;
use crate::arch::aarch64::Aarch64Regs;
use crate::arch::x86_64::X86_64Regs;
use crate::files::file_slice::FileSlice;

const SP: u64 = 0x7fff_0000_1000;
const STACK_BYTES: u64 = 1 << 17;
const MOST_FUNCTIONS: usize = 1500;

/// Words that differ from place to place. None below the stack pointer, as in a sample.
fn word(address: u64) -> Option<u64> {
    let is_stack = (SP..SP + STACK_BYTES).contains(&address);
    is_stack.then(|| 0x5555_0000_0000 | (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) << 4)
}

/// What framehop finds: the caller and its registers, or that a word can't be read. `None`: it does not follow the
/// rule.
type Reference<R> = Option<Result<(u64, R), ()>>;

/// Compares all functions of a file; returns how many steps were compared.
fn compare<A: Arch, R: Copy>(
    path: &Path,
    mut unwinder: impl Unwinder<UnwindRegs = R, Module = Module<Arc<[u8]>>, Cache: Default>,
    registers: impl Fn(u64, u64) -> R,
    own: impl Fn(R) -> A::Regs,
    follows: impl Fn(&CfiRow) -> bool,
) -> usize {
    let file = InMemory(fs::read(path).unwrap());
    let elf = Elf::read(&file).unwrap();
    let mut tables = FileTables::of_sections::<A>(&elf, &file).unwrap();
    let (sections, _) = read_sections(&elf, &file);
    let range = |svma: u64| Some(svma..svma);
    let (index_svma, index) = sections.eh_frame_hdr.unwrap();
    let (eh_frame_svma, eh_frame) = sections.eh_frame.unwrap();
    let info = ExplicitModuleSectionInfo {
        base_svma: elf.base_svma,
        text_svma: range(sections.text_svma),
        got_svma: range(sections.got_svma),
        eh_frame_svma: range(eh_frame_svma),
        eh_frame: Some(eh_frame.as_ref().as_ref().into()),
        eh_frame_hdr_svma: range(index_svma),
        eh_frame_hdr: Some(index.as_ref().as_ref().into()),
        ..Default::default()
    };
    unwinder.add_module(Module::new(String::new(), 0..u64::from(u32::MAX), 0, info));
    let mut compared = 0;
    let functions: Vec<Range<u64>> = tables.cfi.functions().collect();
    let every = functions.len().div_ceil(MOST_FUNCTIONS);
    for function in functions.into_iter().step_by(every) {
        let start = function.start - elf.base_svma;
        let len = function.end - function.start;
        for at in [0, 1, 4, 8, 12, len / 2, len.saturating_sub(4), len.saturating_sub(1)] {
            let lookup = start + at.min(len - 1);
            let Some(row) = tables.row(lookup).filter(&follows) else {
                continue;
            };
            for address in [
                FrameAddress::InstructionPointer(lookup),
                FrameAddress::from_return_address(lookup + 1).unwrap(),
            ] {
                for fp in [SP + 64, SP + 4096, SP - 8, SP - 32, SP + STACK_BYTES, 0] {
                    let regs = registers(SP, fp);
                    let reference = reference(&unwinder, address, regs);
                    let mut regs = own(regs);
                    let read = &mut |address| word(address).ok_or(Unreadable(address));
                    let step = tables.step::<A>(address, &mut regs, read);
                    let found = |regs| A::registers(address, &regs);
                    match reference {
                        Some(Ok((caller, caller_regs))) => assert_eq!(
                            (step, found(regs)),
                            (Some(Step::Caller(caller)), found(own(caller_regs))),
                            "{} {address:x?} {row:x?}",
                            path.display()
                        ),
                        Some(Err(())) => assert_eq!(step, Some(Step::NoMemory), "{} {address:x?}", path.display()),
                        None => continue,
                    }
                    compared += 1;
                }
            }
        }
    }
    compared
}

fn reference<R>(
    unwinder: &impl Unwinder<UnwindRegs = R, Cache: Default>,
    address: FrameAddress,
    mut regs: R,
) -> Reference<R> {
    let address = match address {
        FrameAddress::InstructionPointer(address) => framehop::FrameAddress::InstructionPointer(address),
        FrameAddress::ReturnAddress(address) => framehop::FrameAddress::ReturnAddress(address),
    };
    let mut cache = Default::default();
    match unwinder.unwind_frame(address, &mut regs, &mut cache, &mut |address| word(address).ok_or(())) {
        Ok(Some(caller)) => Some(Ok((caller, regs))),
        Err(framehop::Error::CouldNotReadStack(_)) => Some(Err(())),
        Ok(None) | Err(_) => None,
    }
}

fn compare_x86_64(path: &Path) -> usize {
    // framehop has 16 bits for an offset, and one rule for frame pointers.
    let follows = |row: &CfiRow| match (&row.cfa, &row.fp, &row.ra) {
        (CfaRule::RegisterAndOffset { register, offset }, fp, Some(RegisterRule::Offset(-8))) => {
            match (*register, fp) {
                (Dwarf::RSP, None | Some(RegisterRule::SameValue)) => *offset < 1 << 18,
                (Dwarf::RSP, Some(RegisterRule::Offset(fp))) => *offset < 1 << 17 && fp.abs() < 1 << 17,
                (Dwarf::RBP, Some(RegisterRule::Offset(-16))) => *offset == 16,
                _ => false,
            }
        }
        _ => false,
    };
    let registers = |sp, fp| UnwindRegsX86_64::new(0x1234, sp, fp);
    let own = |regs: UnwindRegsX86_64| X86_64Regs::new(regs.sp(), regs.bp());
    compare::<X86_64, _>(path, UnwinderX86_64::<Arc<[u8]>>::new(), registers, own, follows)
}

fn compare_aarch64(path: &Path) -> usize {
    let follows = |row: &CfiRow| {
        let offset = |rule: &Option<RegisterRule<usize>>| match rule {
            None | Some(RegisterRule::SameValue) => Some(None),
            Some(RegisterRule::Offset(offset)) => Some(Some(*offset)),
            _ => None,
        };
        let CfaRule::RegisterAndOffset { register, offset: cfa } = row.cfa else {
            return false;
        };
        match (register, offset(&row.fp), offset(&row.ra)) {
            (AArch64::SP, Some(fp), Some(ra)) => cfa % 16 == 0 && cfa < 1 << 17 && (ra.is_some() || fp.is_none()),
            (AArch64::X29, Some(Some(_)), Some(Some(_))) => cfa < 1 << 17,
            _ => false,
        }
    };
    let mask = PtrAuthMask::from_max_known_address(1 << 47);
    let registers = |sp, fp| UnwindRegsAarch64::new_with_ptr_auth_mask(mask, 0x5555_1234, sp, fp);
    let own = |regs: UnwindRegsAarch64| Aarch64Regs::new(1 << 47, regs.lr(), regs.sp(), regs.fp());
    compare::<Aarch64, _>(path, UnwinderAarch64::<Arc<[u8]>>::new(), registers, own, follows)
}

/// libc and this program.
fn files() -> impl Iterator<Item = PathBuf> {
    let libc = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libc = libc
        .lines()
        .find_map(|line| line.split_once('/').filter(|(_, path)| path.contains("libc.so")));
    let libc = libc.map(|(_, path)| PathBuf::from(format!("/{path}")));
    let own = std::env::current_exe();
    let are_there = cfg!(all(target_arch = "x86_64", target_os = "linux"));
    libc.into_iter().chain(own).filter(move |_| are_there)
}

#[test]
fn steps_of_x86_64_are_framehops() {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return println!("skipped: needs a file for x86_64 Linux");
    }
    for path in files() {
        let compared = compare_x86_64(&path);
        assert!(compared > 20_000, "{}: {compared}", path.display());
    }
}

#[test]
fn steps_of_aarch64_are_framehops() {
    let Some(path) = aarch64_library() else {
        return println!("skipped: Rust's target aarch64-unknown-linux-gnu is not installed");
    };
    let compared = compare_aarch64(&path);
    assert!(compared > 20_000, "{}: {compared}", path.display());
}

/// The standard library for another processor.
fn aarch64_library() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let folder = fs::read_dir(sysroot.join("lib/rustlib/aarch64-unknown-linux-gnu/lib")).ok()?;
    let mut paths = folder.flatten().map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "so"))
}

/// How often rules from code and rows of tables count the CFA from the same register: as far, or not.
fn rules_by_code(path: &Path) -> (usize, usize) {
    let file = InMemory(fs::read(path).unwrap());
    let elf = Elf::read(&file).unwrap();
    let mut tables = FileTables::of_sections::<X86_64>(&elf, &file).unwrap();
    let (mut same, mut other) = (0, 0);
    let functions: Vec<Range<u64>> = tables.cfi.functions().collect();
    let every = functions.len().div_ceil(MOST_FUNCTIONS);
    for function in functions.into_iter().step_by(every) {
        let size = function.end - function.start;
        let piece = elf.rest_from(function.start).unwrap();
        let code = read_slice(&file, FileSlice { size, ..piece }).unwrap();
        for (offset, rule) in X86_64::rules_by_code(&code) {
            let svma = function.start + u64::from(offset);
            let (Some(rule), AddressRule::Usual(row)) = (rule, tables.rule_in_tables::<X86_64>(svma, true)) else {
                continue;
            };
            if svma < function.end && rule.is_from_sp() == row.is_from_sp() {
                let is_same = rule.cfa(SP, SP) == row.cfa(SP, SP);
                same += usize::from(is_same);
                other += usize::from(!is_same);
            }
        }
    }
    (same, other)
}

/// Those of glibc that differ: parts of functions that a jump leads to, as if they were functions, and assembly whose
/// tables are wrong.
#[test]
fn rules_from_code_are_those_of_the_tables() {
    for path in files() {
        let (same, other) = rules_by_code(&path);
        assert!(
            same > 5000 && other * 200 <= same,
            "{}: {same}, {other} others",
            path.display()
        );
    }
}

/// What is found inside of others has the frame of a function's start in glibc (entries of PLTs, ways through
/// `memcpy`), and is a landing pad in Rust, which needs tables.
#[test]
fn functions_found_in_code_are_those_of_the_tables() {
    for path in files() {
        let file = InMemory(fs::read(&path).unwrap());
        let elf = Elf::read(&file).unwrap();
        let tables = FileTables::of_sections::<X86_64>(&elf, &file).unwrap();
        let functions: BTreeSet<u64> = tables.cfi.functions().map(|function| function.start).collect();
        let code = elf.code_around(*functions.last().unwrap()).unwrap();
        let bytes = read_slice(&file, elf.rest_from(code.start).unwrap()).unwrap();
        let mut found = BTreeSet::new();
        X86_64::function_starts(&bytes, code.start, &mut found);
        let right = found.intersection(&functions).count();
        let is_inside = |start: &&u64| !functions.contains(start) && tables.cfi.function(**start).is_some();
        let inside = found.iter().filter(is_inside).count();
        let counts = format!("{}: {right} of {}, {inside} inside", path.display(), functions.len());
        assert!(right * 4 >= functions.len() * 3 && inside * 8 <= right, "{counts}");
    }
}
