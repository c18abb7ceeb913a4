//! What a result lacks, and why: causes that another recording can avoid.
//!
//! A cause follows from the stacks and from the lookup of names, never from the name of a program.

use names::source_path::SourcePath;
use names::symbol::SymbolSource;
use recording::stack::StackMark;
use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::select::Selection;
use crate::category::{CATEGORIES, CodeKind};
use crate::data::SavedLib;
use crate::data::{Data, NONE};
use names::symbol::is_nameless;

/// A lack below this share of all samples is not reported.
const WORTH_SAYING: f64 = 0.1;

/// The code that runs JavaScript functions that are not compiled, in V8's file.
const V8_INTERPRETER: &str = "Builtins_InterpreterEntryTrampoline";

/// A lack of a significant part of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortfall {
    /// The lack and its cause.
    pub lack: MissingSamples,
    /// Cost of the samples with this lack.
    pub cost: Cost,
}

/// A lack of samples, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissingSamples {
    /// Function names: for code that a runtime compiled or interprets, and JIT code, anywhere on the stack, for other
    /// code at the leaf. One nameless function of the program that is on each stack would count all samples.
    Names(CodeOwner),
    /// Callers: the unwinder could not unwind through this code.
    Callers(CodeOwner),
    /// Callers: the library of this index has unwind rules, and none for this code, such as assembly.
    CallersOfPart(u32),
    /// Callers, or names: sprof could not open the files of the code, because it had as many files open as it may.
    OpenFiles,
    /// Callers: the stack was deeper than the copied bytes.
    StackBytes,
    /// Callers: the stack has addresses where no code was mapped. perf follows frame pointers also through code that
    /// uses their register for something else.
    Unmapped,
    /// Callers: the stack has more frames than the limit.
    Depth,
    /// Inlined functions and lines of the program: the library of this index has no debug info.
    DebugInfo(u32),
    /// Optimisation: much time is in functions of the library with this index that every optimising compiler inlines.
    Optimisation(u32),
    /// Samples of benchmarks: Criterion computes statistics of its measurements.
    Benchmarks,
}

/// The owner of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeOwner {
    /// Code that a known runtime compiles or interprets.
    Runtime(LanguageRuntime),
    /// Code without a file, from an unknown compiler.
    Jit,
    /// The library with this index, and the result of its lookup.
    Lib(u32, SymbolSource),
}

/// Runtimes that compile or interpret code, and can report it to profilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LanguageRuntime {
    /// V8 in Node.js.
    Node,
    /// HotSpot and its relatives.
    Java,
    /// CPython.
    Python,
}

impl LanguageRuntime {
    /// The runtime with this library name.
    pub(super) fn from_lib(lib: &SavedLib) -> Option<LanguageRuntime> {
        let name = lib.name.as_deref().or(lib.debug_name.as_deref())?;
        let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
        if matches!(name, "node" | "nodejs") || name.starts_with("libnode.so") {
            Some(LanguageRuntime::Node)
        } else if matches!(name, "libjvm.so" | "java") {
            Some(LanguageRuntime::Java)
        } else if name.starts_with("libpython") || name.strip_prefix("python").is_some_and(is_version) {
            Some(LanguageRuntime::Python)
        } else {
            None
        }
    }
}

