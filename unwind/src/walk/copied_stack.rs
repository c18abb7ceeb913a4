//! The bytes of a stack that came with a sample.

use recording::stack::StackCopy;
use recording::sys::prefetch;

/// A word that a step read: address and value.
pub(crate) type StackWord = (u64, u64);

/// The bytes of a stack that a sample has, from an address on.
#[derive(Clone, Copy)]
pub(crate) struct CopiedStack<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
    /// From the copy of an address in this sample to the copy of the same address in the next one, bytes. 0: no next
    /// sample is known.
    to_next: usize,
}

impl<'a> CopiedStack<'a> {
    /// The bytes of a sample, and those of the next one.
    pub(crate) fn new(start: u64, bytes: &'a [u8], next: Option<StackCopy<'_>>) -> CopiedStack<'a> {
        let address_0 = |copy: StackCopy<'_>| copy.bytes.as_ptr().addr().wrapping_sub(copy.start as usize);
        let own = address_0(StackCopy { start, bytes });
        CopiedStack {
            start,
            bytes,
            to_next: next.map_or(0, |next| address_0(next).wrapping_sub(own)),
        }
    }

    /// Prefetches the same word of the next sample: another CPU has written the word, and a miss costs 0.1 us.
    #[inline(always)]
    fn prefetch_next(&self, word: &[u8; 8]) {
        prefetch(word.as_ptr().addr().wrapping_add(self.to_next));
    }

    /// The 8 bytes at an address.
    #[inline]
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        // Below the start: larger than any length.
        let offset = usize::try_from(address.wrapping_sub(self.start)).ok()?;
        let word = self.bytes.get(offset..)?.first_chunk()?;
        self.prefetch_next(word);
        Some(u64::from_le_bytes(*word))
    }

    /// How many of `words`, counted from the last one, the sample has with unchanged values.
    pub(crate) fn same(&self, words: &[StackWord]) -> usize {
        let mut count = 0;
        for (address, value) in words.iter().rev() {
            // Below the start: larger than any length.
            let Ok(offset) = usize::try_from(address.wrapping_sub(self.start)) else {
                break;
            };
            match self.bytes.get(offset..).and_then(|bytes| bytes.first_chunk()) {
                Some(word) if u64::from_le_bytes(*word) == *value => {
                    self.prefetch_next(word);
                    count += 1;
                }
                _ => break,
            }
        }
        count
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn the_same_address_is_found_in_the_next_sample() {
        let (bytes, next) = ([0; 64], [0; 128]);
        let place = |bytes: &[u8], start: usize, address: usize| bytes[address - start..].as_ptr().addr();
        let next_copy = StackCopy {
            start: 0xfe0,
            bytes: &next,
        };
        let dump = CopiedStack::new(0x1000, &bytes, Some(next_copy));
        for address in [0x1000, 0x1038] {
            let here = place(&bytes, 0x1000, address);
            assert_eq!(here.wrapping_add(dump.to_next), place(&next, 0xfe0, address));
        }
        // Where none is known, it is the word itself.
        assert_eq!(CopiedStack::new(0x1000, &bytes, None).to_next, 0);
    }
}
