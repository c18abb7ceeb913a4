//! What a sample costs the recorder: CPU time of all its threads while it records, start and stop left out, of sprof,
//! samply and `perf record` in one interleaved run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::runs::{median, verdict};
use crate::support::{self, program};

/// How often is looked whether the program has started.
const LOOK_FOR_START: Duration = Duration::from_millis(20);
/// How often the threads of the recorder are looked at. Looks run on the recorder's CPU and push its data out of the
/// caches: where a script looked every 20 ms, a sample of 40 frames of 1 KiB at 1 kHz cost sprof 3.1 to 4.2 us, and 2.7
/// to 3.1 where it looked every 250.
const LOOK: Duration = Duration::from_millis(250);
/// After so much of the program the recorder only records.
const START: Duration = Duration::from_millis(700);
/// For at least this long.
const RECORDED: Duration = Duration::from_secs(3);
/// What a sample of sprof may cost beside one of samply.
const GOAL: f64 = 0.35;

#[derive(Clone, Copy, PartialEq)]
enum Recorder {
    Sprof,
    Samply,
    Perf,
}

impl Recorder {
    fn name(self) -> &'static str {
        match self {
            Recorder::Sprof => "sprof",
            Recorder::Samply => "samply",
            Recorder::Perf => "perf",
        }
    }

    /// samply wants a `perf_event_paranoid` of 1.
    fn can_record(self) -> bool {
        let dir = support::temp_dir();
        let status = self.command(1000, &dir.path().join("profile")).arg("true").status();
        let can = status.is_ok_and(|status| status.success());
        if !can {
            println!("  skipped: {} is not installed or may not record", self.name());
        }
        can
    }

    fn command(self, rate_hz: u32, output: &Path) -> Command {
        let rate = rate_hz.to_string();
        let (program, words) = match self {
            Recorder::Sprof => (
                env!("CARGO_BIN_EXE_sprof"),
                vec!["record", "-s", "--no-symbolicate", "-r", &rate],
            ),
            Recorder::Samply => ("samply", vec!["record", "--save-only", "-r", &rate]),
            Recorder::Perf => (
                "perf",
                vec![
                    "record",
                    "-q",
                    "-e",
                    "cpu-clock",
                    "--call-graph",
                    "dwarf,16384",
                    "-F",
                    &rate,
                ],
            ),
        };
        let mut command = Command::new(program);
        command.args(words).arg("-o").arg(output).arg("--");
        command
            .env_remove("CI")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// What is recorded.
struct Target {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    folder: Option<PathBuf>,
}

/// Prints a line for each program and rate.
pub(crate) fn table(repeats: usize) {
    let recorders = [Recorder::Sprof, Recorder::Samply, Recorder::Perf];
    let recorders: Vec<Recorder> = recorders.into_iter().filter(|recorder| recorder.can_record()).collect();
    println!("\nCPU of the recorder in us a sample, start and stop left out, median of {repeats}");
    let folder = support::temp_dir();
    let ms = (START + RECORDED).as_millis() + 500;
    let spin = |name, program_name, kib: &str| Target {
        name,
        program: program(program_name).unwrap(),
        arguments: ["spin", kib, &ms.to_string()].map(str::to_owned).to_vec(),
        folder: None,
    };
    let mut targets = vec![
        spin("40 frames of 64 bytes", "deep_small", "2"),
        spin("40 frames of 1 KiB", "deep_large", "32"),
    ];
    targets.extend(rustc(folder.path()));
    for target in &targets {
        for rate_hz in [4000, 1000] {
            let mut figures = vec![Vec::new(); recorders.len()];
            for _ in 0..repeats {
                for (recorder, figures) in recorders.iter().zip(&mut figures) {
                    figures.push(us_a_sample(*recorder, target, rate_hz));
                }
            }
            let medians: Vec<f64> = figures.into_iter().map(median).collect();
            let of = |wanted| {
                recorders
                    .iter()
                    .position(|recorder| *recorder == wanted)
                    .map(|at| medians[at])
            };
            let all = recorders
                .iter()
                .zip(&medians)
                .map(|(recorder, us)| format!("{} {us:5.1}", recorder.name()));
            let all = all.collect::<Vec<_>>().join("  ");
            let ratio = of(Recorder::Sprof)
                .zip(of(Recorder::Samply))
                .map(|(ours, theirs)| ours / theirs);
            let ratio = ratio.map_or(String::new(), |ratio| {
                format!("{ratio:.2} x samply {}", verdict(ratio <= GOAL))
            });
            println!("  {:24} {rate_hz:5} Hz  {all}  {ratio}", target.name);
        }
    }
}

/// `cargo build --release` of syn, whose sources a build of sprof has fetched.
fn rustc(folder: &Path) -> Option<Target> {
    let app = folder.join("app");
    fs::create_dir_all(app.join("src")).unwrap();
    fs::write(app.join("src/lib.rs"), "").unwrap();
    let features = r#""full", "extra-traits", "visit", "visit-mut", "fold""#;
    let manifest = format!(
        "[package]\nname = \"app\"\nedition = \"2024\"\n[dependencies]\nsyn = {{ version = \"3\", features = [{features}] }}\n[workspace]\n"
    );
    fs::write(app.join("Cargo.toml"), manifest).unwrap();
    let script = "rm -rf target && cargo build --release --offline --quiet";
    let built = Command::new("sh")
        .args(["-c", script])
        .current_dir(&app)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    if !built.status.success() {
        println!(
            "  skipped: syn can't be built: {}",
            String::from_utf8_lossy(&built.stderr)
        );
        return None;
    }
    Some(Target {
        name: "rustc (syn)",
        program: PathBuf::from("sh"),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        folder: Some(app),
    })
}

fn us_a_sample(recorder: Recorder, target: &Target, rate_hz: u32) -> f64 {
    let dir = support::temp_dir();
    let file = dir.path().join(if recorder == Recorder::Perf {
        "perf.data"
    } else {
        "profile.json.gz"
    });
    let mut command = recorder.command(rate_hz, &file);
    command.arg(&target.program).args(&target.arguments);
    if let Some(folder) = &target.folder {
        command.current_dir(folder).env_remove("CARGO_TARGET_DIR");
    }
    let mut child = command.spawn().unwrap();
    let recorded = while_recording(&mut child);
    assert!(
        child.wait().unwrap().success(),
        "{} of {}",
        recorder.name(),
        target.name
    );
    assert!(
        recorded.program_ns > 0.0,
        "{} of {}: nothing was seen",
        recorder.name(),
        target.name
    );
    // All that the program used until the last look was sampled, unless it was lost.
    recorded.recorder_ns / 1e3 / (recorded.program_ns / 1e9 * f64::from(rate_hz))
}

/// CPU time between two looks.
#[derive(Clone, Copy, Default)]
struct Used {
    recorder_ns: f64,
    program_ns: f64,
}

/// From [`START`] on until the program has ended. Some recorders take a second until they start it.
fn while_recording(child: &mut Child) -> Used {
    let recorder = child.id();
    while look(recorder).is_none() && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(LOOK_FOR_START);
    }
    std::thread::sleep(START);
    let (first, mut used) = (look(recorder), Used::default());
    // The recorder's first child is the program. What its descendants used is theirs, or their parents' once these have
    // waited.
    while let Some((now, first)) = look(recorder).zip(first) {
        used = Used {
            recorder_ns: now.recorder_ns - first.recorder_ns,
            program_ns: now.program_ns - first.program_ns,
        };
        std::thread::sleep(LOOK);
    }
    used
}

/// What was used so far; none when the program has ended.
fn look(recorder: u32) -> Option<Used> {
    let program = children(recorder)
        .into_iter()
        .find(|pid| state(*pid).is_some_and(|state| state != 'Z'))?;
    Some(Used {
        recorder_ns: threads_ns(recorder),
        program_ns: tree_ns(program),
    })
}

/// The first field of schedstat: time on a CPU in ns (proc(5)).
fn threads_ns(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let ns = |path: PathBuf| {
        fs::read_to_string(path.join("schedstat"))
            .ok()?
            .split(' ')
            .next()?
            .parse::<f64>()
            .ok()
    };
    tasks.filter_map(|task| ns(task.path())).sum()
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

fn state(pid: u32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// A process with all below it: what runs, and what was waited for (`utime`, `stime`, `cutime`, `cstime` in 1/100 s,
/// proc(5)).
fn tree_ns(pid: u32) -> f64 {
    let own = stat(pid).map_or(0.0, |fields| {
        let ticks = |at: usize| {
            fields
                .get(at)
                .and_then(|field| field.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        (11..=14).map(ticks).sum::<f64>() * 1e7
    });
    own + children(pid).into_iter().map(tree_ns).sum::<f64>()
}
