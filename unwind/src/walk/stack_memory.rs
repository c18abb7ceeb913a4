//! The bytes of one thread's stack: those in the sample first, the target's memory as it is now for the rest.

use rustc_hash::FxHashMap;

use crate::arch::Unreadable;
use crate::walk::copied_stack::{CopiedStack, StackWord};
use crate::walk::reading::MemoryReading;
#[cfg(test)]
use crate::walk::step_counts;
use recording::clock::Timestamp;
use recording::event::Pid;
use recording::sink::TargetMemory;

/// The smallest live reading, and an alignment that no mapping's end cuts.
const PAGE: usize = 4096;
/// The largest. A system call costs as much as copying a few pages, so readings that follow each other grow.
const MAX_BLOCK: usize = 64 << 10;
/// Live bytes read for one sample, at most. Stacks are 8 MiB by default.
const MAX_BYTES: usize = 16 << 20;
/// Callers that need more words than this are read in blocks: the words of a deep recursion lie close together.
const MAX_WORDS: usize = 128;
/// Live bytes that are kept for the next sample: 24 KiB each of 170 threads.
const KEPT_BYTES: usize = 4 << 20;

/// Target memory that was read after the samples of the present round were taken. A thread has several samples in a
/// round, and one reading serves them all: with 12 of them, `process_vm_readv` took 38 % of the recorder's CPU when
/// each had its own. It is read in blocks of pages, and word by word where a thread's callers are known.
///
/// Bytes serve a sample only if they were read after it: so two readings that agree are one from before the sample and
/// one from after it.
#[derive(Default)]
pub(crate) struct LiveBlocks {
    blocks: Vec<LiveBlock>,
    /// Which block has a page, by process and page number.
    pages: FxHashMap<(Pid, u64), usize>,
    /// The block that was used last.
    last: Option<usize>,
    bytes: Vec<u8>,
    /// Words that were read by themselves, by process and address.
    words: FxHashMap<(Pid, u64), u64>,
    /// What is read of them, kept from reading to reading: addresses, and what is there.
    wanted: (Vec<u64>, Vec<u64>),
    /// How many of `bytes` are in use, and how many were when the present sample's walk began.
    used: usize,
    used_before: usize,
    /// When the first reading began, and when the last one ended.
    times: Option<(Timestamp, Timestamp)>,
    /// The size of a reading that follows no other.
    first_size: usize,
    /// Generation; changes when blocks are dropped.
    contents: u64,
}

/// A piece of target memory: `bytes[at..at + len]`, of `size` that were asked for.
#[derive(Clone, Copy)]
struct LiveBlock {
    pid: Pid,
    address: u64,
    at: usize,
    len: usize,
    size: usize,
}

impl LiveBlocks {
    /// Forgets what can't serve a sample of this time. `expected`: how many live bytes the thread's last stack took.
    pub(crate) fn begin(&mut self, sampled: Timestamp, expected: u64) {
        let is_old = self.times.is_some_and(|(first, _)| first <= sampled);
        if is_old || self.is_full() {
            self.clear();
        }
        if self.bytes.len() > KEPT_BYTES && self.used == 0 {
            self.bytes.truncate(KEPT_BYTES);
            self.bytes.shrink_to(KEPT_BYTES);
        }
        self.last = None;
        self.used_before = self.used;
        let expected = usize::try_from(expected).unwrap_or(MAX_BLOCK).min(MAX_BLOCK);
        self.first_size = expected.next_multiple_of(PAGE).max(PAGE);
    }

    /// There is as much as is kept. A target without memory has blocks of no bytes.
    fn is_full(&self) -> bool {
        self.used > KEPT_BYTES || self.blocks.len() > KEPT_BYTES / PAGE || self.words.len() > KEPT_BYTES / 64
    }

    fn clear(&mut self) {
        self.contents += 1;
        self.blocks.clear();
        self.pages.clear();
        self.words.clear();
        self.times = None;
        self.used = 0;
    }

    /// Generation: equal if nothing was dropped in between.
    pub(crate) fn contents(&self) -> u64 {
        self.contents
    }

    /// When what there is was read.
    pub(crate) fn reading(&self) -> Option<MemoryReading> {
        self.times.map(|(begun, ended)| MemoryReading { begun, ended })
    }

