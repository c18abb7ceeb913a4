//! Inline frames in Rust, with the names that v0 and legacy mangling must give.
//! usage: inline_rs ROUNDS
use std::hint::black_box;

mod shapes {
    pub trait Area {
        fn area(&self) -> u64;
    }

    pub struct Square<T>(pub T);

    impl Area for Square<u64> {
        #[inline(never)]
        fn area(&self) -> u64 {
            super::inlined_loop(self.0) // AREA_LINE
        }
    }
}

#[inline(always)]
fn inlined_loop(seed: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..20_000 {
        x ^= x << 13; // LOOP_LINE
        x ^= x >> 7;
        x = black_box(x ^ (x << 17));
    }
    x
}

#[inline(never)]
fn generic_call<A: shapes::Area>(area: &A) -> u64 {
    black_box(area.area()) ^ 1
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1000);
    let square = shapes::Square(black_box(3u64));
    let sum = (0..rounds).fold(0, |sum, _| sum ^ generic_call(&square));
    black_box(sum);
}
