//! The words that looks between two rounds read of one thread: they complete its samples before the last look.

use recording::clock::Timestamp;
use recording::event::Pid;
use recording::sink::TargetMemory;

use crate::walk::reading::Reading;
use crate::walk::reuse::Word;

/// More words than these are not looked at: they may lie in 4 MiB of stack.
const MAX_WORDS: usize = 1 << 14;

/// Words, and the last look that found them.
#[derive(Default)]
pub(crate) struct LookedAt {
    /// False: the thread's callers have other words now, which the next look is to read.
    are_callers: bool,
    /// Ascending, each once, and what is there.
    addresses: Vec<u64>,
    values: Vec<u64>,
    reading: Option<Reading>,
    /// What the present look reads, kept from look to look.
    read: Vec<u64>,
}

impl LookedAt {
    /// Reads the words of callers. `None`: they are others now, or can't be read.
    pub(crate) fn read(&mut self, callers: &[Word], memory: &mut dyn TargetMemory, pid: Pid) -> Option<Reading> {
        if callers.len() > MAX_WORDS {
            return None;
        }
        if !self.are_callers {
            self.take(callers);
        }
        self.read.clear();
        let begun = memory.now();
        while self.read.len() < self.addresses.len() {
            let before = self.read.len();
            memory.read_words(pid, self.addresses.get(before..)?, &mut self.read);
            if self.read.len() == before {
                return None;
            }
        }
        let ended = memory.now();
        if self.read != self.values {
            return None;
        }
        self.reading = Some(Reading { begun, ended });
        self.reading
    }

    fn take(&mut self, words: &[Word]) {
        let mut sorted = words.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        (self.addresses, self.values) = sorted.into_iter().unzip();
        self.reading = None;
        self.are_callers = true;
    }

    /// The callers have other words. The samples before the last look keep what it found.
    pub(crate) fn forget_callers(&mut self) {
        self.are_callers = false;
    }

    /// The last look that found these words, if it serves a sample: it was made later.
    pub(crate) fn after(&self, sampled: Timestamp) -> Option<Reading> {
        self.reading.filter(|reading| reading.begun > sampled)
    }

    /// The word at an address, as the last look found it.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let at = self.addresses.binary_search(&address).ok()?;
        self.values.get(at).copied()
    }
}
