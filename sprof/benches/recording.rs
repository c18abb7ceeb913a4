//! What recording costs, beside `perf record` in one interleaved run: `cargo bench -p sprof --bench recording [--
//! --quick] [gap|cpu|cost|losses|start|offcpu|million|ptrace]...`.
//!
//! Machines are noisy and differ, so every figure is a median of interleaved repeats, and what counts are ratios and
//! shares: `gap` is what one sample costs the program, `cpu` what the recorder itself uses of a core, `lost` the share
//! of samples that never arrived, by the program's own account of its CPU time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement ends where its premise fails"
)]

#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod runs;
#[cfg(target_os = "linux")]
#[path = "../tests/suite/support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
fn main() {
    let (is_quick, wanted) = runs::arguments();
    measure::all(is_quick, &wanted);
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: there is no recorder for this system yet");
}

#[cfg(target_os = "linux")]
mod measure {
    use std::path::Path;
    use std::process::Command;

    use crate::runs::{Run, by_turns, is_there, least, median, medians, verdict};
    use crate::support::{Profile, program};

    #[derive(Clone, Copy, PartialEq)]
    enum Tool {
        /// The program alone.
        None,
        /// `perf record` without stacks: what any sampling costs.
        PerfMinimal,
        PerfFramePointer,
        PerfDwarf8K,
        Sprof,
        /// sprof where perf_event_open is refused.
        SprofPtrace,
        SprofOffCpu,
    }

    use Tool::{None as Alone, PerfDwarf8K, PerfFramePointer, PerfMinimal, Sprof, SprofOffCpu, SprofPtrace};

    impl Tool {
        fn name(self) -> &'static str {
            match self {
                Alone => "alone",
                PerfMinimal => "perf, no stacks",
                PerfFramePointer => "perf --call-graph fp",
                PerfDwarf8K => "perf --call-graph dwarf,8192",
                Sprof => "sprof",
                SprofPtrace => "sprof with ptrace",
                SprofOffCpu => "sprof --off-cpu",
            }
        }

        fn is_sprof(self) -> bool {
            matches!(self, Sprof | SprofOffCpu | SprofPtrace)
        }

