//! As an ordinary user at perf_event_paranoid 2, the default of the kernel: user-only stacks, announced.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use std::process::{Command, Stdio};

use support::Profile;
use support::playground::{NOBODY, Playground};
use support::skip::{Machine, Need, has, paranoid, perf_events, root};

/// A process that is ended with the test.
struct Target(std::process::Child);

impl Target {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Root, so that there is someone to become, and a kernel that allows an ordinary user to record itself.
fn can_become_nobody() -> Option<Machine> {
    let machine = perf_events()?;
    let level_allows = paranoid().is_some_and(|level| level <= 2);
    (root() && has(Need::PerfEvents, level_allows, "perf_event_paranoid is above 2")).then_some(machine)
}

#[test]
fn an_ordinary_user_records_user_stacks_and_is_told_so() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["split"]);
    let (output, path) = playground.record(&[], "split", &["4000", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    assert!(sixty.of > 6000, "{}", profile.summary());
    assert!(
        (sixty.percent() - 60.0).abs() <= 3.0,
        "{sixty:?}\n{}",
        profile.summary()
    );
    let rooted = profile.rooted_in("thread_main");
    assert!(rooted.percent() > 98.0, "{}", profile.summary());
    if paranoid() == Some(2) {
        let kernel = profile
            .frames
            .iter()
            .filter(|frame| frame.category.to_lowercase().contains("kernel"))
            .count();
        assert_eq!(kernel, 0, "kernel frames at perf_event_paranoid 2");
        assert!(stderr.contains("kernel"), "not announced: {stderr}");
        let in_profile = profile.quality()["Kernel code"].to_string();
        assert!(in_profile.contains("not included"), "in the profile: {in_profile}");
    }
}

#[test]
fn an_ordinary_user_sees_deep_stacks_and_signal_handlers() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["deep", "sighandler"]);
    let (output, path) = playground.record(&[], "deep", &["spin", "27", "1000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::read(&path);
    assert!(profile.rooted_in("main").percent() >= 98.0, "{}", profile.summary());

    let (output, path) = playground.record(&[], "sighandler", &["alternate", "1000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::read(&path);
    let handler = profile.share(|names| names.contains(&"handler_spin"), |names| names.contains(&"main"));
    assert!(handler.percent() >= 98.0, "{}", profile.summary());
}

/// Off-CPU time of the main thread in the profile whose leaf is this, ms.
fn waited_ms(profile: &Profile, leaf: &str, with: &str) -> f64 {
    let thread = profile.threads.iter().find(|thread| thread.is_main).unwrap();
    let samples = thread.samples.iter().filter(|sample| {
        let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
        names.last() == Some(&leaf) && names.contains(&with)
    });
    samples.map(|sample| sample.weight).sum()
}

#[test]
fn an_ordinary_user_sees_how_long_threads_wait_and_that_the_stacks_are_guesses() {
    let Some(_machine) = can_become_nobody() else { return };
    if !has(Need::PerfEvents, paranoid() == Some(2), "perf_event_paranoid is not 2") {
        return;
    }
    let playground = Playground::new(&["waits"]);
    let (output, path) = playground.record(&["--off-cpu"], "waits", &["3", "200"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let printed_ms = |name: &str| -> f64 {
        let word = stdout
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name))
            .unwrap();
        word.parse::<f64>().unwrap() / 1e6
    };
    let blocked_ms = printed_ms("sleep_ns=") + printed_ms("pipe_ns=") + printed_ms("lock_ns=");
    let found_ms = waited_ms(&profile, "[off-CPU: reason not known]", "[off-CPU]");
    assert!(
        (found_ms / blocked_ms - 1.0).abs() < 0.03,
        "{found_ms} of {blocked_ms} ms\n{}",
        profile.summary()
    );
    let labelled_ms = waited_ms(&profile, "[off-CPU: reason not known]", "[guess: last stack on a CPU]")
        + waited_ms(&profile, "[off-CPU: reason not known]", "[stack not sampled]");
    assert!((labelled_ms - found_ms).abs() < 1e-6, "{}", profile.summary());
    assert!(profile.figure(&["waits", "guess"]) > 8.0, "{:?}", profile.quality());
    assert!(
        stderr.contains("had on a CPU") && stderr.contains("waits are timed"),
        "{stderr}"
    );
}

#[test]
fn an_ordinary_user_with_little_locked_memory_still_records() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["threads"]);
    // 64 KiB: what older systems give. The rings shrink; whatever that loses is counted.
    let script = format!("ulimit -l 64 && exec {} 4 300", playground.path("threads").display());
    let output = playground.path("p.json.gz");
    let mut command = Command::new("sh");
    let sprof = format!(
        "ulimit -l 64; exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all {} record -s -o {} -- sh -c '{script}'",
        playground.path("sprof").display(),
        output.display()
    );
    let result = command
        .args(["-c", &sprof])
        .env("HOME", "/tmp")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let profile = Profile::read(&output);
    assert!(profile.share_of("thread_work").hits > 900, "{}", profile.summary());
}

#[test]
fn a_library_that_deletes_itself_before_anyone_can_look_is_unwound_from_the_copy_in_memory() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["dlopen", "library.so"]);
    let library = playground.path("library.so");
    // The library is the test's to delete; its own code has unwind tables, and needs them: it has no frame pointers.
    let (output, profile) = playground.record(&[], "dlopen", &[library.to_str().unwrap(), "1000", "unlink"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!library.exists());
    let profile = Profile::read(&profile);
    let rooted = profile.share(
        |names| names.contains(&"through_library"),
        |names| names.contains(&"main") && !names.iter().any(|name| support::profile::is_mark(name)),
    );
    assert!(rooted.of > 700, "{}", profile.summary());
    assert_eq!(rooted.hits, rooted.of, "{}", profile.summary());
    // By its unwind tables, that is: without them, the loop in the library would be left by a guess.
    let guessed = profile.quality().keys().any(|label| label.contains("frame pointer"));
    assert!(!guessed, "{:?}", profile.quality());
}

