//! `-e uprobe:PATH:FUNCTION`, `-e usdt:PATH:PROVIDER:NAME`, `-e breakpoint:FUNCTION` and `-e kprobe:FUNCTION`: from
//! names to addresses in files and in the kernel.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use perf_data::events::ProbeKind;
use recording::probe::{CallMoment, CallPlace, FilePlace, KernelPlace, Probe, ProbePlace, SpanFunction};
use recording::regular_file;
use symbolicator::SymbolOptions;
use symbolicator::probe::{
    AtOffset, FoundFunctions, StaticProbe, call_places, find_functions, place_at, static_probes,
};

/// Most names in a message.
const MAX_LISTED: usize = 5;
/// Default folders of dynamic linkers (ld.so(8)), with Debian's multiarch folders.
const LIBRARY_FOLDERS: [&str; 9] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// Finds the addresses of a probe. `text` is the event as typed, `place` the part behind the first colon. `programs`
/// finds the files of the recorded programs, for breakpoints.
pub(crate) fn find(
    kind: ProbeKind,
    text: &str,
    place: &str,
    programs: &dyn Fn() -> Result<Vec<PathBuf>, String>,
    options: &SymbolOptions,
) -> Result<Probe, String> {
    let found = match kind {
        ProbeKind::Uprobe => in_file(place, |path, name| uprobe(path, name, options)),
        ProbeKind::Usdt => in_file(place, usdt),
        ProbeKind::Kprobe => kprobe(place),
        ProbeKind::Breakpoint => programs().and_then(|programs| breakpoint(&programs, place, options)),
    };
    match found {
        Ok(probe) => Ok(Probe {
            text: text.to_owned(),
            ..probe
        }),
        Err(reason) => Err(format!("cannot record {text}: {reason}")),
    }
}

/// A probe without its text.
fn probe(name: String, places: Vec<ProbePlace>, notes: Vec<String>) -> Probe {
    Probe {
        text: String::new(),
        name,
        places,
        by_register: false,
        notes,
    }
}

/// Finds a name in a file. If the file was not given as a path, a note has the path.
fn in_file(place: &str, find: impl Fn(&Path, &str) -> Result<Probe, String>) -> Result<Probe, String> {
    let (path, name) = split(place)?;
    let path = std::path::absolute(&path).unwrap_or(path);
    let mut found = find(&path, name)?;
    if !place.contains('/') {
        let note = format!("{} is in {}", found.name, path.display());
        found.notes.insert(0, note);
    }
    Ok(found)
}

/// Finds a function of the kernel. If several have the same name, Linux before 6.6 probes only the first one, without
/// an error.
fn kprobe(place: &str) -> Result<Probe, String> {
    let (function, offset) = function_and_offset(place);
    if function.is_empty() {
        return Err("a probe in the kernel has a function, as in kprobe:do_sys_openat2".to_owned());
    }
    let functions = symbolicator::find_kernel_function(function).map_err(|error| error.to_string())?;
    let refused = match (functions.count, functions.size_bytes) {
        (0, _) if functions.similar.is_empty() => format!(
            "the kernel has no function {function} (modules that are not loaded have none); /proc/kallsyms lists what it has"
        ),
        (0, _) => {
            let similar = list(functions.similar.iter());
            format!("the kernel has no function {function} that was not inlined; did you mean {similar}?")
        }
        (1, Some(size_bytes)) if offset >= size_bytes => {
            format!("{function} has {size_bytes} bytes, and {offset:#x} is behind its end")
        }
        (1, _) => String::new(),
        (count, _) => {
            format!("the kernel has {count} functions {function}, and a probe needs a unique name: probe a caller")
        }
    };
    if !refused.is_empty() {
        return Err(refused);
    }
    let kernel_place = KernelPlace {
        function: function.to_owned(),
        offset,
    };
    let places = vec![ProbePlace::Kernel(kernel_place)];
    Ok(probe(format!("kprobe:{place}"), places, Vec::new()))
}

/// Splits `function+OFFSET`. The `+` of `operator+` has no number behind it.
fn function_and_offset(place: &str) -> (&str, u64) {
    match place.rsplit_once('+').map(|(name, offset)| (name, number(offset))) {
        Some((name, Some(offset))) if !name.is_empty() => (name, offset),
        _ => (place, 0),
    }
}

