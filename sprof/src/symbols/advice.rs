//! Advice for a poor result: a line for each cause.

use names::symbol::SymbolSource;
use profile::data::Data;
use profile::data::SavedLib;
use profile::text::numbers::{count, time};
use profile::view::cost::FEW_SAMPLES;
use profile::view::select::Selection;
use profile::view::shortfalls::{
    CodeOwner, LanguageRuntime, MissingSamples, Shortfall, cost_of_probes, is_installed, python_version,
};
use recording::session::{RecordOptions, RecordTarget};
use serde_json::{Value, json};
use symbolicator::Symbolicator;

use crate::symbols::library::module;
use crate::symbols::look_ups::why_nameless;
use crate::symbols::packages::install_command;
use crate::terminal::columns::clean;

/// The most stack bytes that the kernel copies with a sample.
const MOST_STACK_BYTES: u64 = 65_528;
/// A share of the CPU time that probes took, from which on other shares mislead.
const PROBES_DISTORT: f64 = 0.05;
/// The first version with `-X perf`.
const PYTHON_WITH_PERF: (u32, u32) = (3, 12);

/// The samples that advice is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdvisedSamples<'a> {
    /// A recording that was just made. `None`: the samples were read from a file.
    Recorded(Option<&'a RecordOptions>),
    /// The samples of a saved profile.
    Saved,
    /// The waits of a saved profile.
    SavedWaits,
}

pub(crate) struct ResultAdvice {
    /// The line: how many samples are concerned, and what to do.
    pub(crate) line: String,
    /// The advice as JSON, one object for each shortfall.
    pub(crate) json: Vec<Value>,
}

/// A warning that few samples of running threads say little; `None` if there are enough.
pub(crate) fn few_samples(selection: &Selection<'_>, waits: bool) -> Option<String> {
    let (data, samples) = (selection.data, selection.total.samples);
    let is_few = samples > 0 && samples < FEW_SAMPLES && data.has_samples() && data.weights.is_none() && !waits;
    is_few.then(|| {
        let samples = count(samples, "sample", "samples");
        match data.event {
            Some(_) => format!("{samples}: too few to say where the event happens; a smaller N in /period=N/ takes more"),
            None => format!(
                "{samples}: too few to say where time goes; a higher rate (-r), a longer recording or --iteration-count takes more"
            ),
        }
    })
}

/// Says how much CPU time the probes of a recording took. `None` if that does not change the shares of other code.
pub(crate) fn distorted(selection: &Selection<'_>, cpu_ms: Option<f64>) -> Option<String> {
    let (probes, whole) = (cost_of_probes(selection), selection.total);
    let (cpu_ms, (low, _)) = (cpu_ms?, probes.share_range(whole));
    (low >= PROBES_DISTORT).then(|| {
        format!(
            "probes took about {} of {} of CPU time: shares and times are not those of the program without them; \
             period=N takes fewer of the calls and costs the same",
            time(cpu_ms * probes.share_of(whole)),
            time(cpu_ms)
        )
    })
}

/// Makes the advice, without what the symbolicator has tried. Libraries without names for the same cause share a line:
/// a shell script would have a line for each program of the system.
pub(crate) fn advise(
    shortfalls: &[Shortfall],
    selection: &Selection<'_>,
    what: AdvisedSamples<'_>,
    symbolicator: &Symbolicator,
) -> Vec<ResultAdvice> {
    let mut groups: Vec<Vec<&Shortfall>> = Vec::new();
    for shortfall in shortfalls {
        let cause = nameless_lib(shortfall, selection.data);
        let same = groups
            .iter_mut()
            .find(|group| cause.is_some() && nameless_lib(group[0], selection.data) == cause);
        match same {
            Some(group) => group.push(shortfall),
            None => groups.push(vec![shortfall]),
        }
    }
    let advice = groups.into_iter().map(|group| {
        let line = line(group[0], &group[1..], selection, what, symbolicator);
        let json = (group.iter())
            .map(|shortfall| json(shortfall, selection, &line))
            .collect();
        ResultAdvice { line, json }
    });
    advice.collect()
}

/// Cause of the missing names, and whether the library is installed (built by others). `None` for another shortfall.
fn nameless_lib(shortfall: &Shortfall, data: &Data) -> Option<(SymbolSource, bool)> {
    match shortfall.lack {
        MissingSamples::Names(CodeOwner::Lib(lib, source)) => {
            Some((source, data.libs.get(lib as usize).is_some_and(is_installed)))
        }
        _ => None,
    }
}