#[test]
fn an_ordinary_user_attaches_to_own_processes() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["split"]);
    let target = Target(
        playground
            .as_nobody(playground.path("split"))
            .args(["600000", "2"])
            .spawn()
            .unwrap(),
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (output, path) = playground.sprof(&["-p", &target.pid(), "-d", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    assert!(
        sixty.of > 500 && (sixty.percent() - 60.0).abs() <= 4.0,
        "{sixty:?}\n{}",
        profile.summary()
    );
    assert!(
        profile.rooted_in("thread_main").percent() > 98.0,
        "{}",
        profile.summary()
    );
    for name in ["splitter-0", "splitter-1"] {
        assert_eq!(profile.threads_named(name).count(), 1);
    }
    assert_eq!(target.pid(), profile.threads[0].pid);
}

#[test]
fn an_ordinary_user_sees_where_attached_threads_wait_already() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["waits"]);
    let target = Target(
        playground
            .as_nobody(playground.path("waits"))
            .args(["0", "0", "forever"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap(),
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (output, path) = playground.sprof(&["--off-cpu", "-p", &target.pid(), "-d", "1"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    // By the name of the kernel function, which one may read of one's own processes.
    let ms = waited_ms(&profile, "[off-CPU: pipe or socket]", "wait_forever");
    assert!((950.0..2000.0).contains(&ms), "{ms} ms\n{}", profile.summary());
}

#[test]
fn what_an_ordinary_user_may_not_record_is_said_with_the_next_step() {
    let Some(_machine) = can_become_nobody() else { return };
    let playground = Playground::new(&["split"]);
    let of_root = Target(Command::new(playground.path("split")).arg("600000").spawn().unwrap());
    let (output, path) = playground.sprof(&["-p", &of_root.pid(), "-d", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    let advice = format!("sudo sprof record -p {}", of_root.pid());
    for words in ["(split)", "another user", &advice] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!path.exists());

    let (output, path) = playground.sprof(&["-p", "2", "-d", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("process 2") && !path.exists(), "{stderr}");

    if paranoid().is_some_and(|level| level > 0) {
        let (output, path) = playground.sprof(&["-a", "-d", "2"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(
            stderr.contains("sudo sysctl kernel.perf_event_paranoid=0") && !path.exists(),
            "{stderr}"
        );
    }
}