    /// The bytes from an address to the end of its block; none if it can't be read.
    fn from(&mut self, memory: &mut dyn TargetMemory, pid: Pid, address: u64) -> &[u8] {
        let holds = |block: &LiveBlock| {
            block.pid == pid
                && address
                    .checked_sub(block.address)
                    .is_some_and(|into| into < block.size as u64)
        };
        // Unwinding goes rootwards: the block that was used last is nearly always the one.
        let last = self.last.and_then(|last| self.blocks.get(last)).copied();
        let block = match last.filter(holds) {
            Some(block) => block,
            None => {
                let page = address / PAGE as u64;
                let at = match self.pages.get(&(pid, page)) {
                    Some(at) => *at,
                    None => self.read(memory, pid, page * PAGE as u64, last),
                };
                self.last = Some(at);
                let Some(block) = self.blocks.get(at) else { return &[] };
                *block
            }
        };
        let into = (address - block.address) as usize;
        self.bytes
            .get(block.at + into..block.at + block.len)
            .unwrap_or_default()
    }

    /// The 8 bytes at an address; none if they can't be read. `callers`: what led to the callers of the thread's
    /// earlier stacks. If they are few, the first request reads all of them: rustc's callers need 9 words of 24 KiB,
    /// and reading the 24 KiB took 16 % of the recorder's CPU.
    pub(crate) fn word(
        &mut self,
        memory: &mut dyn TargetMemory,
        pid: Pid,
        address: u64,
        callers: &[StackWord],
    ) -> Option<u64> {
        let page = (pid, address / PAGE as u64);
        if let Some(word) = self.words.get(&(pid, address)) {
            return Some(*word);
        }
        let are_few = callers.len() <= MAX_WORDS;
        if are_few && callers.iter().any(|(at, _)| *at == address) && !self.pages.contains_key(&page) {
            #[cfg(test)]
            step_counts::count(step_counts::StepCount::ReadingsOfCallers, 1);
            self.read_words(memory, pid, callers);
            if let Some(word) = self.words.get(&(pid, address)) {
                return Some(*word);
            }
        }
        if let Some(bytes) = self.from(memory, pid, address).first_chunk() {
            return Some(u64::from_le_bytes(*bytes));
        }
        let mut bytes = [0; 8];
        self.copy(memory, pid, address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Reads words, but for those that are known, or whose pages are: a word that is read twice may differ.
    fn read_words(&mut self, memory: &mut dyn TargetMemory, pid: Pid, callers: &[StackWord]) {
        let (mut addresses, mut words) = std::mem::take(&mut self.wanted);
        addresses.clear();
        words.clear();
        let all = { callers.iter() }.map(|(address, _)| *address);
        addresses.extend(
            all.filter(|address| !self.words.contains_key(&(pid, *address)))
                .filter(|address| !self.pages.contains_key(&(pid, address / PAGE as u64))),
        );
        addresses.sort_unstable();
        let begun = memory.now();
        memory.read_words(pid, &addresses, &mut words);
        self.has_read(begun, memory.now());
        let keys = addresses.iter().map(|address| (pid, *address));
        self.words.extend(keys.zip(words.iter().copied()));
        self.wanted = (addresses, words);
    }

    fn has_read(&mut self, begun: Timestamp, ended: Timestamp) {
        self.times = Some((self.times.map_or(begun, |(first, _)| first), ended));
    }

    fn copy(&mut self, memory: &mut dyn TargetMemory, pid: Pid, address: u64, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let bytes = self.from(memory, pid, address.checked_add(done as u64)?);
            let count = bytes.len().min(out.len() - done);
            if count == 0 {
                return None;
            }
            out[done..done + count].copy_from_slice(&bytes[..count]);
            done += count;
        }
        Some(())
    }

    /// Reads a block, and returns its index; one that no block has where the sample has read enough.
    fn read(&mut self, memory: &mut dyn TargetMemory, pid: Pid, address: u64, last: Option<LiveBlock>) -> usize {
        let follows = last.filter(|last| last.address.checked_add(last.size as u64) == Some(address));
        let wanted = follows.map_or(self.first_size, |last| (last.size * 2).min(MAX_BLOCK));
        // A page is read once: two readings of it may differ, and a walk would see now the one and now the other.
        let first = address / PAGE as u64;
        let is_known = |page: &usize| self.pages.contains_key(&(pid, first + *page as u64));
        let wanted = (1..wanted / PAGE).find(is_known).map_or(wanted, |pages| pages * PAGE);
        if self.used - self.used_before + wanted > MAX_BYTES {
            return usize::MAX;
        }
        let at = self.used;
        if self.bytes.len() < at + wanted {
            self.bytes.resize(at + wanted, 0);
        }
        let begun = memory.now();
        let len = memory.read(pid, address, &mut self.bytes[at..at + wanted]).min(wanted);
        self.has_read(begun, memory.now());
        // The page where a reading ended is remembered: reading it again would fail. What lies beyond may be another
        // stack.
        let size = ((len / PAGE + 1) * PAGE).min(wanted);
        self.used += len.next_multiple_of(8);
        let block = LiveBlock {
            pid,
            address,
            at,
            len,
            size,
        };
        let index = self.blocks.len();
        let pages = first..first + (size / PAGE) as u64;
        self.pages.extend(pages.map(|page| ((pid, page), index)));
        self.blocks.push(block);
        index
    }
}

/// The stack of one sample.
pub(crate) struct StackMemory<'a> {
    pub(crate) pid: Pid,
    /// What the sample has of it.
    pub(crate) copy: CopiedStack<'a>,
    pub(crate) memory: &'a mut dyn TargetMemory,
    pub(crate) live: &'a mut LiveBlocks,
    /// As in [`LiveBlocks::word`].
    pub(crate) callers: &'a [StackWord],
    /// No frame has data below its stack pointer: what lies there has been overwritten since.
    pub(crate) floor: u64,
    /// From here on live words are those that the thread's last walk has read.
    pub(crate) unchanged_from: u64,
    /// True once bytes were used that were read after the sample.
    pub(crate) used_live: bool,
    /// The page of the first of them, and how many bytes there are from there to the end of the highest.
    pub(crate) live_start: Option<u64>,
    pub(crate) live_bytes: u64,
}

