//! Code that is in no file: jitdump, perf maps, and neither.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::machine::{alone, one_cpu, share_again};
use crate::support::playground::NOBODY;
use crate::support::profile::is_mark;
use crate::support::skip::{Need, has, perf_events, root};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Profile, Recorder, Recording, copy_program, program, record};

const JIT_CATEGORY: &str = "JIT and anonymous";

/// `function` has this share of the samples inside `scope`, within 5 standard deviations: 2 points of 15,000 samples. A
/// host that takes CPU time away may leave a third of them.
fn assert_share(profile: &Profile, scope: &str, function: &str, expected: f64) {
    let share = profile.share(
        |names| names.contains(&scope),
        |names| names.iter().any(|name| name.contains(function)),
    );
    assert!(share.of > 4000, "only {} samples\n{}", share.of, profile.summary());
    share.assert_is(expected, 4.0, function, profile);
}

/// All samples of a function reach `root` without a mark.
fn assert_rooted(profile: &Profile, function: &str, root: &str) {
    let rooted = profile.share(
        |names| names.iter().any(|name| name.contains(function)),
        |names| names.contains(&root) && !names.iter().any(|name| is_mark(name)),
    );
    assert!(rooted.of > 120, "{}", profile.summary());
    assert!(
        rooted.percent() >= 99.5,
        "{function}: {rooted:?}\n{}",
        profile.summary()
    );
}

/// Four times as many samples as usual: enough of them also where the host takes most of the CPU time away.
fn record_more() -> Recorder {
    record().options(&["--rate", "4000"])
}

/// Nobody else removes them.
fn remove_maps(profile: &Profile) {
    for pid in profile.pids() {
        let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
        let _ = std::fs::remove_file(format!("/tmp/jit-{pid}.dump"));
    }
}

/// First and last time of a function's samples, ms.
fn times(profile: &Profile, function: &str) -> (f64, f64) {
    let inside = |stack: usize| profile.names(stack).any(|name| name == function);
    let of_function = profile.samples().filter(|sample| sample.stack.is_some_and(inside));
    of_function.fold((f64::MAX, 0.0), |(first, last), sample| {
        (sample.time_ms.min(first), sample.time_ms.max(last))
    })
}

fn assert_jitdump(memory: &str) {
    let Some(()) = perf_events() else { return };
    alone();
    undisturbed_or_right(|| assert_jitdump_once(memory));
}

fn assert_jitdump_once(memory: &str) {
    let dir = support::temp_dir();
    let folder = dir.path().to_str().unwrap();
    let (_, profile) = record()
        .options(&["--rate", "10000"])
        .profile(program("jit").unwrap(), &["1500", memory, folder]);
    assert_share(&profile, "run_split", "mover", 60.0);
    assert_share(&profile, "run_split", "stayer", 20.0);
    assert_share(&profile, "run_split", "replacement", 20.0);
    for function in ["mover", "stayer", "replacement"] {
        assert_rooted(&profile, function, "main");
        let frames = profile.frames.iter().filter(|frame| frame.function == function);
        let on_a_line = frames.clone().filter(|frame| {
            frame.file.as_deref() == Some("/generated/source.txt")
                && frame.line.is_some_and(|line| [10, 11, 20, 21, 30, 31].contains(&line))
        });
        assert!(on_a_line.count() > 0, "{function} has no lines");
        assert!(frames.clone().all(|frame| frame.category == JIT_CATEGORY));
    }
    // `stayer` and `replacement` never overlap; `mover` is there before and after its move.
    let (stayer, replacement, mover) = (
        times(&profile, "stayer"),
        times(&profile, "replacement"),
        times(&profile, "mover"),
    );
    assert!(stayer.1 <= replacement.0, "{stayer:?} {replacement:?}");
    assert!(mover.0 < stayer.1 && mover.1 > replacement.0, "{mover:?}");
    let unchecked = profile.quality().keys().any(|label| label.contains("perf maps"));
    assert!(!unchecked, "{:?}", profile.quality());
}

#[test]
fn a_function_moved_by_a_jit_compiler_is_right_before_and_after_the_move() {
    assert_jitdump("rwx");
}

#[test]
fn code_in_a_memory_file_mapped_twice_is_named_by_its_jitdump() {
    assert_jitdump("dual");
}

