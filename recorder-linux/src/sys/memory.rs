//! Reading the memory of another process.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Reads up to `buffer.len()` bytes at `address` with `process_vm_readv(2)`; returns how many, 0 on any failure.
pub(crate) fn read(pid: i32, address: u64, buffer: &mut [u8]) -> usize {
    let Ok(base) = usize::try_from(address) else {
        return 0;
    };
    let len = buffer.len();
    let local = &mut [IoSliceMut::new(buffer)];
    process_vm_readv(Pid::from_raw(pid), local, &[RemoteIoVec { base, len }]).unwrap_or(0)
}

/// Words that lie closer together than this are read as one piece: the kernel looks for the pages of each.
const GAP: usize = 256;
/// `UIO_MAXIOV` of include/uapi/linux/uio.h is 1024.
const MAX_PIECES: usize = 512;

/// Reads the 8 bytes at each of these ascending addresses with one call. Appends the words to `words`, from the first
/// one up to the first one that can't be read.
pub(crate) fn read_words(pid: i32, addresses: &[u64], words: &mut Vec<u64>) {
    let mut pieces: Vec<RemoteIoVec> = Vec::with_capacity(16);
    // Where each word begins in all of the pieces' bytes.
    let mut places = Vec::with_capacity(addresses.len());
    let mut total = 0;
    for address in addresses {
        let Ok(base) = usize::try_from(*address) else { break };
        let are_full = pieces.len() == MAX_PIECES;
        let reaches = |piece: &RemoteIoVec| piece.base.saturating_add(piece.len + GAP);
        match pieces
            .last_mut()
            .filter(|piece| (piece.base..reaches(piece)).contains(&base))
        {
            Some(piece) => {
                let len = (base - piece.base).saturating_add(8).max(piece.len);
                total += len - piece.len;
                piece.len = len;
                places.push(total - len + (base - piece.base));
            }
            None if are_full => break,
            None => {
                pieces.push(RemoteIoVec { base, len: 8 });
                places.push(total);
                total += 8;
            }
        }
    }
    let mut bytes = vec![0; total];
    let read = process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(&mut bytes)], &pieces).unwrap_or(0);
    bytes.truncate(read);
    let word = |place: &usize| bytes.get(*place..)?.first_chunk().copied().map(u64::from_le_bytes);
    words.extend(places.iter().map_while(word));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_own(addresses: &[u64]) -> Vec<u64> {
        let mut words = Vec::new();
        read_words(std::process::id() as i32, addresses, &mut words);
        words
    }

    #[test]
    fn words_are_read_by_one_call_wherever_they_lie() {
        let numbers: Vec<u64> = (0..4096).collect();
        let at = |index: usize| numbers.as_ptr() as u64 + 8 * index as u64;
        let indexes = [0, 0, 1, 20, 31, 32, 100, 1000, 1001, 1034, 4095];
        let addresses: Vec<u64> = indexes.iter().map(|index| at(*index)).collect();
        assert_eq!(read_own(&addresses), indexes.map(|index| index as u64));
        // Across two words.
        assert_eq!(read_own(&[at(1) + 4, at(2)]), [2 << 32, 2]);
        assert_eq!(read_own(&[]), [0; 0]);
    }

    #[test]
    fn words_end_at_the_first_that_cannot_be_read() {
        let number = 7_u64;
        let address = &raw const number as u64;
        assert_eq!(read_own(&[address, 1 << 63, (1 << 63) + 8]), [7]);
        assert_eq!(read_own(&[16, address]), [0; 0]);
        assert_eq!(read_own(&[address, u64::MAX - 3]), [7]);
    }
}
