//! The memory that a program shares with sprof, version 1. Needs `core` alone; the crate, `sprof.h` and the recorder
//! have this one description.
//!
//! **Finding it.** The memory is a memfd that is called [`NAME`] and is sealed against a change of its size. A program
//! makes it at its first span, and again after a fork. Its last page before the rings is mapped as code, which the
//! kernel reports to profilers. A program with [`VARIABLE`] in its environment sends the descriptor, beside
//! [`MAGIC`] and 56 zeros, to the abstract Unix socket of that name, if root or its own user listens there.
//!
//! **Layout.** Words of 8 bytes in the byte order of the machine: a page of control words ([`STATE`] and the others),
//! the slots of threads at [`SLOTS_AT`], texts at [`TEXTS_AT`], and from [`RINGS_AT`] on a ring of [`RING_WORDS`] for
//! each slot.
//!
//! **Rings.** Positions count words and never wrap: position `p` lies at `p % RING_WORDS`. The program writes from
//! [`SLOT_HEAD`] on and moves it; sprof reads up to there, and moves [`SLOT_TAIL`] on once what lies before it may be
//! written again. A record's first word has the lower half of `!p`, so what is left of the ring's last turn is not
//! taken for a record. See [`Record::parse`].
//!
//! **Threads.** A thread has its slot from its first record ([`SLOT_USED`]) to its end ([`SLOT_ENDED`]); sprof frees
//! the slot when it has read the ring.
//!
//! **Pause and resume.** A program that pauses the recording, or resumes it, writes the time and which of both to
//! [`SWITCHES_AT`], and counts it in [`SWITCHES`]. The last of a recording's programs counts. Such words are written
//! whether something is recorded or not, so that a recording that begins in a chosen section samples it.
//!
//! **Off again.** sprof sets [`STATE`] to [`OFF`] when a recording ends. If sprof was killed, the first thread whose
//! ring is full does so, once [`READER_SEEN`] is older than [`READER_LOST_NS`].
//!
//! Everything may be written by both sides at any time, and each checks what it reads.

/// The name of the memfd.
pub const NAME: &str = "sprof-spans";
/// `SPROF_SPANS=STATE:SOCKET`: the state to begin with, and the abstract name of the socket (at most
/// [`SOCKET_BYTES`]).
pub const VARIABLE: &str = "SPROF_SPANS";
/// `sprofsp` and the version of this format.
pub const MAGIC: u64 = u64::from_le_bytes(*b"sprofsp\x01");
/// Longest name of the socket.
pub const SOCKET_BYTES: usize = 64;

/// Control word: [`OFF`], [`COUNTER`] or [`MONOTONIC`]. The first word, which programs look at for each span.
pub const STATE: usize = 0;
/// Control word: [`MAGIC`].
pub const VERSION: usize = 1;
/// Control word: the process, as it knows itself.
pub const PID: usize = 2;
/// Control word: how many slots and rings the memory has, for sprof; at most [`MOST_SLOTS`].
pub const SLOTS: usize = 3;
/// Control word: slots from this one on were never used.
pub const SLOTS_TAKEN: usize = 4;
/// Control word: bytes of the texts so far; may be more than there are.
pub const TEXTS_TAKEN: usize = 5;
/// Control word: records that were lost because there was no slot, or no room for texts.
pub const LOST: usize = 6;
/// Control word: the process of the sprof that reads, and a random number (`pid << 32 | number`); 0 if none reads.
pub const READER: usize = 8;
/// Control word: when sprof has read last, ns of CLOCK_MONOTONIC.
pub const READER_SEEN: usize = 9;
/// Control word: how often the program has paused or resumed the recording.
pub const SWITCHES: usize = 10;
/// Control word: not 0 while a thread writes a switch. Another one that comes meanwhile leaves its switch out: nobody
/// can say which was first, and the last one counts.
pub const SWITCH_LOCK: usize = 11;
/// Control words: the name of the socket, its length in bytes first; for forks.
pub const SOCKET: usize = 16;

/// Nothing is recorded.
pub const OFF: u64 = 0;
/// Not in the memory: the program has none yet.
pub const UNSET: u64 = 1;
/// Records have times of the processor's counter (TSC, CNTVCT_EL0), which the kernel's clock is made of.
pub const COUNTER: u64 = 2;
/// Records have ns of CLOCK_MONOTONIC.
pub const MONOTONIC: u64 = 3;
/// A program whose ring is full ends a recording that has not been read for this time.
pub const READER_LOST_NS: u64 = 10_000_000_000;

