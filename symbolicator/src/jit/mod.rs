//! Names for JIT code, which is in no file: from the files that JIT compilers write.
//!
//! `dump` reads jitdump files, which have times, lines and the machine code; `perf_map` reads `/tmp/perf-PID.map`,
//! which has names alone. `timeline` answers which code was at an address when. Only `JitSymbols::open` opens a file,
//! for saved profiles.
//!
//! The relative address of jitdump code is its offset in the dump: different for each compilation, the same before and
//! after a move. The relative address of code in a perf map is its address.

mod dump;
mod perf_map;
mod timeline;

use std::path::Path;

use names::symbol::{AddressInfo, SourceFrame};
use names::v8;
use recording::module::{BuildId, Module};
use recording::sink::{InMemory, ReadAt};

pub use self::timeline::{CodeAt, Timeline};

use self::dump::JitDump;
use self::perf_map::PerfMap;
use crate::error::SymbolError;
use crate::sys::Mapping;

/// The file of a JIT compiler, read into memory.
pub struct JitSymbols {
    path: std::path::PathBuf,
    source: JitFile,
}

enum JitFile {
    Dump(JitDump),
    Map(PerfMap),
}

/// True for the file names of jitdump files and perf maps: `jit-PID.dump`, `perf-PID.map`.
pub fn is_jit_file(name: &str) -> bool {
    let numbered = |prefix, suffix| between(name, prefix, suffix).is_some_and(is_number);
    numbered("jit-", ".dump") || numbered("perf-", ".map")
}

/// True for the names of files that `perf inject --jit` makes of jitdump files, one a function: `jitted-PID-INDEX.so`.
pub(crate) fn is_injected(name: &str) -> bool {
    let numbers = between(name, "jitted-", ".so").and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(pid, index)| is_number(pid) && is_number(index))
}

