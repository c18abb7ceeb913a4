//! When the next sample is due, and how many bytes a sample stands for.

/// The largest countdown: above all sizes that an allocator can give, and far below those that would wrap.
pub(crate) const MOST: u64 = 1 << 62;

/// Bytes up to and with the one that makes its allocation the next sample, where each byte does so with the same
/// chance, `1 / mean`: an exponentially distributed number, rounded up. 0 where the mean is 0: each allocation is a
/// sample.
///
/// `random` is the state of xorshift64* (Vigna, 2016), and never 0.
pub(crate) fn bytes_to_next(random: &mut u64, mean: u64) -> u64 {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    if mean == 0 {
        return 0;
    }
    // From 1 to 2^53, each with the same chance.
    let uniform = (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1;
    let bytes = (53.0 * core::f64::consts::LN_2 - ln(uniform as f64)) * mean as f64;
    (bytes as u64).saturating_add(1).min(MOST)
}

/// The natural logarithm of a normal number, to 2^-30: `2^exponent * fraction`, and `2 atanh((f - 1) / (f + 1))` for
/// the fraction `f`, which is between 1/sqrt(2) and sqrt(2).
fn ln(number: f64) -> f64 {
    const EXPONENT_OF_1: u64 = 1023;
    let bits = number.to_bits();
    let mut exponent = (bits >> 52) as f64 - EXPONENT_OF_1 as f64;
    let mut fraction = f64::from_bits(bits & ((1 << 52) - 1) | EXPONENT_OF_1 << 52);
    if fraction > core::f64::consts::SQRT_2 {
        fraction /= 2.0;
        exponent += 1.0;
    }
    let x = (fraction - 1.0) / (fraction + 1.0);
    let q = x * x;
    let series = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q / 11.0))));
    exponent * core::f64::consts::LN_2 + 2.0 * x * series
}

/// The bytes that a sample of this size stands for: `size / (1 - exp(-size / interval))`, to 1 %.
pub(crate) fn weight(size: u64, interval: u64) -> u64 {
    // A program may have asked for a signal at a division by zero (feenableexcept(3)).
    if interval == 0 {
        return size;
    }
    let ratio = size as f64 / interval as f64;
    // 1 - exp(-40) is 1.
    if ratio > 40.0 {
        return size;
    }
    // exp(-x) = exp(-x / 64)^64.
    let x = ratio / 64.0;
    let mut power = 1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0 * (1.0 - x / 5.0))));
    for _ in 0..6 {
        power *= power;
    }
    // Not even one byte of such an interval.
    if power == 1.0 {
        return interval;
    }
    (size as f64 / (1.0 - power)) as u64
}
