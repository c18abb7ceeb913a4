//! One event's ring buffer, mapped from the kernel.
//!
//! Layout (`include/uapi/linux/perf_event.h`, "struct perf_event_mmap_page"): one control page, then `2^n` data pages.
//! The kernel writes up to `data_head`, we read from `data_tail` and free what we have read by moving `data_tail`. Both
//! only grow; the offset in the data is their value modulo the data's size. A record may wrap around the end.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::last_error;
use super::perf_event::EventFd;
use crate::sys::backlog::Backlog;
use perf_data::decode::{HEADER_BYTES, RecordHeader};

/// Byte offsets of `data_head` and `data_tail` in the control page.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// A mapped ring.
#[derive(Debug)]
pub(crate) struct Ring {
    mapped: Mapped,
    /// A copy of `data_tail`.
    tail: u64,
    /// `data_head` as of the last [`Ring::refresh`].
    head: u64,
    /// How many records were consumed.
    consumed: u64,
    /// A wrapped record, put together.
    scratch: Vec<u8>,
    /// What was copied out by [`Ring::fill_backlog`], older than all in the ring.
    backlog: Backlog,
    /// Set when a header made no sense: everything up to `head` was dropped.
    pub(crate) corrupted: u64,
}

/// The memory of a ring: the control page and the data.
#[derive(Debug)]
pub(super) struct Mapped {
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

/// Where a record is.
#[derive(Clone, Copy, Debug)]
enum RecordPlace {
    Backlog,
    Scratch,
    /// At this offset in the data, of this size.
    Ring(usize, usize),
}

impl Mapped {
    /// As [`Ring::map`]. Allocates nothing.
    pub(super) fn new(event: &EventFd, data_bytes: usize) -> io::Result<Mapped> {
        let page_bytes = page_bytes();
        let data_bytes = data_bytes.max(page_bytes).next_power_of_two();
        // SAFETY: a new mapping at an address of the kernel's choice; no existing memory is touched.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_bytes + data_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.raw(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(last_error());
        }
        let base = NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        Ok(Mapped {
            base,
            page_bytes,
            data_bytes,
        })
    }
}

impl Ring {
    /// Maps a ring of `data_bytes` (a power of two, at least one page), or the one that the event has, which is of that
    /// size. EPERM: more locked memory than this user may have.
    pub(crate) fn map(event: &EventFd, data_bytes: usize) -> io::Result<Ring> {
        Ok(Ring {
            mapped: Mapped::new(event, data_bytes)?,
            tail: 0,
            head: 0,
            consumed: 0,
            scratch: Vec::new(),
            backlog: Backlog::default(),
            corrupted: 0,
        })
    }

    fn control(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= self.mapped.page_bytes);
        // SAFETY: the mapping has at least one page, and `offset` lies in the first.
        let word = unsafe { self.mapped.base.as_ptr().add(offset) };
        // SAFETY: live as long as `self`, aligned to 8 (a page start plus 1024 or 1032), and the kernel accesses it
        // with single 8-byte loads and stores, as atomics do.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// Sees what the kernel has written until now.
    pub(crate) fn refresh(&mut self) {
        // Acquire: pairs with the kernel's smp_wmb() before it stores data_head, so the records below it are complete.
        self.head = self.control(DATA_HEAD).load(Ordering::Acquire);
    }

