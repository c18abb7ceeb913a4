// What allocating costs, by the allocator that the program has (a benchmark also builds it with mimalloc). Writes
// `name=number` words.
//
// heap_costs pairs THREADS CHUNKS: takes and frees 64 bytes, 50,000 times a chunk: `ns` of the fastest chunk of each
//     thread, and their mean. A thread that shares its CPU has a whole chunk now and then.
// heap_costs rate SECONDS: takes and frees 4,000 bytes, 250,000 times a second; `cpu_ns` of all that.
// heap_costs log ROUNDS: makes strings of a log's levels, and lists of its lines' words.
// heap_costs leaks: 100 MiB that stay (`a_leaks`), 1 GiB that is freed at once (`b_temporary`), 300 MiB for a while
//     (`c_peak`), so 400 MiB at the peak.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn fastest_chunk_ns(chunks: u32) -> f64 {
    let mut fastest = Duration::MAX;
    for _ in 0..chunks {
        let start = Instant::now();
        for _ in 0..50_000 {
            drop(black_box(Vec::<u8>::with_capacity(64)));
        }
        fastest = fastest.min(start.elapsed());
    }
    fastest.as_nanos() as f64 / 50_000.0
}

fn pairs(threads: u32, chunks: u32) {
    let threads: Vec<_> = (0..threads)
        .map(|_| std::thread::spawn(move || fastest_chunk_ns(chunks)))
        .collect();
    let count = threads.len() as f64;
    let ns: f64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("ns={}", ns / count);
}

fn rate(seconds: u64) {
    let start = Instant::now();
    for ms in 1..=seconds * 1000 {
        for _ in 0..250 {
            drop(black_box(Vec::<u8>::with_capacity(4000)));
        }
        std::thread::sleep(Duration::from_millis(ms).saturating_sub(start.elapsed()));
    }
    // The first number is the time on a CPU in ns (proc(5)).
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    println!("cpu_ns={}", schedstat.split(' ').next().unwrap());
}

fn log(rounds: u32) {
    let text: String = (0..50_000)
        .map(|line| format!("10:{:02} {} request {line} took {} ms\n", line % 60, ["INFO", "WARN", "DEBUG"][line % 3], line % 977))
        .collect();
    let mut counts: HashMap<String, u64> = HashMap::new();
    for _ in 0..rounds {
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            *counts.entry(words[1].to_owned()).or_default() += 1;
        }
    }
    black_box(counts);
}

fn blocks(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| vec![1; bytes]).collect()
}

#[inline(never)]
fn a_leaks() {
    std::mem::forget(black_box(blocks(1600, 64 << 10)));
}

#[inline(never)]
fn b_temporary() {
    for _ in 0..1 << 20 {
        drop(black_box(Vec::<u8>::with_capacity(1 << 10)));
    }
}

#[inline(never)]
fn c_peak() {
    let peak = blocks(76_800, 4 << 10);
    std::thread::sleep(Duration::from_millis(300));
    drop(black_box(peak));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words[at].parse().unwrap();
    match &*words[0] {
        "pairs" => pairs(number(1), number(2)),
        "rate" => rate(u64::from(number(1))),
        "log" => log(number(1)),
        "leaks" => {
            a_leaks();
            b_temporary();
            c_peak();
            std::thread::sleep(Duration::from_millis(200));
        }
        word => panic!("{word}"),
    }
}
