//! 60 % of the CPU time in `sixty`, 30 % in `thirty`, 10 % in `ten`, by two named threads.
//! usage: split_rs ROUNDS
use std::hint::black_box;

const UNIT: u64 = 20_000;

#[inline(always)]
fn xorshift(seed: u64, rounds: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x = black_box(x);
    }
    x
}

#[inline(never)]
fn sixty() -> u64 {
    xorshift(black_box(0x60), 6 * UNIT)
}

#[inline(never)]
fn thirty() -> u64 {
    xorshift(black_box(0x30), 3 * UNIT)
}

#[inline(never)]
fn ten() -> u64 {
    xorshift(black_box(0x10), UNIT)
}

#[inline(never)]
fn run_split(rounds: u64) -> u64 {
    (0..rounds).fold(0, |sum, _| sum ^ sixty() ^ thirty() ^ ten())
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1000);
    let threads: Vec<_> = ["left", "right"]
        .map(|name| {
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || black_box(run_split(rounds)))
                .expect("spawn")
        })
        .into_iter()
        .collect();
    for thread in threads {
        thread.join().expect("join");
    }
}
