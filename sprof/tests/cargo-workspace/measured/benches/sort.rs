use std::hint::black_box;
use std::time::Duration;

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion};

fn sorting(c: &mut Criterion) {
    let mut group = c.benchmark_group("sorting");
    for count in [500, 5000] {
        group.bench_with_input(BenchmarkId::new("numbers", count), &count, |bencher, &count| {
            bencher.iter(|| sorted(black_box(count)))
        });
    }
    group.finish();
    c.bench_function("only adding", |bencher| bencher.iter(|| added(black_box(3000))));
}

#[inline(never)]
fn sorted(count: u64) -> u64 {
    let mut numbers: Vec<u64> = (0..count).map(scattered).collect();
    numbers.sort_unstable();
    numbers[0]
}

#[inline(never)]
fn added(count: u64) -> u64 {
    (0..count).fold(0, |sum, i| sum ^ scattered(black_box(i)))
}

#[inline(always)]
#[rustfmt::skip]
fn scattered(mut value: u64) -> u64 {
    let mut left = 16;
    while left > 0 { value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd); left -= 1; } // SCATTERED_LINE
    value
}

fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .sample_size(10)
}

criterion_group!(name = benches; config = quick(); targets = sorting);
criterion_main!(benches);