/// True for installed files, which somebody else built.
pub fn is_installed(lib: &SavedLib) -> bool {
    const FOLDERS: [&str; 7] = ["/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/snap/", "/nix/"];
    let path = lib.path.as_deref().or(lib.debug_path.as_deref()).unwrap_or_default();
    FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// CPython's version by library or program: `libpython3.11.so.1.0` and `python3.11` are (3, 11).
/// `None` for other names, and for names without a version.
pub fn python_version(lib: &SavedLib) -> Option<(u32, u32)> {
    let name = lib.name.as_deref().or(lib.debug_name.as_deref())?;
    let version = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python")?;
    let (major, rest) = version.split_once('.')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((major.parse().ok()?, rest[..digits].parse().ok()?))
}

/// The first kernel functions of what a probe costs: the trap, the single step, and what they lead to.
const PROBES: &[&str] = &[
    "asm_exc_int3",
    "asm_exc_debug",
    "el0_dbg",
    "el1_dbg",
    "el0_brk64",
    "el0_softstp",
    "uprobe_notify_resume",
    "__x64_sys_uprobe",
    "kprobe_ftrace_handler",
    "optimized_callback",
];

/// Cost of the samples in the kernel's handling of probes, which programs have only while they are probed.
pub fn cost_of_probes(selection: &Selection<'_>) -> Cost {
    let data = selection.data;
    let is_probe: Vec<bool> = (0..data.funcs.len() as u32)
        .map(|func| PROBES.iter().any(|start| data.func_name(func).starts_with(start)))
        .collect();
    if !is_probe.contains(&true) {
        return Cost::default();
    }
    let mut in_probe: Vec<bool> = Vec::with_capacity(selection.stacks.len());
    let mut cost = Cost::default();
    for (stack, own) in selection.stacks.iter().zip(&selection.own) {
        let above = in_probe.get(stack.prefix as usize).is_some_and(|above| *above);
        let is_in = above || is_probe[data.frames[stack.frame as usize].func as usize];
        if is_in {
            cost += *own;
        }
        in_probe.push(is_in);
    }
    cost
}

/// Every lack of at least a tenth of the samples, largest first.
pub fn shortfalls(selection: &Selection<'_>) -> Vec<Shortfall> {
    let mut found: FxHashMap<MissingSamples, Cost> = FxHashMap::default();
    let facts = DataFacts::new(selection.data);
    let seen = facts.of_stacks(selection);
    let owners = owners_of_jit_code(selection, &seen);
    let unwound = facts.unwound_libs(selection);
    let mut python = PythonCost::default();
    for (stack, cost) in selection.own.iter().enumerate().filter(|(_, cost)| !cost.is_zero()) {
        let mut add = |lack: MissingSamples| *found.entry(lack).or_default() += *cost;
        let seen = &seen[stack];
        let jit = || match seen.runtime.or_else(|| owners.get(&(stack as u32)).copied()) {
            Some(runtime) => CodeOwner::Runtime(runtime),
            None => CodeOwner::Jit,
        };
        let code = |place: CodeContainer| match place {
            CodeContainer::Jit => jit(),
            CodeContainer::Lib(lib) => CodeOwner::Lib(lib, facts.source(lib)),
        };
        let nameless = seen.nameless.or_else(|| facts.nameless_leaf(selection, stack));
        let hides_names = nameless.is_some_and(|place| facts.limit_hides_names(place));
        let hides_callers = seen.cut == Some(StackMark::TruncatedNoRule)
            && seen.cut_at.is_some_and(|place| facts.limit_hides_callers(place));
        if hides_names || hides_callers {
            add(MissingSamples::OpenFiles);
        }
        if seen.is_unmapped {
            add(MissingSamples::Unmapped);
        }
        if let Some(place) = nameless {
            if !hides_names {
                add(MissingSamples::Names(code(place)));
            }
        } else if seen.runtime == Some(LanguageRuntime::Python) {
            match seen.has_jit {
                true => python.in_functions += *cost,
                false => python.outside += *cost,
            }
        } else if seen.is_interpreted_by_v8 {
            add(MissingSamples::Names(CodeOwner::Runtime(LanguageRuntime::Node)));
        }
        match (seen.cut, seen.cut_at) {
            _ if hides_callers => {}
            (Some(StackMark::TruncatedNoRule), Some(CodeContainer::Lib(lib))) if unwound[lib as usize] => {
                add(MissingSamples::CallersOfPart(lib));
            }
            (Some(StackMark::TruncatedNoRule), Some(place)) => add(MissingSamples::Callers(code(place))),
            (Some(StackMark::TruncatedNoMemory), _) => add(MissingSamples::StackBytes),
            (Some(StackMark::TruncatedDepth), _) => add(MissingSamples::Depth),
            _ => {}
        }
        if let Some(lack) = facts.of_leaf(selection, stack) {
            add(lack);
        }
        if seen.in_statistics {
            add(MissingSamples::Benchmarks);
        }
    }
    // Else the trampolines were switched on, and what is outside is the interpreter's start, its imports and its end.
    if python.outside.weight > python.in_functions.weight {
        *found
            .entry(MissingSamples::Names(CodeOwner::Runtime(LanguageRuntime::Python)))
            .or_default() += python.outside;
    }
    let mut found: Vec<Shortfall> = (found.into_iter())
        .map(|(lack, cost)| Shortfall { lack, cost })
        .filter(|found| found.cost.share_of(selection.total) >= WORTH_SAYING)
        .collect();
    found.sort_by(|a, b| b.cost.weight.total_cmp(&a.cost.weight).then(a.lack.cmp(&b.lack)));
    found
}

/// Cost of Python's interpreter. Python's functions are its data: they have no machine code without perf trampolines.
#[derive(Default)]
struct PythonCost {
    /// Below a Python function with machine code.
    in_functions: Cost,
    outside: Cost,
}

/// The kind of place that holds code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeContainer {
    Jit,
    Lib(u32),
}

