//! Where nothing can be recorded.

use crate::site::{Field, Site};

#[inline]
pub(crate) fn is_recording() -> bool {
    false
}

#[inline]
pub(crate) fn now() -> u64 {
    0
}

#[inline]
pub(crate) fn unique() -> u64 {
    0
}

#[inline]
pub(crate) fn record<const T: usize>(site: &'static Site, _: u64, _: [u64; T], _: &[Field<'_>]) {
    let _ = (site.name, site.keys, &site.id);
}

#[cfg(all(feature = "std", unix))]
pub(crate) fn switch(_: bool) {}

#[cfg(all(feature = "std", unix))]
pub(crate) fn wait_for_reader(_: u32) {}
