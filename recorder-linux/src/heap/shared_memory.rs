//! The memory that a program shares with the recorder, as the program has filled it.
//!
//! Nothing in it is trusted: the program can write anything at any time, and can be of another user. It is read, not
//! mapped: so no change of its size ends the recorder (SIGBUS), and no `unsafe` is needed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{Ordering, fence};

use recording::heap::MAX_HEAP_INTERVAL;
use rustix::fs::{SealFlags, fcntl_get_seals};

use super::wire::{
    ALIGNMENT, ALLOCATION, FILLER, FREE, HEAD_BYTES, Header, MAGIC, MAX_STACK_BYTES, REGISTERS, RING_OFFSET,
    RecordHead, RingState, memory_bytes,
};

/// Bytes of the registers in the record of an allocation.
pub(super) const REGISTER_BYTES: usize = 8 * REGISTERS;
/// A record that is not whole after this time never will be: its thread was killed, or a signal handler jumped out.
const STUCK_NS: u64 = 200_000_000;
/// The program goes on while its memory is read, so records may be later than the time from before. None is by so much.
const MOST_AHEAD_NS: u64 = 1_000_000_000;
/// User space ends below: no block is larger.
const MAX_BLOCK: u64 = 1 << 47;
/// No count of a program is larger, so that sums of counts have room.
const MAX_COUNT: u64 = 1 << 40;
const INTERVAL_AT: u64 = std::mem::offset_of!(Header, interval) as u64;
const STACK_BYTES_AT: u64 = std::mem::offset_of!(Header, stack_bytes) as u64;
const RING_AT: usize = std::mem::offset_of!(Header, ring);

/// The shared memory of one program.
#[derive(Debug)]
pub(super) struct SharedMemory {
    file: File,
    /// Device and inode.
    pub(super) id: (u64, u64),
    ring_bytes: u64,
    ring: RingReader,
    /// As of the last reading.
    pub(super) counts: ProgramCounts,
    /// Records that made no sense or never became whole.
    pub(super) malformed: u64,
    /// How full the ring was at the last reading, 0 to 1.
    pub(super) fill: f64,
    /// A record was not whole at the last reading: others may come from before.
    pub(super) is_stuck: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct RingReader {
    tail: u64,
    /// Since when the record at the tail is not whole.
    stuck_since: Option<u64>,
}

/// Counts of the program's library. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramCounts {
    pub(super) lost_blocks: u64,
    pub(super) lost_bytes: u64,
    pub(super) lost_frees: u64,
    pub(super) untracked: u64,
}

/// Room for what is read from the ring; reused.
#[derive(Debug, Default)]
pub(super) struct RingCopy {
    commits: Vec<u8>,
    records: Vec<u8>,
}

impl SharedMemory {
    /// The memory behind a descriptor that a program sent.
    ///
    /// # Errors
    ///
    /// It is not what the library makes.
    pub(super) fn new(descriptor: OwnedFd, ring_bytes: u64) -> io::Result<SharedMemory> {
        // Only a memfd has seals. To read from other files may take any time.
        if !fcntl_get_seals(&descriptor)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(io::Error::other("its size is not sealed"));
        }
        let file = File::from(descriptor);
        let metadata = file.metadata()?;
        if metadata.len() != memory_bytes(ring_bytes) {
            return Err(io::Error::other("its size is another one"));
        }
        Ok(SharedMemory {
            file,
            id: (metadata.dev(), metadata.ino()),
            ring_bytes,
            ring: RingReader::default(),
            counts: ProgramCounts::default(),
            malformed: 0,
            fill: 0.0,
            is_stuck: false,
        })
    }

    /// From now on samples are drawn with this interval.
    pub(super) fn set_interval(&self, interval: u64) {
        // If that fails, so does the next reading.
        let _ = self.file.write_all_at(&interval.to_ne_bytes(), INTERVAL_AT);
    }

    /// From now on samples have this much of the stack.
    pub(super) fn set_stack_bytes(&self, bytes: u64) {
        let _ = self.file.write_all_at(&bytes.to_ne_bytes(), STACK_BYTES_AT);
    }

    /// Takes all whole records: their heads, and the bytes behind. `now_ns` is a time before. `is_last`: the program
    /// has ended, so no record becomes whole any more.
    ///
    /// # Errors
    ///
    /// The memory can't be read, or has positions that no library writes.
    pub(super) fn read(
        &mut self,
        now_ns: u64,
        is_last: bool,
        copy: &mut RingCopy,
        take: &mut dyn FnMut(RecordHead, &[u8]),
    ) -> io::Result<()> {
        let mut header = [0; size_of::<Header>()];
        self.file.read_exact_at(&mut header, 0)?;
        if word(&header, 0) != Some(MAGIC) {
            return Err(io::Error::other("it has no header"));
        }
        let field = |offset: usize| word(&header, RING_AT + offset).unwrap_or_default();
        let count = |offset: usize| field(offset).min(MAX_COUNT);
        self.counts = ProgramCounts {
            lost_blocks: count(std::mem::offset_of!(RingState, lost_samples)),
            lost_bytes: field(std::mem::offset_of!(RingState, lost_bytes)).min(MAX_COUNT << 16),
            lost_frees: count(std::mem::offset_of!(RingState, lost_frees)),
            untracked: count(std::mem::offset_of!(RingState, untracked)),
        };
        let ring = &mut self.ring;
        let bytes = field(std::mem::offset_of!(RingState, head)).wrapping_sub(ring.tail);
        if bytes > self.ring_bytes || bytes % ALIGNMENT != 0 {
            return Err(io::Error::other("positions in it make no sense"));
        }
        self.fill = bytes as f64 / self.ring_bytes as f64;
        // The kernel may read words in any order. A record whose first word is there before the second reading is
        // whole in the second.
        for copied in [&mut copy.commits, &mut copy.records] {
            copied.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
            let first = ring.tail % self.ring_bytes;
            let until_end = copied.len().min((self.ring_bytes - first) as usize);
            let (head, rest) = copied.split_at_mut(until_end);
            self.file.read_exact_at(head, RING_OFFSET + first)?;
            self.file.read_exact_at(rest, RING_OFFSET)?;
            fence(Ordering::Acquire);
        }
        let (end, malformed) = ring.walk(copy, self.ring_bytes, now_ns, is_last, take);
        self.malformed += malformed;
        self.is_stuck = end < bytes;
        ring.tail += end;
        let tail_at = (RING_AT + std::mem::offset_of!(RingState, tail)) as u64;
        self.file.write_all_at(&ring.tail.to_ne_bytes(), tail_at)
    }
}