fn uprobe(path: &Path, place: &str, options: &SymbolOptions) -> Result<Probe, String> {
    if let Some(file_offset) = place.strip_prefix("0x").and_then(|_| number(place)) {
        let note = check_place(path, file_offset, options)?;
        return Ok(probe(
            format!("uprobe:{place}"),
            vec![at(path, file_offset)],
            vec![note],
        ));
    }
    let (function, offset) = function_and_offset(place);
    let functions = functions(path, function, options)?;
    let mut notes = Vec::new();
    let mut places = Vec::new();
    for function in &functions.found {
        let file_offset = function
            .file_offset
            .checked_add(offset)
            .ok_or("there is no such offset")?;
        if offset > 0 {
            notes.push(check_place(path, file_offset, options)?);
        }
        places.push(at(path, file_offset));
    }
    notes.extend(what_escapes(function, &functions));
    Ok(probe(format!("uprobe:{place}"), places, notes))
}

/// The functions of a name, at least one.
fn functions(path: &Path, name: &str, options: &SymbolOptions) -> Result<FoundFunctions, String> {
    let functions = find_functions(path, name, options).map_err(|error| error.to_string())?;
    match functions.found.is_empty() {
        true => Err(not_found(path, name, &functions)),
        false => Ok(functions),
    }
}

/// Finds where calls of a function in these programs, or else in the first of their `libraries` that has it, begin and
/// end. The error is for the user.
pub(crate) fn span(
    name: &str,
    programs: &[PathBuf],
    libraries: &dyn Fn(&Path) -> Vec<PathBuf>,
    options: &SymbolOptions,
) -> Result<SpanFunction, String> {
    let mut span = SpanFunction {
        name: name.to_owned(),
        places: Vec::new(),
        notes: Vec::new(),
    };
    let mut targets = BTreeSet::new();
    // Two programs may have one library.
    let mut files = BTreeSet::new();
    for path in programs {
        let in_program = functions(path, name, options).map(|found| (path.clone(), found));
        let (path, functions) = in_program.or_else(|reason| in_library(name, &reason, &libraries(path), options))?;
        let path = &path;
        let file = std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
        if !file.is_ok_and(|file| files.insert(file)) {
            continue;
        }
        if !programs.contains(path) {
            span.notes.push(format!("{name} is in {}", path.display()));
        }
        for places in call_places(path, &functions.found, options).map_err(|error| error.to_string())? {
            let begins = std::iter::once((CallMoment::Begins, places.entry));
            let returns = places.returns.iter().map(|at| (CallMoment::Returns, *at));
            let tail_calls = places
                .tail_calls
                .iter()
                .map(|call| (CallMoment::TailCall, call.file_offset));
            let all = begins.chain(returns).chain(tail_calls);
            span.places.extend(all.map(|(moment, file_offset)| CallPlace {
                place: at(path, file_offset),
                moment,
            }));
            let unknown = || "a function of another file".to_owned();
            targets.extend(
                places
                    .tail_calls
                    .into_iter()
                    .map(|call| call.target.unwrap_or_else(unknown)),
            );
        }
        span.notes.extend(what_escapes(name, &functions));
    }
    if !targets.is_empty() {
        span.notes.push(format!(
            "calls of {name} can end with a jump to {}, whose time is then not in the span",
            list(targets.iter())
        ));
    }
    Ok(span)
}

/// The first library that has functions of a name. `reason`: why the program has none.
fn in_library(
    name: &str,
    reason: &str,
    libraries: &[PathBuf],
    options: &SymbolOptions,
) -> Result<(PathBuf, FoundFunctions), String> {
    for path in libraries {
        match find_functions(path, name, options) {
            Ok(found) if !found.found.is_empty() => return Ok((path.clone(), found)),
            Ok(found) if found.is_chosen_at_start => return Err(not_found(path, name, &found)),
            _ => {}
        }
    }
    Err(match libraries.len() {
        0 => reason.to_owned(),
        1 => format!("{reason} (nor has its library; -p also finds what is loaded later)"),
        count => format!("{reason} (nor have its {count} libraries; -p also finds what is loaded later)"),
    })
}

fn breakpoint(programs: &[PathBuf], place: &str, options: &SymbolOptions) -> Result<Probe, String> {
    let mut found = probe(format!("breakpoint:{place}"), Vec::new(), Vec::new());
    found.by_register = true;
    for path in programs {
        let of_program = uprobe(path, place, options)?;
        found.places.extend(of_program.places);
        found.notes.extend(of_program.notes);
    }
    Ok(found)
}