/// The line for a shortfall; `likewise` are shortfalls of other libraries with the same cause.
fn line(
    shortfall: &Shortfall,
    likewise: &[&Shortfall],
    selection: &Selection<'_>,
    what: AdvisedSamples<'_>,
    symbolicator: &Symbolicator,
) -> String {
    let percent = 100.0 * shortfall.cost.share_of(selection.total);
    let of_samples = match what {
        AdvisedSamples::SavedWaits => format!("{percent:.0} % of the time of the waits"),
        AdvisedSamples::Recorded(_) | AdvisedSamples::Saved => format!("{percent:.0} % of the samples"),
    };
    let lib = |lib: u32| lib_name(selection.data, lib);
    match shortfall.lack {
        MissingSamples::Names(CodeOwner::Runtime(LanguageRuntime::Node)) => {
            format!(
                "{of_samples} have JavaScript functions without names: run `node --perf-prof --interpreted-frames-native-stack`"
            )
        }
        MissingSamples::Names(CodeOwner::Runtime(LanguageRuntime::Java)) => format!(
            "{of_samples} have Java methods without names: run `java -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit` (17 or later)"
        ),
        MissingSamples::Names(CodeOwner::Runtime(LanguageRuntime::Python)) => {
            let versions = selection.data.libs.iter().filter_map(python_version);
            let next = match versions.max().filter(|version| *version < PYTHON_WITH_PERF) {
                Some((major, minor)) => format!(
                    "Python {major}.{minor} cannot report them to profilers; Python 3.12 and later can: `python3 -X perf`"
                ),
                None => "run `python3 -X perf` (3.12 or later)".to_owned(),
            };
            format!("{of_samples} are in Python code, whose functions are not shown: {next}")
        }
        MissingSamples::Names(CodeOwner::Jit) => format!(
            "{of_samples} have functions without names in code that was made while the program ran: let its compiler write a jitdump file or a perf map"
        ),
        MissingSamples::Names(CodeOwner::Lib(at, source)) => {
            let of = match (what, &selection.data.event) {
                (AdvisedSamples::Recorded(_) | AdvisedSamples::Saved, None) => "time",
                (AdvisedSamples::Recorded(_) | AdvisedSamples::Saved, Some(_)) => "samples",
                (AdvisedSamples::SavedWaits, _) => "time of the waits",
            };
            format!(
                "{} ({percent:.0} % of the {of}) has no names{}: {}; {}",
                lib(at),
                of_others(likewise, selection),
                why_nameless(source),
                remedy(
                    source,
                    &nameless_libs(shortfall, likewise, selection.data),
                    symbolicator
                )
            )
        }
        MissingSamples::Callers(CodeOwner::Runtime(LanguageRuntime::Java)) => {
            format!("{of_samples} have truncated stacks in Java methods: run `java -XX:+PreserveFramePointer`")
        }
        MissingSamples::Callers(CodeOwner::Runtime(LanguageRuntime::Node)) => format!(
            "{of_samples} have truncated stacks in JavaScript functions: run `node --perf-prof --perf-prof-unwinding-info`"
        ),
        MissingSamples::Callers(CodeOwner::Runtime(LanguageRuntime::Python) | CodeOwner::Jit) => format!(
            "{of_samples} have stacks that are truncated in code that was made while the program ran: have its compiler keep \
             frame pointers"
        ),
        MissingSamples::Callers(CodeOwner::Lib(at, _)) => format!(
            "{of_samples} have stacks that are truncated in {}: build it with -fasynchronous-unwind-tables or \
             -fno-omit-frame-pointer",
            lib(at)
        ),
        MissingSamples::CallersOfPart(at) => format!(
            "{of_samples} have stacks that are truncated in {}, in code without unwind rules, such as assembly: its callers are missing",
            lib(at)
        ),
        MissingSamples::OpenFiles => {
            let files = selection
                .data
                .recorded
                .as_ref()
                .map_or(0, |recorded| recorded.files_over_limit);
            format!(
                "{of_samples} lack callers or names: sprof could not open {}, because too few open files are allowed; raise `ulimit -n` \
                 and record again",
                count(files, "file", "files")
            )
        }
        MissingSamples::StackBytes => format!("{of_samples} have truncated stacks: {}", why_cut(selection.data, what)),
        MissingSamples::Unmapped => format!(
            "{of_samples} have addresses on their stacks where no code was: stacks that are followed by frame pointers end so in code \
             without them, and lack callers; `sprof record` and `perf record --call-graph dwarf` need none"
        ),
        MissingSamples::Depth => {
            format!("{of_samples} have more frames than sprof follows: the callers above are missing")
        }
        MissingSamples::DebugInfo(at) => format!(
            "{} has no debug info, so lines and inlined functions are not shown: build it with -g (Cargo: \
             CARGO_PROFILE_RELEASE_DEBUG=limited){}",
            lib(at),
            match selection.data.libs.get(at as usize).is_some_and(has_id) {
                true => format!(", or {}", folder_of("its debug file", symbolicator)),
                false => String::new(),
            }
        ),
        MissingSamples::Benchmarks => format!(
            "{of_samples} are in Criterion's statistics of what it measured: with `-- --profile-time 5` at the end of the command it \
             only runs the benchmarks"
        ),
        MissingSamples::Optimisation(at) => format!(
            "{of_samples} are in functions of {} that every optimising compiler inlines: this is a debug build; record one with \
             optimisation (cargo build --release, -O2)",
            lib(at)
        ),
    }
}

