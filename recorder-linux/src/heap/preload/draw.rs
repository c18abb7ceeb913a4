//! When the next sample is due, and how many bytes a sample stands for.
//!
//! In whole numbers alone: floating-point arithmetic sets flags that the program may read, follows a rounding mode that
//! the program may have set, and ends a program that has asked for a signal where a result is inexact
//! (feenableexcept(3)).

/// The largest countdown: above all sizes that an allocator can give, and far below those that would wrap.
pub(crate) const MOST: u64 = 1 << 62;

/// Bytes up to and with the one that makes its allocation the next sample, where each byte does so with the same
/// chance, `1 / mean`: an exponentially distributed number, rounded up. 0 where the mean is 0: each allocation is a
/// sample.
///
/// `random` is the state of xorshift64* (Vigna, 2016), and never 0.
pub(crate) fn bytes_to_next(random: &mut u64, mean: u64) -> u64 {
    /// The natural logarithm of 2, in units of 2^-64.
    const LN_2: u128 = 0xb172_17f7_d1cf_79ac;
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    if mean == 0 {
        return 0;
    }
    // From 1 to 2^53, each with the same chance.
    let uniform = (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1;
    let halvings = (53 << 32) - log2(uniform);
    // In units of 2^-32.
    let means = (u128::from(halvings) * LN_2) >> 64;
    let bytes = (means * u128::from(mean)) >> 32;
    u64::try_from(bytes + 1).map_or(MOST, |bytes| bytes.min(MOST))
}

/// The binary logarithm of a number that is not 0, in units of 2^-32.
fn log2(number: u64) -> u64 {
    let zeros = number.leading_zeros();
    // From 1 to 2, in units of 2^-63. Where its square is 2 or more, the next bit of the logarithm is 1.
    let mut fraction = number << zeros;
    let mut log = u64::from(63 - zeros);
    for _ in 0..32 {
        let square = (u128::from(fraction) * u128::from(fraction)) >> 63;
        let bit = square >> 64;
        fraction = (square >> bit) as u64;
        log = log << 1 | bit as u64;
    }
    log
}

/// The bytes that a sample of this size stands for: `size / (1 - exp(-size / interval))`, to 1 %.
pub(crate) fn weight(size: u64, interval: u64) -> u64 {
    /// In units of 2^-63.
    const ONE: u64 = 1 << 63;
    // 1 - exp(-40) is 1.
    if size / 40 >= interval {
        return size;
    }
    // The weight is at most interval + size.
    if size <= interval / 256 {
        return interval;
    }
    // In units of 2^-32: from 2^-8 to 40. Shortened to fit: a division of 128 bits is a call.
    let shift = (64 - interval.leading_zeros()).saturating_sub(24);
    let ratio = ((size >> shift) << 32) / (interval >> shift);
    // exp(-x) is (1 - x / 2^16)^(2^16).
    let mut power = ONE - (ratio << 15);
    for _ in 0..16 {
        power = ((u128::from(power) * u128::from(power)) >> 63) as u64;
    }
    // In units of 2^-24.
    let intervals = (ratio << 24) / ((ONE - power) >> 31);
    ((u128::from(interval) * u128::from(intervals)) >> 24) as u64
}
