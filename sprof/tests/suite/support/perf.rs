//! What `perf report` shows of a file, and what sprof makes of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Profile, sprof};

/// Records a program with `perf record` and these options. Returns what the program printed.
pub(crate) fn perf_record(file: &Path, options: &[&str], program: &Path, arguments: &[&str]) -> String {
    let mut perf = Command::new("perf");
    perf.args(["record", "-o"]).arg(file).args(options);
    let output = perf.arg("--").arg(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The text of `perf script` with these options.
pub(crate) fn perf_script(file: &Path, options: &[&str]) -> String {
    let mut perf = Command::new("perf");
    let output = perf.arg("script").args(options).arg("-i").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The share of each function in percent, as perf shows it for the event.
pub(crate) fn perf_report(file: &Path, event: &str) -> BTreeMap<String, f64> {
    let output = Command::new("perf")
        .args([
            "report",
            "--stdio",
            "--no-children",
            "-g",
            "none",
            "-F",
            "overhead,symbol",
            "-i",
        ])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut shares = BTreeMap::new();
    let mut is_event = false;
    for line in text.lines() {
        // `# Samples: 2K of event 'cpu-clock:u'`
        if let Some((_, of)) = line.split_once(" of event '") {
            is_event = of.starts_with(event);
        }
        // `    59.32%  [.] sixty`
        if let Some((percent, symbol)) = line.split_once('%')
            && is_event
            && let Ok(percent) = percent.trim().parse::<f64>()
        {
            let name = symbol.trim().split_once("] ").map_or(symbol.trim(), |(_, name)| name);
            *shares.entry(name.trim().to_owned()).or_default() += percent;
        }
    }
    assert!(
        !shares.is_empty(),
        "perf report: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    shares
}

/// Converts the file. Returns the profile and what sprof said.
pub(crate) fn load(file: &Path, options: &[&str]) -> (Profile, String) {
    let saved = file.with_extension("json.gz");
    let output = sprof()
        .args(["load", "--save-only", "-o"])
        .arg(&saved)
        .args(options)
        .arg(file)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    (Profile::read(&saved), stderr)
}

/// The share of samples whose innermost function, inlined ones apart, has this name: what perf shows by default.
pub(crate) fn own_share(profile: &Profile, name: &str) -> f64 {
    let (mut hits, mut all) = (0.0, 0.0);
    for sample in profile.samples() {
        let leaf = sample
            .stack
            .and_then(|stack| profile.stack_frames(stack).rev().find(|frame| frame.inline_depth == 0));
        all += sample.weight;
        if leaf.is_some_and(|frame| frame.function == name) {
            hits += sample.weight;
        }
    }
    100.0 * hits / all
}

/// The split functions have the shares that perf gives them, within 1 point.
pub(crate) fn assert_as_perf(profile: &Profile, file: &Path, event: &str) {
    let shares = perf_report(file, event);
    for name in ["sixty", "thirty", "ten"] {
        let (of_perf, ours) = (shares.get(name).copied().unwrap_or_default(), own_share(profile, name));
        assert!(
            (of_perf - ours).abs() <= 1.0,
            "{name}: {ours:.2} %, perf says {of_perf:.2} %\n{shares:?}\n{}",
            profile.summary()
        );
    }
}
