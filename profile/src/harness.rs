//! Markers for running benchmarks and tests, made from symbolicated samples.
//!
//! | harness | name | from when to when |
//! |---|---|---|
//! | libtest | the test function's path | the life of the test's thread; on the main thread, its first to its last sample |
//! | Criterion | the name that Criterion wrote; else the function that calls it | first to last sample while it measures |
//! | divan | the benchmark's function | first to last sample |
//!
//! The program is not changed. A benchmark without a sample has no marker, and a marker with an inexact end states
//! that.

use std::collections::HashMap;
use std::time::SystemTime;

use names::source_path::SourcePath;

use crate::builder::MARKERS_PER_THREAD;
use crate::category::is_library_source;
use crate::recorded::Profile;
use crate::recorded::stacks::StackId;
use crate::recorded::thread::{MarkerKind, RecordedMarker, RecordedThread};

/// A benchmark whose harness wrote its name at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredBenchmark {
    /// As the harness prints it: `group/function/parameter`.
    pub name: String,
    /// When the result was written: after the benchmark's last sample, and before the next one's first.
    pub at: SystemTime,
}

/// The known harnesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Harness {
    Libtest,
    Criterion,
    Divan,
}

/// The harness on a stack, and the user's function that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HarnessCall {
    harness: Harness,
    function: Option<String>,
}

/// The time of a benchmark or test.
struct HarnessSpan {
    name: String,
    harness: Harness,
    start: i64,
    end: i64,
    how: &'static str,
}

/// Files store times in ms as sums of differences. A span that ends with a sample ends a little later, to include that
/// sample.
const JUST_AFTER_NS: i64 = 1000;

const BY_SAMPLES: &str = "from its first to its last sample; named by its function";
const BY_RESULT: &str = "from its first to its last sample; named by Criterion's own files";
const BY_THREAD: &str = "the life of its thread; named by its function";

/// Adds a marker to each thread for each benchmark or test with samples there. `measured` is in time order. Returns the
/// number of markers. To be called after [`enrich`](crate::enrich::enrich), because the functions need names.
pub fn mark(profile: &mut Profile, measured: &[MeasuredBenchmark]) -> usize {
    let zero = profile.info.clock.wall;
    let measured: Vec<(i64, &str)> = measured
        .iter()
        .map(|benchmark| (since(zero, benchmark.at), benchmark.name.as_str()))
        .collect();
    let mut of_stack = HashMap::new();
    let spans: Vec<(usize, Vec<HarnessSpan>)> = (profile.threads.iter().enumerate())
        .filter(|(_, thread)| thread.event.is_none())
        .map(|(index, thread)| (index, spans(profile, thread, &measured, &mut of_stack)))
        .collect();
    let mut count = 0;
    for (index, spans) in spans {
        for span in spans {
            let what = MarkerKind::Ran {
                name: profile.strings.intern(&span.name),
                harness: span.harness.name(),
                how: span.how,
            };
            let markers = &mut profile.threads[index].markers;
            if markers.len() >= MARKERS_PER_THREAD {
                profile.counts.markers_left_out += 1;
                continue;
            }
            markers.push(RecordedMarker {
                start: span.start,
                end: Some(span.end),
                what,
            });
            count += 1;
        }
        profile.threads[index].markers.sort_by_key(|marker| marker.start);
    }
    count
}

fn spans(
    profile: &Profile,
    thread: &RecordedThread,
    measured: &[(i64, &str)],
    of_stack: &mut HashMap<StackId, Option<HarnessCall>>,
) -> Vec<HarnessSpan> {
    let mut spans: Vec<HarnessSpan> = Vec::new();
    // A sample represents the time before it.
    let interval = i64::try_from(profile.info.interval_ns).unwrap_or(0);
    for sample in thread.samples.iter() {
        let Some(stack) = sample.stack else { continue };
        let running = of_stack.entry(stack).or_insert_with(|| running(profile, stack));
        let Some(HarnessCall { harness, function }) = running else {
            continue;
        };
        let result = (*harness == Harness::Criterion)
            .then(|| measured.iter().find(|(at, _)| *at >= sample.time))
            .flatten();
        let (name, how) = match (result, function) {
            (Some((_, name)), _) => ((*name).to_owned(), BY_RESULT),
            (None, Some(function)) if *harness == Harness::Libtest => {
                (test_name(function, &thread.name, thread.is_main), BY_SAMPLES)
            }
            (None, Some(function)) => (without_crate(function).to_owned(), BY_SAMPLES),
            (None, None) => continue,
        };
        match spans.last_mut() {
            Some(last) if last.name == name && last.harness == *harness => last.end = sample.time + JUST_AFTER_NS,
            _ => {
                let earliest = spans.last().map_or(i64::MIN, |last| last.end);
                spans.push(HarnessSpan {
                    name,
                    harness: *harness,
                    start: (sample.time - interval).max(earliest).max(thread.start),
                    end: sample.time + JUST_AFTER_NS,
                    how,
                });
            }
        }
    }
    // Libtest starts a thread for each test.
    if let [span] = &mut spans[..]
        && span.harness == Harness::Libtest
        && !thread.is_main
        && let Some(end) = thread.end
    {
        (span.start, span.end, span.how) = (thread.start, end.max(span.end), BY_THREAD);
    }
    spans
}

