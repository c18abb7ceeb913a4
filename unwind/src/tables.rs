//! The unwind tables of one file, shared by all processes that map it.
//!
//! framehop keeps its cache valid across module changes with a generation number that is 16 bits wide and global, and
//! one cache has 509 slots. 400 short processes or frequent dlopen would keep emptying it, and 65536 changes would make
//! old rules valid again. So each file has a framehop unwinder of its own, in which it lies at address 0, and caches of
//! its own: modules never change, the generation never matters, and what one process taught serves the next.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use framehop::{FrameAddress, Unwinder};
use gimli::{CfaRule, Register, RegisterRule};

use crate::aarch64::Aarch64;
use crate::arch::{Arch, ReadStack, Step};
use crate::bytes::u32_at;
use crate::cfi::{Cfi, Place, Row, Sections};
use crate::elf::{self, Elf};
use crate::go::{GoFunctions, Special};
use crate::signal;
use crate::x86_64::X86_64;
use recording::sink::ReadAt;

/// One cache per this many functions of the file, at most [`MAX_CACHES`].
const FUNCTIONS_PER_CACHE: usize = 256;
/// 32 caches are 16,000 rules and 0.4 MB for the largest files.
const MAX_CACHES: usize = 32;

/// The tables of one file, for its machine.
pub(crate) enum Tables {
    X86_64(Box<Rules<X86_64>>),
    Aarch64(Box<Rules<Aarch64>>),
}

impl Tables {
    /// Reads the unwind sections. `None` if no section can be read.
    pub(crate) fn read(elf: &Elf, file: &dyn ReadAt) -> Option<Tables> {
        match elf.machine {
            elf::EM_X86_64 => Some(Tables::X86_64(Box::new(Rules::read(elf, file)?))),
            elf::EM_AARCH64 => Some(Tables::Aarch64(Box::new(Rules::read(elf, file)?))),
            _ => None,
        }
    }

    /// The relative addresses of the function that holds this one.
    pub(crate) fn function(&self, relative: u64) -> Option<Range<u64>> {
        match self {
            Tables::X86_64(rules) => rules.function(relative),
            Tables::Aarch64(rules) => rules.function(relative),
        }
    }
}

/// Where a caller's register is while its callee runs.
pub(crate) enum Saved {
    Untouched,
    /// Stored at CFA + this.
    FromCfa(i64),
}

/// The rules of one file.
pub(crate) struct Rules<A: Arch> {
    base_svma: u64,
    pub(crate) cfi: Cfi,
    places: Places,
    /// Relative addresses of signal return functions.
    signal_returns: Vec<RangeInclusive<u64>>,
    unwinder: A::Unwinder,
    caches: Box<[Option<Box<A::Cache>>]>,
    go: GoFunctions,
    /// `.debug_frame`, where the file has `.eh_frame`, too: gcc with -g and without asynchronous tables puts a program's own
    /// functions there, while the C library's start code in the same file has `.eh_frame`.
    others: Option<Box<Rules<A>>>,
}

/// A kind of processor whose rules are among the tables of files.
pub(crate) trait HasRules: Arch + Sized {
    /// The rules of a module, if they are for this machine.
    fn rules(tables: &mut Tables) -> Option<&mut Rules<Self>>;
}

impl HasRules for X86_64 {
    fn rules(tables: &mut Tables) -> Option<&mut Rules<Self>> {
        match tables {
            Tables::X86_64(rules) => Some(rules),
            Tables::Aarch64(_) => None,
        }
    }
}

impl HasRules for Aarch64 {
    fn rules(tables: &mut Tables) -> Option<&mut Rules<Self>> {
        match tables {
            Tables::Aarch64(rules) => Some(rules),
            Tables::X86_64(_) => None,
        }
    }
}

impl<A: Arch> Rules<A> {
    fn read(elf: &Elf, file: &dyn ReadAt) -> Option<Self> {
        let (sections, go) = read_sections(elf, file);
        let (eh_frame, debug_frame) = sections.split();
        // Go's linker writes `.debug_frame`.
        let debug_frame = Cfi::new(debug_frame, A::COLUMNS).map(|cfi| Rules {
            go,
            ..Rules::new(elf, file, cfi)
        });
        match Cfi::new(eh_frame, A::COLUMNS) {
            Some(cfi) => Some(Rules {
                others: debug_frame.map(Box::new),
                ..Rules::new(elf, file, cfi)
            }),
            None => debug_frame,
        }
    }

    fn new(elf: &Elf, file: &dyn ReadAt, cfi: Cfi) -> Self {
        let signal_returns = signal::returns_in(elf, file, &cfi, A::SIGNAL_RETURNS);
        let mut unwinder = A::Unwinder::default();
        let sections = cfi.module_sections(elf.base_svma);
        unwinder.add_module(framehop::Module::new(
            String::new(),
            0..u64::from(u32::MAX),
            0,
            sections,
        ));
        let count = (cfi.function_count() / FUNCTIONS_PER_CACHE)
            .clamp(1, MAX_CACHES)
            .next_power_of_two();
        Rules {
            base_svma: elf.base_svma,
            places: Places::new(cfi.function_count()),
            cfi,
            signal_returns,
            unwinder,
            caches: (0..count).map(|_| None).collect(),
            go: GoFunctions::default(),
            others: None,
        }
    }

