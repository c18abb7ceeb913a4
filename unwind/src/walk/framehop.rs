//! Walks with framehop, the published unwinder that samply uses, so that users can compare the two engines on their own
//! programs: `sprof record --unwinder framehop`.
//!
//! framehop gets what sprof's own engine has: the same modules, the same tables of their files, and the same words of
//! the stack, beyond the copied bytes too. The stage verifies, completes and counts the stacks of both engines in the
//! same way. What differs is the step from a frame to its caller:
//!
//! - Code that no table describes (JIT code, assembly, musl): framehop goes by frame pointer. sprof reads the code.
//! - A rule that framehop has no short form for, or that it can't follow: framehop goes by frame pointer and does not
//!   report it, so `by_frame_pointer` counts only the frames in code without a table.
//! - A frame pointer of 0 or a return address of 0 ends a stack as its root.
//! - framehop does not check that a call stands before a return address, or that the address is code.
//! - A file with `.eh_frame` and `.debug_frame` is unwound by `.eh_frame` alone.

use std::ops::Deref;
use std::sync::Arc;

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use rustc_hash::FxHashMap;

use crate::files::huge_pages::TableBytes;
use crate::tables::file_tables::FileTables;
use crate::tables::mappings::{ANONYMOUS, Region};
use crate::walk::outcome::{FramePoint, WalkEnd, WalkOutcome};
use crate::walk::stack_walk::StackWalk;
use recording::address::Avma;
use recording::event::Pid;
use recording::stack::{Frame, Registers};

/// Processes whose modules framehop has. All are forgotten when there are more: ended ones are among them.
const MAX_PROCESSES: usize = 256;

/// framehop, for all processes.
#[derive(Default)]
pub(crate) struct FramehopEngine {
    x86_64: Machines<UnwinderX86_64<SectionBytes>, CacheX86_64>,
    aarch64: Machines<UnwinderAarch64<SectionBytes>, CacheAarch64>,
}

/// The processes of one kind of processor.
#[derive(Default)]
struct Machines<U, C> {
    processes: FxHashMap<Pid, Process<U>>,
    cache: C,
}

/// The modules of a process that samples fell into.
#[derive(Default)]
struct Process<U> {
    unwinder: U,
    /// By their first addresses.
    added: FxHashMap<u64, Region>,
    /// By the address of an instruction.
    rows: FxHashMap<u64, RowState>,
    /// The version of the process's mappings that `added` and `rows` agree with.
    version: u64,
}

/// The row of a table that describes an instruction.
#[derive(Clone, Copy)]
enum RowState {
    None,
    Usable,
    /// It has an expression with a jump. framehop evaluates expressions without a limit.
    Jumps,
}

/// A section of a file, shared with sprof's own tables.
#[derive(Default)]
struct SectionBytes(Arc<TableBytes>);

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl FramehopEngine {
    /// Walks a stack from its leaf. `version` is that of the process's mappings.
    pub(crate) fn run(&mut self, walk: &mut StackWalk<'_, '_>, version: u64, registers: &Registers) -> WalkOutcome {
        match *registers {
            Registers::X86_64 { ip, sp, bp } => {
                let regs = UnwindRegsX86_64::new(ip, sp, bp);
                self.x86_64.run(walk, version, ip, regs, UnwindRegsX86_64::sp)
            }
            Registers::Aarch64 { pc, sp, fp, lr } => {
                let mask = PtrAuthMask::from_max_known_address(walk.space.end().0.max(1 << 38));
                let regs = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp);
                self.aarch64.run(walk, version, pc, regs, UnwindRegsAarch64::sp)
            }
        }
    }
}

