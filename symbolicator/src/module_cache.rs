//! Which modules stay read: those that were used last, within a limit of memory.

use std::sync::{Arc, Mutex, PoisonError};

/// Heap that what was read of all modules may take, in bytes. Of a debug build of 182 MB, what 100 look-ups need takes
/// 12 MB and what 10,000 need 40 MB. Mapped files are not counted: the kernel takes their memory back by itself.
pub(crate) const MAX_HELD_BYTES: usize = 256 << 20;

/// The modules that take memory, the one whose last use is longest ago first.
pub(crate) struct ModuleCache<T> {
    limit: usize,
    modules: Mutex<Vec<(Arc<T>, usize)>>,
}

impl<T> ModuleCache<T> {
    pub(crate) fn new(limit: usize) -> ModuleCache<T> {
        ModuleCache {
            limit,
            modules: Mutex::new(Vec::new()),
        }
    }

    /// Records that a module was used and takes `bytes` bytes now. While all modules take more than the limit, calls
    /// `drop` with other modules. `drop` returns `None` for a module that is in use, which stays. The module that was
    /// used stays, however large it is. Returns what `drop` returned.
    pub(crate) fn used<R>(&self, module: &Arc<T>, bytes: usize, mut drop: impl FnMut(&T) -> Option<R>) -> Vec<R> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.retain(|(other, _)| !Arc::ptr_eq(other, module));
        let mut all = modules.iter().fold(bytes, |all, (_, bytes)| all.saturating_add(*bytes));
        let mut dropped = Vec::new();
        modules.retain(|(other, bytes)| {
            let rest = if all > self.limit { drop(other) } else { None };
            let stays = rest.is_none();
            all -= if stays { 0 } else { *bytes };
            dropped.extend(rest);
            stays
        });
        // What takes nothing frees nothing.
        if bytes > 0 {
            modules.push((Arc::clone(module), bytes));
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_whose_last_use_is_longest_ago_goes_first_and_one_in_use_stays() {
        let held = ModuleCache::new(10);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(Arc::new);
        let free = |name: &&'static str| Some(*name);
        assert!(held.used(&a, 4, free).is_empty());
        assert!(held.used(&b, 4, free).is_empty());
        assert!(held.used(&a, 2, free).is_empty());
        assert_eq!(held.used(&c, 6, free), ["b"]);
        assert_eq!(held.used(&d, 11, |name| (*name != "a").then_some(*name)), ["c"]);
        assert_eq!(held.used(&b, 1, free), ["a", "d"]);
        assert!(held.used(&c, 9, free).is_empty());
        assert!(held.used(&a, 0, free).is_empty(), "takes nothing");
    }
}
