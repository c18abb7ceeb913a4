// Line numbers matter: the tests name them.
use std::hint::black_box;

struct Bag<T>(T);

impl<T: Copy + Into<u64>> Bag<T> {
    #[inline(always)]
    fn weigh(&self, by: u64) -> u64 {
        black_box(by).wrapping_mul(self.0.into()) // line 9
    }
}

#[inline(never)]
fn outer(by: u64) -> u64 {
    let bag = Bag(3u32);
    bag.weigh(by) // line 16
}

fn main() {
    black_box(outer(black_box(7)));
}
