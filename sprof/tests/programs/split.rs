//! 60 % of the CPU time in `sixty`, 30 % in `thirty`, 10 % in `ten`, by two named threads. The length of
//! their loops varies by chance, so that no sampling rate can be in step with them.
//! usage: split_rs ROUNDS
use std::hint::black_box;

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
fn sixty(unit: u64) -> u64 {
    xorshift(black_box(0x60), 6 * unit)
}

#[inline(never)]
fn thirty(unit: u64) -> u64 {
    xorshift(black_box(0x30), 3 * unit)
}

#[inline(never)]
fn ten(unit: u64) -> u64 {
    xorshift(black_box(0x10), unit)
}

#[inline(never)]
fn run_split(rounds: u64) -> u64 {
    let mut chance: u64 = 88_172_645_463_325_252;
    let mut sum = 0;
    for _ in 0..rounds {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = 4000 + (chance >> 32) % 32_000;
        sum ^= sixty(unit) ^ thirty(unit) ^ ten(unit);
    }
    sum
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
