//! The summary after a recording: where the time went, and what helps where the result is poor.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::machine::one_cpu;
use crate::support::schema::parsed;
use crate::support::skip::{IN_NAMESPACE, Need, has, mount_namespaces, perf_events};
use crate::support::{Recording, copy_program, program, record, temp_dir};
use serde_json::Value;

/// Records with `--json`, and returns what sprof says to people and to programs. The program's own lines come first.
fn summary(options: &[&str], command: &[&str]) -> (Recording, Value) {
    let recording = record()
        .options(&[&["--json"], options].concat())
        .run(command[0], &command[1..]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let json = recording.stdout.lines().last().unwrap();
    let json = parsed(json);
    (recording, json)
}

/// The advice about this, if it is given, in both forms: (library, share).
fn advice(recording: &Recording, json: &Value, lacks: &str, of: &str, words: &str) -> Option<(String, f64)> {
    let all = json["advice"].as_array().unwrap();
    let found = all
        .iter()
        .find(|advice| advice["lacks"] == lacks && advice["of"] == of)?;
    let line = found["advice"].as_str().unwrap();
    assert!(line.contains(words), "no {words:?} in {line:?}");
    assert!(
        recording.stderr.contains(&format!("advice: {line}")),
        "{}",
        recording.stderr
    );
    let library = found["library"].as_str().unwrap_or_default().to_owned();
    Some((library, found["share"].as_f64().unwrap()))
}

/// Code of no file without names is one row: no address is passed off as a function.
fn assert_one_row_without_names(json: &Value) {
    let hottest = json["hottest"].as_array().unwrap();
    assert_eq!(hottest[0]["function"], "[code of no file, without names]", "{json}");
    assert!(hottest[0]["self_share"].as_f64().unwrap() > 0.5, "{json}");
    let is_address = |row: &Value| row["function"].as_str().unwrap().starts_with("0x");
    assert!(!hottest.iter().any(is_address), "{json}");
}

fn no_advice(json: &Value) {
    assert_eq!(json["advice"], serde_json::json!([]), "{json}");
}

#[test]
fn own_functions_stand_by_total_with_inlined_ones_each_on_their_own() {
    let Some(()) = perf_events() else { return };
    let (recording, json) = summary(&[], &[program("inline_rs").unwrap().to_str().unwrap(), "20000"]);
    let own = json["own_functions"].as_array().unwrap();
    let name = |row: &Value| row["function"].as_str().unwrap().to_owned();
    let inlined = own.iter().find(|row| name(row).contains("inlined_loop")).unwrap();
    // The loop is inlined into `area`. What is inlined into the loop has a third to a half of its samples. It depends
    // on the processor at which of a few instructions they fall.
    assert!(inlined["self_share"].as_f64().unwrap() > 0.25, "{json}");
    assert!(inlined["total_share"].as_f64().unwrap() > 0.9, "{json}");
    for row in own {
        // Self is the same in both tables.
        let hottest = json["hottest"].as_array().unwrap().iter();
        let same = hottest.filter(|hot| hot["function"] == row["function"]);
        same.for_each(|hot| assert_eq!(hot["self_samples"], row["self_samples"], "{json}"));
    }
    assert!(!own.iter().any(|row| name(row).starts_with("core::")), "{json}");
    assert!(name(&json["hottest"][0]).contains("inlined_loop"), "{json}");
    assert!(
        recording.stderr.contains("s of CPU time, 1 process"),
        "{}",
        recording.stderr
    );
    no_advice(&json);
}

/// The share of a kind of cost, in percent of all samples, and the number of all samples.
fn kind_of_cost(recording: &Recording, kind: &str) -> (f64, f64) {
    let report = ["report", "-f", "json", "--view", "buckets"];
    let report = support::sprof().args(report).arg(&recording.output).output().unwrap();
    let report: Value = parsed(&report.stdout);
    let rows = report["views"][0]["rows"].as_array().unwrap().iter();
    let share = rows.filter(|row| row["bucket"] == kind);
    let share: f64 = share.map(|row| row["self"]["share"].as_f64().unwrap()).sum();
    (100.0 * share, report["selection"]["samples"].as_f64().unwrap())
}

#[test]
fn destroying_has_the_share_that_the_program_measures() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    for (name, mode) in [("costs", "map"), ("costs_rs", "")] {
        let Some(path) = program(name) else { continue };
        // 6,000 samples, or a third of these if the host takes the rest of the CPU time.
        let (recording, json) = summary(&["-r", "3000"], &[path.to_str().unwrap(), mode]);
        let (found, samples) = kind_of_cost(&recording, "drop");
        let expected = 100.0 * recording.printed("share");
        let chance = 5.0 * (expected * (100.0 - expected) / samples).sqrt();
        assert!(
            samples > 1000.0 && expected > 5.0 && (found - expected).abs() < 2.0 + chance,
            "{name}: {found:.1} %, not {expected:.1} %, of {samples} samples: {json}"
        );
    }
}

