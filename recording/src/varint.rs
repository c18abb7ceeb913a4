//! Numbers of variable length (LEB128): 7 bits a byte, the lowest first; all bytes but the last have their highest bit
//! set.

/// Appends a number.
#[inline]
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front. `None` where the bytes end in the middle of one, or it has more than ten of them.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A signed number as one that is small if its amount is.
#[inline]
pub fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The signed number of [`zigzag`].
#[inline]
pub fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(number), &[][..]));
            assert_eq!(take(&mut bytes.split_last().unwrap().1), None);
            let signed = number.cast_signed();
            assert_eq!(unzigzag(zigzag(signed)), signed);
        }
        assert_eq!([zigzag(-1), zigzag(1), zigzag(i64::MIN)], [1, 2, u64::MAX]);
        assert_eq!(take(&mut &[0xff; 11][..]), None);
    }
}
