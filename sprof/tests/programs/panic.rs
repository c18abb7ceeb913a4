//! Works a little, then panics: exit status 101.
fn main() {
    let sum: u64 = (0..50_000_000u64).fold(0, |sum, i| std::hint::black_box(sum ^ i));
    assert!(sum == 1, "the test program panics on purpose");
}
