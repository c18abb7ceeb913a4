//! Records spans on Linux: see [`format`](crate::format).

#[allow(unsafe_code)]
mod sys;

use core::cell::Cell;
use core::sync::atomic::{compiler_fence, fence, AtomicU64, Ordering};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::thread_local;

use crate::format::*;
use crate::site::{Field, Site};
use sys::{Head, Own, Ring, Slot};

/// [`Own::progress`]: a thread makes the memory, or nobody could.
const MAKING: u64 = 1;
/// [`Own::progress`]: the memory is there.
const READY: u64 = 2;

/// Spans that began while another thread made the memory.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// What a thread writes to.
#[derive(Clone, Copy)]
struct Claim {
    ring: &'static Ring,
    slot: &'static Slot,
    /// Not [`READY`] in a fork: then ring and slot are those of the parent.
    progress: &'static AtomicU64,
    tid: u32,
}

struct Writer {
    claim: Cell<Option<Claim>>,
    /// Where the next record begins.
    head: Cell<u64>,
    /// The last position that a record may begin at without looking at the ring again.
    limit: Cell<u64>,
    /// A signal handler must not write into a record that is being written.
    is_writing: Cell<bool>,
    has_ended: Cell<bool>,
    next_unique: Cell<u32>,
}

/// Gives the slot back.
struct EndOfThread;

thread_local! {
    static WRITER: Writer = const {
        Writer {
            claim: Cell::new(None),
            head: Cell::new(0),
            limit: Cell::new(0),
            is_writing: Cell::new(false),
            has_ended: Cell::new(false),
            next_unique: Cell::new(0),
        }
    };
    static END_OF_THREAD: EndOfThread = const { EndOfThread };
}

#[inline]
pub(crate) fn is_recording() -> bool {
    sys::state() != OFF
}

/// The time; 0 if nothing is recorded.
#[inline]
pub(crate) fn now() -> u64 {
    match sys::state() {
        OFF => 0,
        COUNTER => sys::counter(),
        _ => slow_now(),
    }
}

/// Appends a record to the thread's ring: the words of its kind, then the fields.
#[inline]
pub(crate) fn record<const T: usize>(site: &'static Site, kind: u64, words: [u64; T], fields: &[Field<'_>]) {
    WRITER.with(|writer| {
        writer.alone(|| {
            let Some(claim) = writer.ready() else { return };
            let id = match site.id.load(Ordering::Relaxed) {
                0 => write_text(site),
                id => id,
            };
            if id != 0 {
                writer.write(claim, id, kind, words, fields);
            }
        });
    });
}

/// A number that nothing else in this process has; 0 if there is none.
#[cold]
pub(crate) fn unique() -> u64 {
    WRITER.with(|writer| {
        let unique = writer.alone(|| {
            let claim = writer.claimed()?;
            writer.next_unique.set(writer.next_unique.get().wrapping_add(1));
            Some(u64::from(claim.tid) << 32 | u64::from(writer.next_unique.get()))
        });
        unique.flatten().unwrap_or_default()
    })
}

/// Pauses or resumes the recording of this process, from now on.
pub(crate) fn switch(samples: bool) {
    let Some(own) = sys::own() else { return };
    if own.progress.load(Ordering::Acquire) != READY {
        // In a fork, it is the parent's.
        WRITER.with(|writer| writer.claim.set(None));
    }
    // Another thread may be making the memory.
    let may_come = |_: &u32| sys::state() != OFF || sys::published().is_some();
    let is_ready = (0..1000).take_while(may_come).any(|_| {
        let is_ready = own.progress.load(Ordering::Acquire) == READY || set_up();
        if !is_ready {
            std::thread::yield_now();
        }
        is_ready
    });
    if !is_ready {
        return;
    }
    let Some(head) = own.head() else { return };
    if head[SWITCH_LOCK].swap(1, Ordering::Acquire) != 0 {
        return;
    }
    let count = head[SWITCHES].load(Ordering::Relaxed);
    let place = |number: u64| &head[SWITCHES_AT / 8 + number as usize % MOST_SWITCHES];
    let is_same = |last: u64| place(last).load(Ordering::Relaxed) & 1 == u64::from(samples);
    if !count.checked_sub(1).is_some_and(is_same) {
        place(count).store(switch_word(sys::monotonic(), samples), Ordering::Relaxed);
        head[SWITCHES].store(count.wrapping_add(1), Ordering::Release);
    }
    head[SWITCH_LOCK].store(0, Ordering::Release);
}

