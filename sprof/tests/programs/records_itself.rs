//! Records itself, with 200 other threads, by the guard of sprof-spans. The argument is the folder for the profiles.
//! With a second one it only tries to, and prints the error.

mod cpu_time;

use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cpu_time::cpu_ns;
use sprof_spans::{Recording, span};

static ENDS: AtomicBool = AtomicBool::new(false);
/// Spans that each thread has ended.
static WAITED: [AtomicU32; 200] = [const { AtomicU32::new(0) }; 200];

#[inline(never)]
fn outside() {
    spin(30);
}

#[inline(never)]
fn inside() {
    let _span = span!("inside");
    spin(100);
}

/// Waits until each thread has begun and ended a span.
fn all_wait() {
    let before = WAITED.each_ref().map(|waited| waited.load(Ordering::Relaxed));
    while WAITED.iter().zip(before).any(|(waited, before)| waited.load(Ordering::Relaxed) < before + 2) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// For this CPU time of the thread: it has samples also where others have the CPU meanwhile.
#[inline(never)]
fn spin(ms: u64) {
    let end = cpu_ns() + 1_000_000 * ms as i64;
    while cpu_ns() < end {
        for _ in 0..1000 {
            black_box(());
        }
    }
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap());
    if std::env::args().nth(2).is_some() {
        return println!("{}", Recording::start(folder.join("part.json.gz")).unwrap_err());
    }
    let threads: Vec<_> = (WAITED.iter())
        .map(|waited| {
            thread::spawn(|| {
                while !ENDS.load(Ordering::Relaxed) {
                    let span = span!("waits");
                    thread::sleep(Duration::from_millis(20));
                    drop(span);
                    waited.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for name in ["first", "second"] {
        outside();
        // Begun by another thread.
        let file = folder.join(name).with_extension("json.gz");
        let recording = thread::spawn(|| Recording::start(file).unwrap()).join().unwrap();
        inside();
        all_wait();
        println!("{name}: {}", Recording::start("x").unwrap_err());
        recording.finish().unwrap();
    }
    outside();
    let killed = Recording::start(folder.join("killed.json.gz")).unwrap();
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap();
    assert!(
        Command::new("kill")
            .args(["-KILL", children.trim()])
            .status()
            .unwrap()
            .success()
    );
    println!("killed: {}", killed.finish().unwrap_err());
    let refused = Recording::start(folder.join("no/such/folder.json.gz"));
    println!("refused: {}", refused.unwrap_err());
    let sprof = std::env::var_os("SPROF").unwrap();
    // SAFETY: no other thread looks at the environment.
    unsafe { std::env::set_var("SPROF", folder.join("none")) };
    println!("missing: {}", Recording::start("x").unwrap_err());
    // SAFETY: the same.
    unsafe { std::env::set_var("SPROF", sprof) };
    // Never dropped: the program exits, and sprof saves.
    std::mem::forget(Recording::start(folder.join("last.json.gz")).unwrap());
    inside();
    all_wait();
    ENDS.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
