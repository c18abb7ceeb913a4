//! The unwind rules of a Mach-O file: compact entries, and the code that they do not describe.
//!
//! An entry holds in the body of a function, where the function has called. An interrupted function may be in its
//! prologue or its epilogue: there the code decides. Functions that a compact entry can't describe have rules in
//! `__eh_frame`, which [`Cfi`](crate::files::cfi::Cfi) follows. Rust's are nearly all of that kind: 98 % of the code of
//! biome, where Node has 0.5 %.

use std::ops::Range;

use crate::arch::rule::{AddressRule, Rule};
use crate::arch::{Arch, CompactRule};
use crate::files::file_slice::read_slice;
use crate::files::macho::{MachO, SignalTrampoline};
use crate::files::macho_functions::MachOFunctions;
use crate::files::unwind_info::UnwindInfo;
use crate::tables::code_rules::CodeRules;
use recording::little_endian::u32_at;
use recording::sink::KeptFile;

/// The compact entries and the code of a file.
pub(crate) struct CompactTables {
    unwind_info: Option<UnwindInfo>,
    functions: MachOFunctions,
    object: MachO,
    /// Where code is read. `None`: too many files are open.
    file: Option<KeptFile>,
    trampoline: SignalTrampoline,
    by_code: CodeRules,
}

impl CompactTables {
    /// Reads the tables of a file. Code is read from `code`, if that is given.
    pub(crate) fn read(object: &MachO, file: &KeptFile, code: Option<&KeptFile>) -> CompactTables {
        let unwind_info = object.unwind_info.as_ref().and_then(|range| object.piece(range));
        let unwind_info = unwind_info.and_then(|piece| read_slice(&**file, piece));
        CompactTables {
            unwind_info: unwind_info.and_then(UnwindInfo::new),
            functions: MachOFunctions::read(object, &**file),
            trampoline: object.trampoline(&**file),
            object: object.clone(),
            file: code.cloned(),
            by_code: CodeRules::default(),
        }
    }

    /// True if nothing is known of any code.
    pub(crate) fn is_empty(&self) -> bool {
        self.unwind_info.is_none() && self.functions.len() == 0
    }

    /// How many functions have a place in the tables.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// True if signal handlers may be started by the function at this address.
    pub(crate) fn may_be_trampoline(&self, relative: u64) -> bool {
        match &self.trampoline {
            SignalTrampoline::None => false,
            SignalTrampoline::Somewhere => true,
            SignalTrampoline::At(start) => self.function(relative).is_some_and(|function| function.start == *start),
        }
    }

    /// The relative addresses of the function that holds this one.
    pub(crate) fn function(&self, relative: u64) -> Option<Range<u64>> {
        if let Some(function) = self.functions.at(relative) {
            return Some(function);
        }
        let entry = self.unwind_info.as_ref()?.find(u32::try_from(relative).ok()?)?;
        Some(entry.start.into()..entry.end.into())
    }

    /// What holds at a relative address. `None`: `__eh_frame` says it. `is_leaf`: the function was interrupted there,
    /// and has not called.
    pub(crate) fn place<A: Arch>(&mut self, relative: u64, is_leaf: bool) -> Option<AddressRule> {
        let Some(section) = self.functions.section(relative) else {
            return Some(AddressRule::Uncovered);
        };
        if section.is_stubs {
            return Some(match Rule::at_entry(A::CFA_AT_ENTRY).filter(|_| is_leaf) {
                Some(rule) => AddressRule::Usual(rule),
                None => AddressRule::Uncovered,
            });
        }
        let entry = u32::try_from(relative)
            .ok()
            .and_then(|at| self.unwind_info.as_ref()?.find(at));
        let encoding = entry.as_ref().map_or(0, |entry| entry.encoding);
        let start = entry.map_or(relative, |entry| u64::from(entry.start));
        let code = |offset| self.word(start.checked_add(offset)?);
        let in_body = A::compact_rule(encoding, &mut { code });
        if (is_leaf || in_body == CompactRule::None)
            && let Some(rule) = self.rule_by_code::<A>(relative)
        {
            return Some(AddressRule::Usual(rule));
        }
        match in_body {
            CompactRule::Rule(rule) => Some(AddressRule::Usual(rule)),
            CompactRule::None => Some(AddressRule::Uncovered),
            CompactRule::Dwarf => None,
        }
    }

    fn word(&self, relative: u64) -> Option<u32> {
        u32_at(
            &code_of(&self.object, self.file.as_ref()?, relative..relative.checked_add(4)?)?,
            0,
        )
    }

    /// The rule at an address by the code of its function from its start on. `None`: only the table knows it.
    fn rule_by_code<A: Arch>(&mut self, relative: u64) -> Option<Rule> {
        let function = self.function(relative)?;
        let (object, file) = (&self.object, self.file.as_ref());
        self.by_code
            .at::<A>(relative, function, |function| code_of(object, file?, function))
    }
}

fn code_of(object: &MachO, file: &KeptFile, relative: Range<u64>) -> Option<Vec<u8>> {
    let base = object.base_svma;
    let range = base.checked_add(relative.start)?..base.checked_add(relative.end)?;
    read_slice(&**file, object.piece(&range)?)
}