#[test]
fn what_a_destructor_a_comparison_or_a_hash_function_calls_is_its_own_cost() {
    let Some(()) = perf_events() else { return };
    let Some(path) = program("costs") else { return };
    for mode in ["callbacks", "sort"] {
        let (recording, json) = summary(&[], &[path.to_str().unwrap(), mode]);
        for kind in ["drop", "hash", "alloc"] {
            let (found, samples) = kind_of_cost(&recording, kind);
            // 2 % are known of: what the loops around the callbacks take.
            assert!(
                found < 2.0 + 5.0 * (2.0 * 98.0 / samples).sqrt(),
                "{kind}: {found:.1} % of {samples}: {json}"
            );
        }
        let largest = &json["largest_bucket"];
        assert!(largest.is_null() || largest["share"].as_f64().unwrap() < 0.1, "{json}");
    }
}

#[test]
fn few_samples_are_no_verdict_and_the_way_to_more_is_said() {
    let Some(()) = perf_events() else { return };
    let split = program("split").unwrap();
    // Some 30 samples. A program that has a CPU for less than a twentieth of the time gets other advice: this one would
    // have to wait for six seconds.
    let (recording, json) = summary(&["-r", "100"], &[split.to_str().unwrap(), "300"]);
    let samples = json["samples"].as_u64().unwrap();
    assert!((1..100).contains(&samples), "{json}");
    let line = json["few_samples"].as_str().unwrap();
    let start = format!(
        "{samples} sample{}: too few to say where time goes; -r ",
        if samples == 1 { "" } else { "s" }
    );
    assert!(
        line.starts_with(&start) && line.contains(" or --iteration-count "),
        "{line}"
    );
    assert!(recording.stderr.contains(line), "{}", recording.stderr);
    assert!(json["largest_bucket"].is_null(), "{json}");
    let report = support::sprof().arg("report").arg(&recording.output).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains(": too few to say where time goes"), "{report}");

    // An idle program has waits.
    let (_, json) = summary(&[], &["sleep", "1"]);
    let line = json["few_samples"].as_str();
    // If the host takes the CPU away while it starts, that may count as CPU time: then it was not idle.
    let length_s = json["duration_s"].as_f64().unwrap();
    let is_idle = json["cpu_time_s"].as_f64().is_some_and(|cpu_s| cpu_s < 0.05 * length_s);
    assert!(
        line.is_none_or(|line| line.ends_with(": --off-cpu shows for what") == is_idle),
        "{json}"
    );
    assert!(json["largest_bucket"].is_null(), "{json}");

    // 2,000 samples: enough also if the host takes most of the CPU time.
    let (_, json) = summary(&["-r", "4000"], &[split.to_str().unwrap(), "500"]);
    assert!(json["few_samples"].is_null(), "{json}");
}

/// No host takes CPU time away when a test asks for it: here /proc/stat is a file that the program changes.
#[test]
fn that_the_host_took_cpu_time_away_is_told() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let dir = temp_dir();
    let stat = dir.path().join("stat");
    let split = program("split").unwrap();
    // 300 ticks used and 100 taken; then 30 taken beside 970, which -v says; then 9 taken, which is less than a
    // hundredth.
    for (after, share, is_told, is_kept) in [
        ("1300 0 0 9000 0 0 0 200 0 0", 25, true, true),
        ("1970 0 0 9000 0 0 0 130 0 0", 3, false, true),
        ("2000 0 0 9000 0 0 0 109 0 0", 1, false, false),
    ] {
        std::fs::write(&stat, "cpu  1000 0 0 9000 0 0 0 100 0 0\n").unwrap();
        let bound = format!("mount --bind '{}' /proc/stat; exec \"$@\"", stat.display());
        let changes = format!("echo 'cpu  {after}' > /proc/stat; exec '{}' 100 1", split.display());
        let (recording, profile) = record()
            .under(&[&["unshare"], IN_NAMESPACE, &[&bound, "sh"]].concat())
            .profile("sh", &["-c", &changes]);
        let line =
            format!("the host of this virtual machine took {share} % of its CPU time away: times may be too long");
        assert_eq!(recording.stderr.contains(&line), is_told, "{}", recording.stderr);
        let quality = profile.quality();
        let row = quality.iter().find(|(label, _)| label.contains("the host took away"));
        assert_eq!(row.is_some(), is_kept, "{quality:?}");
    }
}