fn at(path: &Path, file_offset: u64) -> ProbePlace {
    ProbePlace::File(FilePlace {
        path: path.to_owned(),
        file_offset,
        semaphore: None,
        arguments: String::new(),
    })
}

/// Checks an offset. A probe in the middle of an instruction would change that instruction.
fn check_place(path: &Path, file_offset: u64, options: &SymbolOptions) -> Result<String, String> {
    match place_at(path, file_offset, options).map_err(|error| error.to_string())? {
        AtOffset::Instruction(Some(name)) => Ok(format!("{file_offset:#x} is {name}")),
        AtOffset::Instruction(None) | AtOffset::Unknown => Ok(format!(
            "{} has no symbols for {file_offset:#x}: it was not checked that an instruction begins there",
            path.display()
        )),
        AtOffset::InsideInstruction { begins_at, name } => Err(format!(
            "{file_offset:#x} is in the middle of an instruction, and a probe there would break the program; the \
             instruction begins at {begins_at:#x} ({name})"
        )),
        AtOffset::NoCode => Err(format!("{file_offset:#x} is not in the code of {}", path.display())),
    }
}

/// Notes on several functions of one name, and on calls that no probe sees.
fn what_escapes(name: &str, functions: &FoundFunctions) -> Vec<String> {
    let mut notes = Vec::new();
    if functions.found.len() > 1 {
        let mut names: Vec<&str> = functions.found.iter().map(|function| function.name.as_str()).collect();
        names.dedup();
        notes.push(format!(
            "{name} stands for {} functions: {}",
            functions.found.len(),
            list(names.into_iter())
        ));
    }
    if functions.left_out > 0 {
        notes.push(format!(
            "{name}: {} more functions of this name have no probe",
            functions.left_out
        ));
    }
    if functions.inlined_copies > 0 {
        notes.push(format!(
            "{name} was also inlined in {} places, where no probe sees it",
            functions.inlined_copies
        ));
    }
    if functions.is_split {
        notes.push(format!(
            "{name} was split by the compiler: no probe sees calls that end in the part inlined into callers"
        ));
    }
    notes
}

fn not_found(path: &Path, name: &str, functions: &FoundFunctions) -> String {
    let path = path.display();
    if functions.is_chosen_at_start {
        return format!(
            "{name} in {path} is not a function: when a program starts, it chooses one of several (IFUNC); name that one"
        );
    }
    if functions.inlined_copies > 0 {
        return format!(
            "{name} has no code of its own in {path}: it was inlined in {} places. Probe a caller, or forbid inlining it \
             (`#[inline(never)]`, `__attribute__((noinline))`)",
            functions.inlined_copies
        );
    }
    if !functions.has_symbols {
        return format!(
            "{path} was stripped of its symbols: give the folder of its debug file with --symbol-dir, or the offset of the \
             function in the file (0x... instead of its name)"
        );
    }
    match functions.similar.is_empty() {
        false => format!(
            "{path} has no function {name}; did you mean {}?",
            list(functions.similar.iter())
        ),
        true => format!(
            "{path} has no function {name}; `nm -C{} {path}` lists what it has",
            if functions.only_dynamic { "D" } else { "" }
        ),
    }
}

fn usdt(path: &Path, name: &str) -> Result<Probe, String> {
    let all = static_probes(path).map_err(|error| error.to_string())?;
    let is_meant = |probe: &&StaticProbe| match name.split_once(':') {
        Some((provider, name)) => (probe.provider.as_str(), probe.name.as_str()) == (provider, name),
        None => probe.name == name,
    };
    let meant: Vec<&StaticProbe> = all.iter().filter(is_meant).collect();
    let full_names = |probes: &mut dyn Iterator<Item = &StaticProbe>| -> BTreeSet<String> {
        probes
            .map(|probe| format!("{}:{}", probe.provider, probe.name))
            .collect()
    };
    let names = full_names(&mut meant.iter().copied());
    let file = path.display();
    let name = match (names.first(), names.len()) {
        (Some(name), 1) => name,
        (Some(_), _) => {
            let names = list(names.iter());
            return Err(format!(
                "{file} has several USDT probes {name}: {names}; also name the provider"
            ));
        }
        (None, _) if all.is_empty() => return Err(format!("{file} has no USDT probes")),
        (None, _) => {
            let others = list(full_names(&mut all.iter()).iter());
            return Err(format!("{file} has no USDT probe {name}; it has {others}"));
        }
    };
    let places = meant.iter().map(|probe| FilePlace {
        path: path.to_owned(),
        file_offset: probe.file_offset,
        semaphore: probe.semaphore,
        arguments: probe.arguments.clone(),
    });
    let places = places.map(ProbePlace::File).collect();
    Ok(probe(format!("usdt:{name}"), places, Vec::new()))
}

