//! The memory of one program, as the program has filled it.
//!
//! Nothing in it is trusted: the program can write anything at any time, and can be of another user. It is read, not
//! mapped, as that of the heap.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_get_seals};
use spans::format::{
    COUNTER, LOST, MAGIC, MONOTONIC, MOST_SLOTS, MOST_SWITCHES, OFF, PID, READER, READER_SEEN, RING_WORDS, RINGS_AT,
    Record, SLOT_ENDED, SLOT_HEAD, SLOT_LOST, SLOT_STATE, SLOT_TAIL, SLOT_TID, SLOT_WORDS, SLOTS_AT, SLOTS_TAKEN,
    STATE, SWITCHES, SWITCHES_AT, SiteText, TEXT_BYTES, TEXTS_AT, VERSION,
};

/// Control words that are read.
const CONTROL_WORDS: usize = 16;
const RING_BYTES: u64 = 8 * RING_WORDS as u64;
/// Memory of rings is freed in parts of this length.
const CHUNK_WORDS: u64 = 32 << 10;
/// Longest text of a place in the program.
const MOST_TEXT: usize = 10 + 9 * 255;
/// Bytes of names that are kept. A program has room for fewer, but may write others in their place.
const MOST_NAME_BYTES: usize = 4 << 20;
/// Another sprof that has read within this time still reads.
const OTHER_READER_NS: u64 = 2_000_000_000;
/// How often the program is told that sprof reads.
const SEEN_NS: u64 = 1_000_000_000;
/// What is read of one program in one round, at most. Programs write less, but for those that mean harm.
pub(super) const MOST_WORDS_IN_ROUND: u64 = 64 << 20;
/// No count of a program grows by more.
const MOST_LOST: u64 = 1 << 40;

/// The shared memory of one program.
#[derive(Debug)]
pub(super) struct SpanMemory {
    file: File,
    /// Device and inode.
    pub(super) id: (u64, u64),
    /// The process, as it knows itself.
    pub(super) inner_pid: u64,
    /// When the program made it, or when it was read last: ns.
    pub(super) made_ns: u64,
    /// True if its times are counts of the processor's counter.
    pub(super) has_counter: bool,
    slots: Vec<SlotReading>,
    name_bytes: usize,
    sites: HashMap<u32, SiteNames>,
    lost_elsewhere: u64,
    /// Pauses and resumptions that were read.
    switches: u64,
    reader: u64,
    seen_ns: u64,
    /// How full the fullest ring was at the last reading, 0 to 1.
    pub(super) fill: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct SlotReading {
    tail: u64,
    /// The tail that the program knows. It may write behind the tail, up to this one.
    known_tail: u64,
    lost: u64,
}

/// The name of a span, and those of its fields.
#[derive(Debug, Default)]
pub(super) struct SiteNames {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
}

impl SiteNames {
    /// About what they take.
    fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| key.len() + size_of::<String>());
        self.name.len() + size_of::<SiteNames>() + keys.sum::<usize>()
    }
}

/// What was not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpanLoss {
    /// The program had no room.
    pub(super) no_room: u64,
    /// Records that made no sense, each with what followed it in its ring.
    pub(super) malformed: u64,
}

/// Room for what is read from rings; reused.
#[derive(Debug, Default)]
pub(super) struct SpanCopy {
    bytes: Vec<u8>,
    words: Vec<u64>,
}

