//! The tracks that the front end shows initially.

use std::cmp::Reverse;

use recording::info::PeriodUnit;

use crate::recorded::Profile;
use crate::tracks::{Track, Tracks};

/// Most initial tracks: a screen holds no more. A click shows the others.
const VISIBLE_THREADS: usize = 16;

/// Threads below this share of the CPU time have no initial track.
const VISIBLE_PER_MILLE: u64 = 5;

/// The initial tracks, by thread index.
pub(crate) struct InitialTracks {
    /// Busiest first; the first is selected. Threads with waits and no CPU time come last. Never empty.
    pub(crate) threads: Vec<usize>,
    /// Threads whose samples are counts of an event. A counter shows the counts over time and selects their call tree;
    /// the front end would draw each sample as a block of full height.
    pub(crate) lines: Vec<usize>,
}

impl InitialTracks {
    pub(crate) fn new(profile: &Profile) -> InitialTracks {
        // Further events have other units; their tracks are shown with their thread.
        let cpu: Vec<u64> = (profile.threads.iter())
            .map(|thread| match thread.event {
                None => thread.samples.period_sum(),
                Some(_) => 0,
            })
            .collect();
        let total: u128 = cpu.iter().map(|&cpu| u128::from(cpu)).sum();
        let mut threads: Vec<usize> = (0..cpu.len())
            .filter(|&thread| profile.threads[thread].event.is_none())
            .collect();
        let waited = |thread: usize| profile.threads[thread].samples.off_cpu_ns();
        threads.sort_by_key(|&thread| (Reverse(cpu[thread]), Reverse(waited(thread)), thread));
        let busy = (threads.iter())
            .filter(|&&thread| {
                waited(thread) > 0 || u128::from(cpu[thread]) * 1000 >= total * u128::from(VISIBLE_PER_MILLE)
            })
            .count();
        threads.truncate(busy.clamp(1, VISIBLE_THREADS));

        let is_counted = |thread: usize| profile.unit_of(&profile.threads[thread]) == PeriodUnit::Counts;
        let mut lines = Vec::new();
        for at in 0..threads.len() {
            let thread = threads[at];
            if is_counted(thread) {
                lines.push(thread);
            }
            let beside = (thread + 1..cpu.len()).take_while(|&track| profile.threads[track].event.is_some());
            for track in beside {
                match is_counted(track) {
                    true => lines.push(track),
                    false => threads.push(track),
                }
            }
        }
        InitialTracks { threads, lines }
    }
}

impl Tracks {
    /// The tracks of a profile of sprof.
    pub fn from_profile(profile: &Profile) -> Tracks {
        let threads = profile.threads.iter().map(|thread| Track {
            pid: profile.processes[thread.process.0].id.clone(),
            is_main: thread.is_main,
        });
        Tracks {
            threads: threads.collect(),
            visible: InitialTracks::new(profile).threads,
        }
    }
}
