//! How much of the memory that programs took from the system is in their sampled heaps.

use recording::event::Pid;
use recording::heap::{HeapCoverage, HeapGrowth, UnseenCause, UnseenProgram};
use recording::info::RecordingInfo;

use super::processes::LiveProcess;

/// A process whose unseen memory is less is not named.
const MOST_UNNAMED: u64 = 16 << 20;

/// Adds to the coverage by how many bytes the memory of the processes grew, and which of them have most of it from
/// elsewhere.
pub(super) fn add_growth(info: &mut RecordingInfo, processes: &[LiveProcess]) {
    let Some(coverage) = &mut info.heap else { return };
    let mut sum = HeapGrowth::default();
    for process in processes {
        let Some((seen, grown)) = growth(process) else {
            sum.unmeasured += 1;
            continue;
        };
        sum.processes += 1;
        sum.seen = sum.seen.saturating_add(seen);
        sum.grown = sum.grown.saturating_add(grown);
        if seen < grown / 2 && grown - seen > MOST_UNNAMED {
            let name = process.name.as_ref().unwrap_or(&info.program);
            name_owner(coverage, process, name);
        }
    }
    coverage.growth = (sum.processes > 0).then_some(sum);
}

fn name_owner(coverage: &mut HeapCoverage, process: &LiveProcess, name: &str) {
    // Another reason is better than this guess. Some reasons are given once for all processes of a program.
    let is_named = |program: &UnseenProgram| program.pid.0 == process.pid || program.name == name;
    if !coverage.unseen.iter().any(is_named) {
        coverage.add_unseen(UnseenProgram {
            pid: Pid(process.pid),
            name: name.to_owned(),
            cause: UnseenCause::OtherMemory(process.memory_owner),
        });
    }
}

/// The most bytes of the sampled heap, but no more than the memory has grown by, and that. `None` if the memory was not
/// read, or only before the heap had grown.
fn growth(process: &LiveProcess) -> Option<(u64, u64)> {
    let readings = process.usage.anonymous;
    let inherited = if process.has_parents_memory { readings.first? } else { 0 };
    let grown = readings.most?.saturating_sub(inherited);
    let (mut living, mut seen, mut later) = (0_u64, 0, 0);
    for row in process.heap.rows.iter() {
        living = match row.taken {
            Some(_) => living.saturating_add(row.weight),
            None => living.saturating_sub(row.weight),
        };
        let most = if row.time <= readings.last {
            &mut seen
        } else {
            &mut later
        };
        *most = living.max(*most);
    }
    let is_complete = later <= seen + (seen / 4).max(MOST_UNNAMED / 4);
    is_complete.then_some((seen.min(grown), grown))
}
