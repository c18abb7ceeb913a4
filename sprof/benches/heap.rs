//! What `record --heap` costs, and what other profilers of the heap cost and find, in one interleaved run:
//! `cargo bench -p sprof --bench heap [-- --quick] [pairs|rate|programs|tools]...`.
//!
//! `pairs` is the time of malloc and free in the fastest chunk of many: a mean would show what else the machine does.
//! `programs` and `tools` are medians of ratios to the run without a tool, which was made right before.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement ends where its premise fails"
)]

#[cfg(target_os = "linux")]
mod runs;
#[cfg(target_os = "linux")]
#[path = "../tests/suite/support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
fn main() {
    let (is_quick, wanted) = runs::arguments();
    if wanted.first().is_some_and(|word| word == measure::JSON) {
        return measure::parse_json(wanted[1].parse().unwrap());
    }
    measure::all(is_quick, &wanted);
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: the heap is not recorded on this system");
}

#[cfg(target_os = "linux")]
mod measure {
    use std::fmt::Write as _;
    use std::fs;
    use std::hint::black_box;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use serde_json::Value;

    use crate::runs::{Run, by_turns, is_there, least, median, verdict};
    use crate::support::{program, sprof, temp_dir, tests_dir};

    #[derive(Clone, Copy, PartialEq)]
    enum Tool {
        Alone,
        /// CPU time only.
        Sprof,
        /// The library is there and never takes a sample.
        SprofNeverSampled,
        SprofHeap,
        Heaptrack,
        Dhat,
        /// The heap profiler of gperftools, whose allocator the program then has.
        Tcmalloc,
    }

    use Tool::{Alone, Dhat, Heaptrack, Sprof, SprofHeap, SprofNeverSampled, Tcmalloc};

    const TCMALLOC: &str = "libtcmalloc.so.4";

    impl Tool {
        fn name(self) -> &'static str {
            match self {
                Alone => "alone",
                Sprof => "sprof",
                SprofNeverSampled => "sprof --heap, never sampled",
                SprofHeap => "sprof --heap",
                Heaptrack => "heaptrack",
                Dhat => "valgrind --tool=dhat",
                Tcmalloc => "tcmalloc with HEAPPROFILE",
            }
        }

        /// The words before the program's own.
        fn words(self, output: &Path) -> Vec<String> {
            let output = output.to_str().unwrap();
            let sprof = |heap: &[&str]| {
                let record = [env!("CARGO_BIN_EXE_sprof"), "record", "-s", "-o", output];
                [&record[..], heap, &["--"]].concat().join(" ")
            };
            let words = match self {
                Alone => String::new(),
                Sprof => sprof(&[]),
                SprofNeverSampled => sprof(&["--heap", "--heap-interval", "1024G"]),
                SprofHeap => sprof(&["--heap"]),
                Heaptrack => format!("heaptrack -o {output}"),
                Dhat => format!("valgrind --tool=dhat --dhat-out-file={output}"),
                Tcmalloc => format!("env HEAPPROFILE={output} LD_PRELOAD={TCMALLOC}"),
            };
            words.split_whitespace().map(str::to_owned).collect()
        }

        fn run(self, program: &Path, arguments: &[&str]) -> Run {
            let words = |file: &Path| self.words(file);
            Run::new(self.name(), "profile", words, program, arguments)
        }

