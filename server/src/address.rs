//! The UI's encoding of its view in addresses.

/// Version of the address format: the first one that encodes threads in this way (2021). Newer UIs upgrade it; a UI
/// refuses a version above its own.
pub(super) const VERSION: u32 = 6;

/// Encodes an index as the UI's `uintarray-encoding`: digits of 5 bits, the highest first; all but the last have a
/// sixth bit set.
pub(super) fn encode_index(index: usize) -> String {
    const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._";
    let mut digits = vec![DIGITS[index % 32]];
    let mut rest = index / 32;
    while rest > 0 {
        digits.push(DIGITS[32 + rest % 32]);
        rest /= 32;
    }
    digits.iter().rev().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_the_ui_reads_them() {
        // The comment above the UI's encoder has [0] -> "0" and [31, 167, 32, 33, ...] -> "vB7x0...".
        for (index, expected) in [
            (0, "0"),
            (9, "9"),
            (10, "a"),
            (31, "v"),
            (167, "B7"),
            (32, "x0"),
            (1024, "xw0"),
        ] {
            assert_eq!(encode_index(index), expected, "{index}");
        }
    }
}
