use std::hint::black_box;
use std::time::Duration;

use criterion::{criterion_group, criterion_main, Criterion};

fn rounds(c: &mut Criterion) {
    c.bench_function("rounds of work", |bencher| bencher.iter(|| work::rounds(black_box(2000))));
}

criterion_group!(
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300));
    targets = rounds
);
criterion_main!(benches);