impl RingReader {
    /// Takes the whole records of a copy that begins at the tail. Returns the number of bytes that are done with, and
    /// how many records made no sense.
    fn walk(
        &mut self,
        copy: &RingCopy,
        ring_bytes: u64,
        now_ns: u64,
        is_last: bool,
        take: &mut dyn FnMut(RecordHead, &[u8]),
    ) -> (u64, u64) {
        let (mut at, mut malformed) = (0, 0);
        let bytes = copy.records.len() as u64;
        let record = |at: u64| whole_record(copy, at, self.tail, ring_bytes);
        let mut stuck_since = self.stuck_since;
        while at < bytes {
            if let Some((head, body)) = record(at) {
                match check(head, body.len() as u64, now_ns) {
                    Some(head) if head.kind == FILLER => {}
                    Some(head) => take(head, body),
                    None => malformed += 1,
                }
                at += HEAD_BYTES + body.len() as u64;
                stuck_since = None;
                continue;
            }
            let since = *stuck_since.get_or_insert(now_ns);
            if !is_last && now_ns.saturating_sub(since) < STUCK_NS {
                break;
            }
            let next = (at + ALIGNMENT..bytes)
                .step_by(ALIGNMENT as usize)
                .find(|at| record(*at).is_some());
            match next {
                Some(next) => at = next,
                // What comes later may be whole.
                None if !is_last && bytes < ring_bytes / 2 => break,
                None => at = bytes,
            }
            malformed += 1;
            stuck_since = None;
        }
        self.stuck_since = stuck_since;
        (at, malformed)
    }
}

/// The head of the record at a place of the copy, and the bytes behind it. `None` if it is not whole.
fn whole_record(copy: &RingCopy, at: u64, tail: u64, ring_bytes: u64) -> Option<(RecordHead, &[u8])> {
    let place = usize::try_from(at).ok()?;
    let position = tail.checked_add(at)?;
    if word(&copy.commits, place) != Some(!position) {
        return None;
    }
    let rest = copy.records.get(place..)?;
    let mut words = [0; 7];
    for (index, place) in words.iter_mut().enumerate() {
        *place = word(rest, 8 * (index + 1))?;
    }
    let head = RecordHead::from_words(words);
    let bytes = u64::from(head.bytes);
    let fits = bytes >= HEAD_BYTES && bytes % ALIGNMENT == 0 && position % ring_bytes + bytes <= ring_bytes;
    let body = rest.get(HEAD_BYTES as usize..usize::try_from(bytes).ok()?)?;
    fits.then_some((head, body))
}

