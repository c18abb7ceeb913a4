//! The unwind tables of one file, shared by all processes that map it.
//!
//! framehop does not follow these rules: where a table has no entry or an unusual one, framehop goes by frame pointer
//! and does not report that, and it parses each entry again. The tests compare the two.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::address::FrameAddress;
use gimli::{CfaRule, Register, RegisterRule};

use crate::arch::aarch64::Aarch64;
use crate::arch::rule::{AddressRule, Rule, RuleCache};
use crate::arch::signal;
use crate::arch::x86_64::X86_64;
use crate::arch::{Arch, ReadStack, Step};
use crate::files::cfi::{Cfi, CfiRow, CfiSections};
use crate::files::cfi_entries::without_b_key;
use crate::files::elf::{self, Elf};
use crate::files::file_slice::{read_slice, read_table};
use crate::files::go::{GoFunctions, GoSpecial};
use crate::files::machine::Machine;
use crate::files::macho::MachO;
use crate::files::object::ObjectFile;
use crate::tables::compact::CompactTables;
use crate::tables::elf_code::ElfCode;
use crate::tables::function_rules::FunctionRules;
use recording::little_endian::u32_at;
use recording::sink::{KeptFile, ReadAt};

/// Where a caller's register is while its callee runs.
pub(crate) enum SavedPlace {
    Untouched,
    /// Stored at CFA + this.
    FromCfa(i64),
}

/// The tables of one file.
pub(crate) struct FileTables {
    machine: Machine,
    pub(crate) base_svma: u64,
    pub(crate) cfi: Cfi,
    /// Rules of addresses that steps were made from.
    rule_cache: RuleCache,
    /// Rules of functions in `cfi`.
    function_rules: FunctionRules,
    /// Relative addresses of signal return functions.
    signal_returns: Vec<RangeInclusive<u64>>,
    go: GoFunctions,
    /// The code of an ELF file, for functions without rules. `None`: too many files are open.
    code: Option<Box<ElfCode>>,
    /// Where a Mach-O file has them: its own rules come first, and refer to those of `cfi`.
    compact: Option<Box<CompactTables>>,
    /// `.debug_frame` of a file that also has `.eh_frame`: gcc with -g and without asynchronous tables puts a program's
    /// own functions there, while the C library's start code in the same file has `.eh_frame`.
    debug_frame: Option<Box<FileTables>>,
}

impl FileTables {
    /// Reads the unwind sections. `None` if no section can be read. `is_kept`: the file may stay open, for its code to
    /// be read.
    pub(crate) fn read(object: &ObjectFile, file: &KeptFile, is_kept: bool) -> Option<FileTables> {
        let code = Some(file).filter(|_| is_kept);
        match (object, object.machine()?) {
            (ObjectFile::Elf(elf), Machine::X86_64) => FileTables::of_elf::<X86_64>(elf, file, code),
            (ObjectFile::Elf(elf), Machine::Aarch64) => FileTables::of_elf::<Aarch64>(elf, file, code),
            (ObjectFile::MachO(macho), Machine::X86_64) => FileTables::of_macho::<X86_64>(macho, file, code),
            (ObjectFile::MachO(macho), Machine::Aarch64) => FileTables::of_macho::<Aarch64>(macho, file, code),
        }
    }

    fn of_macho<A: Arch>(macho: &MachO, file: &KeptFile, code: Option<&KeptFile>) -> Option<FileTables> {
        let compact = CompactTables::read(macho, file, code);
        let cfi = cfi_of_macho::<A>(macho, &**file);
        if compact.is_empty() && cfi.is_none() {
            return None;
        }
        let cfi = cfi.unwrap_or_else(|| Cfi::empty(A::COLUMNS));
        Some(FileTables {
            machine: A::MACHINE,
            base_svma: macho.base_svma,
            rule_cache: RuleCache::new(cfi.function_count().max(compact.function_count())),
            function_rules: FunctionRules::new(cfi.function_count()),
            cfi,
            signal_returns: Vec::new(),
            go: GoFunctions::default(),
            code: None,
            compact: Some(Box::new(compact)),
            debug_frame: None,
        })
    }