#[test]
fn a_perf_map_names_code_and_the_profile_says_that_its_names_have_no_times() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (recording, profile) = record_more().profile(program("jit").unwrap(), &["1000", "rwx", "map"]);
    remove_maps(&profile);
    for function in ["mover", "stayer", "replacement"] {
        assert_rooted(&profile, function, "main");
    }
    // The later of two names of one address: so `mover`, before its move, is called `replacement`.
    let replacement = profile.share(
        |names| names.contains(&"run_split"),
        |names| names.contains(&"replacement"),
    );
    assert!(replacement.percent() > 40.0, "{}", profile.summary());
    assert!(profile.figure(&["perf maps", "no times"]) > 500.0);
    assert!(recording.stderr.contains("perf map"), "{}", recording.stderr);
    // No option of a compiler gives it lines.
    let mut annotate = support::sprof();
    let output = annotate
        .arg("annotate")
        .arg(&recording.output)
        .arg("stayer")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("no source lines are known") && !text.contains("-g)"),
        "{text}"
    );
}

#[test]
fn a_perf_map_is_read_in_the_mount_and_pid_namespace_of_its_process() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let allowed = Command::new("unshare").args(["-m", "-p", "-f", "true"]).status();
    if !root()
        || !has(
            Need::Namespaces,
            allowed.is_ok_and(|status| status.success()),
            "unshare -m -p is not permitted",
        )
    {
        return;
    }
    // There it is process 1 and writes /tmp/perf-1.map, which nobody else can see.
    let jit = program("jit").unwrap();
    let dir = support::temp_dir();
    copy_program(&jit, dir.path().join("jit"));
    let script = format!(
        "mount --bind {} /mnt; mount -t tmpfs none /tmp; exec /mnt/jit 1000 rwx map",
        dir.path().display()
    );
    let (_, profile) = record_more().profile(
        "unshare",
        &["-m", "-p", "-f", "--propagation", "private", "sh", "-ec", &script],
    );
    for function in ["mover", "stayer", "replacement"] {
        assert_rooted(&profile, function, "main");
    }
    assert!(!Path::new("/tmp/perf-1.map").exists());
}

/// A user in namespaces of their own, recorded by root under a wrapper. `make` is the command by which the user makes
/// the perf map of their process: $MAP, with $OWN, a map, and $SECRET, a map that only root may read. Returns the names
/// of the functions.
fn functions_with_a_map(wrapper: &[&str], make: &str) -> Option<Vec<String>> {
    perf_events()?;
    one_cpu();
    let as_nobody = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "unshare"];
    let unshare = ["-U", "-r", "-m", "-p", "-f", "--propagation", "private"];
    let allowed = Command::new("setpriv")
        .args(as_nobody)
        .args(unshare)
        .arg("true")
        .status();
    let allowed = allowed.is_ok_and(|status| status.success());
    if !root() || !has(Need::Namespaces, allowed, "unshare -U -m -p is not permitted") {
        return None;
    }
    let dir = tempfile::Builder::new()
        .prefix("sprof-test-")
        .tempdir_in("/tmp")
        .unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(dir.path(), 0o755);
    let (jit, secret) = (dir.path().join("jit"), dir.path().join("secret"));
    copy_program(program("jit").unwrap(), &jit);
    mode(&jit, 0o755);
    let line = |name: &str| format!("1000 7ffffffff000 {name}");
    std::fs::write(&secret, line("root_only")).unwrap();
    mode(&secret, 0o600);
    // Written to after the program starts.
    let file = std::fs::File::options().write(true).open(&secret).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    file.set_modified(later).unwrap();
    let script = format!(
        "mount --bind {} /mnt; mount -t tmpfs none /tmp; mkdir /tmp/maps; echo {} > /tmp/maps/own; {}; exec /mnt/jit 400 rwx none",
        dir.path().display(),
        line("own_name"),
        make.replace("$MAP", "/tmp/perf-1.map")
            .replace("$OWN", "/tmp/maps/own")
            .replace("$SECRET", secret.to_str().unwrap()),
    );
    let words = [&as_nobody[..], &unshare, &["sh", "-ec", &script]].concat();
    let (_, profile) = record().under(wrapper).profile("setpriv", &words);
    let names = profile.samples().filter_map(|sample| sample.stack);
    let names = names.flat_map(|stack| profile.names(stack).map(str::to_owned).collect::<Vec<_>>());
    let names: Vec<String> = names.collect();
    assert!(names.iter().any(|name| name == "run_split"), "{}", profile.summary());
    Some(names)
}

