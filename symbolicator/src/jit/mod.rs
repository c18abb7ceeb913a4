//! Names for JIT code, which is in no file: from the files that JIT compilers write.
//!
//! `dump` reads jitdump files, which have times, lines and the machine code; `perf_map` reads `/tmp/perf-PID.map`, which
//! has names alone. `timeline` answers which code was at an address when. Only `JitSymbols::open` opens a
//! file, for saved profiles.
//!
//! The relative address of jitdump code is its offset in the dump: different for each compilation, the same before and after a move.
//! The relative address of code in a perf map is its address.

mod dump;
mod perf_map;
mod timeline;

use std::path::Path;

use recording::module::{BuildId, Module};
use recording::sink::{InMemory, ReadAt};
use recording::symbol::AddressInfo;

pub use self::timeline::{CodeAt, Timeline};

use self::dump::JitDump;
use self::perf_map::PerfMap;
use crate::error::SymbolError;
use crate::sys::Mapping;

/// The file of a JIT compiler, read into memory.
pub struct JitSymbols {
    path: std::path::PathBuf,
    source: Source,
}

enum Source {
    Dump(JitDump),
    Map(PerfMap),
}

/// True for the file names of jitdump files and perf maps: `jit-PID.dump`, `perf-PID.map`.
pub fn is_jit_file(name: &str) -> bool {
    let numbered = |prefix, suffix| {
        let number = name
            .strip_prefix(prefix)
            .and_then(|rest: &str| rest.strip_suffix(suffix));
        number.is_some_and(|number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    numbered("jit-", ".dump") || numbered("perf-", ".map")
}

impl JitSymbols {
    /// Reads a jitdump file. `path` is its name in errors.
    pub fn read_dump(path: &Path, file: &dyn ReadAt) -> Result<JitSymbols, SymbolError> {
        let dump = JitDump::read(file).map_err(|reason| SymbolError::unreadable(path, reason))?;
        Ok(JitSymbols {
            path: path.to_owned(),
            source: Source::Dump(dump),
        })
    }

    /// Reads a perf map. `path` is its name in errors.
    pub fn read_perf_map(path: &Path, file: &dyn ReadAt) -> Result<JitSymbols, SymbolError> {
        let map = PerfMap::read(file).map_err(|reason| SymbolError::unreadable(path, reason))?;
        Ok(JitSymbols {
            path: path.to_owned(),
            source: Source::Map(map),
        })
    }

    /// Opens the file of a module that was recorded earlier.
    pub(crate) fn open(module: &Module) -> Result<JitSymbols, SymbolError> {
        let path = &module.path;
        let unreadable = |error: &dyn std::fmt::Display| SymbolError::unreadable(path, error);
        let mapping = Mapping::open(path).map_err(|error| unreadable(&error))?;
        let file = InMemory(mapping.bytes());
        let symbols = match path.extension().is_some_and(|extension| extension == "dump") {
            true => JitSymbols::read_dump(path, &file)?,
            false => JitSymbols::read_perf_map(path, &file)?,
        };
        if !mapping.check_unchanged() {
            return Err(SymbolError::Rewritten { path: path.clone() });
        }
        match (&module.build_id, symbols.id()) {
            (Some(recorded), found) if found.as_ref() != Some(recorded) => Err(SymbolError::Replaced {
                path: path.clone(),
                recorded: recorded.to_hex(),
                found: found.map_or_else(|| "none".to_owned(), |id| id.to_hex()),
            }),
            _ => Ok(symbols),
        }
    }

    /// An id that differs from other files of the same name: process and time of creation of a jitdump. A perf map has none.
    pub fn id(&self) -> Option<BuildId> {
        match &self.source {
            Source::Dump(dump) => Some(dump.id()),
            Source::Map(_) => None,
        }
    }

    /// The kind of processor, in the words of [`Module::arch`](recording::module::Module::arch).
    pub fn arch(&self) -> Option<&'static str> {
        match &self.source {
            Source::Dump(dump) => dump.arch(),
            Source::Map(_) => None,
        }
    }

    /// True if [`JitSymbols::timelines`] has reliable times.
    pub fn has_times(&self) -> bool {
        matches!(&self.source, Source::Dump(dump) if dump.has_times())
    }

    /// The history of each address; `addresses` are ascending and unique. Empty for addresses without code.
    pub fn timelines(&self, addresses: &[u64]) -> Vec<Timeline> {
        match &self.source {
            Source::Dump(dump) => dump.timelines(addresses),
            Source::Map(map) => map.timelines(addresses),
        }
    }

    /// Looks up relative addresses.
    pub fn lookup(&self, relative: &[u64]) -> Vec<AddressInfo> {
        let find = |address: &u64| match &self.source {
            Source::Dump(dump) => dump.find(*address),
            Source::Map(map) => map.find(*address),
        };
        relative
            .iter()
            .map(|address| find(address).unwrap_or_default())
            .collect()
    }

    /// What was damaged or beyond the limits, each as a sentence.
    pub fn notes(&self) -> Vec<String> {
        let (left_out, what) = match &self.source {
            Source::Dump(dump) => (dump.left_out(), "records"),
            Source::Map(map) => (map.left_out(), "lines"),
        };
        match left_out {
            0 => Vec::new(),
            _ => vec![format!(
                "{}: {left_out} {what} were left out: damaged, or more than are read",
                self.path.display()
            )],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        assert!(is_jit_file("jit-1234.dump") && is_jit_file("perf-1.map"));
        assert!(!is_jit_file("jit-.dump") && !is_jit_file("perf-1.map.gz") && !is_jit_file("jit-12a.dump"));
    }
}