/// Looks at a stack from its root.
fn running(profile: &Profile, stack: StackId) -> Option<HarnessCall> {
    let mut frames = Vec::new();
    let mut next = Some(stack);
    while let Some(stack) = next {
        frames.push(profile.stacks.frame(stack));
        next = profile.stacks.prefix(stack);
    }
    let mut harness = None;
    // Criterion's own work around a benchmark does not count. Only code below its `Bencher` does.
    let mut measures = false;
    let mut caller = None;
    let mut function = None;
    for frame in frames.into_iter().rev() {
        let row = profile.tables.func(profile.tables.frame(frame).func);
        let Some(source) = row.source.map(|source| profile.strings.get(source)) else {
            continue;
        };
        let name = profile.strings.get(row.name);
        match harness_of(source, name) {
            Some((found, is_measuring)) => {
                harness.get_or_insert(found);
                measures |= is_measuring;
            }
            None if is_users(source) && harness == Some(Harness::Criterion) => {
                caller = caller.or_else(|| named(name));
            }
            None if is_users(source) && harness.is_some() => function = function.or_else(|| named(name)),
            None => {}
        }
    }
    match harness? {
        Harness::Criterion if !measures => None,
        Harness::Criterion => Some(HarnessCall {
            harness: Harness::Criterion,
            function: caller,
        }),
        harness => Some(HarnessCall {
            harness,
            function: Some(function?),
        }),
    }
}

/// The harness of a frame, and whether the frame measures.
fn harness_of(source: &str, function: &str) -> Option<(Harness, bool)> {
    let source = SourcePath::parse(source).plain();
    // `.../criterion-0.8.2/src/bencher.rs` from the registry, `.../criterion/src/...` from elsewhere.
    let in_crate = |name: &str| {
        let (folders, file) = source.rsplit_once("/src/")?;
        let folder = folders.rsplit('/').next()?;
        let version = folder.strip_prefix(name)?;
        let is_version = version.is_empty() || version.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit());
        is_version.then_some(file)
    };
    if let Some(file) = in_crate("criterion") {
        return Some((Harness::Criterion, file == "bencher.rs"));
    }
    if in_crate("divan").is_some() {
        return Some((Harness::Divan, false));
    }
    let is_libtest = source.ends_with("library/test/src/lib.rs") && function.contains("run_test");
    is_libtest.then_some((Harness::Libtest, false))
}

/// True unless the source is of Rust's libraries or of a dependency.
fn is_users(source: &str) -> bool {
    source.ends_with(".rs") && !is_library_source(source)
}

/// The function of a user's frame; `None` for a closure without a further name, and for code of divan's macro.
fn named(name: &str) -> Option<String> {
    let name = name.split("::{{closure}}").next().unwrap_or(name);
    let name = name.split("::{closure").next().unwrap_or(name);
    let is_name = !name.starts_with('{') && !name.contains("__DIVAN_BENCH") && !name.is_empty();
    is_name.then(|| name.to_owned())
}

fn without_crate(path: &str) -> &str {
    path.split_once("::").map_or(path, |(_, rest)| rest)
}

/// A test's name is its function's path in the crate. An inlined function has no path, but libtest names the thread by
/// the test; the kernel keeps 15 bytes of that name.
fn test_name(function: &str, thread: &str, is_main: bool) -> String {
    let path = without_crate(function);
    if function.contains("::") || is_main {
        return path.to_owned();
    }
    match thread.rsplit_once("::") {
        Some((modules, start)) if path.starts_with(start) => format!("{modules}::{path}"),
        _ => path.to_owned(),
    }
}

/// ns from time zero.
fn since(zero: SystemTime, at: SystemTime) -> i64 {
    match at.duration_since(zero) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

impl Harness {
    fn name(self) -> &'static str {
        match self {
            Harness::Libtest => "libtest",
            Harness::Criterion => "Criterion",
            Harness::Divan => "divan",
        }
    }
}

#[cfg(test)]
mod tests {
    use names::source_path::in_profile;

    use super::*;

    #[test]
    fn harnesses_are_known_by_their_source() {
        let registry = "/home/someone/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        for (source, expected) in [
            (
                format!("{registry}/criterion-0.8.2/src/bencher.rs"),
                Some((Harness::Criterion, true)),
            ),
            (
                "/home/me/criterion/src/routine.rs".to_owned(),
                Some((Harness::Criterion, false)),
            ),
            (format!("{registry}/criterion-plot-0.8.2/src/lib.rs"), None),
            (
                format!("{registry}/divan-0.1.21/src/benchmark/mod.rs"),
                Some((Harness::Divan, false)),
            ),
            (
                format!("{registry}/divan-0.1.21/src/divan.rs"),
                Some((Harness::Divan, false)),
            ),
            (
                "/rustc/5980/library/test/src/lib.rs".to_owned(),
                Some((Harness::Libtest, false)),
            ),
            (
                "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/test/src/lib.rs".to_owned(),
                Some((Harness::Libtest, false)),
            ),
            ("/home/me/divan-bench/src/lib.rs".to_owned(), None),
        ] {
            assert_eq!(harness_of(&source, "test::run_test"), expected, "{source}");
            let source = in_profile(&source);
            assert_eq!(harness_of(&source, "test::run_test"), expected, "{source}");
        }
    }

    #[test]
    fn names_are_those_that_the_harness_prints() {
        assert_eq!(
            named("a::tests::works::{{closure}}").as_deref(),
            Some("a::tests::works")
        );
        assert_eq!(named("{closure#0}"), None);
        assert_eq!(test_name("a::tests::works", "tests::works", false), "tests::works");
        assert_eq!(
            test_name("works_with_a_long_name", "tests::works_wi", false),
            "tests::works_with_a_long_name"
        );
        assert_eq!(test_name("works", "other", false), "works");
    }
}
