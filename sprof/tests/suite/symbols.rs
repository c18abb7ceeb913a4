//! Names, inline frames, files and lines in saved profiles.
#![cfg(target_os = "linux")]

use std::path::Path;

use names::symbol::is_nameless;

use crate::spool::SmallDisk;
use crate::support;
use crate::support::cargo::cargo;
use crate::support::programs::{ONCE_IT_WORKS, line_of};
use crate::support::skip::{Need, has, kernel_samples, perf_events};
use crate::support::{Profile, copy_program, program, record};

/// `main` calls `not_inlined`, into which `middle` and, inside it, `innermost` are inlined.
pub(crate) fn assert_inline_frames(profile: &Profile) {
    let chain = [
        ("main", "CALL_LINE", 0),
        ("not_inlined", "OUTER_LINE", 0),
        ("middle", "MIDDLE_LINE", 1),
        ("innermost", "INNERMOST_LINE", 2),
    ];
    let mut right = 0;
    let mut of = 0;
    for sample in profile.samples() {
        let frames: Vec<_> = sample
            .stack
            .map_or(Vec::new(), |stack| profile.stack_frames(stack).collect());
        let Some(start) = frames.iter().position(|frame| frame.function == "main") else {
            continue;
        };
        if !frames.iter().any(|frame| frame.function == "innermost") {
            continue;
        }
        of += 1;
        right += u32::from(
            chain
                .iter()
                .zip(&frames[start..])
                .all(|(&(function, marker, depth), frame)| {
                    // The loop of `innermost` is two lines; compilers give its samples to either.
                    let line = line_of("inline.c", marker);
                    let line_is_right = frame
                        .line
                        .is_some_and(|found| found.abs_diff(line) <= u32::from(depth == 2));
                    frame.function == function
                        && line_is_right
                        && frame.inline_depth == depth
                        && frame
                            .file
                            .as_deref()
                            .is_some_and(|file| file.ends_with("programs/inline.c"))
                }),
        );
    }
    // A host that takes CPU time away may leave a third of 800 samples.
    assert!(of > 200, "{}", profile.summary());
    assert!(
        f64::from(right) >= 0.95 * f64::from(of),
        "{right} of {of}\n{}",
        profile.summary()
    );
}

#[test]
fn inline_frames_and_lines_with_dwarf_4() {
    let Some(()) = perf_events() else { return };
    let (_, profile) = record().profile(program("inline_dwarf4").unwrap(), &["1000"]);
    assert_inline_frames(&profile);
}

#[test]
fn inline_frames_and_lines_with_dwarf_5() {
    let Some(()) = perf_events() else { return };
    let (_, profile) = record().profile(program("inline_dwarf5").unwrap(), &["1000"]);
    assert_inline_frames(&profile);
}

#[test]
fn rust_names_are_demangled_in_both_manglings() {
    let Some(()) = perf_events() else { return };
    for variant in ["inline_rs", "inline_rs_v0"] {
        let (_, profile) = record().profile(program(variant).unwrap(), &["30000"]);
        let has = |part: &str| {
            let found = profile.share(|_| true, |names| names.iter().any(|name| name.contains(part)));
            assert!(
                found.percent() > 90.0,
                "{variant}: {part}: {found:?}\n{}",
                profile.summary()
            );
        };
        has("inline::main");
        has("inline::generic_call");
        has("inline::inlined_loop");
        has("Area");
        for frame in &profile.frames {
            let name = &frame.function;
            assert!(
                !name.starts_with("_R") && !name.starts_with("_ZN"),
                "{variant}: {name} is still mangled"
            );
        }
        let loop_line = line_of("inline.rs", "LOOP_LINE");
        let leafs = profile
            .samples()
            .filter_map(|sample| profile.stack_frames(sample.stack?).next_back());
        let on_loop = leafs
            .filter(|frame| frame.function.contains("inlined_loop"))
            .filter(|frame| {
                frame
                    .line
                    .is_some_and(|line| (loop_line - 1..loop_line + 3).contains(&line))
            })
            .count();
        assert!(on_loop > 100, "{variant}: {on_loop} samples on the loop's lines");
    }
}

