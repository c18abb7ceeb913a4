//! What the scripts of `sprof completions` offer, as the shells get it.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::span_views::requests;
use crate::support::skip::{perf_events, tracepoints};
use crate::support::{program, record, sprof, temp_dir};

/// What bash offers for a line with the cursor at its end. `last` is what bash takes for the last word: colons and
/// equals signs end words.
fn bash(line: &str, last: &str) -> Vec<String> {
    let sprof = Path::new(env!("CARGO_BIN_EXE_sprof"));
    let script = r#"
        PATH=$1:$PATH
        source <("$1/sprof" completions bash)
        COMP_LINE=$2 COMP_POINT=${#2}
        read -ra COMP_WORDS <<< "$2"
        COMP_CWORD=2
        function=$(complete -p "${COMP_WORDS[0]}")
        function=${function##*-F }
        "${function%% *}" "${COMP_WORDS[0]}" "$3"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .arg(sprof.parent().unwrap())
        .args([line, last])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn commands_options_and_fixed_values_are_offered() {
    assert_eq!(bash("sprof rep", "rep"), ["report"]);
    assert_eq!(bash("sprof report --view call", "call"), ["callers="]);
    assert_eq!(bash("sprof report --view=thr", "thr"), ["threads"]);
    let formats = bash("sprof export x -f ", "");
    assert!(
        formats.contains(&"speedscope".to_owned()) && formats.len() == 12,
        "{formats:?}"
    );
    let options = bash("sprof report --mer", "--mer");
    assert_eq!(options, ["--merge-generics"]);
    // Files are the shell's.
    assert_eq!(bash("sprof report ", ""), Vec::<String>::new());
    assert_eq!(bash("sprof record ./a --ra", "--ra"), Vec::<String>::new());

    let cargo = bash("cargo sprof --unit-b", "--unit-b");
    assert_eq!(cargo, ["--unit-bench"]);
    assert_eq!(bash("cargo sprof ben", "ben"), ["bench"]);
    assert_eq!(bash("cargo-sprof flamegraph --inv", "--inv"), ["--inverted"]);
    assert_eq!(bash("cargo build --re", "--re"), Vec::<String>::new());
}

#[test]
fn names_of_the_file_are_offered() {
    let Some(()) = perf_events() else { return };
    let (recording, _) = record().profile(program("split").unwrap(), &["200"]);
    let file = recording.output.to_str().unwrap();
    assert_eq!(bash(&format!("sprof report {file} --focus thi"), "thi"), ["thirty"]);
    assert_eq!(bash(&format!("sprof annotate {file} run_s"), "run_s"), ["run_split"]);
    assert_eq!(
        bash(&format!("sprof report {file} --view callers=thi"), "thi"),
        ["thirty"]
    );
    assert_eq!(bash(&format!("sprof diff {file} {file} --process sp"), "sp"), ["split"]);
    assert_eq!(
        bash(&format!("sprof report --thread spl {file} --thread spl"), "spl"),
        ["split"]
    );
    let folder = temp_dir();
    let file_with_spans = requests(folder.path(), 3, 2);
    let with_spans = file_with_spans.to_str().unwrap();
    assert_eq!(
        bash(&format!("sprof report {with_spans} --inside re"), "re"),
        ["request"]
    );
    assert_eq!(
        bash(&format!("sprof export {with_spans} --outside fe"), "fe"),
        ["fetch"]
    );
    assert_eq!(
        bash(&format!("sprof report {with_spans} --outside-marker re"), "re"),
        ["request"]
    );
    let rules = bash(
        &format!("sprof check {with_spans} --max-increase span:fetch.p9"),
        "fetch.p9",
    );
    assert_eq!(rules, ["fetch.p90=", "fetch.p99="]);
    // The other shells get descriptions, too.
    let output = sprof()
        .env("SPROF_COMPLETE", "zsh")
        .args(["sprof", "report", file, "--focus", "thi"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "thirty\t\n");
}

#[test]
fn events_of_the_machine_are_offered() {
    let Some(()) = tracepoints() else { return };
    assert_eq!(bash("sprof record -e page-f", "page-f"), ["page-faults"]);
    // The part behind the colon is what bash replaces.
    let behind = bash("sprof record -e sched:sched_switc", "sched_switc");
    assert_eq!(behind, ["sched_switch"]);
    assert_eq!(
        bash("sprof record -e page-faults,context-sw", "page-faults,context-sw"),
        ["page-faults,context-switches"]
    );
}