    fn of_elf<A: Arch>(elf: &Elf, file: &KeptFile, code: Option<&KeptFile>) -> Option<FileTables> {
        let code = code.map(|code| Box::new(ElfCode::new(elf, code)));
        let tables = FileTables::of_sections::<A>(elf, &**file);
        // Without any rules, code is all there is.
        let none = || FileTables::new::<A>(elf, &**file, Cfi::empty(A::COLUMNS));
        let tables = tables.or_else(|| code.is_some().then(none))?;
        Some(FileTables { code, ..tables })
    }

    fn of_sections<A: Arch>(elf: &Elf, file: &dyn ReadAt) -> Option<FileTables> {
        let (sections, go) = read_sections(elf, file);
        let (eh_frame, debug_frame) = sections.split();
        // Go's linker writes `.debug_frame`.
        let debug_frame = Cfi::new(debug_frame, A::COLUMNS).map(|cfi| FileTables {
            go,
            ..FileTables::new::<A>(elf, file, cfi)
        });
        match Cfi::new(eh_frame, A::COLUMNS) {
            Some(cfi) => Some(FileTables {
                debug_frame: debug_frame.map(Box::new),
                ..FileTables::new::<A>(elf, file, cfi)
            }),
            None => debug_frame,
        }
    }

    fn new<A: Arch>(elf: &Elf, file: &dyn ReadAt, cfi: Cfi) -> FileTables {
        let signal_returns = signal::returns_in(elf, file, &cfi, A::SIGNAL_RETURNS);
        FileTables {
            machine: A::MACHINE,
            base_svma: elf.base_svma,
            rule_cache: RuleCache::new(cfi.function_count()),
            function_rules: FunctionRules::new(cfi.function_count()),
            cfi,
            signal_returns,
            go: GoFunctions::default(),
            code: None,
            compact: None,
            debug_frame: None,
        }
    }

    /// These tables, if they are for this machine.
    pub(crate) fn of<A: Arch>(&mut self) -> Option<&mut FileTables> {
        (self.machine == A::MACHINE).then_some(self)
    }

    /// True if some functions of the file have rules: those that have none are assembly, then.
    pub(crate) fn has_functions(&self) -> bool {
        self.cfi.function_count() > 0 || self.compact.is_some() || self.debug_frame.is_some()
    }

    /// True if the address (not the one before it: a handler returns to the first byte) is in a signal return function.
    pub(crate) fn is_signal_return(&self, relative: u64) -> bool {
        self.signal_returns.iter().any(|range| range.contains(&relative))
    }

    /// True if the byte before the address belongs to the same function, one that has rules and callers.
    pub(crate) fn is_inside_function<A: Arch>(&mut self, relative: u64) -> bool {
        let svma = self.base_svma.wrapping_add(relative);
        if let Some(compact) = &self.compact {
            let function = compact.function(relative);
            return function.is_some_and(|function| function.start < relative);
        }
        if self.cfi.same_function(svma.wrapping_sub(1), svma) {
            return self.rule_in_tables::<A>(svma, false) != AddressRule::Root;
        }
        self.debug_frame
            .as_mut()
            .is_some_and(|others| others.is_inside_function::<A>(relative))
    }

    /// The relative addresses of the function that holds this one.
    pub(crate) fn function(&self, relative: u64) -> Option<Range<u64>> {
        let base = self.base_svma;
        if let Some(compact) = &self.compact {
            return compact.function(relative);
        }
        match self.cfi.function(base.wrapping_add(relative)) {
            Some(function) => Some(function.start.checked_sub(base)?..function.end.checked_sub(base)?),
            None => self.debug_frame.as_ref()?.function(relative),
        }
    }

    /// True if a function has no frame at this place: at its start, and where it returns or makes a tail call.
    pub(crate) fn has_no_frame<A: Arch>(&mut self, relative: u64) -> bool {
        let (register, offset) = A::CFA_AT_ENTRY;
        if self.compact.is_some() {
            return match self.rule_in_tables::<A>(self.base_svma.wrapping_add(relative), true) {
                AddressRule::Usual(rule) => rule.is_from_sp() && Ok(rule.cfa(0, 0)) == u64::try_from(offset),
                place => place == AddressRule::Uncovered,
            };
        }
        match (
            self.cfi.row(self.base_svma.wrapping_add(relative)),
            &mut self.debug_frame,
        ) {
            (Some(row), _) => row.cfa == CfaRule::RegisterAndOffset { register, offset },
            (None, Some(others)) => others.has_no_frame::<A>(relative),
            (None, None) => true,
        }
    }

