//! `spin ROUNDS STATUS`

use std::hint::black_box;

fn main() {
    let number = |at| std::env::args().nth(at).map_or(0, |text| text.parse().unwrap());
    println!("{}", spin(number(1)));
    // What sprof has set is not for programs to see.
    for (name, value) in std::env::vars() {
        if name.contains("_RUNNER") || name.starts_with("CARGO_PROFILE_") || name == "MADE_BY_RUNNER" {
            println!("{name}={value}");
        }
    }
    std::process::exit(number(2) as i32);
}

#[inline(never)]
fn spin(count: u64) -> u64 {
    (0..count).fold(0, |sum, i| sum ^ step(black_box(i)))
}

#[inline(always)]
#[rustfmt::skip]
fn step(mut value: u64) -> u64 {
    let mut left = 16;
    while left > 0 { value = (value ^ (value >> 9)).wrapping_mul(0xff51_afd7_ed55_8ccd); left -= 1; } // STEP_LINE
    value
}