#[test]
fn the_summary_says_what_to_type_next_with_the_full_path() {
    let Some(()) = perf_events() else { return };
    let (recording, _) = summary(&[], &[program("exits").unwrap().to_str().unwrap(), "status", "0"]);
    for command in ["load", "report"] {
        let line = format!(
            "{} {command} {}",
            env!("CARGO_BIN_EXE_sprof"),
            recording.output.display()
        );
        assert!(recording.stderr.contains(&line), "no {line}: {}", recording.stderr);
    }
    // The same on each run on a machine without a PMU: for those who ask.
    assert!(!recording.stderr.contains("cpu-clock timer"), "{}", recording.stderr);
}

#[test]
fn several_programs_are_told_apart_and_what_still_runs_is_named() {
    let Some(()) = perf_events() else { return };
    let split = program("split").unwrap();
    let script = format!("sleep 1000 & echo pid=$!; {}", split.display());
    let (recording, json) = summary(
        &[],
        &[
            "sh",
            "-c",
            &format!("{script} 300; cat /dev/zero | head -c 60000000 | wc -c"),
        ],
    );
    let busiest = json["busiest_processes"].as_array().unwrap();
    assert!(busiest.iter().any(|process| process["name"] == "split"), "{json}");
    let pid: i64 = recording
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("pid="))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(json["cpu_account"]["left_running"][0]["pid"], pid, "{json}");
    let line = format!("{} record -p {pid}", env!("CARGO_BIN_EXE_sprof"));
    assert!(recording.stderr.contains(&line), "{}", recording.stderr);
}

#[test]
fn processes_without_samples_are_counted_beside_others_of_their_name() {
    let Some(()) = perf_events() else { return };
    let (split, exits) = (program("split").unwrap(), program("exits").unwrap());
    let (split, exits) = (split.display(), exits.display());
    // Where all samples are of one name, there is no table.
    let script = format!("for i in 1 2 3 4 5 6 7 8 9; do {split} 0; done; {split} 300; {exits} status 0");
    let (_, json) = summary(&[], &["sh", "-c", &script]);
    let busiest = json["busiest_processes"].as_array().unwrap();
    let of_split = busiest.iter().find(|process| process["name"] == "split").unwrap();
    assert_eq!(of_split["processes"], 10, "{json}");
}

#[test]
fn a_stripped_program_and_one_without_debug_info_are_advised_about() {
    let Some(()) = perf_events() else { return };
    let (recording, json) = summary(&["-v"], &[program("split_stripped").unwrap().to_str().unwrap(), "500"]);
    let (library, share) = advice(&recording, &json, "names", "library", "it is stripped").unwrap();
    assert!(library == "split_stripped" && share > 0.9, "{json}");
    // -v says why, by file.
    assert!(
        recording.stderr.contains("addresses have no name: it is stripped"),
        "{}",
        recording.stderr
    );
    // The file says the same when it is looked at.
    let report = support::sprof().arg("report").arg(&recording.output).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(
        report.contains("split_stripped (") && report.contains("of the time) has no names: "),
        "{report}"
    );
    let verbose = support::sprof()
        .args(["report", "-v"])
        .arg(&recording.output)
        .output()
        .unwrap();
    let verbose = String::from_utf8(verbose.stderr).unwrap();
    assert!(verbose.contains("addresses have no name: it is stripped"), "{verbose}");

    let (recording, json) = summary(&[], &[program("split_no_debug").unwrap().to_str().unwrap(), "500"]);
    let (library, share) = advice(&recording, &json, "debug_info", "library", "-g").unwrap();
    assert!(library == "split_no_debug" && share > 0.9, "{json}");
    assert!(json["own_functions"].to_string().contains("sixty"), "{json}");
}

#[test]
fn a_debug_build_is_told_from_one_with_optimisation() {
    let Some(()) = perf_events() else { return };
    let (recording, json) = summary(&[], &[program("split_rs_debug").unwrap().to_str().unwrap(), "15"]);
    let found = advice(&recording, &json, "optimisation", "library", "--release");
    assert_eq!(found.unwrap().0, "split_rs_debug", "{json}");
    let (_, json) = summary(&[], &[program("split_rs").unwrap().to_str().unwrap(), "300"]);
    no_advice(&json);
}