    /// True if the address is the first byte of a function, and the byte before is not in one that goes on there.
    pub(crate) fn begins_function<A: Arch>(&mut self, relative: u64) -> bool {
        let before = FrameAddress::from_return_address(relative).and_then(|address| self.rule_at::<A>(address));
        !matches!(before, None | Some(AddressRule::Usual(_)))
            && self
                .function(relative)
                .is_some_and(|function| function.start == relative)
    }

    fn is_last_byte(&self, svma: u64) -> bool {
        let Some((entry, offset)) = self.cfi.entry(svma) else {
            return false;
        };
        match self.function_rules.len(entry) {
            Some(len) => offset.checked_add(1) == Some(len),
            None => self
                .cfi
                .function(svma)
                .is_some_and(|function| function.end.wrapping_sub(1) == svma),
        }
    }

    /// The row that holds at a relative address.
    pub(crate) fn row(&mut self, relative_lookup: u64) -> Option<CfiRow> {
        match self.cfi.row(self.base_svma.wrapping_add(relative_lookup)) {
            Some(row) => Some(row),
            None => self.debug_frame.as_mut()?.row(relative_lookup),
        }
    }

    /// True if the row that holds at a relative address has an expression that jumps: see [`Cfi::jumps`].
    pub(crate) fn row_jumps(&mut self, relative_lookup: u64) -> bool {
        match self.cfi.row(self.base_svma.wrapping_add(relative_lookup)) {
            Some(row) => self.cfi.jumps(&row),
            None => {
                let debug_frame = self.debug_frame.as_mut();
                debug_frame.is_some_and(|tables| tables.row_jumps(relative_lookup))
            }
        }
    }

    /// One step from an address of this file, relative to its base.
    pub(crate) fn step<A: Arch>(
        &mut self,
        relative: FrameAddress,
        regs: &mut A::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let place = self.rule_at::<A>(relative)?;
        let step = self.apply::<A>(place, relative, regs, read);
        if self.compact.is_some() {
            A::unflag_fp(regs);
        }
        step
    }

    /// The rule that [`FileTables::step`] follows by [`Arch::step_by_rule`] and nothing else. Inlined, as each frame
    /// has it looked up.
    #[inline(always)]
    pub(crate) fn usual_rule<A: Arch>(&mut self, relative: FrameAddress) -> Option<Rule> {
        if self.compact.is_some() || self.is_signal_return(relative.address()) {
            return None;
        }
        match self.rule_at::<A>(relative)? {
            AddressRule::Usual(rule) => Some(rule),
            _ => None,
        }
    }

    /// What the tables say of an address: looked up in them once, and then remembered.
    #[inline(always)]
    fn rule_at<A: Arch>(&mut self, relative: FrameAddress) -> Option<AddressRule> {
        let lookup = relative.address_for_lookup();
        let key = u32::try_from(lookup).ok()?;
        match self.rule_cache.get(key) {
            Some(place) => Some(place),
            None => Some(self.look_up::<A>(key, !relative.is_return_address())),
        }
    }

    /// Looks it up in the tables. Seldom called: its code is not to be in the loop over frames.
    #[inline(never)]
    fn look_up<A: Arch>(&mut self, lookup: u32, is_leaf: bool) -> AddressRule {
        let relative = u64::from(lookup);
        let svma = self.base_svma.wrapping_add(relative);
        let place = match self.is_trampoline(relative) {
            true => AddressRule::Trampoline,
            false => match self.rule_in_tables::<A>(svma, is_leaf) {
                AddressRule::Usual(rule) if self.compact.is_none() && self.is_last_byte(svma) => {
                    AddressRule::Last(rule)
                }
                place => place,
            },
        };
        self.rule_cache.set(lookup, place);
        place
    }