#[test]
fn a_perf_map_that_is_a_link_names_nothing_by_a_file_of_root() {
    // By its path here, and by its path there.
    for link in ["$SECRET", "/mnt/secret"] {
        let Some(names) = functions_with_a_map(&[], &format!("ln -s {link} $MAP")) else {
            return;
        };
        assert!(!names.iter().any(|name| name.contains("root_only")), "{link}");
    }
}

#[test]
fn a_perf_map_that_is_a_link_is_read_where_the_link_leads_in_its_container() {
    for link in ["$OWN", "maps/own"] {
        let Some(names) = functions_with_a_map(&[], &format!("ln -s {link} $MAP")) else {
            return;
        };
        assert!(names.iter().any(|name| name == "own_name"), "{link}");
    }
}

/// Older container runtimes refuse the call that resolves links below another root. Files are read there all the same,
/// and links are not followed.
#[test]
fn without_openat2_a_perf_map_is_read_and_no_link_is_followed() {
    let refuse = program("refuse").unwrap();
    for (error, make, is_read) in [
        ("eperm", "cp $OWN $MAP", true),
        ("enosys", "cp $OWN $MAP", true),
        ("eperm", "ln -s $OWN $MAP", false),
        ("eperm", "ln -s $SECRET $MAP", false),
        ("enosys", "ln -s /mnt/secret $MAP", false),
        // Whoever opens it waits.
        ("eperm", "mkfifo $MAP", false),
    ] {
        let wrapper = [refuse.to_str().unwrap(), error, "openat2"];
        let Some(names) = functions_with_a_map(&wrapper, make) else {
            return;
        };
        assert_eq!(names.iter().any(|name| name == "own_name"), is_read, "{error}: {make}");
        assert!(!names.iter().any(|name| name.contains("root_only")), "{error}: {make}");
    }
}

#[test]
fn code_that_nobody_tells_of_is_unwound_and_shown_by_address() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = record_more().profile(program("jit").unwrap(), &["1000", "rwx", "none"]);
    let in_code = profile
        .samples()
        .filter_map(|sample| profile.stack_frames(sample.stack?).next_back())
        .filter(|frame| frame.category == JIT_CATEGORY && frame.function.starts_with("0x"));
    assert!(in_code.count() > 700, "{}", profile.summary());
    assert_rooted(&profile, "run_split", "main");
}

/// Samples inside the last of these functions, and how many of them have exactly these callers up to `main`.
fn chains(profile: &Profile, expected: &[&str]) -> support::profile::Share {
    profile.share(
        |names| expected.last().is_some_and(|leaf| names.contains(leaf)),
        |names| {
            let from_main = names.iter().skip_while(|name| **name != "main");
            let up_to_leaf: Vec<&str> = from_main.copied().take(expected.len()).collect();
            up_to_leaf == expected
        },
    )
}

/// Where it makes its frame or has left it, a function's frame pointer is its caller's.
#[test]
fn functions_that_are_entered_or_left_have_their_caller() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = record()
        .options(&["--rate", "5000"])
        .profile(program("jit_entries").unwrap(), &["1000"]);
    remove_maps(&profile);
    let rooted = chains(&profile, &["main", "run", "outer", "inner"]);
    assert!(rooted.of > 1000, "{}", profile.summary());
    assert!(rooted.percent() >= 99.5, "{rooted:?}\n{}", profile.summary());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn functions_without_frame_pointers_are_unwound_by_the_rules_in_their_jitdump() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let dir = support::temp_dir();
    let folder = dir.path().to_str().unwrap();
    let recorded = |rules: &str| {
        record_more()
            .profile(program("jit_rules").unwrap(), &["1000", folder, rules])
            .1
    };
    let expected = ["main", "run", "outer", "middle", "inner", "leaf"];
    let profile = recorded("rules");
    let whole = chains(&profile, &expected);
    assert!(whole.of > 900, "{}", profile.summary());
    assert!(whole.percent() >= 99.5, "{whole:?}\n{}", profile.summary());
    assert_rooted(&profile, "leaf", "main");
    // Nothing else would have found these callers.
    let bare = recorded("bare");
    assert!(chains(&bare, &expected).percent() < 1.0, "{}", bare.summary());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_rules_of_a_jitdump_also_serve_files_of_perf() {
    let Some(()) = support::skip::perf_on_one_cpu() else {
        return;
    };
    let dir = support::temp_dir();
    let file = dir.path().join("perf.data");
    let options = ["-k", "mono", "-e", "cpu-clock", "-F", "1000", "--call-graph", "dwarf"];
    let arguments = ["1000", dir.path().to_str().unwrap(), "rules"];
    support::perf::perf_record(&file, &options, &program("jit_rules").unwrap(), &arguments);
    share_again();
    let (profile, _) = support::perf::load(&file, &[]);
    let whole = profile.share(
        |names| names.contains(&"leaf"),
        |names| {
            let known = names.iter().filter(|name| !name.starts_with("0x"));
            let from_main: Vec<&str> = known.skip_while(|name| **name != "main").copied().take(4).collect();
            from_main == ["main", "run", "middle", "leaf"]
        },
    );
    // Of 1000, a host that takes CPU time away may leave a third.
    assert!(whole.of > 200, "{}", profile.summary());
    assert!(whole.percent() >= 99.5, "{whole:?}\n{}", profile.summary());
}

