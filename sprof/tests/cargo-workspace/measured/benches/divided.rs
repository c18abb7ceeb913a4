fn main() {
    divan::main();
}

#[divan::bench(sample_count = 20, sample_size = 20)]
fn many_rounds() -> u64 {
    work::rounds(divan::black_box(25_000))
}

#[divan::bench(args = [1000, 2000], sample_count = 20, sample_size = 20)]
fn rounds_of(count: u64) -> u64 {
    work::rounds(divan::black_box(5 * count))
}