/// Why stacks end where memory was not available, and what helps.
fn why_cut(data: &Data, what: AdvisedSamples<'_>) -> String {
    let given = data.recorded.as_ref().and_then(|recorded| recorded.stack_bytes);
    let deeper = match given {
        Some(MOST_STACK_BYTES) => format!("they are deeper than {MOST_STACK_BYTES} bytes, the most that is copied"),
        _ => format!("they are deeper than the copied bytes; --stack-size {MOST_STACK_BYTES} copies the most"),
    };
    match what {
        AdvisedSamples::SavedWaits => {
            format!("these waits began before the recording, when not all registers are known, or {deeper}")
        }
        // Other processes than one's children: ptrace(2), yama.
        AdvisedSamples::Recorded(Some(asked))
            if asked.target != RecordTarget::Command && !rustix::process::geteuid().is_root() =>
        {
            format!("{deeper}; root can read the rest from the program's memory")
        }
        AdvisedSamples::Recorded(_) | AdvisedSamples::Saved => deeper,
    }
}

/// The libraries of the shortfalls, in the order of the shortfalls.
fn nameless_libs<'a>(shortfall: &Shortfall, likewise: &[&Shortfall], data: &'a Data) -> Vec<&'a SavedLib> {
    let all = std::iter::once(shortfall).chain(likewise.iter().copied());
    let libs = all.filter_map(|shortfall| match shortfall.lack {
        MissingSamples::Names(CodeOwner::Lib(lib, _)) => data.libs.get(lib as usize),
        _ => None,
    });
    libs.collect()
}

/// ` (likewise wc 21 %, uniq 11 %)`
fn of_others(likewise: &[&Shortfall], selection: &Selection<'_>) -> String {
    let others = likewise.iter().filter_map(|shortfall| match shortfall.lack {
        MissingSamples::Names(CodeOwner::Lib(lib, _)) => {
            let percent = 100.0 * shortfall.cost.share_of(selection.total);
            Some(format!("{} {percent:.0} %", lib_name(selection.data, lib)))
        }
        _ => None,
    });
    match others.collect::<Vec<_>>() {
        others if others.is_empty() => String::new(),
        others => format!(" (likewise {})", others.join(", ")),
    }
}

/// True if sprof can find out whether a file is of the library's build.
fn has_id(lib: &SavedLib) -> bool {
    module(lib).is_some_and(|module| module.build_id.is_some())
}

/// Advice to name the folder of a file.
fn folder_of(file: &str, symbolicator: &Symbolicator) -> String {
    match symbolicator.has_symbol_dirs() {
        true => "name another folder with --symbol-dir".to_owned(),
        false => format!("name the folder of {file} with --symbol-dir"),
    }
}

/// What gives names to libraries that lack them for the same cause. All remedies but a new recording also help a saved
/// profile.
fn remedy(source: SymbolSource, libs: &[&SavedLib], symbolicator: &Symbolicator) -> String {
    let is_installed = libs.iter().all(|lib| is_installed(lib));
    let folder = |of: &str| folder_of(of, symbolicator);
    match source {
        SymbolSource::Recorded => "record again while it says what it makes".to_owned(),
        SymbolSource::Hidden => "record again as root, or after `sudo sysctl kernel.kptr_restrict=0`".to_owned(),
        SymbolSource::Unreadable => "make it readable".to_owned(),
        // No file can be known to be of the same build.
        _ if !libs.iter().all(|lib| has_id(lib)) => match is_installed {
            true => "record again where its debug symbols are installed".to_owned(),
            false => "build it without -s or strip and with -Wl,--build-id, and record again".to_owned(),
        },
        SymbolSource::Files { .. } | SymbolSource::NotAsked if is_installed => {
            let install = install_command(libs.iter().copied()).unwrap_or_else(|| {
                "install its debug symbols (Debian, Ubuntu: a package that ends in -dbgsym; Fedora: dnf debuginfo-install)".to_owned()
            });
            match symbolicator.asks_debuginfod() {
                true => format!("{install}, or {}", folder("its debug file")),
                false => format!(
                    "{install}, download them with --debuginfod, or {}",
                    folder("its debug file")
                ),
            }
        }
        SymbolSource::Files { .. } | SymbolSource::NotAsked => {
            format!("build it without -s or strip, or {}", folder("its debug file"))
        }
        SymbolSource::NoFile | SymbolSource::OtherBuild if cfg!(feature = "symbol-servers") => {
            format!(
                "{}, a server that has it with --symbol-server, or record again",
                folder("such a file")
            )
        }
        SymbolSource::NoFile | SymbolSource::OtherBuild => format!("{}, or record again", folder("such a file")),
        SymbolSource::NotBuilt => format!(
            "build sprof with `cargo install --locked --path sprof --features foreign-symbols`, and {}",
            folder("its PDB or Breakpad file")
        ),
    }
}

