// A generic function with two instances, in a module.
use std::hint::black_box;

mod inner {
    #[inline(never)]
    pub fn generic<T: Copy + Into<u64>>(x: T) -> u64 {
        std::hint::black_box(x).into() + 1
    }
}

fn main() {
    black_box(inner::generic(3u32) + inner::generic(black_box(7u64)));
}