#[test]
fn cpp_names_are_demangled() {
    let Some(()) = perf_events() else { return };
    let Some(path) = program("names") else { return };
    let (_, profile) = record().profile(path, &["1000"]);
    for part in [
        "outer_space::overloaded",
        "outer_space::Holder<int>::spin",
        "(anonymous namespace)::hidden",
    ] {
        let found = profile.share(|_| true, |names| names.iter().any(|name| name.contains(part)));
        assert!(found.percent() > 10.0, "{part}: {found:?}\n{}", profile.summary());
    }
}

#[test]
fn plain_c_names_are_untouched() {
    let Some(()) = perf_events() else { return };
    // `_start` and `__libc_start_main` keep their underscores. The loader has a larger part on a slow machine.
    let (_, profile) = record().profile(program("split").unwrap(), &["500"]);
    let roots = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"_start"));
    assert!(roots.percent() > 95.0, "{roots:?}\n{}", profile.summary());
}

#[test]
fn without_symbolication_the_profile_has_addresses_and_build_ids_for_later() {
    let Some(()) = perf_events() else { return };
    let (_, profile) = record()
        .options(&["--no-symbolicate"])
        .profile(program("split").unwrap(), &["500"]);
    assert_eq!(profile.json["meta"]["symbolicated"].as_bool(), Some(false));
    assert_eq!(profile.share_of("sixty").hits, 0);
    let libs = profile.json["libs"].as_array().unwrap();
    let lib = libs
        .iter()
        .find(|lib| lib["name"] == "split")
        .expect("the program is a library of the profile");
    assert!(lib["breakpadId"].as_str().is_some_and(|id| id.len() == 33), "{lib}");
    assert!(lib["codeId"].as_str().is_some_and(|id| id.len() == 40), "{lib}");
    assert!(
        lib["path"].as_str().is_some_and(|path| path.ends_with("/split")),
        "{lib}"
    );
    let in_program = profile
        .frames
        .iter()
        .filter(|frame| frame.lib.is_some_and(|index| libs[index]["name"] == "split") && frame.address.is_some());
    assert!(in_program.count() > 3);
}

#[test]
fn a_rebuilt_binary_gives_no_wrong_names() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copy = dir.path().join("app");
    copy_program(program("split").unwrap(), &copy);
    // The program replaces its own file by another build while it runs: names of the new file would be lies.
    let other = program("callback").unwrap();
    let script = format!(
        "{0} 800 & {ONCE_IT_WORKS}; rm {0}; cp {1} {0}; wait",
        copy.display(),
        other.display()
    );
    let (_, profile) = record().profile("sh", &["-c", &script]);
    for wrong in ["compare", "sort_all", "compare_leaf"] {
        assert_eq!(profile.share_of(wrong).hits, 0, "{}", profile.summary());
    }
}

#[test]
fn names_are_the_same_at_the_second_start_and_where_nothing_can_be_kept() {
    let Some(()) = perf_events() else { return };
    let with_cache = |cache: &Path| record().under(&["env", &format!("SPROF_CACHE={}", cache.display())]);
    let names = |cache: &Path| {
        let (recording, profile) = with_cache(cache).profile(program("inline_dwarf5").unwrap(), &["800"]);
        recording.assert_tidy();
        assert_inline_frames(&profile);
    };
    let dir = support::temp_dir();
    let cache = dir.path().join("sprof");
    names(&cache);
    let kept = std::fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        kept.into_iter()
            .any(|name| name.as_encoded_bytes().starts_with(b"names-"))
    );
    names(&cache);
    names(Path::new("/proc/no-folder"));
    let Some(disk) = SmallDisk::mount(64) else { return };
    let full = disk.0.path().join("sprof");
    names(&full);
    let left: Vec<_> = std::fs::read_dir(&full).map_or(Vec::new(), |entries| {
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    });
    // The names of a small program's addresses fit. The list of the kernel's functions alone has 3 MB.
    assert!(
        !left.is_empty() && left.iter().all(|name| name.starts_with("names-")),
        "{left:?}"
    );
}

