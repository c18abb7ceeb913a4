//! Closures, generic functions and inlined functions of `core`, without an operating system.
#![no_std]
#![crate_type = "lib"]

use core::hint::black_box;

pub trait Work {
    fn go(&self) -> u32;
}

impl Work for u32 {
    #[inline(never)]
    fn go(&self) -> u32 {
        black_box(*self).wrapping_mul(3)
    }
}

#[inline(never)]
pub fn generic<T: Work>(work: &T) -> u32 {
    black_box(work.go()).wrapping_add(1)
}

pub struct Table<T>(pub [T; 4]);

impl<T: Copy + Work> Table<T> {
    #[inline(never)]
    pub fn merge(&self) -> u32 {
        self.0.iter().map(|one| black_box(one).go()).fold(0, u32::wrapping_add)
    }
}

/// C calls it.
#[unsafe(no_mangle)]
pub extern "C" fn words_sum(x: u32) -> u32 {
    let table = Table([x, 1, 2, 3]);
    let add = |y: u32| black_box(y).rotate_left(5).min(x);
    table.merge().wrapping_add(generic(&x)).wrapping_add(add(x))
}