    /// True if the address (not the one before it: a handler returns to the first byte) is in a signal return function.
    pub(crate) fn is_signal_return(&self, relative: u64) -> bool {
        self.signal_returns.iter().any(|range| range.contains(&relative))
    }

    /// True if the byte before the address belongs to the same function, one that has rules and callers.
    pub(crate) fn is_inside_function(&mut self, relative: u64) -> bool {
        let svma = self.base_svma.wrapping_add(relative);
        if self.cfi.same_function(svma.wrapping_sub(1), svma) {
            return self.place(svma) != Place::Root;
        }
        self.others
            .as_mut()
            .is_some_and(|others| others.is_inside_function(relative))
    }

    fn function(&self, relative: u64) -> Option<Range<u64>> {
        let base = self.base_svma;
        match self.cfi.function(base.wrapping_add(relative)) {
            Some(function) => Some(function.start.checked_sub(base)?..function.end.checked_sub(base)?),
            None => self.others.as_ref()?.function(relative),
        }
    }

    /// True if a function has no frame at this place: at its start, and where it returns or makes a tail call.
    pub(crate) fn has_no_frame(&mut self, relative: u64) -> bool {
        let (register, offset) = A::CFA_AT_ENTRY;
        match (self.cfi.row(self.base_svma.wrapping_add(relative)), &mut self.others) {
            (Some(row), _) => row.cfa == CfaRule::RegisterAndOffset { register, offset },
            (None, Some(others)) => others.has_no_frame(relative),
            (None, None) => true,
        }
    }

    /// The row that holds at a relative address.
    pub(crate) fn row(&mut self, relative_lookup: u64) -> Option<Row> {
        match self.cfi.row(self.base_svma.wrapping_add(relative_lookup)) {
            Some(row) => Some(row),
            None => self.others.as_mut()?.row(relative_lookup),
        }
    }

    /// One step from an address of this file, relative to its base.
    pub(crate) fn step(
        &mut self,
        relative: FrameAddress,
        regs: &mut A::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let lookup = relative.address_for_lookup();
        let svma = self.base_svma.wrapping_add(lookup);
        let key = u32::try_from(lookup).ok()?;
        let place = match self.places.get(key) {
            Some(place) => place,
            None => {
                let place = self.place(svma);
                self.places.set(key, place);
                place
            }
        };
        match place {
            Place::Rule => {}
            Place::Root => return Some(Step::Root),
            Place::Uncovered => return self.others.as_mut()?.step(relative, regs, read),
            Place::Unusual | Place::SwitchesStack => {
                let row = self.cfi.row(svma)?;
                let step = A::step_by_row(&self.cfi, &row, relative, None, regs, read);
                return Some(match step {
                    Step::Caller(caller) if place == Place::SwitchesStack => Step::IfItCalled(caller),
                    _ if place == Place::SwitchesStack => Step::OnOtherStack,
                    step => step,
                });
            }
        }
        let slot = spread(key, self.caches.len());
        let cache = self.caches.get_mut(slot)?.get_or_insert_default();
        let mut read_or_err = |address| read(address).map_err(|_| ());
        match self.unwinder.unwind_frame(relative, regs, cache, &mut read_or_err) {
            Ok(Some(caller)) => Some(Step::Caller(caller)),
            Err(framehop::Error::CouldNotReadStack(_)) => Some(Step::NoMemory),
            // framehop reports the end of the stack for a return address of 0, and for a frame pointer of 0 without regard to
            // the caller's rule. It rejects callers that use the frame pointer for something else.
            Ok(None) | Err(_) => {
                let row = self.cfi.row(svma)?;
                Some(A::step_by_row(&self.cfi, &row, relative, None, regs, read))
            }
        }
    }

    /// One step with the value of a register that the rule needs.
    pub(crate) fn step_with(
        &mut self,
        relative: FrameAddress,
        saved: (Register, u64),
        regs: &mut A::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let svma = self.base_svma.wrapping_add(relative.address_for_lookup());
        match self.cfi.row(svma) {
            Some(row) => Some(A::step_by_row(&self.cfi, &row, relative, Some(saved), regs, read)),
            None => self.others.as_mut()?.step_with(relative, saved, regs, read),
        }
    }