/// Splits file and name. Both may hold colons: the path is the longest beginning that is a file.
fn split(text: &str) -> Result<(PathBuf, &str), String> {
    let colons = text.char_indices().filter(|(_, c)| *c == ':').map(|(at, _)| at);
    let mut parts: Vec<(&str, &str)> = colons.map(|at| (&text[..at], &text[at + 1..])).collect();
    parts.retain(|(path, name)| !path.is_empty() && !name.is_empty());
    let Some((first, _)) = parts.first().copied() else {
        return Err(
            "a probe has a file and a name, as in uprobe:/usr/bin/app:function or usdt:/usr/bin/app:provider:name"
                .to_owned(),
        );
    };
    let found = parts
        .iter()
        .rev()
        .find_map(|(path, name)| Some((find_file(path)?, *name)));
    found.ok_or_else(|| match first.contains('/') {
        true => format!("there is no file {first}"),
        false => format!("there is no file {first} here, in PATH or among the libraries; give its path"),
    })
}

/// Finds a file by path, or by the name of a file here, a program in PATH, or a library (`libc`, `libc.so.6`).
fn find_file(text: &str) -> Option<PathBuf> {
    let here = PathBuf::from(text);
    if text.contains('/') || here.is_file() {
        return here.is_file().then_some(here);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .map(|folder| folder.join(text))
        .find(|file| file.is_file());
    program.or_else(|| find_library(text, &LIBRARY_FOLDERS.map(Path::new)))
}

fn find_library(name: &str, folders: &[&Path]) -> Option<PathBuf> {
    let is_it = |file: &str| {
        let version = file
            .strip_prefix(name)
            .map(|rest| rest.strip_prefix(".so").unwrap_or(rest));
        version.is_some_and(|version| version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()))
    };
    folders.iter().find_map(|folder| {
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut files: Vec<PathBuf> = names.filter(|file| is_it(file)).map(|file| folder.join(file)).collect();
        files.sort();
        files.into_iter().find(|file| is_elf(file))
    })
}

/// True for ELF files; `libc.so` is a text for the linker.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = regular_file::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if !text.starts_with('+') => text.parse().ok(),
        _ => None,
    }
}

/// Joins the first few names, and says how many more there are.
fn list(names: impl Iterator<Item = impl Display>) -> String {
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    let shown = names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names_may_hold_colons() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["app", "a:b"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let (plain, odd) = (at("app"), at("a:b"));
        let split = |text: &str| split(text).map(|(path, name)| (path.display().to_string(), name.to_owned()));
        assert_eq!(split(&format!("{plain}:work")), Ok((plain.clone(), "work".to_owned())));
        let text = format!("{plain}:app::module::work");
        assert_eq!(split(&text), Ok((plain.clone(), "app::module::work".to_owned())));
        assert_eq!(split(&format!("{odd}:work")), Ok((odd.clone(), "work".to_owned())));
        let missing = at("missing");
        assert_eq!(
            split(&format!("{missing}:work")),
            Err(format!("there is no file {missing}"))
        );
        assert!(split("work").unwrap_err().contains("uprobe:/usr/bin/app:function"));
        assert!(split("no-such-program-anywhere:work").unwrap_err().contains("PATH"));
    }

    #[test]
    fn libraries_by_name_with_or_without_version() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("libx.so", &b"GROUP ( )"[..]),
            ("libx.so.6", b"\x7fELF"),
            ("libxy.so.1", b"\x7fELF"),
        ] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let find = |name: &str| find_library(name, &[Path::new("/nonexistent"), dir.path()]);
        let expected = Some(dir.path().join("libx.so.6"));
        for name in ["libx", "libx.so", "libx.so.6"] {
            assert_eq!(find(name), expected, "{name}");
        }
        assert_eq!(find("lib"), None);
        assert_eq!(find("libx.so.7"), None);
    }

    #[test]
    fn numbers_behind_a_plus_are_offsets() {
        assert_eq!(number("0x10"), Some(16));
        assert_eq!(number("16"), Some(16));
        for text in ["", "+1", "0x+1", "ten", "0x"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