    fn apply<A: Arch>(
        &mut self,
        place: AddressRule,
        relative: FrameAddress,
        regs: &mut A::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let svma = self.base_svma.wrapping_add(relative.address_for_lookup());
        match place {
            AddressRule::Usual(rule) | AddressRule::Last(rule) => {
                Some(A::step_by_rule(&rule, relative, regs, &mut |address| read(address)))
            }
            AddressRule::Root => Some(Step::Root),
            AddressRule::Trampoline => {
                let place = self.rule_in_tables::<A>(svma, !relative.is_return_address());
                // Rules in `__eh_frame` lead to the interrupted function, not to the kernel's frame.
                let rule = match place {
                    AddressRule::Usual(rule) | AddressRule::Last(rule) => Some(rule),
                    _ => Rule::from_frame_record(),
                };
                let cfa = rule?.cfa(A::sp(regs), A::fp(regs));
                match A::step_out_of_trampoline(cfa, regs, read) {
                    Some(step) => Some(step),
                    None => self.apply::<A>(place, relative, regs, read),
                }
            }
            AddressRule::Uncovered => self.debug_frame.as_mut()?.step::<A>(relative, regs, read),
            AddressRule::Unusual | AddressRule::SwitchesStack => {
                let row = self.cfi.row(svma)?;
                let step = A::step_by_row(&self.cfi, &row, relative, &[], regs, read);
                Some(match step {
                    Step::Caller(caller) if place == AddressRule::SwitchesStack => Step::IfItCalled(caller),
                    _ if place == AddressRule::SwitchesStack => Step::OnOtherStack,
                    step => step,
                })
            }
        }
    }

    /// Whether the address is in a function that is declared to be a signal return function. `None`: nothing describes
    /// it.
    pub(crate) fn declares_signal_return<A: Arch>(&mut self, relative: u64) -> Option<bool> {
        let is_return = self.is_signal_return(relative);
        (is_return || !self.is_uncovered::<A>(relative)).then_some(is_return)
    }

    /// True if nothing describes an address of an ELF file.
    fn is_uncovered<A: Arch>(&mut self, relative: u64) -> bool {
        self.compact.is_none()
            && self.rule_at::<A>(FrameAddress::InstructionPointer(relative)) == Some(AddressRule::Uncovered)
            && self
                .debug_frame
                .as_mut()
                .is_none_or(|others| others.is_uncovered::<A>(relative))
    }

    /// The rule at an address that nothing describes, by the code of its function.
    pub(crate) fn rule_by_code<A: Arch>(&mut self, relative_lookup: u64) -> Option<Rule> {
        let svma = self.base_svma.wrapping_add(relative_lookup);
        let around = self.around(svma);
        self.code.as_mut()?.rule::<A>(svma, around)
    }

    /// The register that has the return address of the function at an address that nothing describes.
    pub(crate) fn return_register<A: Arch>(&mut self, relative: u64) -> Option<Register> {
        let svma = self.base_svma.wrapping_add(relative);
        let around = self.around(svma);
        self.code.as_mut()?.return_register::<A>(svma, around)
    }

    /// From the start of the last function that has rules to the start of the next one.
    fn around(&self, svma: u64) -> Range<u64> {
        let around = |cfi: &Cfi| {
            let start = cfi.entry(svma).map_or(0, |(_, offset)| svma - offset);
            (start, cfi.next_start(svma).unwrap_or(u64::MAX))
        };
        let (start, end) = around(&self.cfi);
        let others = self.debug_frame.as_ref().map(|others| around(&others.cfi));
        let (others_start, others_end) = others.unwrap_or((0, u64::MAX));
        start.max(others_start)..end.min(others_end)
    }

    /// One step with the values of registers that the rule needs.
    pub(crate) fn step_with<A: Arch>(
        &mut self,
        relative: FrameAddress,
        known: &[(Register, u64)],
        regs: &mut A::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let svma = self.base_svma.wrapping_add(relative.address_for_lookup());
        match self.cfi.row(svma) {
            Some(row) => Some(A::step_by_row(&self.cfi, &row, relative, known, regs, read)),
            None => self.debug_frame.as_mut()?.step_with::<A>(relative, known, regs, read),
        }
    }

    /// What the code at an address has done with a register: where it is, relative to the CFA, if it was saved.
    /// `None`: nothing is known.
    pub(crate) fn saved_at(&mut self, relative_lookup: u64, register: Register) -> Option<SavedPlace> {
        let svma = self.base_svma.wrapping_add(relative_lookup);
        let Some(rule) = self.cfi.rule(svma, register) else {
            return self.debug_frame.as_mut()?.saved_at(relative_lookup, register);
        };
        match rule {
            None | Some(RegisterRule::SameValue) => Some(SavedPlace::Untouched),
            Some(RegisterRule::Offset(offset)) => Some(SavedPlace::FromCfa(offset)),
            _ => None,
        }
    }

