//! What the macros call.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::backend;
use crate::format::{ASYNC_SPAN, INSTANT, PLOT, SPAN};
use crate::site::{Field, Flow, Site};

/// A section of a thread's time, from [`span!`](crate::span!) until this is dropped. It is recorded when it ends.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct Span<'a, const N: usize> {
    site: &'static Site,
    /// 0: it is not recorded.
    began: u64,
    fields: [Field<'a>; N],
    /// It ends on its thread.
    thread: PhantomData<*const ()>,
}

impl<'a, const N: usize> Span<'a, N> {
    /// Begins a span.
    #[inline]
    pub fn begin(site: &'static Site, fields: [Field<'a>; N]) -> Self {
        Span {
            site,
            began: backend::now(),
            fields,
            thread: PhantomData,
        }
    }

    /// A span that is not recorded.
    #[inline]
    pub const fn off(site: &'static Site) -> Self {
        Span {
            site,
            began: 0,
            fields: [Field::None; N],
            thread: PhantomData,
        }
    }
}

impl<const N: usize> Drop for Span<'_, N> {
    #[inline]
    fn drop(&mut self) {
        if self.began != 0 {
            let ended = backend::now();
            if ended != 0 {
                backend::record(self.site, SPAN, [ended, self.began], &self.fields);
            }
        }
    }
}

/// A section of the time of a task, which may end on another thread: from [`async_span!`](crate::async_span!) until
/// this is dropped.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct AsyncSpan<'a, const N: usize> {
    site: &'static Site,
    began: u64,
    lane: u64,
    fields: [Field<'a>; N],
}

impl<'a, const N: usize> AsyncSpan<'a, N> {
    /// Begins a span.
    #[inline]
    pub fn begin(site: &'static Site, fields: [Field<'a>; N]) -> Self {
        let began = backend::now();
        let lane = if began == 0 { 0 } else { backend::unique() };
        AsyncSpan {
            site,
            began,
            lane,
            fields,
        }
    }

    /// A span that is not recorded.
    #[inline]
    pub const fn off(site: &'static Site) -> Self {
        AsyncSpan {
            site,
            began: 0,
            lane: 0,
            fields: [Field::None; N],
        }
    }
}

impl<const N: usize> Drop for AsyncSpan<'_, N> {
    #[inline]
    fn drop(&mut self) {
        if self.lane != 0 {
            let ended = backend::now();
            if ended != 0 {
                backend::record(self.site, ASYNC_SPAN, [ended, self.began, self.lane], &self.fields);
            }
        }
    }
}

impl Flow {
    /// A flow that no other span of this process has. Where nothing is recorded it connects nothing.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Flow {
        Flow(if backend::now() == 0 { 0 } else { backend::unique() })
    }
}

/// True if spans are recorded, or if that is not known yet. What a field's value costs is spent only then.
#[inline]
pub fn is_recording() -> bool {
    backend::is_recording()
}

/// Records an instant.
#[inline]
pub fn instant(site: &'static Site, fields: &[Field<'_>]) {
    let now = backend::now();
    if now != 0 {
        backend::record(site, INSTANT, [now], fields);
    }
}

/// Records a value.
#[inline]
pub fn plot(site: &'static Site, value: f64) {
    let now = backend::now();
    if now != 0 {
        backend::record(site, PLOT, [now, value.to_bits()], &[]);
    }
}

/// Records the time since the last call with this place.
#[inline]
pub fn frame(site: &'static Site, last: &AtomicU64) {
    let now = backend::now();
    let began = last.swap(now, Ordering::Relaxed);
    if began != 0 && now != 0 {
        backend::record(site, SPAN, [now, began], &[]);
    }
}