/// The head, if its fields are possible.
fn check(head: RecordHead, body_bytes: u64, now_ns: u64) -> Option<RecordHead> {
    let is_number = |id: u32| i32::try_from(id).is_ok_and(|id| id > 0);
    let is_event = head.time_ns <= now_ns.saturating_add(MOST_AHEAD_NS) && is_number(head.pid) && is_number(head.tid);
    let is_possible = match head.kind {
        ALLOCATION => {
            is_event
                && head.size <= MAX_BLOCK
                && head.interval <= MAX_HEAP_INTERVAL
                && head.stack_bytes <= MAX_STACK_BYTES
                && head.stack_bytes.saturating_add(REGISTER_BYTES as u64) <= body_bytes
        }
        FREE => is_event,
        kind => kind == FILLER,
    };
    is_possible.then_some(head)
}

/// A word in the byte order of the machine.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    pub(in crate::heap) const RING: u64 = 16 << 10;

    /// A program's memory, to be written.
    pub(in crate::heap) struct Program {
        pub(in crate::heap) file: File,
        ring_bytes: u64,
        head: u64,
    }

    impl Program {
        fn new() -> (Program, OwnedFd) {
            Program::with_ring(RING)
        }

        pub(in crate::heap) fn with_ring(ring_bytes: u64) -> (Program, OwnedFd) {
            let memory = memfd_create("heap", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&memory, memory_bytes(ring_bytes)).unwrap();
            fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).unwrap();
            let file = File::from(memory.try_clone().unwrap());
            file.write_all_at(&MAGIC.to_ne_bytes(), 0).unwrap();
            let program = Program {
                file,
                ring_bytes,
                head: 0,
            };
            (program, memory)
        }

        pub(in crate::heap) fn word(&self, at: u64, value: u64) {
            self.file.write_all_at(&value.to_ne_bytes(), at).unwrap();
        }

        pub(in crate::heap) fn head_at() -> u64 {
            RING_AT as u64
        }

        /// Writes a record; without its first word if it is not whole.
        pub(in crate::heap) fn record(&mut self, head: RecordHead, body: &[u8], is_whole: bool) {
            let (place, ring) = (RING_OFFSET, self.ring_bytes);
            let mut position = self.head;
            let left = ring - position % ring;
            if left < u64::from(head.bytes) {
                let filler = RecordHead {
                    bytes: left as u32,
                    kind: FILLER,
                    ..RecordHead::default()
                };
                self.write(place + position % ring, position, filler, true);
                position += left;
            }
            self.write(place + position % ring, position, head, is_whole);
            self.file
                .write_all_at(body, place + position % ring + HEAD_BYTES)
                .unwrap();
            self.head = position + u64::from(head.bytes);
            self.word(Program::head_at(), self.head);
        }

        fn write(&self, at: u64, position: u64, head: RecordHead, is_whole: bool) {
            for (index, word) in (1..).zip(head.to_words()) {
                self.word(at + 8 * index, word);
            }
            self.word(at, if is_whole { !position } else { 1 });
        }
    }

    pub(in crate::heap) fn allocation(tid: u32, time_ns: u64, address: u64, stack_bytes: u64) -> RecordHead {
        RecordHead {
            bytes: ((HEAD_BYTES + REGISTER_BYTES as u64 + stack_bytes).next_multiple_of(ALIGNMENT)) as u32,
            kind: ALLOCATION,
            flags: 0,
            pid: 7,
            tid,
            time_ns,
            address,
            size: 100,
            interval: 1000,
            stack_bytes,
        }
    }

    pub(in crate::heap) fn free(tid: u32, time_ns: u64, address: u64) -> RecordHead {
        RecordHead {
            bytes: HEAD_BYTES as u32,
            kind: FREE,
            pid: 7,
            tid,
            time_ns,
            address,
            ..RecordHead::default()
        }
    }

    fn read(memory: &mut SharedMemory, now_ns: u64, is_last: bool) -> io::Result<Vec<(u64, usize)>> {
        let mut taken = Vec::new();
        let mut copy = RingCopy::default();
        memory.read(now_ns, is_last, &mut copy, &mut |head, body| {
            taken.push((head.time_ns, body.len()));
        })?;
        Ok(taken)
    }

    #[test]
    fn records_are_read_once_and_around_the_end_of_the_ring() {
        let (mut program, memory) = Program::new();
        let mut memory = SharedMemory::new(memory, RING).unwrap();
        let mut time_ns = 0;
        for _ in 0..40 {
            for stack in [1000, 8, 0] {
                time_ns += 1;
                program.record(allocation(5, time_ns, 16, stack), &[], true);
            }
            program.record(free(5, time_ns, 16), &[], true);
            let taken = read(&mut memory, time_ns, false).unwrap();
            let times: Vec<u64> = taken.iter().map(|(time, _)| *time).collect();
            assert_eq!(times, [time_ns - 2, time_ns - 1, time_ns, time_ns]);
            assert_eq!(taken[3].1, 0);
            assert_eq!(read(&mut memory, time_ns, false).unwrap(), []);
        }
        assert_eq!(memory.malformed, 0);
        let mut tail = [0; 8];
        let tail_at = Program::head_at() + 8;
        program.file.read_exact_at(&mut tail, tail_at).unwrap();
        assert_eq!(u64::from_ne_bytes(tail), program.head);
    }

    #[test]
    fn a_record_that_never_becomes_whole_is_skipped_after_a_while() {
        let (mut program, memory) = Program::new();
        let mut memory = SharedMemory::new(memory, RING).unwrap();
        program.record(allocation(4, 1, 16, 0), &[], true);
        program.record(allocation(4, 2, 32, 640), &[], false);
        program.record(allocation(4, 3, 48, 0), &[], true);
        assert_eq!(read(&mut memory, 10, false).unwrap(), [(1, REGISTER_BYTES)]);
        assert!(memory.is_stuck);
        assert_eq!(read(&mut memory, 10 + STUCK_NS / 2, false).unwrap(), []);
        assert_eq!(read(&mut memory, 10 + STUCK_NS, false).unwrap(), [(3, REGISTER_BYTES)]);
        assert_eq!((memory.malformed, memory.is_stuck), (1, false));
        program.record(allocation(4, 4, 64, 0), &[], false);
        assert_eq!(read(&mut memory, 11 + STUCK_NS, true).unwrap(), []);
        assert_eq!((memory.malformed, memory.is_stuck), (2, false));
    }

    #[test]
    fn impossible_records_are_counted_and_impossible_positions_end_the_reading() {
        let (mut program, memory) = Program::new();
        let mut memory = SharedMemory::new(memory, RING).unwrap();
        let good = allocation(4, 5, 16, 64);
        let impossible = [
            RecordHead {
                time_ns: 11 + MOST_AHEAD_NS,
                ..good
            },
            RecordHead { size: u64::MAX, ..good },
            RecordHead {
                interval: u64::MAX,
                ..good
            },
            RecordHead {
                stack_bytes: 1 << 20,
                ..good
            },
            RecordHead {
                stack_bytes: u64::MAX,
                ..good
            },
            RecordHead { kind: 3, ..good },
            RecordHead { pid: 0, ..good },
            RecordHead { pid: u32::MAX, ..good },
        ];
        for head in impossible {
            program.record(head, &[], true);
        }
        program.record(good, &[], true);
        // Written while the memory is read.
        program.record(RecordHead { time_ns: 11, ..good }, &[], true);
        assert_eq!(read(&mut memory, 10, false).unwrap().len(), 2);
        assert_eq!(memory.malformed, impossible.len() as u64);
        for head in [1 << 40, 3, 0] {
            program.word(Program::head_at(), head);
            assert!(read(&mut memory, 10, false).is_err(), "{head}");
        }
    }

    /// As if by a broken program: whatever is there, the reader ends, and takes no more than there is room for.
    #[test]
    fn memory_full_of_nonsense_is_read_in_bounded_time() {
        let mut state = 1_u64;
        for round in 0..200 {
            let (program, memory) = Program::new();
            let mut memory = SharedMemory::new(memory, RING).unwrap();
            let mut bytes = vec![0; (memory_bytes(RING) - RING_OFFSET) as usize];
            for word in bytes.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let small = if round % 2 == 0 { state % 256 } else { state };
                word.copy_from_slice(&small.to_ne_bytes());
            }
            // Every record looks whole.
            for (at, record) in bytes.chunks_exact_mut(64).enumerate() {
                let position = (at * 64) as u64 % RING;
                record[..8].copy_from_slice(&(!position).to_ne_bytes());
            }
            program.file.write_all_at(&bytes, RING_OFFSET).unwrap();
            program.word(Program::head_at(), RING);
            for count in 2..8 {
                program.word(Program::head_at() + 8 * count, u64::MAX);
            }
            let taken = read(&mut memory, u64::MAX, true).unwrap();
            assert!(taken.len() as u64 <= RING / ALIGNMENT);
            assert!(memory.counts.lost_blocks <= MAX_COUNT);
        }
    }

    #[test]
    fn only_sealed_memory_of_the_right_size_is_taken() {
        let (_, memory) = Program::new();
        assert!(SharedMemory::new(memory, 2 * RING).is_err());
        let unsealed = memfd_create("heap", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, memory_bytes(RING)).unwrap();
        assert!(SharedMemory::new(unsealed, RING).is_err());
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(SharedMemory::new(pipe, RING).is_err());
        let file = tempfile::tempfile().unwrap();
        file.set_len(memory_bytes(RING)).unwrap();
        assert!(SharedMemory::new(file.into(), RING).is_err());
    }
}
