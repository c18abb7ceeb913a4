//! Unwind rules of JIT code: JIT compilers write an `.eh_frame` for each function into jitdump files
//! ([`jitdump`](crate::files::jitdump)).
//!
//! A dump is read while it grows, as far as it is on the disk. Most compilers write through a buffer, so a function's
//! first samples may come before its rules. Then the walk goes on as in code without rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::address::FrameAddress;
use rustc_hash::FxHashMap;

use crate::arch::{Arch, ReadStack, Step};
use crate::files::cfi::{Cfi, CfiSections};
use recording::clock::Timestamp;
use recording::event::Pid;
use recording::sink::KeptFile;

use crate::files::jitdump::{Header, Record, Records};

/// Dumps of all processes that are kept open at most: as many as are kept open for names.
const MAX_DUMPS: usize = 128;
/// Functions with their places in one dump at most.
const MAX_PLACES: usize = 1 << 20;
/// Rules of one function at most. V8's largest have some kilobytes.
const MAX_RULES: u64 = 64 << 10;
/// Records that are read at once at most: a dump may have grown for hours. Each larger record costs a system call.
const RECORDS_AT_ONCE: usize = 20_000;
/// Code is skipped, so a larger window would only copy it.
const WINDOW_BYTES: u64 = 4096;
/// How long after a failed search for an address the dump is read again, in ns.
const LOOK_AGAIN_NS: u64 = 50_000_000;
/// Parsed rules that are kept, some 20 KB each.
const MAX_BUILT: usize = 256;
/// How many functions that start before an address are looked at. A function that was moved leaves its old place
/// behind.
const MAX_BEFORE: usize = 8;

/// The dumps of all processes.
#[derive(Default)]
pub(crate) struct JitRules {
    dumps: Vec<JitDumpFile>,
    of_process: FxHashMap<Pid, Vec<usize>>,
    built: FxHashMap<(usize, u64), Option<Box<Cfi>>>,
}

struct JitDumpFile {
    file: KeptFile,
    has_times: bool,
    read_to: u64,
    is_closed: bool,
    look_again: u64,
    /// Rules of the function whose load record comes next.
    next_rules: Option<RulesRange>,
    /// By its index: the last function with that index.
    by_index: FxHashMap<u64, PlacedFunction>,
    places: BTreeMap<u64, Vec<PlacedFunction>>,
    place_count: usize,
}

/// A function at one of its places.
#[derive(Clone, Copy)]
struct PlacedFunction {
    from_ns: u64,
    size: u64,
    rules: Option<RulesRange>,
}

/// Where in the dump an `.eh_frame` is: its offset and size.
#[derive(Clone, Copy)]
struct RulesRange {
    offset: u64,
    bytes: u64,
}

impl JitRules {
    /// Takes a dump that a process has mapped.
    pub(crate) fn add(&mut self, pid: Pid, file: KeptFile) {
        if self.dumps.len() >= MAX_DUMPS {
            return;
        }
        if let Some(dump) = JitDumpFile::open(file) {
            self.of_process.entry(pid).or_default().push(self.dumps.len());
            self.dumps.push(dump);
        }
    }

    /// Gives a forked process the dumps of its parent: the child has the same code.
    pub(crate) fn fork(&mut self, parent: Pid, pid: Pid) {
        if let Some(dumps) = self.of_process.get(&parent).cloned() {
            self.of_process.insert(pid, dumps);
        }
    }