        /// The words before the program's own.
        fn words(self, rate_hz: u32, output: &Path) -> Vec<String> {
            let rate = rate_hz.to_string();
            let output = output.to_str().unwrap();
            let perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", &rate, "-o", output];
            let sprof = [
                env!("CARGO_BIN_EXE_sprof"),
                "record",
                "-s",
                "--no-symbolicate",
                "-r",
                &rate,
                "-o",
                output,
                "--",
            ];
            let refuse;
            let words: Vec<&str> = match self {
                Alone => Vec::new(),
                PerfMinimal => [&perf[..], &["--"]].concat(),
                PerfFramePointer => [&perf[..], &["--call-graph", "fp", "--"]].concat(),
                PerfDwarf8K => [&perf[..], &["--call-graph", "dwarf,8192", "--"]].concat(),
                Sprof => sprof.to_vec(),
                SprofPtrace => {
                    refuse = program("refuse").unwrap();
                    [&[refuse.to_str().unwrap(), "eperm"], &sprof[..]].concat()
                }
                SprofOffCpu => [&sprof[..2], &["--off-cpu"], &sprof[2..]].concat(),
            };
            words.into_iter().map(str::to_owned).collect()
        }
    }

    fn run(tool: Tool, rate_hz: u32, program: &Path, arguments: &[&str]) -> Run {
        let file = if tool.is_sprof() {
            "profile.json.gz"
        } else {
            "perf.data"
        };
        Run::new(tool.name(), file, |file| tool.words(rate_hz, file), program, arguments)
    }

    fn sample_count(run: &Run, tool: Tool) -> u64 {
        if tool.is_sprof() {
            return Profile::read(&run.file).sample_count();
        }
        let report = Command::new("perf")
            .args(["report", "--stats", "-i"])
            .arg(&run.file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&report.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.trim().starts_with("SAMPLE events:"))
            .unwrap_or("0");
        line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Measures what is wanted; everything if nothing is named.
    pub(crate) fn all(quick: bool, wanted: &[String]) {
        let mut tools = vec![Alone, Sprof];
        if is_there("perf") {
            tools = vec![Alone, PerfMinimal, PerfFramePointer, PerfDwarf8K, Sprof];
        } else {
            println!("skipped: perf is not installed, so there is nothing to compare with");
        }
        let wants = |name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
        if wants("gap") {
            gap(&tools, if quick { 3 } else { 7 });
        }
        if wants("cpu") {
            recorder_cpu(&tools, if quick { 3 } else { 5 });
        }
        if wants("cost") {
            crate::cost::table(if quick { 3 } else { 5 });
        }
        if wants("losses") {
            losses(&tools);
        }
        if wants("start") {
            start_and_stop(&tools, if quick { 5 } else { 21 });
        }
        if wants("ptrace") {
            ptrace(if quick { 5 } else { 15 });
        }
        if wants("offcpu") {
            off_cpu(if quick { 3 } else { 7 });
        }
        if wants("million") {
            million(if quick { 100_000 } else { 1_000_000 });
        }
    }

    /// A spinner on the last CPU sees gaps between two looks at the clock; at 4 kHz most of them are samples.
    fn gap(tools: &[Tool], repeats: usize) {
        gap_with(tools, repeats, "0", 1.3);
        // Copied whole: see `larger_stacks` of the recorder.
        gap_with(tools, repeats, "40", 1.7);
    }

    fn gap_with(tools: &[Tool], repeats: usize, stack_kib: &str, limit: f64) {
        println!(
            "\ntarget gap at 4 kHz, one pinned spinner with {stack_kib} KiB of stack, median of {repeats} medians"
        );
        let gaps = program("gaps").unwrap();
        let cpu = std::thread::available_parallelism()
            .map_or(0, |cpus| usize::from(cpus) - 1)
            .to_string();
        let figures = medians(tools, repeats, |tool| {
            run(tool, 4000, &gaps, &[&cpu, "1500", "600", stack_kib]).printed("median_gap_ns")
        });
        let floor = tools.iter().position(|&tool| tool == PerfMinimal).map(|at| figures[at]);
        for (tool, gap_ns) in tools.iter().zip(&figures) {
            let ratio = floor.map_or(String::new(), |floor| {
                format!("{:6.2} x the minimal record's", gap_ns / floor)
            });
            let note = match (floor, tool) {
                (Some(floor), Sprof) => verdict(gap_ns / floor <= limit),
                _ => "",
            };
            println!("  {:30} {gap_ns:8.0} ns {ratio} {note}", tool.name());
        }
    }

    /// From two lengths of recording, so that start, stop and writing the file cancel out.
    fn recorder_cpu(tools: &[Tool], repeats: usize) {
        let (short_s, long_s) = (1.0, 5.0);
        let split = program("split").unwrap();
        for (rate_hz, limit) in [(1000, 0.4), (4000, 1.3)] {
            println!("\nrecorder CPU at {rate_hz} Hz, one busy thread, share of a core, median of {repeats}");
            let run = |tool, seconds: f64| {
                let ms = format!("{:.0}", seconds * 1000.0);
                run(tool, rate_hz, &split, &[&ms]).recorder_cpu_s()
            };
            let tools: Vec<Tool> = tools.iter().copied().filter(|&tool| tool != Alone).collect();
            let figures = medians(&tools, repeats, |tool| {
                100.0 * (run(tool, long_s) - run(tool, short_s)) / (long_s - short_s)
            });
            for (tool, percent) in tools.iter().zip(figures) {
                let note = if *tool == Sprof { verdict(percent <= limit) } else { "" };
                println!("  {:30} {percent:8.2} % {note}", tool.name());
            }
        }
    }

    fn losses(tools: &[Tool]) {
        println!("\nlost at 10 kHz, four busy threads");
        let threads = program("threads").unwrap();
        for &tool in tools.iter().filter(|&&tool| tool != Alone) {
            let run = run(tool, 10_000, &threads, &["4", "1000"]);
            let expected = run.printed("cpu_ns") / 1e9 * 10_000.0;
            let lost = 100.0 * (1.0 - sample_count(&run, tool) as f64 / expected);
            let counted = if tool == Sprof {
                let counted = Profile::read(&run.file).figure(&["lost"]);
                format!("({counted} counted as lost) {}", verdict(counted == 0.0))
            } else {
                String::new()
            };
            println!("  {:30} {lost:8.2} % {counted}", tool.name());
        }
    }

    fn start_and_stop(tools: &[Tool], repeats: usize) {
        println!("\nstart and stop: wall time added to a program that ends at once, median of {repeats}");
        let figures = medians(tools, repeats, |tool| {
            run(tool, 1000, Path::new("true"), &[]).wall.as_secs_f64() * 1000.0
        });
        let alone = figures[0];
        for (tool, ms) in tools.iter().zip(figures).skip(1) {
            let note = if *tool == Sprof {
                verdict(ms - alone <= 15.0)
            } else {
                ""
            };
            println!("  {:30} {:8.1} ms {note}", tool.name(), ms - alone);
        }
    }

    /// What ptrace's stops cost a program of one thread that does a fixed amount of work. Its own clock tells: starting
    /// and saving are not part of it. A busy machine slows each run down as it likes, so the fastest ones stand beside
    /// the medians.
    fn ptrace(repeats: usize) {
        println!("\nwith ptrace: time for a fixed amount of work, one thread, {repeats} interleaved runs each");
        let work = program("work").unwrap();
        let alone = (Alone, 0);
        let cases = [alone, (SprofPtrace, 100), (SprofPtrace, 1000)];
        let all = by_turns(&cases, repeats, |(tool, rate_hz)| {
            run(tool, rate_hz, &work, &["1000"]).printed("wall_ns") / 1e6
        });
        let (alone_fastest, alone_median) = (least(&all[0]), median(all[0].clone()));
        for ((tool, rate_hz), times) in cases.into_iter().zip(all) {
            let (fastest_ms, median_ms) = (least(&times), median(times));
            let percent = |with: f64, without: f64| 100.0 * (with / without - 1.0);
            let note = match rate_hz {
                100 => verdict(percent(fastest_ms, alone_fastest) <= 3.0),
                _ => "",
            };
            println!(
                "  {:20} {rate_hz:5} Hz  fastest {fastest_ms:6.0} ms {:+6.2} %   median {median_ms:6.0} ms {:+6.2} %  {note}",
                tool.name(),
                percent(fastest_ms, alone_fastest),
                percent(median_ms, alone_median),
            );
        }
    }

    /// Threads that do nothing but switch: CPU time that a switch costs the program, and what became of the waits.
    fn off_cpu(repeats: usize) {
        let cpu = std::thread::available_parallelism()
            .map_or(0, |cpus| usize::from(cpus) - 1)
            .to_string();
        cost_of_a_switch(
            "two threads on one CPU that hand a byte to and fro",
            "pingpong",
            &[&cpu, "1000"],
            repeats,
        );
        // A million a second where two CPUs have nothing else to do.
        cost_of_a_switch(
            "two threads on each CPU that yield to each other",
            "yields",
            &["1000"],
            repeats,
        );
    }

    fn cost_of_a_switch(what: &str, name: &str, arguments: &[&str], repeats: usize) {
        println!("\ncost of a switch, {what}, median of {repeats}");
        let path = program(name).unwrap();
        let tools = [Alone, Sprof, SprofOffCpu];
        let (mut per_wall_s, mut per_cpu_s) = (Vec::new(), Vec::new());
        let mut accounts = Vec::new();
        let figures = medians(&tools, repeats, |tool| {
            let run = run(tool, 1000, &path, arguments);
            // It runs for a second.
            let (per_s, cpu_ns) = (run.printed("switches_per_s"), run.printed("cpu_ns"));
            if tool == Alone {
                per_wall_s.push(per_s);
                per_cpu_s.push(per_s * 1e9 / cpu_ns);
            }
            if tool == SprofOffCpu {
                accounts.push(account(&Profile::read(&run.file), per_s));
            }
            cpu_ns / per_s
        });
        for (tool, ns) in tools.iter().zip(&figures) {
            println!("  {:30} {ns:8.0} ns {:6.2} x alone", tool.name(), ns / figures[0]);
        }
        println!(
            "  beside sprof without --off-cpu {:15.2} x {}",
            figures[2] / figures[1],
            verdict(figures[2] / figures[1] <= 1.6)
        );
        println!(
            "  {:.0} switches a second alone, {:.0} in a second of CPU time",
            median(per_wall_s),
            median(per_cpu_s)
        );
        accounts.iter().for_each(|account| println!("  {account}"));
    }

    /// What a profile with waits says of itself.
    fn account(profile: &Profile, per_s: f64) -> String {
        let quality = profile.quality();
        let figure = |label: &str| quality.get(label).and_then(|value| value.as_f64()).unwrap_or(0.0);
        let (waits, left_out) = (figure("Waits"), figure("Waits left out, beginning or end lost"));
        let all_ms = figure("Time off-CPU, waiting for a CPU") + figure("Time off-CPU, blocked");
        let guessed_ms: f64 = (quality
            .iter()
            .filter(|(label, _)| label.starts_with("Their time, guess")))
        .filter_map(|(_, value)| value.as_f64())
        .sum();
        format!(
            "{per_s:.0} switches a second: {waits} waits, {left_out} left out {}, {:.0} % of their time with guessed stacks",
            verdict(left_out == 0.0),
            100.0 * guessed_ms / all_ms
        )
    }

    /// File size, and time from the end of the program to the complete file, symbols aside.
    fn million(samples: u64) {
        println!("\n{samples} samples of two threads at 20 kHz");
        let ms_each = (samples / 40).to_string();
        let run = run(Sprof, 20_000, &program("threads").unwrap(), &["2", &ms_each]);
        let count = sample_count(&run, Sprof) as f64;
        let million = count / 1e6;
        let megabytes = run.file.metadata().unwrap().len() as f64 / 1e6;
        let after_s = (run.end_ns as f64 - run.printed("end_ns")) / 1e9;
        println!("  recorded {count}, file {megabytes:.1} MB, complete {after_s:.2} s after the program's last word");
        println!(
            "  file size {}, time {}",
            verdict(megabytes <= 60.0 * million),
            verdict(after_s <= 0.6 * million.max(0.5))
        );
    }
}
