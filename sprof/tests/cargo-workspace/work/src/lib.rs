//! Work of known amounts.

use std::hint::black_box;

/// ```
/// assert_ne!(work::rounds(work::SOME), 0);
/// ```
#[inline(never)]
pub fn rounds(count: u64) -> u64 {
    let mut sum = 0;
    for i in 0..count {
        sum ^= mixed(black_box(i));
    }
    sum
}

/// Enough for some tens of samples without optimisation.
pub const SOME: u64 = 1_000_000;

#[inline(always)]
#[rustfmt::skip]
fn mixed(mut value: u64) -> u64 {
    let mut left = 16;
    while left > 0 { value = (value ^ (value >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15); left -= 1; } // MIXED_LINE
    value
}

#[cfg(test)]
mod tests {
    #[test]
    fn rounds_of_a_test_with_a_rather_long_name() {
        assert_ne!(super::rounds(8 * super::SOME), 1);
    }

    #[test]
    fn rounds_of_another_test_with_a_long_name() {
        assert_ne!(super::rounds(2 * super::SOME), 1);
    }
}