#[test]
fn names_of_the_kernel_are_kept_for_the_second_start() {
    let Some(()) = perf_events() else { return };
    let Some(()) = kernel_samples() else { return };
    let dir = support::temp_dir();
    let cache = dir.path().join("sprof");
    // Nearly all of its time is the kernel's.
    let copy = ["if=/dev/zero", "of=/dev/null", "bs=1M", "count=3000"];
    let recorded = || {
        let recorder = record().under(&["env", &format!("SPROF_CACHE={}", cache.display())]);
        let (_, profile) = recorder.profile("dd", &copy);
        let share = profile.share_of("vfs_read").percent();
        assert!(share > 50.0, "{share} %\n{}", profile.summary());
    };
    let kept = || {
        let mut entries = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        let entry = entries
            .find(|path| path.file_name().unwrap().as_encoded_bytes().starts_with(b"kernel-"))
            .unwrap();
        std::fs::metadata(entry).unwrap().modified().unwrap()
    };
    recorded();
    let written = kept();
    recorded();
    assert!(kept() > written, "the second start has used it");
}

/// A program without symbols and debug info, and its debug file in a folder of its own.
pub(crate) struct Separate {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) program: std::path::PathBuf,
    pub(crate) debug: std::path::PathBuf,
}

impl Separate {
    pub(crate) fn of(whole: &Path) -> Separate {
        let dir = support::temp_dir();
        let (program, folder) = (dir.path().join("app"), dir.path().join("debug"));
        std::fs::create_dir(&folder).unwrap();
        let debug = folder.join("app.debug");
        let mut keep = std::process::Command::new("objcopy");
        keep.arg("--only-keep-debug").arg(whole).arg(&debug);
        let mut strip = std::process::Command::new("strip");
        strip.arg("-o").arg(&program).arg(whole);
        for command in [&mut keep, &mut strip] {
            assert!(command.status().unwrap().success(), "{command:?}");
        }
        Separate { dir, program, debug }
    }
}

#[test]
fn a_damaged_debug_file_is_a_figure_of_the_quality_and_costs_its_own_names_alone() {
    let Some(()) = perf_events() else { return };
    let separate = Separate::of(&program("inline_dwarf5").unwrap());
    let folder = separate.debug.parent().unwrap().to_str().unwrap();
    let recorded = || {
        record()
            .options(&["--symbol-dir", folder])
            .profile(&separate.program, &["1000"])
    };
    let (_, whole) = recorded();
    assert_inline_frames(&whole);
    assert!(
        !whole.quality().contains_key("Symbols not read"),
        "{:?}",
        whole.quality()
    );

    std::fs::write(&separate.debug, "not an ELF file").unwrap();
    let (recording, profile) = recorded();
    assert_eq!(profile.share_of("innermost").hits, 0);
    let said = &profile.quality()["Symbols not read"];
    assert!(said.to_string().contains("app.debug"), "{said}");
    assert!(
        recording.stderr.contains("symbols were not read: "),
        "{}",
        recording.stderr
    );
    // `__libc_start_main_impl` by libc's debug file, where that is installed.
    let is_root = |name: &&str| name.starts_with("__libc_start_main");
    let roots = profile.share(|_| true, |names| names.iter().any(is_root));
    assert!(roots.percent() > 95.0, "{roots:?}\n{}", profile.summary());
}

