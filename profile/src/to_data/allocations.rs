//! `nativeAllocations`: blocks of memory that threads of a process took and freed.

use serde_json::json;

use super::numbers::ms;
use crate::data::{Allocations, Fields, NONE};
use crate::recorded::Profile;
use crate::recorded::thread::RecordedThread;

/// The blocks of all threads of a process, if the thread is its main thread and blocks were recorded.
pub(super) fn of_main_thread(profile: &Profile, thread: &RecordedThread, is_whole: bool) -> Option<Allocations> {
    let process = &profile.processes[thread.process.0];
    let rows = &process.heap.rows;
    if !thread.is_main || thread.event.is_some() || rows.len() == 0 {
        return None;
    }
    let threads = process.heap.threads.iter();
    let threads: Vec<f64> = threads.map(|id| id.parse().unwrap_or(f64::NAN)).collect();
    let mut made = Allocations {
        end_ms: process.end.map(ms),
        ..Allocations::default()
    };
    let (mut addresses, mut of, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows.iter() {
        made.time_ms.push(ms(row.time));
        let (sign, stack, size) = match row.taken {
            Some(taken) => (1.0, taken.stack.map_or(NONE, |stack| stack.0), Some(taken.size)),
            None => (-1.0, NONE, None),
        };
        made.weight.push(sign * row.weight as f64);
        made.stack.push(stack);
        addresses.push(Some(row.address));
        of.push(threads.get(row.thread as usize).copied().unwrap_or(f64::NAN));
        sizes.push(size);
    }
    (made.address, made.thread, made.size) = (Some(addresses), Some(of), Some(sizes));
    if is_whole {
        made.rest = Fields::from_iter([("weightType".to_owned(), json!("bytes"))]);
    }
    Some(made)
}