        /// False, said, where the tool is not installed.
        fn is_there(self) -> bool {
            let (command, is_there) = match self {
                Heaptrack => ("heaptrack", is_there("heaptrack")),
                Dhat => ("valgrind", is_there("valgrind")),
                Tcmalloc => {
                    let loaded = Command::new("true").env("LD_PRELOAD", TCMALLOC).output().unwrap();
                    (TCMALLOC, loaded.stderr.is_empty())
                }
                _ => return true,
            };
            if !is_there {
                println!("  skipped: {command} is not installed");
            }
            is_there
        }
    }

    /// Measures what is wanted; everything if nothing is named.
    pub(crate) fn all(is_quick: bool, wanted: &[String]) {
        let wants = |name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
        let folder = temp_dir();
        let mut allocators = vec![("glibc", program("heap_costs_rs").unwrap())];
        if wants("pairs") || wants("tools") {
            allocators.extend(with_mimalloc());
        }
        if wants("pairs") {
            pairs(&allocators, if is_quick { 2 } else { 5 });
        }
        if wants("rate") {
            rate(&allocators[0].1, if is_quick { 3 } else { 5 });
        }
        if wants("programs") {
            programs(folder.path(), if is_quick { 3 } else { 9 });
        }
        if wants("tools") {
            tools(&allocators, if is_quick { 1 } else { 3 });
        }
    }

    /// The same program with mimalloc linked into it.
    fn with_mimalloc() -> Option<(&'static str, PathBuf)> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("with_mimalloc");
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = "[package]\nname = \"costs\"\nedition = \"2024\"\n[dependencies]\nmimalloc = \"0.1\"\n[profile.release]\ndebug = 1\n[workspace]\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        let source = format!(
            "#[global_allocator]\nstatic ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;\ninclude!({:?});\n",
            tests_dir().join("programs/heap_costs.rs")
        );
        fs::write(folder.join("src/main.rs"), source).unwrap();
        let built = Command::new("cargo")
            .args(["build", "--release", "--quiet"])
            .current_dir(&folder)
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        if !built.status.success() {
            println!(
                "skipped: a program with mimalloc can't be built: {}",
                String::from_utf8_lossy(&built.stderr)
            );
            return None;
        }
        Some(("mimalloc, linked in", folder.join("target/release/costs")))
    }

    /// ns of malloc and free of 64 bytes.
    fn pairs(allocators: &[(&str, PathBuf)], repeats: usize) {
        for (threads, limit_ns) in [("1", 1.5), ("4", 2.0)] {
            println!(
                "\nmalloc and free of 64 bytes, threads: {threads}, fastest of {} chunks of 50,000",
                repeats * 1000
            );
            for (allocator, program) in allocators {
                let tools = [Alone, SprofNeverSampled, SprofHeap];
                let ns = by_turns(&tools, repeats, |tool| {
                    tool.run(program, &["pairs", threads, "1000"]).printed("ns")
                });
                let ns: Vec<f64> = ns.iter().map(|figures| least(figures)).collect();
                let run = SprofHeap.run(program, &["pairs", threads, "100"]);
                let bytes = sum(&run.file, "allocated", None).unwrap_or(0.0);
                let truth: f64 = 64.0 * 50_000.0 * 100.0 * threads.parse::<f64>().unwrap();
                println!(
                    "  {allocator:20} alone {:6.2}  never sampled {:6.2} ({:+.2} {})  512 KiB {:6.2} ({:+.2})  {:3.0} % of the bytes seen",
                    ns[0],
                    ns[1],
                    ns[1] - ns[0],
                    verdict(ns[1] - ns[0] <= limit_ns),
                    ns[2],
                    ns[2] - ns[0],
                    100.0 * bytes / truth
                );
            }
        }
    }

    /// From two lengths of recording, so that start, stop and writing the file cancel out.
    fn rate(program: &Path, repeats: usize) {
        println!("\nrecorder CPU at 1 GB/s in blocks of 4,000 bytes, share of a core, median of {repeats}");
        let tools = [Sprof, SprofHeap];
        let percents = by_turns(&tools, repeats, |tool| {
            let [short, long] = ["1", "5"].map(|seconds| tool.run(program, &["rate", seconds]).recorder_cpu_s());
            100.0 * (long - short) / 4.0
        });
        for (tool, percents) in tools.iter().zip(percents) {
            let percent = median(percents);
            println!("  {:30} {percent:6.2} % {}", tool.name(), verdict(percent <= 2.0));
        }
    }

    /// The slow-down of real programs, without the tool's own time.
    fn programs(folder: &Path, repeats: usize) {
        println!("\nCPU time of programs, without that of the recorder, median of {repeats} ratios");
        let this = std::env::current_exe().unwrap();
        let costs = program("heap_costs_rs").unwrap();
        let mut targets = vec![
            ("JSON (serde_json)", format!("'{}' {JSON} 25", this.display())),
            ("words of a log", format!("'{}' log 250", costs.display())),
        ];
        targets.extend(rustc(folder).map(|command| ("rustc", command)));
        targets.extend(redis(folder).map(|command| ("redis", command)));
        for (name, command) in targets {
            let script =
                format!(r#"TIMEFORMAT="user_s=%3U system_s=%3S"; {{ time {{ {command} ; }} >/dev/null 2>&1; }} 2>&1"#);
            let tools = [Alone, Sprof, SprofHeap];
            let times = by_turns(&tools, repeats, |tool| {
                let run = tool.run(Path::new("bash"), &["-c", &script]);
                run.printed("user_s") + run.printed("system_s")
            });
            let percent = |tool: usize, beside: usize| {
                let ratios = times[tool].iter().zip(&times[beside]);
                100.0 * (median(ratios.map(|(with, without)| with / without).collect()) - 1.0)
            };
            println!(
                "  {name:18} alone {:5.2} s  sprof {:+5.1} %  sprof --heap {:+5.1} %, beside sprof without {:+5.1} % {}",
                median(times[0].clone()),
                percent(1, 0),
                percent(2, 0),
                percent(2, 1),
                verdict(percent(2, 1) <= 2.0)
            );
        }
    }

    /// The word with which this program reads and writes JSON.
    pub(crate) const JSON: &str = "json";

    pub(crate) fn parse_json(rounds: u32) {
        let mut text = String::from("[");
        for number in 0..20_000 {
            let comma = if number == 0 { "" } else { "," };
            write!(
                text,
                r#"{comma}{{"id": {number}, "name": "name {number}", "tags": ["a", "b"], "at": {{"x": {number}.5}}}}"#
            )
            .unwrap();
        }
        text.push(']');
        for _ in 0..rounds {
            let value: Value = serde_json::from_str(&text).unwrap();
            black_box(value.to_string());
        }
    }

    /// rustc, without the shim of rustup, builds a file of 400 types.
    fn rustc(folder: &Path) -> Option<String> {
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
        let rustc = PathBuf::from(String::from_utf8(sysroot.stdout).ok()?.trim()).join("bin/rustc");
        let mut source = String::new();
        for number in 0..400 {
            write!(
                source,
                "#[derive(Debug, Clone, PartialEq, PartialOrd)]\n\
                 pub struct Type{number} {{ pub a: Vec<u{}>, pub b: Option<String>, pub c: [f64; {number}] }}\n",
                [8, 16, 32, 64][number % 4]
            )
            .unwrap();
        }
        let path = folder.join("types.rs");
        fs::write(&path, source).unwrap();
        Some(format!(
            "'{}' --edition 2024 --crate-type lib -O --out-dir '{}' '{}'",
            rustc.display(),
            folder.display(),
            path.display()
        ))
    }

    /// A server without files, and its benchmark.
    fn redis(folder: &Path) -> Option<String> {
        if !is_there("redis-server") {
            println!("  skipped: redis-server is not installed");
            return None;
        }
        let socket = folder.join("redis");
        let socket = socket.display();
        Some(format!(
            "redis-server --port 0 --unixsocket {socket} --save '' & \
             until redis-cli -s {socket} ping; do sleep 0.05; done; \
             redis-benchmark -s {socket} -t set,get,lpush -n 300000 -r 100000 -d 200 -c 20 -P 16 -q; \
             redis-cli -s {socket} shutdown nosave; wait"
        ))
    }

    /// MiB, and the function, the measure and the size of its blocks.
    const LEAKS: [(f64, &str, &str, u64); 3] = [
        (100.0, "a_leaks", "retained", 64 << 10),
        (1024.0, "b_temporary", "allocated", 1 << 10),
        (300.0, "c_peak", "peak", 4 << 10),
    ];

    /// What the tools take for a program, all that they do included, and what they find in another one.
    fn tools(allocators: &[(&str, PathBuf)], repeats: usize) {
        println!("\nother tools: time of the JSON program with all that the tool does, median of {repeats} ratios;");
        println!("MiB found of 100 leaked, 1,024 allocated and 300 at the peak, and the size of the file");
        let this = std::env::current_exe().unwrap();
        let tools: Vec<Tool> = { [SprofHeap, Heaptrack, Dhat, Tcmalloc].into_iter() }
            .filter(|tool| tool.is_there())
            .collect();
        let with_alone = [&[Alone], &tools[..]].concat();
        let times = by_turns(&with_alone, repeats, |tool| {
            let run = tool.run(&this, &[JSON, "5"]);
            (run.wall.as_secs_f64(), run.cpu.as_secs_f64())
        });
        for (tool, with) in with_alone.iter().zip(&times).skip(1) {
            let ratio = |time: fn(&(f64, f64)) -> f64| {
                let ratios = with.iter().zip(&times[0]).map(|(with, alone)| time(with) / time(alone));
                median(ratios.collect())
            };
            println!(
                "  {:27} {:6.2} x the time, {:6.2} x the CPU time",
                tool.name(),
                ratio(|time| time.0),
                ratio(|time| time.1)
            );
            for (allocator, program) in allocators {
                let run = tool.run(program, &["leaks"]);
                let folder = run.file.parent().unwrap();
                let mut files: Vec<PathBuf> = { fs::read_dir(folder).unwrap() }
                    .map(|entry| entry.unwrap().path())
                    .collect();
                files.sort();
                let found = LEAKS.map(|(_, function, measure, size)| {
                    let bytes = match tool {
                        Tcmalloc => sum_of_dumps(&files, measure, size),
                        _ => files.first().and_then(|file| sum(file, measure, Some(function))),
                    };
                    bytes.map_or("-".to_owned(), |bytes| format!("{:.0}", bytes / f64::from(1 << 20)))
                });
                let file_bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
                println!(
                    "      {allocator:20} {:>5} {:>5} {:>5}  {file_bytes:8} bytes",
                    found[0], found[1], found[2]
                );
            }
        }
    }

    /// A measure of a file that sprof reads, in bytes; of one function, or of all.
    fn sum(file: &Path, measure: &str, function: Option<&str>) -> Option<f64> {
        let mut command = sprof();
        command
            .arg("report")
            .arg(file)
            .args(["-f", "json", "--measure", measure]);
        command.args(function.map(|function| format!("--focus={function}")));
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).ok()?;
        report["selection"]["weight"].as_f64()
    }

    /// The same of the dumps of tcmalloc: lines of `BLOCKS: BYTES [BLOCKS: BYTES] @ STACK`, in use and of all.
    fn sum_of_dumps(files: &[PathBuf], measure: &str, size: u64) -> Option<f64> {
        let of_file = |file: &PathBuf| {
            let text = fs::read_to_string(file).unwrap();
            let lines = text.lines().skip(1).filter_map(|line| {
                let (in_use, rest) = line.split_once('[')?;
                let (all, _) = rest.split_once(']')?;
                let pair = |text: &str| {
                    let (blocks, bytes) = text.split_once(':')?;
                    Some((blocks.trim().parse::<u64>().ok()?, bytes.trim().parse::<u64>().ok()?))
                };
                let (blocks, bytes) = pair(all)?;
                let wanted = if measure == "allocated" { bytes } else { pair(in_use)?.1 };
                (bytes == size * blocks).then_some(wanted as f64)
            });
            lines.sum::<f64>()
        };
        match measure {
            "peak" => files.iter().map(of_file).max_by(f64::total_cmp),
            _ => files.last().map(of_file),
        }
    }
}