const NODE_FUNCTIONS: &str = "
function sixty(n) { let s = 0; for (let i = 0; i < 6 * n; i++) s = (s * 31 + i) | 0; return s; }
function forty(n) { let s = 1; for (let i = 0; i < 4 * n; i++) s = (s * 31 + i) | 0; return s; }
";

/// The same with one loop. Of Sparkplug's two, one was seen to need a twentieth more time for each round than the
/// other, on an AMD EPYC: the shares were 58.4 and 41.6 %.
const NODE_FUNCTIONS_OF_ONE_LOOP: &str = "
function sixty(n) { return loop(6 * n); }
function forty(n) { return loop(4 * n); }
function loop(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
";

const NODE_MAIN: &str = "
function round(n) { return sixty(n) + forty(n); }
const end = process.cpuUsage().user + Number(process.argv[2]) * 1000;
let sum = 0, chance = 1;
function run() {
    while (process.cpuUsage().user < end) {
        chance = (chance * 1103515245 + 12345) & 0x7fffffff;
        sum += round(20000 + (chance >> 16) % 20000);
    }
}
run();
process.exitCode = sum === 0.5 ? 1 : 0;
";

/// Records a script under Node.js; `None` (after saying so) where there is none.
fn node(functions: &str, options: &[&str]) -> Option<Profile> {
    let version = Command::new("node").arg("--version").output();
    if !has(Need::Node, version.is_ok(), "no Node.js (Debian: nodejs)") {
        return None;
    }
    let dir = support::temp_dir();
    let script = dir.path().join("work.js");
    std::fs::write(&script, functions.to_owned() + NODE_MAIN).unwrap();
    // The dump goes to the working directory.
    let command = format!(
        "cd {}; exec node {} work.js 2500",
        dir.path().display(),
        options.join(" ")
    );
    let (_, profile) = record().options(&["--rate", "5000"]).profile("sh", &["-c", &command]);
    remove_maps(&profile);
    Some(profile)
}

const SIXTY: &str = "sixty work.js:2:15";
const FORTY: &str = "forty work.js:3:15";

fn has_either(names: &[&str]) -> bool {
    names.contains(&SIXTY) || names.contains(&FORTY)
}

/// Of the samples below `round`, or where that is inlined, in either function: by one name each, whatever compiled it.
fn assert_node_split(profile: &Profile) {
    let share = profile.share(has_either, |names| names.contains(&SIXTY));
    // Of 12,500, a host that takes CPU time away may leave a third. 4.5 points are 5 standard deviations of 3000.
    assert!(share.of > 3000, "only {} samples\n{}", share.of, profile.summary());
    share.assert_is(60.0, 4.5, "sixty", profile);
    let rooted = profile.share(has_either, |names| names.contains(&"main") || names.contains(&"_start"));
    assert!(rooted.percent() >= 99.0, "{rooted:?}\n{}", profile.summary());
    let marked = profile.frames.iter().filter(|frame| frame.function.starts_with("JS:"));
    assert_eq!(marked.map(|frame| &frame.function).collect::<Vec<_>>(), [""; 0]);
    // Both start to run in the interpreter, and are compiled by another thread, which may wait for a CPU.
    assert!(
        tier_percent(profile, "TurboFan", middle_ms(profile)) >= 95.0,
        "{}",
        profile.summary()
    );
    assert_place_of_sixty(profile);
}

/// The middle of the time that has samples.
fn middle_ms(profile: &Profile) -> f64 {
    let times = profile.samples().map(|sample| sample.time_ms);
    let (first, last) = times.fold((f64::MAX, 0.0), |(first, last), ms| (ms.min(first), ms.max(last)));
    (first + last) / 2.0
}

/// Of the samples in either function from this time on, those whose innermost frame of the two is of this tier.
fn tier_percent(profile: &Profile, tier: &str, from_ms: f64) -> f64 {
    let samples = profile.samples().filter(|sample| sample.time_ms >= from_ms);
    let innermost = samples.filter_map(|sample| {
        let mut frames = profile.stack_frames(sample.stack?).rev();
        frames.find(|frame| [SIXTY, FORTY].contains(&&*frame.function))
    });
    let (mut of_tier, mut all) = (0.0, 0.0);
    for frame in innermost {
        assert_eq!(frame.category, JIT_CATEGORY);
        all += 1.0;
        of_tier += f64::from(u8::from(frame.subcategory == tier));
    }
    assert!(all > 200.0, "{}", profile.summary());
    100.0 * of_tier / all
}

/// The front end opens this file at this line.
fn assert_place_of_sixty(profile: &Profile) {
    let shared = &profile.json["shared"];
    let text = |id: &serde_json::Value| shared["stringArray"][id.as_u64().unwrap() as usize].as_str().unwrap();
    let functions = &shared["funcTable"];
    let names = functions["name"].as_array().unwrap();
    let of_sixty: Vec<usize> = (0..names.len()).filter(|at| text(&names[*at]) == SIXTY).collect();
    let [sixty] = of_sixty[..] else { panic!("{of_sixty:?}") };
    let row = |column: &str| functions[column][sixty].clone();
    assert_eq!(
        (row("lineNumber"), row("columnNumber"), row("isJS")),
        (2.into(), 15.into(), true.into())
    );
    let file = text(&shared["sources"]["filename"][row("source").as_u64().unwrap() as usize]);
    assert!(Path::new(file).is_absolute() && file.ends_with("/work.js"), "{file}");
}

#[test]
fn node_with_a_perf_map() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let Some(profile) = node(NODE_FUNCTIONS, &["--perf-basic-prof"]) else {
        return;
    };
    assert_node_split(&profile);
}

