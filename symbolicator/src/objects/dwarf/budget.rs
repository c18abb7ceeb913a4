//! Limits of what debug info may ask for and say.

use gimli::{AttributeValue, Reader as _, UnitRef};

use super::store::Slice;

/// The remaining work for one batch of look-ups, and the remaining memory for the module.
///
/// Valid debug info is read at most a few times: each unit once for its functions, each sequence of lines once to find
/// it and then up to the rows of the look-ups, each function of a look-up once for its inlined calls. Hostile offsets
/// can make every unit read the same huge range list, line program or table of abbreviations, or every function reach
/// to the end of its unit: then work and memory grow with the square of the size.
#[derive(Clone)]
pub(super) struct Budget {
    work: u64,
    kept: u64,
    /// Entries that were kept.
    entries: u64,
    lowest_code: u64,
}

/// The debug info needs more work than its size allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetExhausted;

/// How many times the debug info may be read in one batch. 10,000 addresses all over a program of 213 MB read it 0.6
/// times.
const TIMES: u64 = 8;

/// Work that small files may always do, in bytes.
pub(super) const FLOOR: u64 = 4 << 20;

impl Budget {
    /// The allowance for debug info of this many bytes.
    pub(super) fn for_bytes(bytes: u64) -> Budget {
        let mut budget = Budget {
            work: 0,
            // A sequence of lines takes at least 3 bytes of its program, a range 2.
            kept: bytes.saturating_add(FLOOR),
            entries: 0,
            lowest_code: 1,
        };
        budget.begin_batch(bytes);
        budget
    }

    /// The budget for code that may start at `lowest_code`.
    pub(super) fn with_code_from(self, lowest_code: u64) -> Budget {
        Budget { lowest_code, ..self }
    }

    /// The lowest address of code. Linkers set the addresses of dropped functions to 0, so of a linked file it is 1.
    pub(super) fn lowest_code(&self) -> u64 {
        self.lowest_code
    }

    /// Allows new work, but no new memory.
    pub(super) fn begin_batch(&mut self, bytes: u64) {
        self.work = bytes.saturating_mul(TIMES).saturating_add(FLOOR);
    }

    /// Takes `amount` bytes (or entries) of work.
    pub(super) fn take(&mut self, amount: u64) -> Result<(), BudgetExhausted> {
        subtract(&mut self.work, amount)
    }

    /// Takes the work for the attributes of an entry. Those of a hostile abbreviation are 100,000 that have no bytes.
    pub(super) fn take_attributes(&mut self, abbreviation: &gimli::Abbreviation) -> Result<(), BudgetExhausted> {
        const AT_ONCE: usize = 16;
        self.take((abbreviation.attributes().len() / AT_ONCE) as u64)
    }

    /// The text of an attribute, with the work to find its end. Texts of hostile entries are all of one long text.
    pub(super) fn text<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        value: AttributeValue<Slice<'a>>,
    ) -> Result<Option<Slice<'a>>, BudgetExhausted> {
        const AT_ONCE: usize = 64;
        self.take(1)?;
        let text = unit.attr_string(value).ok();
        self.take(text.map_or(0, |text| (text.len() / AT_ONCE) as u64))?;
        Ok(text)
    }

    /// Takes the work for ranges that stay in memory.
    pub(super) fn keep(&mut self, entries: u64) -> Result<(), BudgetExhausted> {
        self.entries = self.entries.saturating_add(entries);
        subtract(&mut self.work, entries)?;
        subtract(&mut self.kept, entries)
    }

    /// Takes what another thread took that began with this budget as it was `before` and has `left` now. Threads that
    /// work at once may take more in all: as many times as there are threads.
    pub(super) fn take_as(&mut self, before: &Budget, left: &Budget) {
        self.work = self.work.saturating_sub(before.work - left.work);
        self.kept = self.kept.saturating_sub(before.kept - left.kept);
        self.entries = self.entries.saturating_add(left.entries - before.entries);
    }

    /// Heap bytes of what was kept: an entry is a range, of 3 words, and its reach.
    pub(super) fn held_bytes(&self) -> usize {
        const ENTRY_BYTES: u64 = 32;
        usize::try_from(self.entries.saturating_mul(ENTRY_BYTES)).unwrap_or(usize::MAX)
    }
}

fn subtract(left: &mut u64, amount: u64) -> Result<(), BudgetExhausted> {
    let rest = left.checked_sub(amount);
    *left = rest.unwrap_or(0);
    rest.map(|_| ()).ok_or(BudgetExhausted)
}

/// Why a part of the debug info can't be used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flaw {
    /// It does not follow the format.
    Damaged(gimli::Error),
    /// See [`Budget`].
    TooMuch,
}

impl From<gimli::Error> for Flaw {
    fn from(error: gimli::Error) -> Flaw {
        Flaw::Damaged(error)
    }
}

impl From<BudgetExhausted> for Flaw {
    fn from(_: BudgetExhausted) -> Flaw {
        Flaw::TooMuch
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flaw::Damaged(error) => write!(f, "damaged debug info: {error}"),
            Flaw::TooMuch => f.write_str("damaged debug info: it refers to itself too often for its size"),
        }
    }
}
