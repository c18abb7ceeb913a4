//! Names that came with a recording, for files that are only on the machine that recorded.

use names::symbol::{AddressInfo, FunctionSymbol};

use crate::demangle::demangle;

/// Functions by relative address.
#[derive(Debug, Default)]
pub struct RecordedSymbols {
    /// (start, size, name), by start.
    functions: Vec<(u64, u64, Box<str>)>,
    is_kernel: bool,
}

impl RecordedSymbols {
    /// Takes functions: first relative address, size in bytes (0: up to the next function), name as in the file.
    pub fn new(functions: impl IntoIterator<Item = (u64, u64, String)>) -> RecordedSymbols {
        let functions = functions.into_iter();
        let mut functions: Vec<_> = functions
            .map(|(start, size, name)| (start, size, name.into()))
            .collect();
        functions.sort_unstable();
        functions.dedup_by_key(|(start, _, _)| *start);
        RecordedSymbols {
            functions,
            is_kernel: false,
        }
    }

    /// The recorded symbols of a kernel. Its names are not Rust's or C++'s: `__dl_server_attach_root` is a function of
    /// its scheduler.
    pub fn of_kernel(functions: impl IntoIterator<Item = (u64, u64, String)>) -> RecordedSymbols {
        RecordedSymbols {
            is_kernel: true,
            ..RecordedSymbols::new(functions)
        }
    }

    /// Looks up relative addresses.
    pub(crate) fn lookup(&self, relative: &[u64]) -> Vec<AddressInfo> {
        let info = |address: &u64| AddressInfo {
            function: self.function(*address),
            frames: Vec::new(),
        };
        relative.iter().map(info).collect()
    }

    fn function(&self, address: u64) -> Option<FunctionSymbol> {
        let after = self.functions.partition_point(|(start, _, _)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let is_inside = *size == 0 || address - start < *size;
        let name = || if self.is_kernel { demangle(name) } else { plain(name) };
        is_inside.then(|| FunctionSymbol::named(name(), *start, (*size > 0).then_some(*size)))
    }
}

/// The name without the prefix that Android's dynamic linker puts before all of its names, also mangled ones.
fn plain(name: &str) -> String {
    match name.strip_prefix("__dl_") {
        Some(name) => format!("[linker]{}", demangle(name)),
        None => demangle(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_between_two_functions_has_no_name() {
        let symbols = RecordedSymbols::new([(0x20, 8, "_Z3foov".to_owned()), (0x10, 4, "bar".to_owned())]);
        let names: Vec<_> = (symbols.lookup(&[0xf, 0x10, 0x13, 0x14, 0x20, 0x28]).into_iter())
            .map(|info| info.function.map(|function| function.name))
            .collect();
        let (foo, bar) = (Some("foo()".to_owned()), Some("bar".to_owned()));
        assert_eq!(names, [None, bar.clone(), bar, None, foo, None]);
    }

    #[test]
    fn the_prefix_of_androids_linker_is_no_prefix_in_the_kernel() {
        let functions = || [(0, 0, "__dl_server_attach_root".to_owned())];
        let name = |symbols: RecordedSymbols| symbols.function(0).map(|function| function.name);
        let of_linker = Some("[linker]server_attach_root".to_owned());
        assert_eq!(name(RecordedSymbols::new(functions())), of_linker);
        let of_kernel = Some("__dl_server_attach_root".to_owned());
        assert_eq!(name(RecordedSymbols::of_kernel(functions())), of_kernel);
    }
}
