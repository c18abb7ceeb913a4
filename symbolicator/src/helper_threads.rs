//! Threads that help with long look-ups.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Threads for one look-up at most, with the one that asks. As many make look-ups ahead; these are not counted in
/// [`HELPERS`].
pub(crate) const MAX_THREADS: usize = 4;

/// Helpers of all look-ups at this moment.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// One helper, while it lives.
struct Helper;

impl Helper {
    /// `None` if all CPUs have one.
    fn free() -> Option<Helper> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let most = cpus.min(MAX_THREADS) - 1;
        let more = |helpers| (helpers < most).then_some(helpers + 1);
        let added = HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.ok().map(|_| Helper)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `task` for each item, in any order, on this thread and on those CPUs that no other look-up uses. Helpers begin
/// while this thread runs `first`.
pub(crate) fn share<T: Send>(items: Vec<T>, task: impl Fn(T) + Sync, first: impl FnOnce()) {
    let most_helpers = items.len().saturating_sub(1).min(MAX_THREADS - 1);
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(item) = next() {
            task(item);
        }
    };
    thread::scope(|scope| {
        for helper in (0..most_helpers).map_while(|_| Helper::free()) {
            let helps = move || {
                let _helper = helper;
                work();
            };
            // Without a thread this one does all.
            if thread::Builder::new()
                .name("look-up".to_owned())
                .spawn_scoped(scope, helps)
                .is_err()
            {
                break;
            }
        }
        first();
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once_and_helpers_go() {
        for items in [0, 1, 1000] {
            let done: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
            let mut began = false;
            let each = |item: usize| {
                done[item].fetch_add(1, Ordering::Relaxed);
            };
            share((0..items).collect(), each, || began = true);
            assert!(began && done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
        }
    }
}