const SCRIPT_JS: &str = "
function work(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 1664525 + i) % 4294967291; return x; }
let sum = 0, started = process.cpuUsage().user; // Slow machines need long to get here.
while (process.cpuUsage().user - started < 1e6) sum += work(100000);
console.log(sum);
";

#[test]
fn node_without_names_is_told_the_switch_and_with_it_nothing() {
    let Some(()) = perf_events() else { return };
    let node = Command::new("node").arg("--version").output();
    if !has(Need::Node, node.is_ok(), "no Node.js (Debian: nodejs)") {
        return;
    }
    let folder = temp_dir();
    let script = folder.path().join("work.js");
    std::fs::write(&script, SCRIPT_JS).unwrap();
    let script = script.to_str().unwrap();
    let (recording, json) = summary(&[], &["node", script]);
    let (_, share) = advice(&recording, &json, "names", "node", "node --perf-prof").unwrap();
    assert!(share > 0.5, "{json}");
    assert_one_row_without_names(&json);
    let report = support::sprof().arg("report").arg(&recording.output).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("[code of no file, without names]"), "{report}");
    // The dump goes where the program runs.
    let options = "--perf-prof --interpreted-frames-native-stack";
    let line = format!("cd {} && exec node {options} work.js", folder.path().display());
    let (recording, json) = summary(&[], &["sh", "-c", &line]);
    assert_eq!(advice(&recording, &json, "names", "node", ""), None, "{json}");
    assert!(json["own_functions"].to_string().contains("work"), "{json}");
    // Nothing is compiled: all JavaScript functions have the interpreter's frame, which has a name.
    let (recording, json) = summary(&[], &["node", "--jitless", script]);
    let words = "node --perf-prof --interpreted-frames-native-stack";
    let (_, share) = advice(&recording, &json, "names", "node", words).unwrap();
    assert!(share > 0.8, "{json}");
}

#[test]
fn python_without_its_functions_is_told_the_switch() {
    let Some(()) = perf_events() else { return };
    let python = Command::new("python3").arg("--version").output();
    if !has(Need::Python, python.is_ok(), "no Python (Debian: python3)") {
        return;
    }
    let work = "s = 0\nfor i in range(6000000): s = (s * 31 + i) % 1000003\nprint(s)";
    let (recording, json) = summary(&[], &["python3", "-c", work]);
    // An older one takes the switch and does nothing.
    let version = Command::new("python3")
        .args([
            "-c",
            "import sys; print('' if sys.version_info >= (3, 12) else 'Python %d.%d cannot' % sys.version_info[:2])",
        ])
        .output()
        .unwrap();
    let too_old = String::from_utf8(version.stdout).unwrap();
    for words in ["python3 -X perf", too_old.trim()] {
        let (_, share) = advice(&recording, &json, "names", "python", words).unwrap();
        assert!(share > 0.8, "{json}");
    }
}

const SCRIPT_JAVA: &str = "
public class Work {
    static long work(long n) { long x = 1; for (long i = 0; i < n; i++) x = (x * 1664525 + i) % 4294967291L; return x; }
    public static void main(String[] a) {
        long sum = 0;
        for (int round = 0; round < 5000; round++) sum += work(100000);
        System.out.println(sum);
    }
}";

#[test]
fn java_without_names_is_told_the_switches_and_with_them_nothing() {
    let Some(()) = perf_events() else { return };
    let java = Command::new("javac").arg("-version").output();
    if !has(Need::Java, java.is_ok(), "no Java compiler (Debian: default-jdk)") {
        return;
    }
    let folder = temp_dir();
    let path = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("Work.java"), SCRIPT_JAVA).unwrap();
    let compiled = Command::new("javac")
        .args(["-d", path])
        .arg(folder.path().join("Work.java"))
        .status();
    assert!(compiled.unwrap().success());
    let (recording, json) = summary(&[], &["java", "-cp", path, "Work"]);
    let (_, share) = advice(&recording, &json, "names", "java", "DumpPerfMapAtExit").unwrap();
    assert!(share > 0.5, "{json}");
    assert_one_row_without_names(&json);
    let switches = [
        "-XX:+PreserveFramePointer",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
    ];
    let (recording, json) = summary(&[], &[&["java"], &switches[..], &["-cp", path, "Work"]].concat());
    assert_eq!(advice(&recording, &json, "names", "java", ""), None, "{json}");
    assert_eq!(advice(&recording, &json, "callers", "java", ""), None, "{json}");
    let own = json["own_functions"].to_string();
    assert!(own.contains("Work") && !own.contains("StubRoutines"), "{json}");
}