/// Waits until this sprof reads spans, ten seconds at most: on a busy machine it may have no CPU for some of them.
pub(crate) fn wait_for_reader(sprof: u32) {
    let Some(head) = sys::published() else { return };
    let reads = || head[READER].load(Ordering::Acquire) >> 32 == u64::from(sprof);
    for _ in 0..10_000 {
        if reads() {
            return;
        }
        std::thread::sleep(core::time::Duration::from_millis(1));
    }
}

#[cold]
fn slow_now() -> u64 {
    if sys::state() == UNSET && !set_up() {
        EARLY.fetch_add(1, Ordering::Relaxed);
        count_early();
        return 0;
    }
    match sys::state() {
        COUNTER => sys::counter(),
        MONOTONIC => sys::monotonic(),
        _ => 0,
    }
}

/// Counts early spans as lost, once there is memory: whoever comes second of a thread that adds one and the thread that
/// makes the memory.
fn count_early() {
    fence(Ordering::SeqCst);
    if let Some(head) = sys::published() {
        head[LOST].fetch_add(EARLY.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn count_lost(head: Option<&Head>) {
    if let Some(head) = head {
        head[LOST].fetch_add(1, Ordering::Relaxed);
    }
}

impl Writer {
    /// Runs this unless it runs on this thread already.
    #[inline]
    fn alone<T>(&self, run: impl FnOnce() -> T) -> Option<T> {
        if self.is_writing.replace(true) {
            count_lost(sys::published());
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        let result = run();
        compiler_fence(Ordering::SeqCst);
        self.is_writing.set(false);
        Some(result)
    }

    /// The ring, which has room for a record.
    #[inline]
    fn ready(&self) -> Option<Claim> {
        match self.claim.get() {
            Some(claim) if self.head.get() <= self.limit.get() && claim.progress.load(Ordering::Relaxed) == READY => {
                Some(claim)
            }
            _ => self.make_ready(),
        }
    }

    #[cold]
    fn make_ready(&self) -> Option<Claim> {
        let claim = self.claimed()?;
        self.make_room(claim, sys::own()?.head()?)
    }

    /// The ring, which may be full.
    fn claimed(&self) -> Option<Claim> {
        let own = sys::own()?;
        if own.progress.load(Ordering::Acquire) != READY {
            self.claim.set(None);
            if !set_up() {
                count_lost(sys::published());
                return None;
            }
        }
        let head = own.head()?;
        let claim = self.claim.get().or_else(|| self.claim_slot(own, head));
        if claim.is_none() {
            count_lost(Some(head));
        }
        claim
    }

    fn claim_slot(&self, own: &'static Own, head: &'static Head) -> Option<Claim> {
        let ends = END_OF_THREAD.try_with(|_| ()).is_err();
        if ends || self.has_ended.get() {
            return None;
        }
        let slots = own.slots.load(Ordering::Relaxed);
        let take = |index: &usize| {
            let state = &head[SLOTS_AT / 8 + index * SLOT_WORDS + SLOT_STATE];
            let taken = state.compare_exchange(0, SLOT_USED, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        let seen = (head[SLOTS_TAKEN].load(Ordering::Relaxed) as usize).min(slots);
        let index = (0..seen).find(take).or_else(|| loop {
            if head[SLOTS_TAKEN].load(Ordering::Relaxed) >= slots as u64 {
                return None;
            }
            let index = head[SLOTS_TAKEN].fetch_add(1, Ordering::Relaxed) as usize;
            if index < slots && take(&index) {
                return Some(index);
            }
        })?;
        let slot = head[SLOTS_AT / 8 + index * SLOT_WORDS..].first_chunk()?;
        let Some(ring) = own.ring(index) else {
            slot[SLOT_STATE].store(0, Ordering::Release);
            return None;
        };
        let tid = sys::thread_id();
        slot[SLOT_TID].store(tid.into(), Ordering::Release);
        let progress = &own.progress;
        let claim = Claim {
            ring,
            slot,
            progress,
            tid,
        };
        self.head.set(slot[SLOT_HEAD].load(Ordering::Relaxed));
        self.claim.set(Some(claim));
        Some(claim)
    }

    fn make_room(&self, claim: Claim, head: &Head) -> Option<Claim> {
        let tail = claim.slot[SLOT_TAIL].load(Ordering::Acquire);
        let room = (RING_WORDS - MOST_WORDS) as u64;
        if self.head.get().wrapping_sub(tail) <= room {
            self.limit.set(tail.wrapping_add(room));
            return Some(claim);
        }
        self.limit.set(0);
        let lost = claim.slot[SLOT_LOST].load(Ordering::Relaxed);
        claim.slot[SLOT_LOST].store(lost.wrapping_add(1), Ordering::Relaxed);
        let seen = head[READER_SEEN].load(Ordering::Relaxed);
        if sys::monotonic().saturating_sub(seen) > READER_LOST_NS {
            head[STATE].store(OFF, Ordering::Relaxed);
        }
        None
    }

    #[inline]
    fn write<const T: usize>(&self, claim: Claim, id: u32, kind: u64, words: [u64; T], fields: &[Field<'_>]) {
        // Whoever has the memory may have written any position.
        let head = self.head.get();
        let put = |index: usize, word: u64| {
            claim.ring[(head as usize).wrapping_add(index) % RING_WORDS].store(word, Ordering::Relaxed);
        };
        let mut len = 1;
        for word in words {
            put(len, word);
            len += 1;
        }
        if !fields.is_empty() {
            len = put_fields(len, fields, put);
        }
        put(0, head_word(head, id, kind, len));
        self.head.set(head.wrapping_add(len as u64));
        claim.slot[SLOT_HEAD].store(self.head.get(), Ordering::Release);
    }
}

/// Puts the fields from this index on. Returns the index behind them.
fn put_fields(first: usize, fields: &[Field<'_>], put: impl Fn(usize, u64)) -> usize {
    let mut types = [0; MOST_FIELDS];
    let mut at = first + 1;
    for (field, kind) in fields.iter().zip(&mut types) {
        let (name, word) = match *field {
            Field::Signed(value) => (SIGNED, value as u64),
            Field::Unsigned(value) => (UNSIGNED, value),
            Field::Float(value) => (FLOAT, value.to_bits()),
            Field::Bool(value) => (BOOL, value.into()),
            Field::Text(text) => (TEXT, text.len() as u64),
            Field::Flow(flow) if flow.0 != 0 => (FLOW, flow.0),
            Field::FlowEnd(flow) if flow.0 != 0 => (FLOW_END, flow.0),
            Field::None | Field::Flow(_) | Field::FlowEnd(_) => (NO_FIELD, 0),
        };
        *kind = name as u8;
        put(at, word);
        at += 1;
        if let Field::Text(text) = field {
            for bytes in text.as_bytes()[..text.len().min(FIELD_TEXT_BYTES)].chunks(8) {
                put(at, word_of(bytes.iter().copied()));
                at += 1;
            }
        }
    }
    put(first, u64::from_le_bytes(types));
    at
}

/// A word whose bytes these are, with zeros behind.
fn word_of(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(at, byte)| *at = byte);
    u64::from_ne_bytes(word)
}

/// Writes name and keys of a place into the texts. Returns its offset; 0 if there is no room.
#[cold]
fn write_text(site: &'static Site) -> u32 {
    let Some(head) = sys::published() else { return 0 };
    let parts = || {
        core::iter::once(&site.name)
            .chain(site.keys)
            .map(|part| &part.as_bytes()[..part.len().min(NAME_BYTES)])
    };
    let lengths = parts().map(|part| part.len() as u8);
    let mut bytes = core::iter::once(site.keys.len() as u8)
        .chain(lengths)
        .chain(parts().flatten().copied());
    let words = (2 + site.keys.len() + parts().map(<[u8]>::len).sum::<usize>()).div_ceil(8);
    let start = head[TEXTS_TAKEN].fetch_add(8 * words as u64, Ordering::Relaxed) as usize / 8;
    if start + words > TEXT_BYTES / 8 {
        count_lost(Some(head));
        return 0;
    }
    for index in start..start + words {
        head[TEXTS_AT / 8 + index].store(word_of(bytes.by_ref().take(8)), Ordering::Relaxed);
    }
    // Of two threads that come here at once, each has written a text.
    site.id.store(start as u32, Ordering::Release);
    start as u32
}

impl Drop for EndOfThread {
    fn drop(&mut self) {
        WRITER.with(|writer| {
            writer.has_ended.set(true);
            let claim = writer.claim.take();
            if let Some(claim) = claim.filter(|claim| claim.progress.load(Ordering::Relaxed) == READY) {
                claim.slot[SLOT_STATE].store(SLOT_ENDED, Ordering::Release);
            }
        });
    }
}

/// Makes the memory of this process. False if another thread does, or nobody can.
fn set_up() -> bool {
    let Some(own) = sys::own() else {
        sys::give_up();
        return false;
    };
    match own
        .progress
        .compare_exchange(0, MAKING, Ordering::Acquire, Ordering::Acquire)
    {
        Ok(_) if make(own).is_some() => {
            own.progress.store(READY, Ordering::Release);
            true
        }
        Ok(_) => {
            sys::give_up();
            false
        }
        Err(progress) => progress == READY,
    }
}

fn make(own: &'static Own) -> Option<()> {
    // Of the parent, in a fork.
    let parent = sys::published();
    let mut name = [0; SOCKET_BYTES];
    let (mut state, name) = match parent {
        Some(parent) => {
            let words = parent[SOCKET + 1..]
                .iter()
                .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            name.iter_mut().zip(words).for_each(|(at, byte)| *at = byte);
            let len = parent[SOCKET].load(Ordering::Relaxed) as usize;
            (parent[STATE].load(Ordering::Relaxed), name.get(..len)?)
        }
        None => match std::env::var(VARIABLE)
            .ok()
            .as_deref()
            .and_then(|settings| settings.split_once(':'))
        {
            Some((state, socket)) => {
                let name = name.get_mut(..socket.len())?;
                name.copy_from_slice(socket.as_bytes());
                (
                    state
                        .parse()
                        .ok()
                        .filter(|state| [COUNTER, MONOTONIC].contains(state))?,
                    &*name,
                )
            }
            None => (OFF, &[][..]),
        },
    };
    let slots = sys::file_limit().checked_sub(RINGS_AT as u64)? / (8 * RING_WORDS as u64);
    let slots = slots.min(MOST_SLOTS as u64);
    own.slots.store(slots as usize, Ordering::Relaxed);
    let (head, descriptor) = own.make_head(RINGS_AT as u64 + slots * 8 * RING_WORDS as u64)?;
    // Offset 0 is no text.
    let mut texts = 8;
    if let Some(parent) = parent {
        texts = parent[TEXTS_TAKEN].load(Ordering::Acquire).min(TEXT_BYTES as u64);
        let range = TEXTS_AT / 8..(TEXTS_AT + texts as usize) / 8;
        for (to, from) in head[range.clone()].iter().zip(&parent[range]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    head[TEXTS_TAKEN].store(texts, Ordering::Relaxed);
    head[PID].store(std::process::id().into(), Ordering::Relaxed);
    head[SLOTS].store(slots, Ordering::Relaxed);
    head[READER_SEEN].store(sys::monotonic(), Ordering::Relaxed);
    head[SOCKET].store(name.len() as u64, Ordering::Relaxed);
    for (word, bytes) in head[SOCKET + 1..].iter().zip(name.chunks(8)) {
        word.store(word_of(bytes.iter().copied()), Ordering::Relaxed);
    }
    head[VERSION].store(MAGIC, Ordering::Release);
    let is_sent = !name.is_empty() && send(name, descriptor).is_some();
    // The sprof that named this socket records no more.
    if !name.is_empty() && !is_sent && parent.is_none() {
        state = OFF;
    }
    head[STATE].store(state, Ordering::Release);
    sys::publish(head);
    count_early();
    Some(())
}

/// Sends the memory to sprof.
fn send(name: &[u8], descriptor: i32) -> Option<()> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
    sys::is_ours_or_root(&stream).then_some(())?;
    sys::send(&stream, &[MAGIC, 0, 0, 0, 0, 0, 0, 0], descriptor)
}