impl StackMemory<'_> {
    /// The 8 bytes at an address.
    pub(crate) fn read(&mut self, address: u64) -> Result<u64, Unreadable> {
        if let Some(word) = self.copy.word(address) {
            return Ok(word);
        }
        if address < self.floor {
            return Err(Unreadable(address));
        }
        self.read_live(address).ok_or(Unreadable(address))
    }

    fn read_live(&mut self, address: u64) -> Option<u64> {
        let word = self.live.word(self.memory, self.pid, address, self.callers)?;
        self.has_used_live(address);
        Some(word)
    }

    fn has_used_live(&mut self, address: u64) {
        self.used_live = true;
        let start = *self.live_start.get_or_insert(address - address % PAGE as u64);
        self.live_bytes = self.live_bytes.max(address.saturating_add(8).saturating_sub(start));
    }

    /// True if the 8 bytes at an address still have the value that the thread's last walk read there.
    pub(crate) fn still_holds(&mut self, address: u64, word: u64) -> bool {
        if address >= self.unchanged_from && address >= self.floor {
            #[cfg(test)]
            step_counts::count(step_counts::StepCount::UnchangedWords, 1);
            self.has_used_live(address);
            return true;
        }
        self.read(address) == Ok(word)
    }

    /// Copies target memory, without calling it part of the stack.
    pub(crate) fn copy_live(&mut self, address: u64, out: &mut [u8]) -> Option<()> {
        self.live.copy(self.memory, self.pid, address, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory whose words are counted up with each reading, up to an address that can't be read.
    struct Changing {
        readings: u64,
        end: u64,
    }

    impl TargetMemory for Changing {
        fn read(&mut self, _pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
            self.readings += 1;
            let len = buffer.len().min(self.end.saturating_sub(address) as usize);
            for word in buffer[..len].chunks_exact_mut(8) {
                word.copy_from_slice(&self.readings.to_le_bytes());
            }
            len
        }

        fn read_words(&mut self, _pid: Pid, addresses: &[u64], words: &mut Vec<u64>) {
            self.readings += 1;
            let readable = addresses.iter().take_while(|address| **address < self.end);
            words.extend(readable.map(|_| self.readings));
        }

        fn now(&self) -> Timestamp {
            Timestamp(100 + self.readings)
        }
    }

    fn word(live: &mut LiveBlocks, memory: &mut Changing, address: u64) -> Option<u64> {
        let bytes = live.from(memory, Pid(1), address).first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    #[test]
    fn a_reading_serves_the_samples_before_it_and_no_other() {
        let (mut live, mut memory) = (
            LiveBlocks::default(),
            Changing {
                readings: 0,
                end: u64::MAX,
            },
        );
        live.begin(Timestamp(10), 0);
        assert_eq!(word(&mut live, &mut memory, 0x8000), Some(1));
        live.begin(Timestamp(99), 0);
        assert_eq!(word(&mut live, &mut memory, 0x8008), Some(1));
        assert_eq!(live.reading().map(|reading| reading.ended), Some(Timestamp(101)));
        live.begin(Timestamp(100), 0);
        assert_eq!(word(&mut live, &mut memory, 0x8008), Some(2));
    }

    #[test]
    fn a_page_is_read_once_a_round() {
        let (mut live, mut memory) = (
            LiveBlocks::default(),
            Changing {
                readings: 0,
                end: u64::MAX,
            },
        );
        live.begin(Timestamp(10), 0);
        assert_eq!(word(&mut live, &mut memory, 0xa000), Some(1));
        // As much as the last stack took, but for what is there.
        live.begin(Timestamp(11), 64 << 10);
        assert_eq!(word(&mut live, &mut memory, 0x8000), Some(2));
        assert_eq!(word(&mut live, &mut memory, 0x9ff8), Some(2));
        assert_eq!(word(&mut live, &mut memory, 0xa000), Some(1));
        assert_eq!(memory.readings, 2);
    }

    #[test]
    fn words_that_the_last_walk_read_from_the_same_memory_are_not_read_again() {
        let (mut live, mut memory) = (
            LiveBlocks::default(),
            Changing {
                readings: 0,
                end: u64::MAX,
            },
        );
        live.begin(Timestamp(10), 0);
        let first = live.contents();
        let mut stack = StackMemory {
            pid: Pid(1),
            copy: CopiedStack::new(0x7ff0, &[7; 16], None),
            memory: &mut memory,
            live: &mut live,
            callers: &[],
            floor: 0x7ff0,
            unchanged_from: 0x8010,
            used_live: false,
            live_start: None,
            live_bytes: 0,
        };
        assert!(stack.still_holds(0x7ff8, u64::from_le_bytes([7; 8])));
        assert!(!stack.used_live);
        assert!(stack.still_holds(0x8010, 99), "the walk's own word");
        assert_eq!(
            (stack.used_live, stack.live_bytes, stack.memory.now()),
            (true, 0x18, Timestamp(100)),
            "nothing was read"
        );
        assert!(stack.still_holds(0x8008, 1));
        assert!(!stack.still_holds(0x8000, 2));
        assert_eq!(stack.memory.now(), Timestamp(101), "read once");
        // Younger than what was read: other contents.
        live.begin(Timestamp(200), 0);
        assert_ne!(live.contents(), first);
    }

    #[test]
    fn words_of_known_callers_are_read_together_and_once() {
        let (mut live, mut memory) = (
            LiveBlocks::default(),
            Changing {
                readings: 0,
                end: 0x20000,
            },
        );
        let callers = [0x30000, 0x12348, 0x12340, 0x8010].map(|address| (address, 99));
        live.begin(Timestamp(10), 0);
        assert_eq!(
            live.word(&mut memory, Pid(1), 0x8008, &callers),
            Some(1),
            "not of these"
        );
        let known = [0x12348, 0x12340, 0x8010].map(|address| live.word(&mut memory, Pid(1), address, &callers));
        assert_eq!(
            known,
            [Some(2), Some(2), Some(1)],
            "one is in a page that was read before"
        );
        // Of the page, other words are read later, and these stay what they were.
        assert_eq!(live.word(&mut memory, Pid(1), 0x12350, &callers), Some(3));
        assert_eq!(live.word(&mut memory, Pid(1), 0x12348, &[]), Some(2));
        assert_eq!(live.word(&mut memory, Pid(2), 0x12348, &[]), Some(4), "another process");
        // It was not read with the others, and neither are they again with it.
        assert_eq!(live.word(&mut memory, Pid(1), 0x30000, &callers), None);
        assert_eq!(live.word(&mut memory, Pid(1), 0x12348, &callers), Some(2));
        let many: Vec<StackWord> = (0..=MAX_WORDS as u64).map(|at| (0x14000 + at * 8, 99)).collect();
        let before = memory.readings;
        let first = live.word(&mut memory, Pid(1), 0x14000, &many);
        assert_eq!(first, Some(before + 1));
        assert_eq!(live.word(&mut memory, Pid(1), 0x14a00, &[]), first, "the whole page");
        let last = memory.readings;
        assert_eq!(
            live.reading().map(|reading| (reading.begun.0, reading.ended.0)),
            Some((100, 100 + last))
        );
        live.begin(Timestamp(200), 0);
        assert_eq!(live.word(&mut memory, Pid(1), 0x12348, &callers), Some(last + 1));
    }

    #[test]
    fn what_lies_beyond_a_page_that_cannot_be_read_is_read_by_itself() {
        let (mut live, mut memory) = (
            LiveBlocks::default(),
            Changing {
                readings: 0,
                end: 0x9000,
            },
        );
        live.begin(Timestamp(10), 64 << 10);
        assert_eq!(word(&mut live, &mut memory, 0x8000), Some(1));
        assert_eq!(word(&mut live, &mut memory, 0x9000), None);
        memory.end = u64::MAX;
        assert_eq!(word(&mut live, &mut memory, 0xa000), Some(2));
    }
}