#[test]
fn go_s_own_packages_are_not_the_program_s() {
    let Some(()) = perf_events() else { return };
    let Some(program) = program("runtime_go") else { return };
    let (_, json) = summary(&[], &[program.to_str().unwrap(), "500"]);
    let own = json["own_functions"].as_array().unwrap();
    let is_main = |row: &Value| row["function"].as_str().unwrap().starts_with("main.");
    assert!(!own.is_empty() && own.iter().all(is_main), "{json}");
}

#[test]
fn programs_without_names_for_the_same_cause_share_a_line() {
    let Some(()) = perf_events() else { return };
    let stripped = program("split_stripped").unwrap();
    let folder = temp_dir();
    for name in ["first", "second"] {
        copy_program(&stripped, folder.path().join(name));
    }
    let line = format!("cd {} && ./first 600 && ./second 400", folder.path().display());
    let (recording, json) = summary(&[], &["sh", "-c", &line]);
    let both = json["advice"].as_array().unwrap();
    assert_eq!(both.len(), 2, "{json}");
    assert_eq!(both[0]["advice"], both[1]["advice"], "{json}");
    let lines = recording.stderr.matches("advice:").count();
    assert_eq!(lines, 1, "{}", recording.stderr);
    assert!(recording.stderr.contains("(likewise"), "{}", recording.stderr);
}

#[test]
fn what_has_no_names_and_takes_the_time_is_advised_with_its_package() {
    let Some(()) = perf_events() else { return };
    let gzip = Path::new("/usr/bin/gzip");
    let owner = Command::new("dpkg-query").args(["--search", "/bin/gzip"]).output();
    let is_debian = owner.is_ok_and(|owner| owner.stdout.starts_with(b"gzip: "));
    if !has(Need::Dpkg, is_debian && gzip.exists(), "no gzip of a Debian package") {
        return;
    }
    let copied = temp_dir();
    let copy = copied.path().join("gzip");
    copy_program(gzip, &copy);
    for (path, words) in [
        (gzip, "; apt install gzip-dbgsym (in Debian"),
        // Of no package: somebody built it.
        (&copy, "; build it without -s or strip"),
    ] {
        // Nothing beside it has a tenth of the time in code without names: the line would be about both.
        let zip = format!("head -c 60000000 /dev/zero | {} > /dev/null", path.display());
        let (recording, json) = summary(&[], &["sh", "-c", &zip]);
        let of_gzip = json["advice"]
            .as_array()
            .unwrap()
            .iter()
            .find(|advice| advice["library"] == "gzip");
        let Some(of_gzip) = of_gzip else {
            panic!("{json}: {}", recording.stderr)
        };
        let line = of_gzip["advice"].as_str().unwrap();
        assert!(
            line.contains(" % of the time) has no names") && line.contains(words),
            "{line}"
        );
        // It is the share of the time in its own code: what it has of the samples without symbols.
        let without = json["quality"]["without_symbols"].as_f64().unwrap() / json["samples"].as_f64().unwrap();
        assert!(of_gzip["share"].as_f64().unwrap() <= without + 1e-9, "{json}");
    }
}

#[test]
fn samples_and_waits_have_a_quality_each() {
    let Some(()) = perf_events() else { return };
    let waits = program("waits").unwrap();
    let (recording, json) = summary(&["--off-cpu"], &[waits.to_str().unwrap(), "10", "10"]);
    let (quality, number) = (&json["quality"], |value: &Value| value.as_u64().unwrap());
    let beside = &quality["beside"];
    assert!(number(&beside["stacks"]) >= 20, "{json}");
    for figure in ["truncated", "unverified"] {
        let (all, of_waits) = (number(&quality[figure]), number(&beside[figure]));
        assert!(of_waits <= all && of_waits <= number(&beside["stacks"]), "{json}");
        assert!(all - of_waits <= number(&json["samples"]), "{json}");
    }
    let line = format!("quality of {} stacks of waits: ", beside["stacks"]);
    assert!(recording.stderr.contains(&line), "no {line}: {}", recording.stderr);
    let report = support::sprof().arg("report").arg(&recording.output).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    let line = format!("; of {} stacks of waits and point events ", beside["stacks"]);
    assert!(report.contains(&line), "{report}");
    let profile = support::Profile::read(&recording.output);
    let rows = profile.quality();
    assert_eq!(rows["Stacks of waits and point events"], beside["stacks"], "{rows:?}");

    let (recording, json) = summary(&[], &[waits.to_str().unwrap(), "2", "10"]);
    assert_eq!(json["quality"]["beside"]["stacks"], 0, "{json}");
    assert!(!recording.stderr.contains("quality of"), "{}", recording.stderr);
}