fn lib_name(data: &Data, lib: u32) -> String {
    let lib = data.libs.get(lib as usize);
    clean(
        lib.and_then(|lib| lib.name.as_deref().or(lib.debug_name.as_deref()))
            .unwrap_or("a library"),
    )
}

fn json(shortfall: &Shortfall, selection: &Selection<'_>, line: &str) -> Value {
    let code = |code: CodeOwner| match code {
        CodeOwner::Runtime(LanguageRuntime::Node) => ("node", None),
        CodeOwner::Runtime(LanguageRuntime::Java) => ("java", None),
        CodeOwner::Runtime(LanguageRuntime::Python) => ("python", None),
        CodeOwner::Jit => ("jit", None),
        CodeOwner::Lib(lib, _) => ("library", Some(lib)),
    };
    let (lacks, (of, lib)) = match shortfall.lack {
        MissingSamples::Names(of) => ("names", code(of)),
        MissingSamples::Callers(of) => ("callers", code(of)),
        MissingSamples::CallersOfPart(lib) => ("callers", ("library", Some(lib))),
        MissingSamples::StackBytes => ("stack_bytes", ("stacks", None)),
        MissingSamples::OpenFiles => ("open_files", ("stacks", None)),
        MissingSamples::Unmapped => ("unmapped", ("stacks", None)),
        MissingSamples::Depth => ("depth", ("stacks", None)),
        MissingSamples::Benchmarks => ("benchmarks", ("criterion", None)),
        MissingSamples::DebugInfo(lib) => ("debug_info", ("library", Some(lib))),
        MissingSamples::Optimisation(lib) => ("optimisation", ("library", Some(lib))),
    };
    json!({
        "lacks": lacks,
        "of": of,
        "library": lib.map(|lib| lib_name(selection.data, lib)),
        "share": shortfall.cost.share_of(selection.total),
        "advice": line,
    })
}

#[cfg(test)]
mod tests {
    use profile::view::cost::Cost;
    use profile::view::select::{Filter, select};
    use symbolicator::SymbolOptions;

    use super::*;

    #[test]
    fn what_was_installed_is_not_to_be_built() {
        let lib = |name: &str, folder: &str| SavedLib {
            name: Some(name.to_owned()),
            path: Some(format!("{folder}/{name}")),
            code_id: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
            ..SavedLib::default()
        };
        let data = Data {
            libs: vec![lib("sort", "/usr/bin"), lib("wc", "/usr/bin"), lib("app", "/home/me")],
            ..Data::default()
        };
        let selection = select(&data, &Filter::default()).unwrap();
        let stripped = SymbolSource::Files {
            symbol_table: false,
            debug_info: false,
        };
        let shortfalls: Vec<Shortfall> = (0..3)
            .map(|lib| Shortfall {
                lack: MissingSamples::Names(CodeOwner::Lib(lib, stripped)),
                cost: Cost::default(),
            })
            .collect();
        let advised = |options: SymbolOptions| {
            let symbolicator = Symbolicator::new(options);
            advise(&shortfalls, &selection, AdvisedSamples::Saved, &symbolicator)
        };
        let [installed, built] = &advised(SymbolOptions::default())[..] else {
            panic!("the installed ones share a line");
        };
        assert!(
            installed
                .line
                .starts_with("sort (0 % of the time) has no names (likewise wc 0 %): "),
            "{}",
            installed.line
        );
        assert!(
            installed.line.contains("-dbgsym") && !installed.line.contains("build it"),
            "{}",
            installed.line
        );
        assert!(built.line.contains("build it without -s"), "{}", built.line);
        assert!(
            built
                .line
                .ends_with("name the folder of its debug file with --symbol-dir"),
            "{}",
            built.line
        );
        assert_eq!((installed.json.len(), built.json.len()), (2, 1));
        let with_folder = advised(SymbolOptions {
            symbol_dirs: vec!["/debug".into()],
            ..SymbolOptions::default()
        });
        assert!(
            with_folder[1].line.contains("name another folder"),
            "{}",
            with_folder[1].line
        );
    }
}
