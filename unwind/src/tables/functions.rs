//! Functions that need no symbol: by their unwind rules, or from a list.

use std::ops::Range;

use crate::files::cfi::Cfi;
use crate::files::macho_functions::MachOFunctions;
use crate::files::object::ObjectFile;
use crate::tables::file_tables;
use recording::sink::ReadAt;

/// The functions of an ELF file that have unwind rules, or those in the list of a Mach-O file. Addresses are relative
/// to the lowest segment.
pub struct Functions {
    tables: Vec<Cfi>,
    list: Option<MachOFunctions>,
    base_svma: u64,
}

impl Functions {
    /// Copies the tables of a file. Without tables that can be read, no function is found.
    pub fn read(file: &dyn ReadAt) -> Functions {
        let object = ObjectFile::read(file, None).ok();
        Functions {
            base_svma: object.as_ref().map_or(0, ObjectFile::base_svma),
            tables: match &object {
                Some(ObjectFile::Elf(elf)) => file_tables::read_cfi(elf, file),
                _ => Vec::new(),
            },
            list: match &object {
                Some(ObjectFile::MachO(macho)) => Some(MachOFunctions::read(macho, file)),
                _ => None,
            },
        }
    }

    /// The addresses of the function that holds an address. `None`: no function does.
    ///
    /// With a table of `.eh_frame_hdr` only the function's entry is read: reading all entries of a program of 182 MB
    /// takes 15 ms.
    pub fn at(&self, address: u64) -> Option<Range<u64>> {
        if let Some(list) = &self.list {
            return list.at(address);
        }
        let svma = address.checked_add(self.base_svma)?;
        let found = self.tables.iter().filter_map(|table| table.function(svma));
        let innermost = found.max_by_key(|function| (function.start, function.end));
        innermost.and_then(|function| self.relative(function))
    }

    /// The start of the first function behind an address; `None` behind the last one.
    pub fn next_start(&self, address: u64) -> Option<u64> {
        if let Some(list) = &self.list {
            return list.next_start(address);
        }
        let svma = address.checked_add(self.base_svma)?;
        let next = self.tables.iter().filter_map(|table| table.next_start(svma)).min();
        next?.checked_sub(self.base_svma)
    }

    /// The code around an address that is in no function: from the end of the one in front, if there is one, to the
    /// start of the next one.
    pub fn gap(&self, address: u64) -> Range<u64> {
        let svma = address.saturating_add(self.base_svma);
        let before = self.tables.iter().filter_map(|table| table.end_until(svma)).max();
        let before = before.and_then(|end| end.checked_sub(self.base_svma));
        before.unwrap_or(0).min(address)..self.next_start(address).unwrap_or(u64::MAX)
    }

    /// Heap bytes that the tables take.
    pub fn held_bytes(&self) -> usize {
        let list = self.list.as_ref().map_or(0, MachOFunctions::held_bytes);
        list + self.tables.iter().map(Cfi::held_bytes).sum::<usize>()
    }

    /// All functions, in order: for comparisons in tests.
    pub fn all(&self) -> Vec<Range<u64>> {
        let functions = self.tables.iter().flat_map(Cfi::functions);
        let functions = functions.filter_map(|function| self.relative(function));
        let list = self.list.iter().flat_map(MachOFunctions::all);
        let mut functions: Vec<Range<u64>> = functions.chain(list).collect();
        functions.sort_unstable_by_key(|function| (function.start, function.end));
        functions
    }

    fn relative(&self, function: Range<u64>) -> Option<Range<u64>> {
        Some(function.start.checked_sub(self.base_svma)?..function.end.checked_sub(self.base_svma)?)
    }
}

#[cfg(test)]
mod tests {
    use recording::sink::InMemory;

    use super::Functions;

    #[test]
    fn one_function_is_found_as_among_all() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let functions = Functions::read(&InMemory(&own));
        let all = functions.all();
        assert!(all.len() > 100);
        for pair in all.windows(2) {
            let [this, next] = pair else { unreachable!() };
            assert_eq!(functions.at(this.end - 1).as_ref(), Some(this));
            assert_eq!(functions.at(this.start).as_ref(), Some(this));
            let behind = functions.at(this.end);
            assert_eq!(behind, (this.end == next.start).then(|| next.clone()));
            assert_eq!(functions.next_start(this.start), Some(next.start));
        }
        let last = all.last().unwrap();
        assert_eq!(functions.next_start(last.start), None);
        assert_eq!((functions.at(last.end), functions.at(u64::MAX)), (None, None));
    }

    #[test]
    fn what_is_no_file_of_code_has_no_functions() {
        let functions = Functions::read(&InMemory(b"no file of code"));
        assert_eq!(
            (functions.at(0), functions.next_start(0), functions.all()),
            (None, None, vec![])
        );
    }
}