    /// What the code at an address has done with a register: where it is, relative to the CFA, if it was saved.
    /// `None`: nothing is known.
    pub(crate) fn saved_at(&mut self, relative_lookup: u64, register: Register) -> Option<Saved> {
        let svma = self.base_svma.wrapping_add(relative_lookup);
        let Some(rule) = self.cfi.rule(svma, register) else {
            return self.others.as_mut()?.saved_at(relative_lookup, register);
        };
        match rule {
            None | Some(RegisterRule::SameValue) => Some(Saved::Untouched),
            Some(RegisterRule::Offset(offset)) => Some(Saved::FromCfa(offset)),
            _ => None,
        }
    }

    fn place(&mut self, svma: u64) -> Place {
        match (self.cfi.row(svma), self.go.at(svma)) {
            (None, _) => Place::Uncovered,
            (Some(_), Some(Special::TopOfStack)) => Place::Root,
            (Some(_), Some(Special::SwitchesStack)) => Place::SwitchesStack,
            (Some(row), None) => match A::place(&row) {
                Place::Rule if !self.cfi.row_is_portable(svma) => Place::Unusual,
                place => place,
            },
        }
    }
}

/// The relative addresses of all functions with rules, in order.
pub(crate) fn functions(elf: &Elf, file: &dyn ReadAt) -> Option<Vec<Range<u64>>> {
    let columns = match elf.machine {
        elf::EM_X86_64 => X86_64::COLUMNS,
        elf::EM_AARCH64 => Aarch64::COLUMNS,
        _ => return None,
    };
    let (eh_frame, debug_frame) = read_sections(elf, file).0.split();
    let tables = [eh_frame, debug_frame].map(|sections| Cfi::new(sections, columns));
    let functions = tables.iter().flatten().flat_map(Cfi::functions);
    let relative =
        |svma: Range<u64>| Some(svma.start.checked_sub(elf.base_svma)?..svma.end.checked_sub(elf.base_svma)?);
    let mut functions: Vec<Range<u64>> = functions.filter_map(relative).collect();
    functions.sort_unstable_by_key(|function| (function.start, function.end));
    Some(functions)
}

fn read_sections(elf: &Elf, file: &dyn ReadAt) -> (Sections, GoFunctions) {
    let [eh_frame, eh_frame_hdr, debug_frame, text, got, go] = elf.sections(
        file,
        [
            b".eh_frame",
            b".eh_frame_hdr",
            b".debug_frame",
            b".text",
            b".got",
            b".gopclntab",
        ],
    );
    let go = go.and_then(|section| elf::read_section(file, section));
    let read = |piece| elf::read_piece(file, piece).map(Arc::<[u8]>::from);
    let eh_frame_hdr = elf.eh_frame_hdr().or(eh_frame_hdr.map(|section| section.piece));
    let eh_frame_hdr = eh_frame_hdr.and_then(|piece| Some((piece.svma, read(piece)?)));
    // Without section headers: from where .eh_frame_hdr points to, to the end of the segment.
    let pointed_to = || {
        let (svma, index) = eh_frame_hdr.as_ref()?;
        let pointer = u32_at(index, 4).filter(|_| index.get(1) == Some(&0x1b))? as i32;
        elf.rest_from(svma.wrapping_add(4).wrapping_add_signed(i64::from(pointer)))
    };
    let eh_frame = eh_frame
        .map(|section| section.piece)
        .or_else(pointed_to)
        .and_then(|piece| Some((piece.svma, read(piece)?)));
    let sections = Sections {
        debug_frame: debug_frame.and_then(|section| Some(elf::read_section(file, section)?.into())),
        eh_frame,
        eh_frame_hdr,
        text_svma: text.map_or(0, |section| section.piece.svma),
        got_svma: got.map_or(0, |section| section.piece.svma),
    };
    (
        sections,
        go.map_or_else(GoFunctions::default, |table| GoFunctions::new(&table)),
    )
}

/// Remembers the [`Place`] of addresses: a table of fixed size in which a later address displaces an earlier one.
struct Places {
    entries: Box<[u64]>,
}

impl Places {
    fn new(functions: usize) -> Self {
        let count = functions.saturating_mul(4).clamp(1 << 8, 1 << 16).next_power_of_two();
        Places {
            entries: vec![0; count].into(),
        }
    }

    fn get(&self, key: u32) -> Option<Place> {
        let entry = *self.entries.get(spread(key, self.entries.len()))?;
        if entry >> 8 != u64::from(key) {
            return None;
        }
        let places = [
            Place::Rule,
            Place::Unusual,
            Place::Root,
            Place::SwitchesStack,
            Place::Uncovered,
        ];
        (places.into_iter()).find(|place| *place as u64 == entry & 0xff)
    }

    fn set(&mut self, key: u32, place: Place) {
        if let Some(entry) = self.entries.get_mut(spread(key, self.entries.len())) {
            *entry = u64::from(key) << 8 | place as u64;
        }
    }
}

/// Spreads neighbouring addresses over `count` slots, a power of two.
fn spread(key: u32, count: usize) -> usize {
    // Fibonacci hashing: the upper bits of the product are the well mixed ones.
    (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (count - 1)
}