impl SpanMemory {
    /// The memory behind a descriptor. Its spans are read from here on; if the program has begun to record by itself,
    /// from there on. `state`: how the program is to record.
    ///
    /// # Errors
    ///
    /// It is not what the crate makes, or another sprof reads it. `WouldBlock`: the program has not finished making it.
    pub(super) fn begin(descriptor: OwnedFd, reader: u64, state: u64, now_ns: u64) -> io::Result<SpanMemory> {
        // Only a memfd has seals. To read from other files may take any time.
        if !fcntl_get_seals(&descriptor)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(io::Error::other("its size is not sealed"));
        }
        let file = File::from(descriptor);
        let metadata = file.metadata()?;
        let rings = metadata
            .len()
            .checked_sub(RINGS_AT as u64)
            .filter(|rings| rings % RING_BYTES == 0);
        let slots = rings
            .map(|rings| rings / RING_BYTES)
            .filter(|slots| *slots <= MOST_SLOTS as u64);
        let slots = slots.ok_or_else(|| io::Error::other("its size is another one"))?;
        let mut memory = SpanMemory {
            file,
            id: (metadata.dev(), metadata.ino()),
            inner_pid: 0,
            made_ns: 0,
            has_counter: false,
            slots: vec![SlotReading::default(); slots as usize],
            name_bytes: 0,
            sites: HashMap::new(),
            lost_elsewhere: 0,
            switches: 0,
            reader,
            seen_ns: now_ns,
            fill: 0.0,
        };
        let control = memory.control()?;
        if control[VERSION] == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if control[VERSION] != MAGIC {
            return Err(io::Error::other("it has another version"));
        }
        (memory.inner_pid, memory.made_ns) = (control[PID], control[READER_SEEN]);
        // One that was killed just now reads no more.
        let is_alive = fs::exists(format!("/proc/{}", control[READER] >> 32)).unwrap_or_default();
        let is_read = is_alive && now_ns.abs_diff(control[READER_SEEN]) < OTHER_READER_NS;
        if control[STATE] != OFF && is_read {
            return Err(io::Error::other("another sprof records them"));
        }
        let has_begun = control[READER] == 0 && [COUNTER, MONOTONIC].contains(&control[STATE]);
        if !has_begun {
            memory.lost_elsewhere = control[LOST];
            // A program sets the state after it has sent its memory. What is in slots that were never used when the
            // state was read has come since then, and is to be read.
            let taken = usize::try_from(control[SLOTS_TAKEN]).unwrap_or(usize::MAX);
            for index in 0..memory.slots.len().min(taken) {
                let [state, head, _, lost] = memory.slot(index)?;
                memory.slots[index].lost = lost;
                memory.set_tail(index, head, head)?;
                memory.end_slot(index, state)?;
            }
            memory.set(STATE, state)?;
        }
        memory.has_counter = if has_begun { control[STATE] } else { state } == COUNTER;
        memory.set(READER_SEEN, now_ns)?;
        memory.set(READER, reader)?;
        Ok(memory)
    }

    /// Ends the recording of the program. [`SpanMemory::read`] and [`SpanMemory::forget`] follow.
    pub(super) fn end(&self) {
        // If that fails, so does the next reading.
        let _ = self.set(STATE, OFF);
    }

    /// Lets go of a program that goes on, with the memory of its rings.
    pub(super) fn forget(&self) {
        let _ = self.set(READER, 0);
        let _ = self.free(0, self.slots.len() as u64 * RING_BYTES);
    }

    /// Takes all records, each with its names and its thread, as the process knows it. `most_words`: what is read of
    /// rings at most; [`MOST_WORDS_IN_ROUND`] unless it is the last time.
    ///
    /// # Errors
    ///
    /// The memory can't be read, or another sprof reads it.
    pub(super) fn read(
        &mut self,
        now_ns: u64,
        most_words: u64,
        copy: &mut SpanCopy,
        take: &mut dyn FnMut(&Record<'_>, &SiteNames, u32),
    ) -> io::Result<SpanLoss> {
        let control = self.control()?;
        if control[READER] != self.reader {
            return Err(io::Error::other("another sprof records them"));
        }
        if now_ns.saturating_sub(self.seen_ns) >= SEEN_NS {
            self.seen_ns = now_ns;
            self.set(READER_SEEN, now_ns)?;
        }
        let mut loss = SpanLoss {
            no_room: grown(&mut self.lost_elsewhere, control[LOST]),
            malformed: 0,
        };
        self.fill = 0.0;
        let taken = self
            .slots
            .len()
            .min(usize::try_from(control[SLOTS_TAKEN]).unwrap_or(usize::MAX));
        let mut table = vec![0; 8 * SLOT_WORDS * taken];
        self.file.read_exact_at(&mut table, SLOTS_AT as u64)?;
        // Records are older than the head that was read before.
        fence(Ordering::Acquire);
        let mut words_left = most_words;
        for (index, slot) in table.chunks_exact(8 * SLOT_WORDS).enumerate() {
            let [state, head, tid, lost] = slot_words(slot);
            loss.no_room += grown(&mut self.slots[index].lost, lost);
            let unread = head.wrapping_sub(self.slots[index].tail);
            if unread > RING_WORDS as u64 {
                loss.malformed += 1;
            } else if unread > words_left {
                break;
            } else if unread > 0 {
                words_left -= unread;
                self.fill = self.fill.max(unread as f64 / RING_WORDS as f64);
                self.copy_ring(index, unread as usize, copy)?;
                let tid = u32::try_from(tid).unwrap_or_default();
                loss.malformed +=
                    u64::from(!self.walk(index, head, &copy.words, &mut |record, names| take(record, names, tid)));
            }
            if unread > 0 || state == SLOT_ENDED {
                let is_slow = unread < CHUNK_WORDS / 4 && state != SLOT_ENDED;
                let known_tail = if is_slow { self.free_chunks(index, head) } else { head };
                self.set_tail(index, head, known_tail)?;
            }
            self.end_slot(index, state)?;
        }
        Ok(loss)
    }

    /// Takes the pauses and resumptions since the last call, each with its time. Returns how many were overwritten
    /// before.
    pub(super) fn take_switches(&mut self, take: &mut dyn FnMut(u64, bool)) -> io::Result<u64> {
        let count = self.control()?[SWITCHES];
        let new = count.wrapping_sub(std::mem::replace(&mut self.switches, count));
        if new == 0 {
            return Ok(0);
        }
        let mut bytes = vec![0; 8 * MOST_SWITCHES];
        self.file.read_exact_at(&mut bytes, SWITCHES_AT as u64)?;
        let (words, _) = bytes.as_chunks();
        let kept = new.min(MOST_SWITCHES as u64);
        for number in (0..kept).rev() {
            let word = u64::from_ne_bytes(words[count.wrapping_sub(1 + number) as usize % MOST_SWITCHES]);
            take(word >> 1, word & 1 != 0);
        }
        Ok(new - kept)
    }

    /// Gives the memory back that was read, so that a thread with few spans does not fill its whole ring with them.
    /// Returns the tail that the program may know: it never writes into a chunk that is still to be freed.
    fn free_chunks(&self, index: usize, head: u64) -> u64 {
        let known = self.slots[index].known_tail;
        let first = known.div_ceil(CHUNK_WORDS);
        let end = head / CHUNK_WORDS;
        for chunk in first..end {
            let at = chunk * CHUNK_WORDS % RING_WORDS as u64;
            let _ = self.free(index as u64 * RING_BYTES + 8 * at, 8 * CHUNK_WORDS);
        }
        known.max(end * CHUNK_WORDS)
    }

    /// Frees the memory of a part of the rings.
    fn free(&self, offset: u64, bytes: u64) -> rustix::io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, RINGS_AT as u64 + offset, bytes)
    }

    /// Takes the records in these words of a ring. False if one made no sense: the rest is left out.
    fn walk(&mut self, index: usize, head: u64, words: &[u64], take: &mut dyn FnMut(&Record<'_>, &SiteNames)) -> bool {
        let tail = self.slots[index].tail;
        let mut at = tail;
        while at != head {
            let rest = words.get(at.wrapping_sub(tail) as usize..).unwrap_or_default();
            let Some(record) = Record::parse(rest, at) else {
                return false;
            };
            at = at.wrapping_add(record.words.len() as u64);
            if self.name_bytes > MOST_NAME_BYTES {
                self.sites.clear();
                self.name_bytes = 0;
            }
            let names = self.sites.entry(record.site).or_insert_with(|| {
                let names = names(&self.file, record.site).unwrap_or_default();
                self.name_bytes += names.bytes();
                names
            });
            take(&record, names);
        }
        true
    }

    fn copy_ring(&self, index: usize, words: usize, copy: &mut SpanCopy) -> io::Result<()> {
        copy.bytes.resize(8 * words, 0);
        let first = self.slots[index].tail as usize % RING_WORDS;
        let (head, rest) = copy.bytes.split_at_mut(8 * words.min(RING_WORDS - first));
        let ring = RINGS_AT as u64 + index as u64 * RING_BYTES;
        self.file.read_exact_at(head, ring + 8 * first as u64)?;
        self.file.read_exact_at(rest, ring)?;
        copy.words.clear();
        copy.words
            .extend(copy.bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)));
        Ok(())
    }

    fn control(&self) -> io::Result<[u64; CONTROL_WORDS]> {
        let mut bytes = [0; 8 * CONTROL_WORDS];
        self.file.read_exact_at(&mut bytes, 0)?;
        let mut words = [0; CONTROL_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(words)
    }

    /// State, head, thread and losses.
    fn slot(&self, index: usize) -> io::Result<[u64; 4]> {
        let mut bytes = [0; 8 * SLOT_WORDS];
        self.file.read_exact_at(&mut bytes, 8 * slot_word(index, 0) as u64)?;
        Ok(slot_words(&bytes))
    }

    fn set_tail(&mut self, index: usize, tail: u64, known_tail: u64) -> io::Result<()> {
        (self.slots[index].tail, self.slots[index].known_tail) = (tail, known_tail);
        self.set(slot_word(index, SLOT_TAIL), known_tail)
    }

    /// Another thread may have the slot, if its thread has ended.
    fn end_slot(&self, index: usize, state: u64) -> io::Result<()> {
        match state {
            SLOT_ENDED => self.set(slot_word(index, SLOT_STATE), 0),
            _ => Ok(()),
        }
    }

    fn set(&self, word: usize, value: u64) -> io::Result<()> {
        self.file.write_all_at(&value.to_ne_bytes(), 8 * word as u64)
    }
}

