//! Recordings on an emulated arm64 machine whose processor counts cycles: the other architecture, and the hardware event
//! that most users have and few build machines do. `.ci/arm64-machine` makes the machine.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::Profile;
use support::profile::is_mark;
use support::skip::{Need, has, perf_events};

/// Where `.ci/run` put the machine: `SPROF_ARM64_MACHINE`, else `target/arm64-machine`.
fn machine_dir() -> PathBuf {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("arm64-machine");
    std::env::var_os("SPROF_ARM64_MACHINE").map_or(default, PathBuf::from)
}

/// Starts the machine, which records all its programs and turns itself off. Returns the profiles by name.
fn run_machine(dir: &Path) -> BTreeMap<String, Profile> {
    let output = Command::new("timeout")
        .args(["900", "qemu-system-aarch64", "-M", "virt", "-cpu", "max", "-smp", "2"])
        .args(["-m", "1024", "-nographic", "-no-reboot", "-nic", "none"])
        .args(["-append", "console=ttyAMA0 quiet panic=-1"])
        .arg("-kernel")
        .arg(dir.join("kernel"))
        .arg("-initrd")
        .arg(dir.join("initrd"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&output.stdout);
    let mut profiles = BTreeMap::new();
    for part in console.split("@begin ").skip(1) {
        let (head, rest) = part.split_once('\n').unwrap();
        let (name, status) = head.trim().split_once(' ').unwrap();
        assert_eq!(status, "0", "{name}\n{console}");
        let digits: Vec<u8> = (rest.split("@end").next().unwrap().bytes())
            .filter(u8::is_ascii_hexdigit)
            .collect();
        let bytes: Vec<u8> = (digits.chunks_exact(2))
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arm64-{name}.json.gz"));
        std::fs::write(&path, bytes).unwrap();
        profiles.insert(name.to_owned(), Profile::read(&path));
    }
    assert_eq!(
        profiles.len(),
        5,
        "{console}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    profiles
}

fn is_marked(names: &[&str]) -> bool {
    names.iter().any(|name| is_mark(name))
}

/// One test: starting the machine takes longest.
#[test]
fn an_arm64_machine_with_hardware_cycles_gives_true_profiles() {
    let dir = machine_dir();
    let reason = "no emulated arm64 machine (`.ci/run machine` makes it)";
    if !has(Need::Arm64Machine, dir.join("initrd").exists(), reason) {
        return;
    }
    let Some(_machine) = perf_events() else { return };
    let profiles = run_machine(&dir);
    for (name, profile) in &profiles {
        assert_eq!(profile.quality()["Event"], "cycles", "{name}");
        // The first samples of a thread come within microseconds: each weighs what it stands for.
        assert_eq!(
            profile.json["threads"][0]["samples"]["weightType"], "tracing-ms",
            "{name}"
        );
    }

    // 2 points, as on real machines, and 4 more: how long emulated code takes depends on what else the host does.
    let split = &profiles["split"];
    for (function, expected) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let share = split.cpu_share(|names| names.contains(&"run_split"), |names| names.contains(&function));
        assert!(
            (share - expected).abs() <= 6.0,
            "{function} {share:.1} %\n{}",
            split.summary()
        );
    }
    let rooted = split.share(
        |names| names.contains(&"one_round"),
        |names| names.contains(&"main") && !is_marked(names),
    );
    assert!(
        rooted.of > 500 && rooted.percent() >= 99.0,
        "{rooted:?}\n{}",
        split.summary()
    );

    for (name, function) in [("deep", "deep_leaf"), ("growing", "down_and_up")] {
        let profile = &profiles[name];
        let honest = profile.share(
            |names| names.contains(&function),
            |names| names.contains(&"main") || is_marked(names),
        );
        assert!(honest.of > 100, "{name} {honest:?}\n{}", profile.summary());
        assert_eq!(honest.hits, honest.of, "{name}\n{}", profile.summary());
    }
    let verified = profiles["growing"].share(
        |names| names.contains(&"down_and_up") && !is_marked(names),
        |names| {
            let rest: Vec<_> = names.iter().skip_while(|name| **name != "main").take(3).collect();
            rest == [&"main", &"wander", &"down_and_up"]
        },
    );
    assert_eq!(verified.hits, verified.of, "{}", profiles["growing"].summary());

    for name in ["handler", "alternate"] {
        let profile = &profiles[name];
        let rooted = profile.share(
            |names| names.contains(&"handler_spin"),
            |names| {
                let order = ["main", "outer", "interrupted_work", "on_timer", "handler_spin"];
                let mut found = names.iter().filter(|name| order.contains(name));
                order.iter().all(|wanted| found.next() == Some(wanted))
            },
        );
        assert!(rooted.of > 100, "{name} {rooted:?}\n{}", profile.summary());
        assert!(rooted.percent() >= 98.0, "{name} {rooted:?}\n{}", profile.summary());
    }
}