    /// Forgets the dumps of a process that has ended or executes another program.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.of_process.remove(&pid);
    }

    /// One step from an address in JIT code. `None`: no dump has a rule for the address that can be followed.
    pub(crate) fn step<A: Arch>(
        &mut self,
        pid: Pid,
        time: Timestamp,
        address: FrameAddress,
        regs: &mut A::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let lookup = address.address_for_lookup();
        let (dump, start, placed) = self.find(pid, lookup, time)?;
        let rules = placed.rules?;
        if self.built.len() >= MAX_BUILT && !self.built.contains_key(&(dump, rules.offset)) {
            self.built.clear();
        }
        let file = &self.dumps.get(dump)?.file;
        let built = self.built.entry((dump, rules.offset));
        let cfi = built
            .or_insert_with(|| read_cfi::<A>(file, rules, placed.size))
            .as_deref_mut()?;
        let row = cfi.row(lookup - start)?;
        if A::is_root(&row) {
            return Some(Step::Root);
        }
        match A::step_by_row(cfi, &row, address, &[], regs, read) {
            Step::NoRule | Step::NeedsRegister(_) => None,
            step => Some(step),
        }
    }

    /// The function that holds an address: (dump, first address, its place).
    fn find(&mut self, pid: Pid, address: u64, time: Timestamp) -> Option<(usize, u64, PlacedFunction)> {
        for &index in self.of_process.get(&pid)? {
            let dump = self.dumps.get_mut(index)?;
            let mut found = dump.find(address, time);
            if found.is_none() && dump.may_have_grown(time) {
                dump.look_again = match dump.read() {
                    ReadProgress::Done => time.0.saturating_add(LOOK_AGAIN_NS),
                    ReadProgress::More => 0,
                };
                found = dump.find(address, time);
            }
            if let Some((start, placed)) = found {
                return Some((index, start, placed));
            }
        }
        None
    }
}

/// `perf inject --jit` puts the section behind the code, at a multiple of 8, and so compilers count from there.
fn read_cfi<A: Arch>(file: &KeptFile, rules: RulesRange, code_bytes: u64) -> Option<Box<Cfi>> {
    let mut section = vec![0; usize::try_from(rules.bytes).ok()?];
    file.read_exact_at(&mut section, rules.offset).ok()?;
    let sections = CfiSections {
        eh_frame: Some((code_bytes.checked_next_multiple_of(8)?, Arc::new(section.into()))),
        eh_frame_hdr: None,
        debug_frame: None,
        text_svma: 0,
        got_svma: 0,
    };
    Cfi::new(sections, A::COLUMNS).map(Box::new)
}

/// Whether records are left to read.
enum ReadProgress {
    Done,
    More,
}

impl JitDumpFile {
    fn open(file: KeptFile) -> Option<JitDumpFile> {
        let header = Header::read(&*file).ok()?;
        Some(JitDumpFile {
            file,
            has_times: header.has_times,
            read_to: header.end,
            is_closed: false,
            look_again: 0,
            next_rules: None,
            by_index: FxHashMap::default(),
            places: BTreeMap::new(),
            place_count: 0,
        })
    }

    fn may_have_grown(&self, time: Timestamp) -> bool {
        !self.is_closed && time.0 >= self.look_again && self.read_to < self.file.len()
    }

    /// The function at the address at this time. If all came later, the clocks differ: then the first.
    fn find(&self, address: u64, time: Timestamp) -> Option<(u64, PlacedFunction)> {
        let before = self.places.range(..=address).rev().take(MAX_BEFORE);
        let all = before.flat_map(|(start, placed)| placed.iter().map(move |placed| (*start, *placed)));
        let holding = all.filter(|(start, placed)| address - start < placed.size);
        let key = |placed: &PlacedFunction| match placed.from_ns <= time.0 {
            true => (1, placed.from_ns),
            false => (0, u64::MAX - placed.from_ns),
        };
        holding.max_by_key(|(_, placed)| key(placed))
    }

    /// Reads records that are whole by now.
    fn read(&mut self) -> ReadProgress {
        let file = self.file.clone();
        let mut records = Records::new(&*file, self.read_to, WINDOW_BYTES);
        for _ in 0..RECORDS_AT_ONCE {
            let Some(record) = records.next() else {
                return ReadProgress::Done;
            };
            if record == Record::Close || self.place_count >= MAX_PLACES {
                self.is_closed = true;
                return ReadProgress::Done;
            }
            self.read_to = records.position();
            self.add(record);
        }
        ReadProgress::More
    }

    fn add(&mut self, record: Record) {
        let time = |time_ns| if self.has_times { time_ns } else { 0 };
        match record {
            Record::Rules(at) => {
                let (offset, bytes) = (at.start, at.end - at.start);
                self.next_rules = (1..=MAX_RULES).contains(&bytes).then_some(RulesRange { offset, bytes });
            }
            Record::Load {
                time_ns,
                start,
                index,
                code,
                ..
            } => {
                let placed = PlacedFunction {
                    from_ns: time(time_ns),
                    size: code.end - code.start,
                    rules: self.next_rules.take(),
                };
                self.place(start, placed);
                self.by_index.insert(index, placed);
            }
            Record::Move {
                time_ns, new, index, ..
            } => {
                let from_ns = time(time_ns);
                if let Some(placed) = self.by_index.get(&index).copied() {
                    self.place(new, PlacedFunction { from_ns, ..placed });
                }
            }
            Record::Damaged => self.next_rules = None,
            Record::Lines(_) | Record::Close | Record::Other => {}
        }
    }