/// Index of a word of a slot in the memory.
fn slot_word(index: usize, word: usize) -> usize {
    SLOTS_AT / 8 + index * SLOT_WORDS + word
}

fn slot_words(bytes: &[u8]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks();
    [SLOT_STATE, SLOT_HEAD, SLOT_TID, SLOT_LOST]
        .map(|word| words.get(word).map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}

/// By how much a count of the program has grown.
fn grown(known: &mut u64, now: u64) -> u64 {
    now.saturating_sub(std::mem::replace(known, now)).min(MOST_LOST)
}

fn names(file: &File, site: u32) -> Option<SiteNames> {
    let offset = 8 * site as usize;
    let mut bytes = vec![0; MOST_TEXT.min(TEXT_BYTES.checked_sub(offset)?)];
    file.read_exact_at(&mut bytes, (TEXTS_AT + offset) as u64).ok()?;
    let mut parts = { SiteText::parse(&bytes)?.parts() }.map(|part| String::from_utf8_lossy(part).into_owned());
    let name = parts.next()?;
    let keys = parts.collect();
    Some(SiteNames { name, keys })
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    use spans::format::{SLOT_USED, SLOTS, SPAN, head_word, switch_word};

    use super::*;

    const READER: u64 = 7;
    const NOW: u64 = 1 << 40;

    /// A program with two rings, each used by the thread of its index.
    struct Program {
        file: File,
        heads: [u64; 2],
    }

    impl Program {
        fn new() -> (Program, OwnedFd) {
            let memory = memfd_create(spans::format::NAME, MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&memory, RINGS_AT as u64 + 2 * RING_BYTES).unwrap();
            fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).unwrap();
            let file = File::from(memory.try_clone().unwrap());
            let program = Program { file, heads: [0; 2] };
            for (word, value) in [
                (VERSION, MAGIC),
                (STATE, MONOTONIC),
                (SLOTS, 2),
                (SLOTS_TAKEN, 2),
                (PID, 5),
            ] {
                program.set(word, value);
            }
            for index in 0..2 {
                program.set(slot_word(index, SLOT_STATE), SLOT_USED);
                program.set(slot_word(index, SLOT_TID), index as u64);
            }
            let text = [&[1, 4, 3][..], b"namekey"].concat();
            program.file.write_all_at(&text, TEXTS_AT as u64 + 8).unwrap();
            (program, memory)
        }

        fn set(&self, word: usize, value: u64) {
            self.file.write_all_at(&value.to_ne_bytes(), 8 * word as u64).unwrap();
        }

        fn word(&self, word: usize) -> u64 {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, 8 * word as u64).unwrap();
            u64::from_ne_bytes(bytes)
        }

        /// Writes a record of this kind with these words.
        fn write(&mut self, index: usize, kind: u64, words: &[u64]) {
            let head = self.heads[index];
            let first = head_word(head, 1, kind, 1 + words.len());
            for (at, word) in (head..).zip([&[first], words].concat()) {
                self.set(RINGS_AT / 8 + index * RING_WORDS + at as usize % RING_WORDS, word);
            }
            self.heads[index] += 1 + words.len() as u64;
            self.set(slot_word(index, SLOT_HEAD), self.heads[index]);
        }

        fn move_to(&mut self, index: usize, head: u64) {
            self.heads[index] = head;
            self.set(slot_word(index, SLOT_HEAD), head);
        }
    }

    /// The end, thread and name of each span.
    fn read(memory: &mut SpanMemory) -> (Vec<(u64, u32, String)>, SpanLoss) {
        let mut seen = Vec::new();
        let loss = memory.read(NOW, u64::MAX, &mut SpanCopy::default(), &mut |record, names, tid| {
            seen.push((record.time(), tid, names.name.clone()));
        });
        (seen, loss.unwrap())
    }

    #[test]
    fn records_come_once_also_over_the_end_of_a_ring() {
        let (mut program, memory) = Program::new();
        program.write(0, SPAN, &[20, 10]);
        program.write(1, SPAN, &[30, 10]);
        let mut memory = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap();
        // It had begun by itself.
        assert!(!memory.has_counter && memory.inner_pid == 5);
        let name = || "name".to_owned();
        assert_eq!(read(&mut memory).0, [(20, 0, name()), (30, 1, name())]);
        assert_eq!(read(&mut memory).0, []);
        // Up to the end of the ring, and with a record over it.
        let near = RING_WORDS as u64 - 2;
        memory.slots[0].tail = near;
        program.move_to(0, near);
        program.write(0, SPAN, &[40, 10]);
        assert_eq!(read(&mut memory).0, [(40, 0, name())]);
        program.write(0, SPAN, &[50, 10]);
        program.set(slot_word(0, SLOT_STATE), SLOT_ENDED);
        program.set(slot_word(0, SLOT_LOST), 3);
        let (seen, loss) = read(&mut memory);
        assert_eq!(seen, [(50, 0, name())]);
        assert_eq!(
            loss,
            SpanLoss {
                no_room: 3,
                malformed: 0
            }
        );
        assert_eq!(program.word(slot_word(0, SLOT_TAIL)), program.heads[0]);
        assert_eq!(program.word(slot_word(0, SLOT_STATE)), 0);
        memory.end();
        memory.forget();
        assert_eq!([STATE, spans::format::READER].map(|word| program.word(word)), [OFF, 0]);
    }

    #[test]
    fn a_thread_with_few_spans_takes_little_memory() {
        let (mut program, memory) = Program::new();
        let mut memory = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap();
        // Of a round: a hundredth of the ring.
        for round in 0..300 {
            let head = program.heads[0] + RING_WORDS as u64 / 100;
            let words = vec![1; 8 * RING_WORDS / 100];
            let at = program.heads[0] as usize % RING_WORDS;
            let until_end = words.len().min(8 * (RING_WORDS - at));
            for (part, at) in [(&words[..until_end], at), (&words[until_end..], 0)] {
                program.file.write_all_at(part, (RINGS_AT + 8 * at) as u64).unwrap();
            }
            program.move_to(0, head);
            assert_eq!(read(&mut memory).1.malformed, 1);
            let bytes = 512 * program.file.metadata().unwrap().blocks();
            assert!(bytes < 1 << 20, "round {round}: {bytes}");
        }
    }

    /// The thread is slow for a while, then fills its ring while sprof is in the middle of a round.
    #[test]
    fn what_a_thread_writes_while_its_ring_is_read_is_not_freed() {
        let (mut program, memory) = Program::new();
        let mut memory = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap();
        let near = CHUNK_WORDS - 3;
        memory.slots[0].tail = near;
        memory.slots[0].known_tail = near;
        program.set(slot_word(0, SLOT_TAIL), near);
        program.move_to(0, near);
        program.write(0, SPAN, &[20, 10]);
        program.write(0, SPAN, &[30, 10]);
        let first = program.heads[0];
        let loss = memory.read(NOW, u64::MAX, &mut SpanCopy::default(), &mut |record, _, _| {
            if record.time() == 20 {
                // As far as the tail allows that the program knows.
                let until = program.word(slot_word(0, SLOT_TAIL)) + RING_WORDS as u64 - 109;
                let mut words = Vec::new();
                for at in (first..=until).step_by(3) {
                    words.extend([head_word(at, 1, SPAN, 3), at, at]);
                }
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let (before, behind) = bytes.split_at(8 * (RING_WORDS - first as usize));
                program.file.write_all_at(before, RINGS_AT as u64 + 8 * first).unwrap();
                program.file.write_all_at(behind, RINGS_AT as u64).unwrap();
                program.heads[0] = first + words.len() as u64;
            }
        });
        assert_eq!(loss.unwrap(), SpanLoss::default());
        program.move_to(0, program.heads[0]);
        let (seen, loss) = read(&mut memory);
        assert_eq!(
            (seen.len() as u64, loss),
            ((program.heads[0] - first) / 3, SpanLoss::default())
        );
    }

    /// 16 words each, which a program writes as names over and over.
    #[test]
    fn names_that_a_program_rewrites_take_little_memory() {
        let (mut program, memory) = Program::new();
        let mut memory = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap();
        // At each of these places a text with the longest name and keys: not of text, which takes three times as much.
        let text: Vec<u8> = (0..TEXT_BYTES).map(|at| if at % 8 == 0 { 8 } else { 255 }).collect();
        program.file.write_all_at(&text, TEXTS_AT as u64).unwrap();
        for site in 1..5000 {
            let head = program.heads[0];
            program.move_to(0, head + 3);
            let words = [head_word(head, site, SPAN, 3), 20, 10].map(u64::to_ne_bytes).concat();
            let at = RINGS_AT as u64 + 8 * (head % RING_WORDS as u64);
            program.file.write_all_at(&words, at).unwrap();
        }
        assert_eq!(read(&mut memory).0.len(), 4999);
        let bytes: usize = memory.sites.values().map(SiteNames::bytes).sum();
        assert!(bytes > 1 << 20 && bytes < 2 * MOST_NAME_BYTES, "{bytes}");
    }

    #[test]
    fn what_another_recording_left_is_not_read_and_another_reader_is_left_alone() {
        let (mut program, memory) = Program::new();
        let other = memory.try_clone().unwrap();
        program.write(0, SPAN, &[20, 10]);
        program.set(READER_SEEN, NOW - OTHER_READER_NS / 2);
        program.set(spans::format::READER, u64::from(std::process::id()) << 32 | 1);
        let error = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap_err();
        assert_eq!(error.to_string(), "another sprof records them");
        // It was killed.
        program.set(spans::format::READER, u64::MAX);
        let mut memory = SpanMemory::begin(other, READER, COUNTER, NOW).unwrap();
        assert!(memory.has_counter && program.word(STATE) == COUNTER);
        assert_eq!(read(&mut memory).0, []);
        program.set(spans::format::READER, READER + 1);
        let none = memory.read(NOW, u64::MAX, &mut SpanCopy::default(), &mut |_, _, _| {
            panic!("a record")
        });
        assert!(none.is_err());
    }

    /// A program sends its memory, then sets the state, and may have spans before sprof has looked at all of it.
    #[test]
    fn what_a_program_writes_while_its_memory_is_taken_is_read() {
        let (mut program, memory) = Program::new();
        program.set(STATE, OFF);
        program.set(SLOTS_TAKEN, 0);
        program.write(0, SPAN, &[20, 10]);
        let mut memory = SpanMemory::begin(memory, READER, MONOTONIC, NOW).unwrap();
        program.set(SLOTS_TAKEN, 1);
        assert_eq!(read(&mut memory).0, [(20, 0, "name".to_owned())]);
    }

    #[test]
    fn memory_that_a_program_still_makes_is_no_other_version() {
        let (program, memory) = Program::new();
        program.set(VERSION, 0);
        let error = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_is_no_memory_of_spans_is_refused() {
        let (program, memory) = Program::new();
        program.set(VERSION, MAGIC + 1);
        assert!(SpanMemory::begin(memory, READER, COUNTER, NOW).is_err());
        let plain = tempfile::tempfile().unwrap();
        assert!(SpanMemory::begin(plain.into(), READER, COUNTER, NOW).is_err());
        for bytes in [
            0,
            100,
            RINGS_AT as u64 + 8,
            RINGS_AT as u64 + (MOST_SLOTS as u64 + 1) * RING_BYTES,
        ] {
            let memory = memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&memory, bytes).unwrap();
            fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).unwrap();
            assert!(SpanMemory::begin(memory, READER, COUNTER, NOW).is_err(), "{bytes}");
        }
    }

    #[test]
    fn switches_come_once_and_those_that_were_overwritten_are_counted() {
        let (program, memory) = Program::new();
        let mut memory = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap();
        let mut take = |count: u64| {
            let place = |number: u64| SWITCHES_AT / 8 + number as usize % MOST_SWITCHES;
            (count.saturating_sub(2)..count)
                .for_each(|number| program.set(place(number), switch_word(number, number % 2 == 0)));
            program.set(SWITCHES, count);
            let mut switches = Vec::new();
            let lost = memory.take_switches(&mut |time, on| switches.push((time, on))).unwrap();
            (switches, lost)
        };
        assert_eq!(take(0), (vec![], 0));
        assert_eq!(take(2), (vec![(0, true), (1, false)], 0));
        assert_eq!(take(3), (vec![(2, true)], 0));
        let (switches, lost) = take(10_000);
        assert_eq!((switches.len(), lost), (MOST_SWITCHES, 9997 - MOST_SWITCHES as u64));
        assert_eq!(switches.last(), Some(&(9999, false)));
        // A program may write anything.
        assert_eq!(take(5).0.len(), MOST_SWITCHES);
    }

    #[test]
    fn whatever_a_program_writes_is_read_to_an_end_and_counted() {
        let mut state = 88_172_645_463_325_252u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut malformed, mut taken) = (0, 0);
        for _ in 0..300 {
            let (mut program, memory) = Program::new();
            let mut memory = SpanMemory::begin(memory, READER, COUNTER, NOW).unwrap();
            for _ in 0..4 {
                for _ in 0..random() % 20 {
                    let words: Vec<u64> = (0..random() % 12).map(|_| random() >> (random() % 64)).collect();
                    program.write((random() % 2) as usize, random() % 7, &words);
                }
                let wild = random() >> (random() % 64);
                match random() % 6 {
                    0 => program.move_to(0, wild),
                    1 => program.set(SLOTS_TAKEN, wild),
                    2 => program.set(slot_word(1, (wild % SLOT_WORDS as u64) as usize), random()),
                    3 => program.set(TEXTS_AT / 8 + 1, random()),
                    4 => program.set(LOST, wild),
                    _ => {}
                }
                let read = memory.read(NOW, u64::MAX, &mut SpanCopy::default(), &mut |record, names, _| {
                    taken += 1;
                    assert!(record.values().count() <= 8 && names.keys.len() <= 8);
                });
                malformed += read.unwrap().malformed;
                assert!(memory.fill <= 1.0);
            }
        }
        assert!(malformed > 100 && taken > 100, "{malformed}, {taken}");
    }
}