#[test]
fn debug_files_damaged_anywhere_are_reported_on_in_bounded_memory_and_time() {
    let Some(()) = perf_events() else { return };
    let separate = Separate::of(&program("inline_dwarf5").unwrap());
    let (recording, _) = record()
        .options(&["--no-symbolicate"])
        .profile(&separate.program, &["500"]);
    let whole = std::fs::read(&separate.debug).unwrap();
    let report = || {
        let mut command = std::process::Command::new("prlimit");
        command
            .arg("--as=3000000000")
            .arg(env!("CARGO_BIN_EXE_sprof"))
            .env("SPROF_CACHE", "off");
        command
            .args(["report", "--format", "json", "--symbol-dir"])
            .arg(separate.debug.parent().unwrap());
        let output = support::run::output(command.arg(&recording.output));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(report().contains("innermost"));
    // xorshift: the same damage in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut said = 0;
    for round in 0..60 {
        let mut damaged = whole.clone();
        match round % 3 {
            0 => damaged.truncate(next(whole.len())),
            // Bytes anywhere, and a run of them.
            1 => (0..200).for_each(|_| damaged[next(whole.len())] = next(256) as u8),
            _ => {
                let from = next(whole.len() - 2000);
                damaged[from..from + 2000].fill(0xff);
            }
        }
        std::fs::write(&separate.debug, damaged).unwrap();
        let text = report();
        // The program is named by its debug file alone. Other files are whole.
        assert!(text.contains("__libc_start_main"), "round {round}: {text}");
        said += usize::from(text.contains("symbols were not read: ") || text.contains("have no name"));
    }
    assert!(said > 20, "{said} of 60: a cut file has lost something");
    drop(separate.dir);
}

/// Large programs that others have built and stripped of debug info.
#[test]
fn functions_of_the_rust_compiler_and_of_python_have_names() {
    let Some(()) = cargo() else { return };
    let dir = support::temp_dir();
    let source = dir.path().join("many.rs");
    let functions = (0..8).map(|at| {
        format!(
            "pub fn f{at}(mut a: Vec<u64>) -> Vec<String> {{\n    a.sort_by_key(|x| x ^ {at});\n    a.iter().map(|x| format!(\"{{x}} {at}\")).collect()\n}}\n"
        )
    });
    std::fs::write(&source, functions.collect::<String>()).unwrap();
    let (source, compiled) = (source.to_str().unwrap(), dir.path().join("many.rlib"));
    let compile = ["-O", "--crate-type", "lib", "-o", compiled.to_str().unwrap(), source];
    let sum = ["-c", "print(sum(i * i % 7 for i in range(6000000)))"];
    let has_python = std::process::Command::new("python3").arg("--version").output().is_ok();
    let python = has(Need::Python, has_python, "no Python (Debian: python3)");
    for (program, arguments, function) in [
        ("rustc", &compile[..], "rustc_"),
        ("python3", &sum, "_PyEval_EvalFrameDefault"),
    ] {
        if program == "python3" && !python {
            continue;
        }
        // Enough samples also where the host takes most of the CPU time away.
        let (_, profile) = record().options(&["--rate", "4000"]).profile(program, arguments);
        let is_its = |names: &[&str]| names.iter().any(|name| name.contains(function));
        let known = profile.share(|_| true, is_its);
        assert!(
            known.of > 200 && known.percent() > 20.0,
            "{known:?}\n{}",
            profile.summary()
        );
        // Beside them: the shell scripts that choose a version of Python, with a stripped shell.
        let nameless = profile.share(is_its, |names| names.iter().any(|name| is_nameless(name)));
        assert!(
            nameless.percent() < 2.0,
            "{program}: {nameless:?}\n{}",
            profile.summary()
        );
    }
}

#[test]
fn embedded_sources_are_shown_where_the_files_are_gone() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let (source, binary) = (dir.path().join("gone.c"), dir.path().join("gone"));
    let text = "static volatile unsigned long sink;\n\
                int main(void) {\n\
                \x20   for (unsigned long i = 0; i < 300000000; i++) sink += i; /* \\\"ünï \u{fffd} */\n\
                \x20   return 0;\n}\n";
    std::fs::write(&source, text).unwrap();
    let mut compile = std::process::Command::new("cc");
    compile.args(["-g", "-O1", "-o"]).arg(&binary).arg(&source);
    assert!(compile.status().unwrap().success());
    let (recording, profile) = record().options(&["--embed-sources"]).profile(&binary, &[""; 0]);
    assert!(recording.stderr.contains(" in the profile ("), "{}", recording.stderr);
    let embedded = |json: &serde_json::Value| {
        let sources = &json["shared"]["sources"];
        let names = sources["filename"].as_array().unwrap().iter();
        let rows = names.zip(sources["content"].as_array().unwrap());
        let path = |name: &serde_json::Value| json["shared"]["stringArray"][name.as_u64().unwrap() as usize].clone();
        let mut rows = rows.map(|(name, content)| (path(name), content.clone()));
        rows.find(|(path, _)| path.as_str().is_some_and(|path| path.ends_with("/gone.c")))
            .unwrap()
            .1
    };
    assert_eq!(embedded(&profile.json), text);

    std::fs::remove_file(&source).unwrap();
    let sprof = |arguments: &[&std::ffi::OsStr]| {
        let output = support::run::output(support::sprof().args(arguments));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let path = recording.output.as_os_str();
    for options in [&["annotate", "main"][..], &["annotate", "main", "--asm"]] {
        let mut arguments: Vec<&std::ffi::OsStr> = options.iter().map(AsRef::as_ref).collect();
        arguments.insert(1, path);
        let shown = sprof(&arguments);
        assert!(shown.contains("sink += i; /* \\\"ünï \u{fffd} */"), "{shown}");
    }
    // They count as what they are where more are asked for.
    let page = dir.path().join("page.html");
    let mut export = support::sprof();
    export.args(["export", "--embed-sources", "-o"]).arg(&page).arg(path);
    let counted = String::from_utf8(support::run::output(&mut export).stderr).unwrap();
    assert!(
        counted.contains("1 source file is in the profile (") && counted.contains("1 of them from before"),
        "{counted}"
    );
    // A merged file keeps them.
    let merged = dir.path().join("merged.json.gz");
    sprof(&["merge".as_ref(), path, path, "-o".as_ref(), merged.as_os_str()]);
    assert_eq!(embedded(&Profile::read(&merged).json), text);
    // Without the flag there are none.
    std::fs::write(&source, text).unwrap();
    let (_, profile) = record().profile(&binary, &[""; 0]);
    assert!(embedded(&profile.json).is_null());
}

#[test]
fn what_is_no_source_is_not_embedded_whatever_the_debug_info_says() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let secret = dir.path().join("secret.c");
    std::fs::write(&secret, "a secret").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let link = dir.path().join("link.c");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    // The owner of a file may have it in a profile. Root, who can read all files, is asked by no one.
    let is_root = support::skip::is_root();
    for (name, is_refused) in [
        ("/proc/self/environ", true),
        ("/etc/passwd", true),
        ("/bin/true", true),
        (link.to_str().unwrap(), true),
        (secret.to_str().unwrap(), is_root),
    ] {
        let (source, binary) = (dir.path().join("app.c"), dir.path().join("app"));
        let text = format!(
            "static volatile unsigned long sink;\n#line 1 \"{name}\"\n\
             int main(void) {{ for (unsigned long i = 0; i < 200000000; i++) sink += i; return 0; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let mut compile = std::process::Command::new("cc");
        compile.args(["-g", "-O1", "-o"]).arg(&binary).arg(&source);
        assert!(compile.status().unwrap().success());
        let (_, profile) = record().options(&["--embed-sources"]).profile(&binary, &[""; 0]);
        let contents = profile.json["shared"]["sources"]["content"].as_array().unwrap();
        let embedded = contents.iter().filter(|content| !content.is_null()).count();
        assert_eq!(embedded == 0, is_refused, "{name}: {contents:?}");
    }
}