/// Offset of the slots, bytes.
pub const SLOTS_AT: usize = 4096;
/// Words of a slot.
pub const SLOT_WORDS: usize = 16;
/// Most threads at one time.
pub const MOST_SLOTS: usize = 1024;
/// Word of a slot: 0 (free), [`SLOT_USED`] or [`SLOT_ENDED`].
pub const SLOT_STATE: usize = 0;
/// Word of a slot: position behind the last whole record. Read it before the thread.
pub const SLOT_HEAD: usize = 1;
/// Word of a slot: the thread, as it knows itself.
pub const SLOT_TID: usize = 2;
/// Word of a slot: records that were lost because the ring was full. It only grows.
pub const SLOT_LOST: usize = 3;
/// Word of a slot: position up to which sprof has read, or less. What lies before it may be written again.
pub const SLOT_TAIL: usize = 8;
/// A thread has the slot.
pub const SLOT_USED: u64 = 1;
/// The thread has ended.
pub const SLOT_ENDED: u64 = 2;

/// Offset of the switches, bytes: number `n` has the word `n % MOST_SWITCHES`. See [`switch_word`].
pub const SWITCHES_AT: usize = 192 << 10;
/// How many switches have room until sprof reads them.
pub const MOST_SWITCHES: usize = 8 << 10;

/// Offset of the texts, bytes. A [`SiteText`] begins at each multiple of 8 that a record names.
pub const TEXTS_AT: usize = 256 << 10;
/// Bytes of the texts, without the page that is mapped as code.
pub const TEXT_BYTES: usize = RINGS_AT - TEXTS_AT - (64 << 10);
/// Offset of the first ring, bytes.
pub const RINGS_AT: usize = 1 << 20;
/// Words of a ring: 174,762 spans without fields.
pub const RING_WORDS: usize = 512 << 10;
/// A span: when it ended and when it began, then fields.
pub const SPAN: u64 = 1;
/// An instant: its time, then fields.
pub const INSTANT: u64 = 2;
/// A value of a counter: its time, and the bits of an `f64`.
pub const PLOT: u64 = 3;
/// A span that may end on another thread: when it ended and began, the thread that it began on with a number of that
/// thread (`tid << 32 | number`), then fields.
pub const ASYNC_SPAN: u64 = 4;
/// Longest record, words.
pub const MOST_WORDS: usize = 5 + MOST_FIELDS * (1 + FIELD_TEXT_BYTES / 8);
/// Most fields of a record. The word before the values has one byte for the type of each.
pub const MOST_FIELDS: usize = 8;
/// Longest text in a field, bytes; what is longer is cut.
pub const FIELD_TEXT_BYTES: usize = 96;
/// Longest name, bytes.
pub const NAME_BYTES: usize = 255;

/// No value.
pub const NO_FIELD: u64 = 0;
/// An `i64`.
pub const SIGNED: u64 = 1;
/// A `u64`.
pub const UNSIGNED: u64 = 2;
/// The bits of an `f64`.
pub const FLOAT: u64 = 3;
/// 0 or 1.
pub const BOOL: u64 = 4;
/// A number that connects this record with others.
pub const FLOW: u64 = 5;
/// The same, of the last of them.
pub const FLOW_END: u64 = 6;
/// A text: its length in bytes before it was cut, then up to [`FIELD_TEXT_BYTES`] of it, and zeros up to a whole word.
pub const TEXT: u64 = 7;

/// The first word of a record at `position`. `site`: offset of its text, in words.
#[inline]
pub const fn head_word(position: u64, site: u32, kind: u64, words: usize) -> u64 {
    (!position << 32) | ((site as u64) << 12) | (kind << 8) | words as u64
}

/// A switch at this time, ns of CLOCK_MONOTONIC: from here on the recording samples, or does not.
#[inline]
pub const fn switch_word(time_ns: u64, samples: bool) -> u64 {
    time_ns << 1 | samples as u64
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// [`SPAN`], [`INSTANT`], [`PLOT`] or [`ASYNC_SPAN`].
    pub kind: u64,
    /// Offset of the text of its place in the program, in words.
    pub site: u32,
    /// All its words.
    pub words: &'a [u64],
}

