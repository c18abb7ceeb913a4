//! A limit on the work that debug info may ask for.

/// What is left of the work allowed for one batch of look-ups.
///
/// Honest debug info is read at most a few times over: every unit once for its functions, once for its lines, and
/// each function asked for once for its inlined calls. Lying offsets can make every unit read one huge range list or line
/// program, or every function reach to the end of its unit: then work grows with the square of the size.
pub(super) struct Budget {
    left: u64,
}

/// Work was refused: the debug info asks for more than its size warrants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exhausted;

/// How many times over the debug info may be read in one batch.
const TIMES: u64 = 16;

/// Small files may repeat themselves more often.
const FLOOR: u64 = 4 << 20;

impl Budget {
    /// The allowance for a batch over sections of this many bytes.
    pub(super) fn for_bytes(bytes: u64) -> Budget {
        Budget {
            left: bytes.saturating_mul(TIMES).saturating_add(FLOOR),
        }
    }

    /// Takes `amount` bytes (or list entries, or rows) of work.
    pub(super) fn take(&mut self, amount: u64) -> Result<(), Exhausted> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Exhausted)
            }
        }
    }
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

impl From<Exhausted> for Flaw {
    fn from(_: Exhausted) -> Flaw {
        Flaw::TooMuch
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flaw::Damaged(error) => write!(f, "damaged debug info: {error}"),
            Flaw::TooMuch => f.write_str("damaged debug info: it refers to itself more often than its size warrants"),
        }
    }
}