#[test]
fn node_with_a_jitdump_has_lines_too() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let Some(profile) = node(NODE_FUNCTIONS, &["--perf-prof"]) else {
        return;
    };
    assert_node_split(&profile);
    let lines = profile.frames.iter().filter(|frame| {
        frame.function.contains("sixty") && frame.line == Some(2) && {
            let file = frame.file.as_deref();
            file.is_some_and(|file| file.ends_with("work.js"))
        }
    });
    assert!(lines.count() > 0, "`sixty` is on line 2 of the script");
}

/// Each with the switches that leave no other tier.
#[test]
fn the_tier_of_a_function_is_the_one_that_node_was_limited_to() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    for (tier, options) in [
        (
            "Interpreter",
            &[
                "--perf-basic-prof",
                "--no-opt",
                "--no-sparkplug",
                "--interpreted-frames-native-stack",
            ][..],
        ),
        (
            "Baseline",
            &["--perf-prof", "--no-opt", "--sparkplug", "--always-sparkplug"],
        ),
    ] {
        let Some(profile) = node(NODE_FUNCTIONS_OF_ONE_LOOP, options) else {
            return;
        };
        let percent = tier_percent(&profile, tier, 0.0);
        assert!(percent >= 99.0, "{tier}: {percent}\n{}", profile.summary());
        let share = profile.share(has_either, |names| names.contains(&SIXTY));
        assert!(share.of > 3000, "only {} samples\n{}", share.of, profile.summary());
        share.assert_is(60.0, 4.5, "sixty", &profile);
    }
}