impl<U> Machines<U, U::Cache>
where
    U: Unwinder<Module = Module<SectionBytes>> + Default,
{
    fn run(
        &mut self,
        walk: &mut StackWalk<'_, '_>,
        version: u64,
        ip: u64,
        mut regs: U::UnwindRegs,
        sp: impl Fn(&U::UnwindRegs) -> u64,
    ) -> WalkOutcome {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&walk.stack.pid) {
            self.processes.clear();
        }
        let process = self.processes.entry(walk.stack.pid).or_default();
        process.forget_unmapped(walk, version);
        let mut outcome = WalkOutcome {
            end: WalkEnd::Root,
            live_boundary: None,
            guessed: false,
            by_code: false,
        };
        let mut address = FrameAddress::InstructionPointer(ip);
        loop {
            walk.points.push(FramePoint {
                frame: match address {
                    FrameAddress::InstructionPointer(address) => Frame::InstructionPointer(Avma(address)),
                    FrameAddress::ReturnAddress(address) => Frame::ReturnAddress(Avma(address.get())),
                },
                sp: sp(&regs),
            });
            if walk.points.len() >= walk.max_frames {
                outcome.end = WalkEnd::Depth;
                return outcome;
            }
            let has_rule = match process.prepare(walk, address.address_for_lookup()) {
                RowState::Jumps => {
                    outcome.end = WalkEnd::NoRule;
                    return outcome;
                }
                RowState::None => false,
                RowState::Usable => true,
            };
            walk.stack.floor = sp(&regs);
            let stack = &mut walk.stack;
            // Memory that was read after the sample may have been cleared meanwhile.
            let mut is_cleared = false;
            let mut read = |address| {
                let is_copied = stack.copy.word(address).is_some();
                let word = stack.read(address).map_err(|_| ())?;
                is_cleared |= word == 0 && !is_copied;
                Ok(word)
            };
            let caller = process
                .unwinder
                .unwind_frame(address, &mut regs, &mut self.cache, &mut read);
            if walk.stack.used_live && outcome.live_boundary.is_none() {
                outcome.live_boundary = Some(walk.points.len() - 1);
            }
            match caller.map(|caller| caller.and_then(FrameAddress::from_return_address)) {
                Ok(Some(caller)) => {
                    address = caller;
                    outcome.guessed |= !has_rule;
                }
                Ok(None) => {
                    if is_cleared {
                        outcome.end = WalkEnd::NoReturnAddress;
                    }
                    return outcome;
                }
                Err(error) => {
                    outcome.end = match error {
                        Error::CouldNotReadStack(_) => WalkEnd::NoMemory,
                        _ => WalkEnd::NoRule,
                    };
                    return outcome;
                }
            }
        }
    }
}

impl<U: Unwinder<Module = Module<SectionBytes>>> Process<U> {
    /// Removes the modules that are not mapped any more, or elsewhere.
    fn forget_unmapped(&mut self, walk: &StackWalk<'_, '_>, version: u64) {
        if self.version == version {
            return;
        }
        self.version = version;
        self.rows.clear();
        let Process { unwinder, added, .. } = self;
        added.retain(|start, region| {
            let is_mapped = walk.space.find(Avma(*start)) == Some(&*region);
            if !is_mapped {
                unwinder.remove_module(*start);
            }
            is_mapped
        });
    }

    /// Adds the module at an address, if it is new, and returns the state of the row for this address.
    fn prepare(&mut self, walk: &mut StackWalk<'_, '_>, address: u64) -> RowState {
        if let Some(row) = self.rows.get(&address) {
            return *row;
        }
        let row = self.look_up(walk, address).unwrap_or(RowState::None);
        self.rows.insert(address, row);
        row
    }

    /// `None`: there is no module, or it has no table.
    fn look_up(&mut self, walk: &mut StackWalk<'_, '_>, address: u64) -> Option<RowState> {
        let region = walk.find(address).filter(|region| region.module != ANONYMOUS)?;
        let tables = walk.modules.tables(region.module, walk.quality)?;
        if self.added.insert(region.start, region).is_none() {
            let module = Module::new(String::new(), region.start..region.end, region.base, sections(tables));
            self.unwinder.add_module(module);
        }
        let relative = address.wrapping_sub(region.base);
        tables.function(relative)?;
        Some(if tables.row_jumps(relative) {
            RowState::Jumps
        } else {
            RowState::Usable
        })
    }
}

/// The sections in the form that framehop takes.
fn sections(tables: &FileTables) -> ExplicitModuleSectionInfo<SectionBytes> {
    let sections = tables.cfi.sections();
    let address = |svma: u64| Some(svma..svma);
    let (eh_frame, index) = (sections.eh_frame, sections.eh_frame_hdr);
    ExplicitModuleSectionInfo {
        base_svma: tables.base_svma,
        text_svma: address(sections.text_svma),
        got_svma: address(sections.got_svma),
        eh_frame_svma: eh_frame.as_ref().and_then(|(svma, _)| address(*svma)),
        eh_frame: eh_frame.map(|(_, bytes)| SectionBytes(bytes)),
        eh_frame_hdr_svma: index.as_ref().and_then(|(svma, _)| address(*svma)),
        eh_frame_hdr: index.map(|(_, bytes)| SectionBytes(bytes)),
        debug_frame: sections.debug_frame.map(SectionBytes),
        ..ExplicitModuleSectionInfo::default()
    }
}
