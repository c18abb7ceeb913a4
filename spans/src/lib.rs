#![doc = include_str!("../README.md")]
#![no_std]

#[cfg(feature = "std")]
extern crate std;

#[cfg(all(
    feature = "std",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod backend;
#[cfg(not(all(
    feature = "std",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
#[path = "off.rs"]
mod backend;
pub mod format;
#[cfg(all(feature = "std", unix))]
mod recording;
mod site;
mod span;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(feature = "tracing")]
pub use crate::tracing::SpanLayer;
#[cfg(all(feature = "std", unix))]
pub use recording::{Recording, RecordingError};
pub use site::{Field, Flow, FlowEnd, Site};
pub use span::{frame, instant, is_recording, plot, AsyncSpan, Span};

/// Begins a section of this thread's time, which ends when the result is dropped.
///
/// ```
/// # let rows = [1, 2, 3];
/// let _span = sprof_spans::span!("parse", rows = rows.len(), file = "a.csv");
/// ```
#[macro_export]
macro_rules! span {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, &[$(stringify!($key)),*]);
        if $crate::is_recording() {
            $crate::Span::begin(&SITE, [$($crate::Field::from($value)),*])
        } else {
            $crate::Span::off(&SITE)
        }
    }};
}

/// Begins a section of a task's time, which ends when the result is dropped, on any thread. Such sections may overlap.
///
/// ```
/// async fn handle(id: u64) {
///     let _span = sprof_spans::async_span!("request", id = id);
///     // ... .await ...
/// }
/// ```
#[macro_export]
macro_rules! async_span {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, &[$(stringify!($key)),*]);
        if $crate::is_recording() {
            $crate::AsyncSpan::begin(&SITE, [$($crate::Field::from($value)),*])
        } else {
            $crate::AsyncSpan::off(&SITE)
        }
    }};
}

/// Records that something happened now.
///
/// ```
/// sprof_spans::instant!("cache miss", key = 17);
/// ```
#[macro_export]
macro_rules! instant {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, &[$(stringify!($key)),*]);
        if $crate::is_recording() {
            $crate::instant(&SITE, &[$($crate::Field::from($value)),*]);
        }
    }};
}

/// Records the value that a counter has from now on.
///
/// ```
/// # let queue = [1];
/// sprof_spans::plot!("queue", queue.len());
/// ```
#[macro_export]
macro_rules! plot {
    ($name:expr, $value:expr) => {{
        static SITE: $crate::Site = $crate::Site::new($name, &[]);
        if $crate::is_recording() {
            $crate::plot(&SITE, $value as f64);
        }
    }};
}

/// Records the time since the last time that the program was here: one frame of a loop.
///
/// ```
/// for _ in 0..3 {
///     sprof_spans::frame!("frame");
/// }
/// ```
#[macro_export]
macro_rules! frame {
    ($name:expr) => {{
        static SITE: $crate::Site = $crate::Site::new($name, &[]);
        static LAST: ::core::sync::atomic::AtomicU64 = ::core::sync::atomic::AtomicU64::new(0);
        if $crate::is_recording() {
            $crate::frame(&SITE, &LAST);
        }
    }};
}