    fn is_trampoline(&self, relative: u64) -> bool {
        let compact = self.compact.as_ref();
        compact.is_some_and(|compact| compact.may_be_trampoline(relative))
    }

    /// What the tables say of an address. `is_leaf`: it was interrupted, and has not called.
    fn rule_in_tables<A: Arch>(&mut self, svma: u64, is_leaf: bool) -> AddressRule {
        let relative = svma.wrapping_sub(self.base_svma);
        if let Some(place) = { self.compact.as_mut() }.and_then(|compact| compact.place::<A>(relative, is_leaf)) {
            return place;
        }
        match self.go.at(svma) {
            None => self
                .rule_of_function::<A>(svma)
                .unwrap_or_else(|| self.rule_by_cfi::<A>(svma)),
            Some(_) if self.cfi.row(svma).is_none() => AddressRule::Uncovered,
            Some(GoSpecial::TopOfStack) => AddressRule::Root,
            Some(GoSpecial::SwitchesStack) => AddressRule::SwitchesStack,
        }
    }

    fn rule_by_cfi<A: Arch>(&mut self, svma: u64) -> AddressRule {
        self.cfi
            .row(svma)
            .map_or(AddressRule::Uncovered, |row| rule_of_row::<A>(&row))
    }

    /// What the rows of a function say of an address. They are parsed if they were not; `None` if that can't be done
    /// for all of them.
    fn rule_of_function<A: Arch>(&mut self, svma: u64) -> Option<AddressRule> {
        let (entry, offset) = self.cfi.entry(svma)?;
        if !self.function_rules.has(entry) {
            let mut rows = Vec::new();
            let len = self
                .cfi
                .each_row(entry, &mut |end, row| rows.push((end, rule_of_row::<A>(&row))));
            self.function_rules.set(entry, len, &rows);
        }
        let place = self.function_rules.get(entry, offset)?;
        debug_assert_eq!(place, self.rule_by_cfi::<A>(svma), "{svma:#x}");
        Some(place)
    }
}

fn rule_of_row<A: Arch>(row: &CfiRow) -> AddressRule {
    if A::is_root(row) {
        return AddressRule::Root;
    }
    Rule::from_row(row, A::CFA_AT_ENTRY.0, A::COLUMNS).map_or(AddressRule::Unusual, AddressRule::Usual)
}

/// The call frame information of a Mach-O file: of the functions whose compact entries refer to it.
fn cfi_of_macho<A: Arch>(macho: &MachO, file: &dyn ReadAt) -> Option<Cfi> {
    let range = macho.eh_frame.as_ref()?;
    let bytes = read_slice(file, macho.piece(range)?)?;
    let sections = CfiSections {
        eh_frame: Some((range.start, Arc::new(without_b_key(bytes).into()))),
        eh_frame_hdr: None,
        debug_frame: None,
        text_svma: macho.code.first().map_or(0, |section| section.range.start),
        got_svma: 0,
    };
    Cfi::new(sections, A::COLUMNS)
}

/// The call frame information of a file: `.eh_frame` and `.debug_frame`, each if it is there.
pub(crate) fn read_cfi(elf: &Elf, file: &dyn ReadAt) -> Vec<Cfi> {
    let columns = match elf.machine {
        Some(Machine::X86_64) => X86_64::COLUMNS,
        Some(Machine::Aarch64) => Aarch64::COLUMNS,
        None => return Vec::new(),
    };
    let (eh_frame, debug_frame) = read_sections(elf, file).0.split();
    let tables = [eh_frame, debug_frame].map(|sections| Cfi::new(sections, columns));
    tables.into_iter().flatten().collect()
}

fn read_sections(elf: &Elf, file: &dyn ReadAt) -> (CfiSections, GoFunctions) {
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
    let read = |piece| read_table(file, piece).map(Arc::new);
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
    let sections = CfiSections {
        debug_frame: debug_frame.and_then(|section| Some(Arc::new(elf::read_section(file, section)?.into()))),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
