//! Recordings of BPF programs, which come and go in the kernel.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::support::skip::{Need, has, kernel_samples};
use crate::support::{program, record};

#[test]
fn a_bpf_program_that_was_unloaded_has_its_name() {
    let Some(()) = kernel_samples() else { return };
    let path = program("bpf").unwrap();
    let is_compiled = std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").is_ok_and(|text| text.trim() != "0");
    let runs = Command::new(&path).arg("0").output().unwrap().status.success();
    if !has(
        Need::Bpf,
        is_compiled && runs,
        "BPF programs can't be loaded, or are interpreted",
    ) {
        return;
    }
    let (_, profile) = record().profile(path, &["300"]);
    let is_program = |name: &&str| name.starts_with("bpf_prog_") && name.ends_with("_additions [bpf]");
    let in_program = profile.share(
        |names| names.contains(&"main"),
        |names| names.last().is_some_and(is_program),
    );
    // Where the host of a virtual machine takes two thirds of its CPU time away, half of 300 samples are there, or
    // fewer.
    assert!(
        in_program.of > 50 && in_program.percent() >= 50.0,
        "{in_program:?}\n{}",
        profile.summary()
    );
    let leaves = profile
        .samples()
        .filter_map(|sample| profile.stack_frames(sample.stack?).next_back());
    let mut of_program = leaves.filter(|frame| is_program(&&*frame.function));
    assert!(of_program.all(|frame| frame.category.to_lowercase().contains("kernel")));
}