fn between<'a>(name: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_suffix(suffix)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl JitSymbols {
    /// Reads a jitdump file. `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// The file can't be read, or is not a jitdump.
    pub fn read_dump(path: &Path, file: &dyn ReadAt) -> Result<JitSymbols, SymbolError> {
        let dump = JitDump::read(file).map_err(|reason| SymbolError::unreadable(path, reason))?;
        Ok(JitSymbols {
            path: path.to_owned(),
            source: JitFile::Dump(dump),
        })
    }

    /// Reads a perf map. `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// The file can't be read, or is larger than the limit.
    pub fn read_perf_map(path: &Path, file: &dyn ReadAt) -> Result<JitSymbols, SymbolError> {
        let map = PerfMap::read(file).map_err(|reason| SymbolError::unreadable(path, reason))?;
        Ok(JitSymbols {
            path: path.to_owned(),
            source: JitFile::Map(map),
        })
    }

    /// Opens the file of a module that was recorded earlier.
    pub(crate) fn open(module: &Module) -> Result<JitSymbols, SymbolError> {
        let path = &module.path;
        let mapping = map(path)?;
        let file = InMemory(mapping.bytes());
        let symbols = if path.extension().is_some_and(|extension| extension == "dump") {
            JitSymbols::read_dump(path, &file)?
        } else {
            JitSymbols::read_perf_map(path, &file)?
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

    /// The name of the file.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The machine code at a relative address. `None` if the file has none there.
    pub(crate) fn machine_code(&self, start: u64, size: u64) -> Result<Option<Vec<u8>>, SymbolError> {
        let JitFile::Dump(dump) = &self.source else {
            return Ok(None);
        };
        let mapping = map(&self.path)?;
        let range = usize::try_from(start)
            .ok()
            .zip(usize::try_from(start.saturating_add(size)).ok());
        let bytes = range
            .and_then(|(start, end)| mapping.bytes().get(start..end))
            .map(<[u8]>::to_vec);
        // Another process may have made a file of this name since.
        if !dump.is_header_of(mapping.bytes()) || !mapping.check_unchanged() {
            return Err(SymbolError::Rewritten {
                path: self.path.clone(),
            });
        }
        Ok(bytes.filter(|bytes| !bytes.is_empty()))
    }

    /// An id that differs from other files of the same name: process and time of creation of a jitdump. `None` for a
    /// perf map.
    pub fn id(&self) -> Option<BuildId> {
        match &self.source {
            JitFile::Dump(dump) => Some(dump.id()),
            JitFile::Map(_) => None,
        }
    }

    /// The kind of processor, in the words of [`Module::arch`](recording::module::Module::arch). `None` for a perf map,
    /// and for other processors.
    pub fn arch(&self) -> Option<&'static str> {
        match &self.source {
            JitFile::Dump(dump) => dump.arch(),
            JitFile::Map(_) => None,
        }
    }

    /// True if [`JitSymbols::timelines`] has reliable times.
    pub fn has_times(&self) -> bool {
        matches!(&self.source, JitFile::Dump(dump) if dump.has_times())
    }

    /// The history of each address; `addresses` are ascending and unique. Empty for addresses without code.
    pub fn timelines(&self, addresses: &[u64]) -> Vec<Timeline> {
        match &self.source {
            JitFile::Dump(dump) => dump.timelines(addresses),
            JitFile::Map(map) => map.timelines(addresses),
        }
    }

    /// Looks up relative addresses.
    pub fn lookup(&self, relative: &[u64]) -> Vec<AddressInfo> {
        let find = |address: &u64| match &self.source {
            JitFile::Dump(dump) => dump.find(*address),
            JitFile::Map(map) => map.find(*address),
        };
        relative
            .iter()
            .map(|address| readable(find(address).unwrap_or_default()))
            .collect()
    }

    /// What was damaged or beyond the limits, each as a sentence.
    pub fn notes(&self) -> Vec<String> {
        let (left_out, what) = match &self.source {
            JitFile::Dump(dump) => (dump.left_out(), "records"),
            JitFile::Map(map) => (map.left_out(), "lines"),
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

fn map(path: &Path) -> Result<Mapping, SymbolError> {
    Mapping::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => SymbolError::JitFileRemoved { path: path.to_owned() },
        _ => SymbolError::unreadable(path, error),
    })
}

/// The answer with a name of V8 in parts. Other answers stay.
pub(crate) fn readable(mut info: AddressInfo) -> AddressInfo {
    let Some(function) = &mut info.function else {
        return info;
    };
    let Some(named) = v8::parse(&function.name) else {
        return info;
    };
    let (name, file) = (
        named.name.clone().into_owned(),
        named.file().map(|file| file.into_owned()),
    );
    // The outermost frame is the function itself. TurboFan inlines functions of other scripts, and a line belongs to
    // its script.
    let at = info
        .frames
        .pop()
        .filter(|at| at.file.as_deref().is_none_or(|file| file == named.script));
    if at.is_some() || file.is_some() {
        info.frames.push(SourceFrame {
            function: Some(name.clone()),
            file,
            line: at.as_ref().and_then(|at| at.line),
            column: at.as_ref().and_then(|at| at.column),
            ..SourceFrame::default()
        });
    }
    function.v8 = Some(named.code);
    function.name = name;
    info
}

#[cfg(test)]
mod tests {
    use names::symbol::FunctionSymbol;
    use proptest::prelude::*;

    use super::*;

    fn answer(name: &str, file: Option<&str>) -> AddressInfo {
        let frame = |file: &str| SourceFrame {
            function: Some(name.to_owned()),
            file: Some(file.to_owned()),
            line: Some(7),
            column: Some(3),
            ..SourceFrame::default()
        };
        AddressInfo {
            function: Some(FunctionSymbol::named(name.to_owned(), 0, None)),
            frames: file.map(frame).into_iter().collect(),
        }
    }

    #[test]
    fn a_function_of_v8_has_one_name_and_file_in_all_tiers() {
        let raw = "file:///tmp/a%20b.mjs";
        for (mark, file, line) in [
            ("~", None, None),
            ("^", Some(raw), Some(7)),
            // A function of another script was inlined here.
            ("*", Some("/tmp/other.js"), None),
        ] {
            let info = readable(answer(&format!("JS:{mark}fib {raw}:1:13"), file));
            assert_eq!(info.function.as_ref().unwrap().name, "fib a b.mjs:1:13");
            assert_eq!(info.frames[0].function.as_deref(), Some("fib a b.mjs:1:13"));
            assert_eq!(
                (info.frames[0].file.as_deref(), info.frames[0].line),
                (Some("/tmp/a b.mjs"), line)
            );
        }
        for (name, file) in [("Builtin:ArrayMap", None), ("mover", Some("/generated/source.txt"))] {
            assert_eq!(readable(answer(name, file)).frames, answer(name, file).frames);
        }
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_name_is_read_without_panic(name in "(JS:|Eval:|RegExp:|)[~*]?([a-z /%é<-]|file://){0,20}(:[0-9]{1,11}){0,3}") {
            readable(answer(&name, None));
        }
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert!(is_jit_file("jit-1234.dump") && is_jit_file("perf-1.map"));
        assert!(is_injected("jitted-1234-0.so") && !is_injected("jitted-1234.so") && !is_injected("libjitted-1-2.so"));
        assert!(!is_jit_file("jit-.dump") && !is_jit_file("perf-1.map.gz") && !is_jit_file("jit-12a.dump"));
    }
}