/// A value of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A number.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Connects records; the second is true in the last of them.
    Flow(u64, bool),
    /// A text, which may be cut.
    Text(ValueText<'a>),
}

/// A text in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueText<'a> {
    words: &'a [u64],
    len: usize,
    /// The text was longer.
    pub is_cut: bool,
}

impl ValueText<'_> {
    /// Its bytes, which may be no text.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).take(self.len)
    }
}

impl<'a> Record<'a> {
    /// The record that these words of a ring begin with. `None` if they begin with none.
    pub fn parse(words: &'a [u64], position: u64) -> Option<Record<'a>> {
        let first = *words.first()?;
        let (kind, len) = (first >> 8 & 0xf, (first & 0xff) as usize);
        let least = match kind {
            SPAN | PLOT => 3,
            INSTANT => 2,
            ASYNC_SPAN => 4,
            _ => return None,
        };
        let is_whole = first >> 32 == !position & 0xffff_ffff && len >= least && len <= MOST_WORDS;
        let words = words.get(..len).filter(|_| is_whole)?;
        let site = (first >> 12 & 0xf_ffff) as u32;
        Some(Record { kind, site, words })
    }

    /// When it happened, or ended; in units of the clock.
    pub fn time(&self) -> u64 {
        self.word(1)
    }

    /// When a span began.
    pub fn began(&self) -> u64 {
        self.word(2)
    }

    /// The value of a [`PLOT`].
    pub fn plotted(&self) -> f64 {
        f64::from_bits(self.word(2))
    }

    /// The number of an [`ASYNC_SPAN`], and the thread that it began on.
    pub fn lane(&self) -> Option<(u64, u32)> {
        let lane = self.word(3);
        (self.kind == ASYNC_SPAN).then_some((lane, (lane >> 32) as u32))
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// Its values, each with its index; those before the first that makes no sense.
    pub fn values(&self) -> impl Iterator<Item = (usize, Value<'a>)> + 'a {
        let first = match self.kind {
            SPAN => 3,
            INSTANT => 2,
            ASYNC_SPAN => 4,
            _ => self.words.len(),
        };
        let types = self.word(first).to_le_bytes();
        let mut rest = self.words.get(first + 1..).unwrap_or_default();
        types
            .into_iter()
            .enumerate()
            .map_while(move |(index, kind)| {
                let (word, others) = rest.split_first()?;
                rest = others;
                let value = match u64::from(kind) {
                    SIGNED => Value::Signed(*word as i64),
                    UNSIGNED => Value::Unsigned(*word),
                    FLOAT => Value::Float(f64::from_bits(*word)),
                    BOOL => Value::Bool(*word != 0),
                    FLOW | FLOW_END => Value::Flow(*word, u64::from(kind) == FLOW_END),
                    TEXT => {
                        let len = (*word).min(FIELD_TEXT_BYTES as u64) as usize;
                        let words = rest.get(..len.div_ceil(8))?;
                        rest = &rest[words.len()..];
                        let is_cut = *word > FIELD_TEXT_BYTES as u64;
                        Value::Text(ValueText { words, len, is_cut })
                    }
                    NO_FIELD => return Some(None),
                    _ => return None,
                };
                Some(Some((index, value)))
            })
            .flatten()
    }
}

/// What stands in the texts for a place in the program: one byte with the number of keys, one byte for the length of
/// the name and of each key, then these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteText<'a> {
    lengths: &'a [u8],
    text: &'a [u8],
}

impl<'a> SiteText<'a> {
    /// The text that begins these bytes; `None` if there is none.
    pub fn parse(bytes: &'a [u8]) -> Option<SiteText<'a>> {
        let (keys, rest) = bytes.split_first()?;
        let lengths = rest
            .get(..1 + usize::from(*keys))
            .filter(|_| usize::from(*keys) <= MOST_FIELDS)?;
        let text = rest.get(lengths.len()..)?;
        let len = lengths.iter().map(|len| usize::from(*len)).sum();
        let text = text.get(..len)?;
        Some(SiteText { lengths, text })
    }

    /// The name, and then the keys. They may be no texts.
    pub fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.text;
        self.lengths.iter().map(move |len| {
            let (part, others) = rest.split_at(usize::from(*len));
            rest = others;
            part
        })
    }
}