/// Properties of frames and libraries.
struct DataFacts<'a> {
    data: &'a Data,
    program: u32,
    jit: u32,
    kernel: u32,
    unknown: u32,
    runtimes: Vec<Option<LanguageRuntime>>,
    has_lines: Vec<bool>,
    /// The recording needed more open files than it was allowed.
    is_limited: bool,
    /// For each function, true for Criterion's statistics.
    is_statistics: Vec<bool>,
}

/// Properties of a stack, from its root to its leaf.
#[derive(Clone, Copy, Default)]
struct StackFacts {
    /// The nearest runtime.
    runtime: Option<LanguageRuntime>,
    has_jit: bool,
    /// True below a JavaScript function that V8 interprets. All of them have one frame, unless V8 copies it for each.
    is_interpreted_by_v8: bool,
    /// Set if code without a file has no name.
    nameless: Option<CodeContainer>,
    is_unmapped: bool,
    cut: Option<StackMark>,
    /// The last unwound code.
    cut_at: Option<CodeContainer>,
    /// True inside Criterion's statistics.
    in_statistics: bool,
}

impl<'a> DataFacts<'a> {
    fn new(data: &'a Data) -> DataFacts<'a> {
        let category = |kind: CodeKind| {
            let name = CATEGORIES[kind.category(false).0].name;
            let found = data.categories.iter().position(|known| known.name == *name);
            found.map_or(NONE, |at| at as u32)
        };
        let mut has_lines = vec![false; data.libs.len()];
        for frame in data.frames.iter().filter(|frame| frame.line != NONE) {
            if let Some(has_lines) = has_lines.get_mut(frame.lib as usize) {
                *has_lines = true;
            }
        }
        DataFacts {
            data,
            program: category(CodeKind::Program),
            jit: category(CodeKind::Jit),
            kernel: category(CodeKind::Kernel),
            unknown: category(CodeKind::Unknown),
            runtimes: data.libs.iter().map(LanguageRuntime::from_lib).collect(),
            has_lines,
            is_limited: data
                .recorded
                .as_ref()
                .is_some_and(|recorded| recorded.files_over_limit > 0),
            is_statistics: (0..data.funcs.len() as u32)
                .map(|func| is_criterion_s_statistics(data.func_name(func)))
                .collect(),
        }
    }

    fn source(&self, lib: u32) -> SymbolSource {
        (self.data.libs.get(lib as usize)).map_or(SymbolSource::NotAsked, |lib| lib.symbol_source)
    }

    /// True for code of a library that was not read, in a recording that needed more open files than it was allowed.
    fn limit_hides_callers(&self, place: CodeContainer) -> bool {
        let CodeContainer::Lib(lib) = place else { return false };
        let was_read = |lib: &SavedLib| lib.arch.as_ref().is_some_and(|arch| !arch.is_empty());
        self.is_limited && !self.data.libs.get(lib as usize).is_some_and(was_read)
    }

    /// True for code of a library without names, in such a recording: its names could not be read, or it was not read
    /// and its names were not looked up since.
    fn limit_hides_names(&self, place: CodeContainer) -> bool {
        let CodeContainer::Lib(lib) = place else { return false };
        match self.source(lib) {
            SymbolSource::Unreadable => self.is_limited,
            SymbolSource::NotAsked => self.limit_hides_callers(place),
            _ => false,
        }
    }

    fn runtime(&self, lib: u32) -> Option<LanguageRuntime> {
        self.runtimes.get(lib as usize).copied().flatten()
    }

    /// JIT code has no file. With names, its file may be the file that named it. Other profilers have no category of
    /// it.
    fn is_jit(&self, frame: u32) -> bool {
        let row = self.data.frames[frame as usize];
        match self.jit {
            NONE => row.lib == NONE && row.category != self.kernel && is_nameless(self.data.func_name(row.func)),
            jit => row.category == jit,
        }
    }

    /// True for an address without a mapping.
    fn is_unmapped(&self, frame: u32) -> bool {
        let row = self.data.frames[frame as usize];
        let is_address = || self.data.func_name(row.func).starts_with("0x");
        self.jit != NONE && row.lib == NONE && row.category == self.unknown && is_address()
    }

    fn place(&self, frame: u32) -> Option<CodeContainer> {
        let lib = self.data.frames[frame as usize].lib;
        match self.is_jit(frame) {
            true => Some(CodeContainer::Jit),
            false => ((lib as usize) < self.data.libs.len()).then_some(CodeContainer::Lib(lib)),
        }
    }

    fn of_stacks(&self, selection: &Selection<'_>) -> Vec<StackFacts> {
        let mut all: Vec<StackFacts> = Vec::with_capacity(selection.stacks.len());
        for stack in selection.stacks.iter() {
            let frame = self.data.frames[stack.frame as usize];
            let name = self.data.func_name(frame.func);
            let mut seen = match all.get(stack.prefix as usize) {
                Some(seen) => *seen,
                None => StackFacts {
                    cut: (frame.lib == NONE).then(|| StackMark::of_label(name)).flatten(),
                    ..StackFacts::default()
                },
            };
            let place = self.place(stack.frame);
            seen.runtime = self.runtime(frame.lib).or(seen.runtime);
            seen.has_jit |= place == Some(CodeContainer::Jit);
            seen.is_unmapped |= self.is_unmapped(stack.frame);
            seen.is_interpreted_by_v8 |= name == V8_INTERPRETER && seen.runtime == Some(LanguageRuntime::Node);
            seen.in_statistics |= self.is_statistics[frame.func as usize];
            if place == Some(CodeContainer::Jit) && is_nameless(name) {
                seen.nameless = place;
            }
            seen.cut_at = seen.cut_at.or(place.filter(|_| seen.cut.is_some()));
            all.push(seen);
        }
        all
    }

    /// For each library, true if the unwinder found a caller of a function in it.
    fn unwound_libs(&self, selection: &Selection<'_>) -> Vec<bool> {
        let mut unwound = vec![false; self.data.libs.len()];
        for stack in selection.stacks.iter() {
            let frame = self.data.frames[stack.frame as usize];
            let Some(caller) = selection.stacks.get(stack.prefix as usize) else {
                continue;
            };
            let caller = self.data.frames[caller.frame as usize];
            let is_code = StackMark::of_label(self.data.func_name(caller.func)).is_none() && caller.lib != frame.lib;
            if let Some(unwound) = unwound.get_mut(frame.lib as usize).filter(|_| is_code) {
                *unwound = true;
            }
        }
        unwound
    }

    /// Nameless code at the leaf, of files or of the kernel.
    fn nameless_leaf(&self, selection: &Selection<'_>, stack: usize) -> Option<CodeContainer> {
        let frame = selection.stacks[stack].frame;
        let name = self.data.func_name(self.data.frames[frame as usize].func);
        self.place(frame).filter(|_| is_nameless(name))
    }

    /// The lack of the leaf's own code.
    fn of_leaf(&self, selection: &Selection<'_>, stack: usize) -> Option<MissingSamples> {
        let data = self.data;
        let leaf = data.frames[selection.stacks[stack].frame as usize];
        let file = data.text(data.funcs[leaf.func as usize].file);
        if !leaf.is_inlined() && leaf.lib != NONE && is_always_inlined(file) {
            return Some(MissingSamples::Optimisation(leaf.lib));
        }
        let code = data.frames[data.frame_with_code(stack as u32) as usize];
        let is_program = code.category == self.program && self.program != NONE && self.runtime(code.lib).is_none();
        let lib = data.libs.get(code.lib as usize)?;
        // Of perf's text and the like only names are read: lines may be missing there alone.
        let is_text = data.recorded.is_none() && data.weights.is_some();
        let is_lacking = is_program
            && !is_text
            && data.symbolicated
            && !self.has_lines[code.lib as usize]
            && !is_nameless(data.func_name(code.func))
            && !is_installed(lib);
        is_lacking.then_some(MissingSamples::DebugInfo(code.lib))
    }
}

/// True for sources of functions that every optimising compiler inlines: operators, iterators over ranges and pointer
/// casts of the standard library. In a loop over a range, they had 68 % of the samples at `opt-level = 0` and none at
/// 3.
fn is_always_inlined(source: &str) -> bool {
    const RUST: &[&str] = &[
        "core/src/iter/range.rs",
        "core/src/ops/arith.rs",
        "core/src/ops/bit.rs",
        "core/src/ops/index_range.rs",
        "core/src/ops/range.rs",
        "core/src/num/mod.rs",
        "core/src/num/int_macros.rs",
        "core/src/num/uint_macros.rs",
        "core/src/ptr/const_ptr.rs",
        "core/src/ptr/mut_ptr.rs",
        "core/src/ptr/non_null.rs",
        "core/src/mem/maybe_uninit.rs",
        "core/src/slice/index.rs",
        "core/src/slice/iter/macros.rs",
        "core/src/ub_checks.rs",
    ];
    const CXX: &[&str] = &["bits/stl_iterator.h", "bits/move.h", "bits/ptr_traits.h"];
    let source = SourcePath::parse(source).plain();
    let of_rust = source.contains("library/") && RUST.iter().any(|file| source.ends_with(file));
    of_rust || source.contains("/c++/") && CXX.iter().any(|file| source.ends_with(file))
}

/// True for Criterion's functions that run after measuring. Its `analysis::common` also measures.
fn is_criterion_s_statistics(name: &str) -> bool {
    const PARTS: [&str; 4] = [
        "stats::",
        "analysis::estimates",
        "analysis::regression",
        "analysis::compare",
    ];
    let mut parts = name
        .match_indices("criterion::")
        .map(|(at, found)| &name[at + found.len()..]);
    parts.any(|rest| PARTS.iter().any(|part| rest.starts_with(part)))
}

/// For JIT code without a runtime above it on the stack, the runtime of its process. Without frame pointers, the stack
/// ends in the JIT code.
fn owners_of_jit_code(selection: &Selection<'_>, seen: &[StackFacts]) -> FxHashMap<u32, LanguageRuntime> {
    let mut owners = FxHashMap::default();
    let is_orphan = |seen: &StackFacts| seen.runtime.is_none() && seen.has_jit;
    if !seen.iter().any(is_orphan) {
        return owners;
    }
    let mut of_process: FxHashMap<&str, LanguageRuntime> = FxHashMap::default();
    let mut orphans: FxHashMap<u32, &str> = FxHashMap::default();
    for thread in &selection.data.threads {
        for stack in &thread.samples.stack {
            let Some(seen) = seen.get(*stack as usize) else {
                continue;
            };
            if let Some(runtime) = seen.runtime {
                of_process.entry(&thread.pid).or_insert(runtime);
            } else if seen.has_jit {
                orphans.insert(*stack, &thread.pid);
            }
        }
    }
    let found = orphans.into_iter();
    owners.extend(found.filter_map(|(stack, pid)| Some((stack, *of_process.get(pid)?))));
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_python_is_in_its_file_s_name() {
        let version = |name: &str| {
            python_version(&SavedLib {
                name: Some(name.to_owned()),
                ..SavedLib::default()
            })
        };
        assert_eq!(version("libpython3.11.so.1.0"), Some((3, 11)));
        assert_eq!(version("libpython3.13d.so.1.0"), Some((3, 13)));
        assert_eq!(version("python3.12"), Some((3, 12)));
        assert_eq!(version("python3"), None);
        assert_eq!(version("libpythonic.so"), None);
    }

    #[test]
    fn measuring_is_no_statistics() {
        assert!(is_criterion_s_statistics("criterion::analysis::compare::common"));
        assert!(is_criterion_s_statistics(
            "<criterion::stats::univariate::Resamples<A>>::next"
        ));
        assert!(!is_criterion_s_statistics("criterion::analysis::common"));
        assert!(!is_criterion_s_statistics("criterion::Bencher<M>::iter"));
        assert!(!is_criterion_s_statistics("app::stats::mean"));
    }
}