    /// How full the ring was at the last [`Ring::refresh`], 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        self.head.wrapping_sub(self.tail) as f64 / self.mapped.data_bytes as f64
    }

    /// Copies all records out of the ring, so that the kernel has room for more, but nothing if they have more than
    /// `room` bytes. Returns the number of bytes. [`Ring::peek`] gives copied records first.
    pub(crate) fn fill_backlog(&mut self, room: usize) -> usize {
        self.refresh();
        let available = self.head.wrapping_sub(self.tail);
        let bytes = match usize::try_from(available) {
            Ok(bytes) if bytes <= room.min(self.mapped.data_bytes) => bytes,
            _ => return 0,
        };
        let mut piece = vec![0; bytes];
        self.copy_out(self.tail, &mut piece);
        self.backlog.push(piece);
        self.tail = self.head;
        self.publish();
        bytes
    }

    /// The next record, whole, as of the last [`Ring::refresh`]; `None` when all is read.
    pub(crate) fn peek(&mut self) -> Option<&[u8]> {
        let place = self.next_place()?;
        self.at(place)
    }

    /// The next record, as [`Ring::peek`] gives it, and the one after it. That is empty if it is not there yet, or
    /// wraps.
    pub(crate) fn peek_two(&mut self) -> Option<(&[u8], &[u8])> {
        let place = self.next_place()?;
        let after = match place {
            RecordPlace::Ring(_, size) => self.after(size as u64),
            RecordPlace::Backlog | RecordPlace::Scratch => &[],
        };
        Some((self.at(place)?, after))
    }

    /// The record after the next one, which has this size.
    fn after(&self, size: u64) -> &[u8] {
        let position = self.tail.wrapping_add(size);
        let available = self.head.wrapping_sub(position);
        let (start, size) = (self.offset(position), self.size_at(position, available));
        let is_whole = size <= available && start + size as usize <= self.mapped.data_bytes;
        if is_whole {
            self.slice(start, size as usize)
        } else {
            &[]
        }
    }

    fn at(&self, place: RecordPlace) -> Option<&[u8]> {
        match place {
            RecordPlace::Backlog => self.backlog.peek(),
            RecordPlace::Scratch => Some(&self.scratch),
            RecordPlace::Ring(start, size) => Some(self.slice(start, size)),
        }
    }

    /// Where the next record is. One that wraps is put together first.
    fn next_place(&mut self) -> Option<RecordPlace> {
        self.corrupted += self.backlog.drop_corrupted();
        if self.backlog.peek().is_some() {
            return Some(RecordPlace::Backlog);
        }
        let available = self.head.wrapping_sub(self.tail);
        if available == 0 {
            return None;
        }
        let size = self.next_size(available);
        if size < HEADER_BYTES as u64 || size > available {
            // Never seen; the kernel writes whole records. Without a size the next record can't be found.
            self.corrupted += 1;
            self.tail = self.head;
            self.publish();
            return None;
        }
        let start = self.offset(self.tail);
        let size = size as usize;
        if start + size <= self.mapped.data_bytes {
            return Some(RecordPlace::Ring(start, size));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(size, 0);
        self.copy_out(self.tail, &mut scratch);
        self.scratch = scratch;
        Some(RecordPlace::Scratch)
    }

    /// Where a position is in the data, whose size is a power of two: a division for each record would show.
    fn offset(&self, position: u64) -> usize {
        (position & (self.mapped.data_bytes as u64 - 1)) as usize
    }

    /// Frees the record that [`Ring::peek`] returned, of this size.
    pub(crate) fn consume(&mut self, size: usize) {
        if self.backlog.consume(size) {
            return;
        }
        let available = self.head.wrapping_sub(self.tail);
        self.tail = self.tail.wrapping_add((size as u64).min(available));
        self.publish();
        self.consumed = self.consumed.wrapping_add(1);
        if self.consumed.is_multiple_of(PAGES_AHEAD) {
            self.prefetch_pages(size as u64);
        }
        self.prefetch_second();
    }

    /// Has the CPU look up the pages of further records, if these have the same size. Each record is in a page of its
    /// own. A look-up takes 0.3 us on a virtual machine and holds up the CPU, but several can run at once: one by one
    /// they took 5 % of the recorder's time.
    fn prefetch_pages(&self, size: u64) {
        let available = self.head.wrapping_sub(self.tail);
        for offset in (2..2 + PAGES_AHEAD).map(|ahead| ahead * size) {
            if offset < available {
                self.prefetch_at(self.tail.wrapping_add(offset), 1);
            }
        }
    }

    /// Has the CPU fetch the record after the next one: another CPU has written it, and each of its lines takes 0.1 us
    /// to come.
    fn prefetch_second(&self) {
        let available = self.head.wrapping_sub(self.tail);
        let size = self.next_size(available);
        if available >= size + PREFETCHED_BYTES as u64 {
            self.prefetch_at(self.tail.wrapping_add(size), PREFETCHED_BYTES);
        }
    }

    /// Has the CPU fetch `len` written bytes, unless they wrap.
    fn prefetch_at(&self, position: u64, len: usize) {
        let start = self.offset(position);
        if start + len <= self.mapped.data_bytes {
            for line in self.slice(start, len).chunks(64) {
                recording::sys::prefetch(line.as_ptr().addr());
            }
        }
    }

    /// The size of the next record by its header, with `available` bytes after the tail; 0 without a whole header.
    fn next_size(&self, available: u64) -> u64 {
        self.size_at(self.tail, available)
    }

    fn size_at(&self, position: u64, available: u64) -> u64 {
        if available < HEADER_BYTES as u64 {
            return 0;
        }
        let start = self.offset(position);
        let mut header = [0; HEADER_BYTES];
        // Sizes are multiples of 8, and so no header wraps, but one that makes no sense.
        match start + HEADER_BYTES <= self.mapped.data_bytes {
            true => header.copy_from_slice(self.slice(start, HEADER_BYTES)),
            false => self.copy_out(position, &mut header),
        }
        u64::from(RecordHeader::parse(&header).size)
    }

    fn publish(&self) {
        // Release: all our reads of the record happen before the kernel may overwrite it.
        self.control(DATA_TAIL).store(self.tail, Ordering::Release);
    }

    /// Bytes of the data area that lie between tail and head.
    fn slice(&self, start: usize, len: usize) -> &[u8] {
        assert!(start + len <= self.mapped.data_bytes, "checked by the callers");
        // SAFETY: the data area of `data_bytes` follows the control page; `start` lies in it by the assertion.
        let first = unsafe { self.mapped.base.as_ptr().add(self.mapped.page_bytes + start) };
        // SAFETY: inside the mapping by the assertion. The kernel writes only outside tail..head (the event is not in
        // overwrite mode), and `tail` moves only through `&mut self`, so nobody writes here while the slice lives.
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    fn copy_out(&self, position: u64, to: &mut [u8]) {
        let start = self.offset(position);
        let first = to.len().min(self.mapped.data_bytes - start);
        let (low, high) = to.split_at_mut(first);
        low.copy_from_slice(self.slice(start, first));
        high.copy_from_slice(self.slice(0, high.len()));
    }
}

// SAFETY: `base` is a mapping of this process that belongs to this `Mapped` alone, and no thread is special to it.
unsafe impl Send for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}

/// Records whose pages are looked up at once.
const PAGES_AHEAD: u64 = 4;
/// The header of a sample, its registers and the end of its stack. Further words are fetched as the sample before it is
/// unwound.
const PREFETCHED_BYTES: usize = 512;

/// Size of a memory page.
pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}
