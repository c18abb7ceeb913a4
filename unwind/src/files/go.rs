//! Functions of Go's runtime at which a stack ends, from the table that every Go program carries for its own unwinder.
//!
//! Go's `.debug_frame` gives every function a caller. It even gives one to `runtime.goexit`, which has none: above it
//! lie old frames of another goroutine. It also does not state that `runtime.systemstack` and `runtime.mcall` switch to
//! the stack of g0, the thread's system stack, where no caller lies. `.gopclntab` has a flag for each case, and
//! `runtime.gentraceback` (src/runtime/traceback.go) stops at both.
//!
//! Without this table, 24 % of the stacks of a net/http server continued above `runtime.goexit`.
//!
//! Layout: `pcHeader` and `_func` in src/runtime/symtab.go and runtime2.go, flags in src/runtime/symtab.go
//! (`abi.FuncFlag` since 1.21).

use std::ops::Range;

use recording::little_endian::{u32_at, u64_at};

/// `pcHeader.magic` of Go 1.18 and 1.19, and since 1.20.
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;
/// Offset of `_func.flag`: behind 9 fields of 32 bits (10 since 1.20, with `startLine`) and `funcID`.
const FLAG_1_18: usize = 9 * 4 + 1;
const FLAG_1_20: usize = 10 * 4 + 1;

/// `funcFlag_TOPFRAME`: "a function that appears at the top of its stack".
const TOP_OF_STACK: u8 = 1;
/// `funcFlag_SPWRITE`: "a function that writes an arbitrary value to SP".
const SWITCHES_STACK: u8 = 1 << 1;

/// Most special functions of one file. Go 1.22's runtime has 20.
const MAX_FUNCTIONS: usize = 1024;

/// Where a stack ends at a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoSpecial {
    /// The function has no caller.
    TopOfStack,
    /// The function's caller may be on another stack.
    SwitchesStack,
}

/// The special functions of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GoFunctions {
    /// By stated address.
    functions: Vec<(Range<u64>, GoSpecial)>,
}

impl GoFunctions {
    /// Reads the contents of `.gopclntab`. The result has no functions for tables from before Go 1.18.
    pub(crate) fn new(table: &[u8]) -> Self {
        GoFunctions {
            functions: special_functions(table).unwrap_or_default(),
        }
    }

    /// Whether a stack ends at the function at a stated address. `None` for ordinary functions.
    pub(crate) fn at(&self, svma: u64) -> Option<GoSpecial> {
        let after = self.functions.partition_point(|(range, _)| range.start <= svma);
        let (range, special) = self.functions.get(after.checked_sub(1)?)?;
        range.contains(&svma).then_some(*special)
    }
}

fn special_functions(table: &[u8]) -> Option<Vec<(Range<u64>, GoSpecial)>> {
    let flag_at = match u32_at(table, 0)? {
        GO_1_18 => FLAG_1_18,
        GO_1_20 => FLAG_1_20,
        _ => return None,
    };
    // 8 bytes: magic, padding, instruction size, pointer size. Then words: number of functions, of files, address of
    // the code, offsets of five tables, the function table last.
    let field = |index: usize| u64_at(table, 8 + index * 8);
    // The loader fills this field in a position-independent program; in the file it is 0.
    let code = field(2).filter(|code| *code != 0)?;
    let count = usize::try_from(field(0)?).ok()?;
    let functions = table.get(usize::try_from(field(7)?).ok()?..)?;
    // (offset of the code, offset of `_func`) of each function, then where the last one ends.
    let entries = functions.get(..count.checked_mul(8)?.checked_add(4)?)?;
    let mut special = Vec::new();
    for at in (0..count).map(|index| index * 8) {
        let (start, end) = (u32_at(entries, at)?, u32_at(entries, at + 8)?);
        let function = u32_at(entries, at + 4)? as usize;
        let flag = *functions.get(function.checked_add(flag_at)?)?;
        let kind = match flag {
            flag if flag & TOP_OF_STACK != 0 => GoSpecial::TopOfStack,
            flag if flag & SWITCHES_STACK != 0 => GoSpecial::SwitchesStack,
            _ => continue,
        };
        if start >= end || special.len() >= MAX_FUNCTIONS {
            return None;
        }
        let address = |offset: u32| code.checked_add(u64::from(offset));
        special.push((address(start)?..address(end)?, kind));
    }
    special.is_sorted_by_key(|(range, _)| range.start).then_some(special)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of functions of 0x20 bytes each, from 0x401000 on, with these flags.
    fn table(magic: u32, flag_at: usize, flags: &[u8]) -> Vec<u8> {
        let mut table = magic.to_le_bytes().to_vec();
        table.extend([0, 0, 1, 8]);
        for field in [flags.len() as u64, 0, 0x40_1000, 0, 0, 0, 0, 72] {
            table.extend(field.to_le_bytes());
        }
        let entries = flags.len() * 8 + 4;
        for index in 0..flags.len() {
            table.extend((index as u32 * 0x20).to_le_bytes());
            table.extend(((entries + index * 48) as u32).to_le_bytes());
        }
        table.extend((flags.len() as u32 * 0x20).to_le_bytes());
        for flag in flags {
            let mut function = [0xaa; 48];
            function[flag_at] = *flag;
            table.extend(function);
        }
        table
    }

    #[test]
    fn ends_of_stacks_are_flagged() {
        for (magic, flag_at) in [(GO_1_18, 37), (GO_1_20, 41)] {
            // An ordinary function in assembly, goexit, systemstack, rt0_go.
            let functions = GoFunctions::new(&table(magic, flag_at, &[4, 5, 6, 7]));
            assert_eq!(functions.at(0x40_1010), None);
            assert_eq!(functions.at(0x40_1020), Some(GoSpecial::TopOfStack));
            assert_eq!(functions.at(0x40_105f), Some(GoSpecial::SwitchesStack));
            assert_eq!(functions.at(0x40_1060), Some(GoSpecial::TopOfStack));
            assert_eq!(functions.at(0x40_1080), None);
        }
    }

    #[test]
    fn a_damaged_table_says_nothing() {
        let whole = table(GO_1_20, FLAG_1_20, &[5, 5, 5]);
        for len in 0..whole.len() {
            let cut = special_functions(&whole[..len]);
            assert!(cut.is_none_or(|found| found.len() == 3), "{len}");
        }
        let mut many = whole.clone();
        many[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(special_functions(&many), None);
        let mut unrelocated = whole;
        unrelocated[24..32].fill(0);
        assert_eq!(special_functions(&unrelocated), None);
    }
}