    fn place(&mut self, start: u64, placed: PlacedFunction) {
        self.places.entry(start).or_default().push(placed);
        self.place_count += 1;
    }
}

#[cfg(test)]
#[path = "../../tests/suite/common/jitdump.rs"]
#[allow(dead_code, reason = "the symbolicator's tests use the rest")]
mod jitdump;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::arch::x86_64::{X86_64, X86_64Regs};
    use recording::sink::InMemory;

    /// For code of 16 bytes: `push %rbx` at its start, so that from byte 1 on the CFA is rsp + 16.
    const RULES: &[u8] = &[
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, //
        // pc_begin is 16 + 32 bytes before its field.
        20, 0, 0, 0, 28, 0, 0, 0, 0xd0, 0xff, 0xff, 0xff, 16, 0, 0, 0, 0, 0x41, 0x0e, 16, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    const CODE: [u8; 16] = [0x90; 16];

    fn unwinding(time: u64) -> Vec<u8> {
        jitdump::unwinding(time, RULES)
    }

    fn load(time: u64, start: u64, index: u64) -> Vec<u8> {
        jitdump::load(time, start, index, "f", &CODE)
    }

    fn moved(time: u64, to: u64, index: u64) -> Vec<u8> {
        jitdump::moved(time, 0, to, CODE.len() as u64, index)
    }

    fn rules_of(file: &[u8]) -> JitRules {
        let mut rules = JitRules::default();
        rules.add(Pid(7), Arc::new(InMemory(file.to_vec())));
        rules
    }

    /// The caller of code at an address, of a stack whose words are their own addresses.
    fn caller(rules: &mut JitRules, address: u64, time: u64) -> Option<Step> {
        let mut regs = X86_64Regs::new(0x5000, 0);
        let address = FrameAddress::InstructionPointer(address);
        rules.step::<X86_64>(Pid(7), Timestamp(time), address, &mut regs, &mut |at| Ok(at))
    }

    #[test]
    fn rules_hold_where_and_while_their_function_is_there() {
        let file = [
            jitdump::header(0),
            unwinding(10),
            load(10, 0x1000, 1),
            // Without rules, so the ones of the record before are not for it.
            load(11, 0x2000, 2),
            moved(20, 0x3000, 1),
            // In the place that it left.
            load(21, 0x1000, 3),
        ];
        let mut rules = rules_of(&file.concat());
        assert_eq!(caller(&mut rules, 0x1000, 15), Some(Step::Caller(0x5000)));
        assert_eq!(caller(&mut rules, 0x1001, 15), Some(Step::Caller(0x5008)));
        assert_eq!(caller(&mut rules, 0x1010, 15), None);
        assert_eq!(caller(&mut rules, 0x2001, 15), None);
        assert_eq!(caller(&mut rules, 0x3001, 25), Some(Step::Caller(0x5008)));
        assert_eq!(caller(&mut rules, 0x1001, 25), None);
    }

    #[test]
    fn what_is_still_being_written_is_read_later() {
        let whole = [jitdump::header(0), unwinding(10), load(10, 0x1000, 1)].concat();
        for len in 0..whole.len() {
            let mut rules = rules_of(&whole[..len]);
            assert_eq!(caller(&mut rules, 0x1001, 15), None, "{len}");
        }
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::with_cases(2000)
        })]

        #[test]
        fn damaged_dumps_never_panic_or_hang(
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            address in 0x0fffu64..0x1012,
        ) {
            let mut file = [jitdump::header(0), unwinding(10), load(10, 0x1000, 1), moved(20, 0x3000, 1)].concat();
            for (at, value) in damage {
                let at = at.index(file.len());
                file[at] = value;
            }
            let mut rules = rules_of(&file);
            for time in [0, 15, 25, u64::MAX] {
                caller(&mut rules, address, time);
                caller(&mut rules, address + 0x2000, time);
            }
        }
    }
}