#[test]
fn names_that_perf_inject_puts_into_files_are_read_in_parts() {
    let Some(()) = support::skip::perf() else { return };
    let version = Command::new("node").arg("--version").output();
    if !has(Need::Node, version.is_ok(), "no Node.js (Debian: nodejs)") {
        return;
    }
    let dir = support::temp_dir();
    std::fs::write(dir.path().join("work.js"), NODE_FUNCTIONS.to_owned() + NODE_MAIN).unwrap();
    let perf = |options: &str| {
        let mut command = Command::new("perf");
        command.args(options.split(' ')).current_dir(dir.path());
        // The cache of build ids is in the home folder.
        let output = command.env("HOME", dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    perf("record -k mono -e cpu-clock -F 1000 -g -o perf.data -- node --perf-prof work.js 1500");
    share_again();
    perf("inject --jit -i perf.data -o injected.data");
    let (profile, _) = support::perf::load(&dir.path().join("injected.data"), &[]);
    let share = profile.share(has_either, |names| names.contains(&SIXTY));
    // Of 1500, a host that takes CPU time away may leave a third. 12 points are 5 standard deviations of 400.
    assert!(share.of > 400, "{}", profile.summary());
    share.assert_is(60.0, 12.0, "sixty", &profile);
    assert!(
        tier_percent(&profile, "TurboFan", middle_ms(&profile)) >= 90.0,
        "{}",
        profile.summary()
    );
}

const PYTHON_SCRIPT: &str = "
import sys, time
def sixty(n):
    s = 0
    for i in range(6 * n): s = (s * 31 + i) & 0xffff
    return s
def forty(n):
    s = 1
    for i in range(4 * n): s = (s * 31 + i) & 0xffff
    return s
def one_round(n):
    start = time.process_time_ns()
    sixty(n)
    between = time.process_time_ns()
    forty(n)
    spent[0] += between - start
    spent[1] += time.process_time_ns() - between
spent = [0, 0]
def run(seconds):
    end = time.process_time() + seconds
    chance, rounds = 1, 0
    # A pause that the host makes may be all of a short time.
    while time.process_time() < end or rounds < 300:
        rounds += 1
        chance = (chance * 1103515245 + 12345) & 0x7fffffff
        one_round(300 + (chance >> 16) % 600)
run(float(sys.argv[1]))
print(f'sixty={100 * spent[0] / sum(spent)}')
";

/// A CPython with perf trampolines whose version starts like this; `None` (after saying so) where there is none.
fn python(minor: u32) -> Option<PathBuf> {
    let name = format!("python3.{minor}");
    let versions = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let installed = versions.and_then(|versions| std::fs::read_dir(versions).ok());
    let installed = installed
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin").join(&name));
    let question = "import sysconfig; sys_exit = sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE'); \
                    raise SystemExit(0 if sys_exit else 1)";
    let works = |path: &PathBuf| {
        let answer = Command::new(path).args(["-c", question]).output();
        answer.is_ok_and(|answer| answer.status.success())
    };
    let found = [PathBuf::from(&name)].into_iter().chain(installed).find(works);
    let reason = format!("no CPython 3.{minor} with perf trampolines");
    has(Need::PythonPerf, found.is_some(), &reason).then(|| found.unwrap())
}

fn assert_python_split(python: &Path, option: &str) {
    let dir = support::temp_dir();
    let script = dir.path().join("work.py");
    std::fs::write(&script, PYTHON_SCRIPT).unwrap();
    let recorded = |seconds: &str| {
        let recorder = record().options(&["--rate", "5000"]);
        let arguments = ["-X", option, script.to_str().unwrap(), seconds];
        let (recording, profile) = recorder.profile(python, &arguments);
        remove_maps(&profile);
        (recording, profile)
    };
    // The script's clock may go on while the host has the CPU, and samples do not come then.
    undisturbed_or_right(|| {
        let (recording, profile) = recorded("2.5");
        assert_python_functions(&recording, &profile);
    });
    // The interpreter's start is a larger part of a shorter run, and no reason to recommend the option that was given.
    let (recording, _) = recorded("0.1");
    assert!(
        !recording.stderr.contains("functions are not shown"),
        "{}",
        recording.stderr
    );
}

fn assert_python_functions(recording: &Recording, profile: &Profile) {
    let ours = |names: &[&str], function: &str| names.iter().any(|name| name.starts_with(&format!("py::{function}:")));
    let share = profile.share(
        |names| ours(names, "sixty") || ours(names, "forty"),
        |names| ours(names, "sixty"),
    );
    // Of 12,500, a host that takes CPU time away may leave a third. 4.5 points are 5 standard deviations of 3000.
    assert!(share.of > 3000, "only {} samples\n{}", share.of, profile.summary());
    // What the program measured: the specializing interpreter gives 60.4 to 62.3 %.
    share.assert_is(recording.printed("sixty"), 4.5, "sixty", profile);
    // Also where CPython was built without frame pointers, as it is almost everywhere.
    let rooted = profile.share(
        |names| ours(names, "sixty") || ours(names, "forty"),
        |names| ours(names, "run") && ours(names, "one_round") && !names.iter().any(|name| is_mark(name)),
    );
    assert!(rooted.percent() >= 99.0, "{rooted:?}\n{}", profile.summary());
}

#[test]
fn python_functions_are_named_and_rooted_by_a_perf_map() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let Some(python) = python(12) else { return };
    assert_python_split(&python, "perf");
}

#[test]
fn python_functions_are_named_and_rooted_by_a_jitdump() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let Some(python) = python(13) else { return };
    assert_python_split(&python, "perf_jit");
}
