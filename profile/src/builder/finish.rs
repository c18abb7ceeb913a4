//! Ends building: decides which threads go into the file, and in which order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use recording::info::RecordingInfo;
use recording::quality::Quality;

use super::heap_growth::add_growth;
use super::processes::LiveThread;
use super::{Builder, CodeSince, MARKERS_PER_THREAD, PidLifetime};
use crate::recorded::Profile;
use crate::recorded::heap::RecordedHeap;
use crate::recorded::no_samples::NoSamples;
use crate::recorded::thread::{MarkerKind, ProcessId, RecordedMarker, RecordedProcess, RecordedThread};
use crate::recorded::usage::ProcessUsage;
use crate::sources::Sources;

/// Most ancestors to search for one that is in the file.
const ANCESTORS: usize = 100;

impl Builder {
    /// The profile of all events so far.
    ///
    /// Kept are: threads with samples, and the main threads of their processes, so that every process has its track.
    /// The program's main thread is always kept. A process without any sample is not: it stands as a marker, from its
    /// start to its end, on its parent.
    pub fn finish(self, info: RecordingInfo, quality: Quality) -> Profile {
        self.finish_with_jit(info, quality, |_, _| Vec::new())
    }

    /// The profile of all events so far, after code without a file was given its place in modules.
    ///
    /// `histories` is asked once for each process with frames in such code, with their addresses, ascending, each once.
    /// It answers with what was at each of them in the order of time; an answer of another length counts as none.
    pub fn finish_with_jit(
        mut self,
        mut info: RecordingInfo,
        mut quality: Quality,
        histories: impl FnMut(PidLifetime, &[u64]) -> Vec<Vec<CodeSince>>,
    ) -> Profile {
        self.build_waiting();
        info.clock = info.clock.later(self.zero);
        let end = self.at(info.end);
        self.end_waits(end, info.unit);
        self.place_jit(histories);
        let spans = self.place_spans(end);
        self.counts.sampled = self.sampled.sum(end);
        let sampled = self.sampled.finish(end).map(|(facts, pauses)| {
            let room = MARKERS_PER_THREAD.saturating_sub(self.recording_markers.len());
            self.counts.markers_left_out += pauses.len().saturating_sub(room) as u64;
            self.recording_markers.extend(pauses.into_iter().take(room));
            // The kernel counted in pauses, too.
            (quality.cpu_time_ns, quality.cpu_account.accounted_ns) = (None, None);
            info.events.iter_mut().for_each(|event| event.counts = None);
            facts
        });
        // A program that took another one's place is in the same process and thread.
        let others = self.processes.cpus.len() + self.processes.further_programs;
        self.counts.processes = (self.processes.processes.len() - others) as u64;
        let tracks = self.processes.tracks.len();
        self.counts.threads = (self.processes.threads.len() - others - tracks) as u64;

        for program in self.processes.loaders_alone() {
            self.resolver.is_program(program);
        }
        // The program is what the user executed, not its loader.
        if let Some(first) = self.processes.processes.first()
            && let (Some(loader), Some(name)) = (&first.loader_name, &first.name)
            && info.program.starts_with(loader)
        {
            info.program.clone_from(name);
        }

        let mut processes = std::mem::take(&mut self.processes.processes);
        add_growth(&mut info, &processes);
        let mut threads: Vec<Option<LiveThread>> = std::mem::take(&mut self.processes.threads)
            .into_iter()
            .map(Some)
            .collect();
        let kept_processes: Vec<RecordedProcess> = (processes.iter_mut().enumerate())
            .map(|(index, live)| RecordedProcess {
                id: live.id.clone(),
                name: match &live.name {
                    Some(name) => name.clone(),
                    None if index == 0 => info.program.clone(),
                    None => format!("Process {}", live.id),
                },
                title: live.title.clone(),
                parent: live.parent,
                start: live.start,
                end: live.end,
                threads: (live.threads.iter())
                    .filter(|at| threads[**at].as_ref().is_some_and(|thread| thread.track_of.is_none()))
                    .count(),
                usage: live.usage.clone(),
                plots: std::mem::take(&mut live.plots),
                heap: std::mem::take(&mut live.heap),
            })
            .collect();

        let mut kept: Vec<RecordedThread> = Vec::new();
        // The main thread of each process, as an index in `kept`. A process without one has no track for its children's
        // markers.
        let mut main_of: Vec<Option<usize>> = vec![None; processes.len()];
        let mut by_start: Vec<usize> = (0..processes.len()).collect();
        by_start.sort_by_key(|process| processes[*process].start);
        for index in by_start {
            let process = &processes[index];
            let has_content = |thread: &usize| threads[*thread].as_ref().is_some_and(LiveThread::has_content);
            let wanted = index == 0 || process.threads.iter().any(has_content);
            if !wanted {
                continue;
            }
            let mut tracks: BTreeMap<(usize, u32), LiveThread> = BTreeMap::new();
            let mut of_process: Vec<LiveThread> = Vec::new();
            for &at in &process.threads {
                let Some(mut thread) = threads[at].take() else { continue };
                thread.index = at;
                match thread.track_of {
                    Some(track) => drop(tracks.insert(track, thread)),
                    None => of_process.push(thread),
                }
            }
            let has_track = |thread: usize| tracks.range((thread, 0)..=(thread, u32::MAX)).next().is_some();
            of_process.retain(|thread| thread.is_main || thread.has_content() || has_track(thread.index));
            if !of_process.iter().any(|thread| thread.is_main) {
                of_process.push(LiveThread {
                    process: index,
                    id: process.id.clone(),
                    is_main: true,
                    start: process.start,
                    end: process.end,
                    ..LiveThread::default()
                });
            }
            of_process.sort_by_key(|thread| (!thread.is_main, thread.start));
            main_of[index] = Some(kept.len());
            for live in of_process {
                let at = live.index;
                let thread = finish_thread(live, &kept_processes[index]);
                let beside = tracks.extract_if((at, 0)..=(at, u32::MAX), |_, _| true);
                let beside: Vec<RecordedThread> = beside
                    .map(|((_, event), live)| finish_track(live, &thread, event, &info))
                    .collect();
                kept.push(thread);
                kept.extend(beside);
            }
        }

        if kept.is_empty() {
            kept.push(placeholder(&info));
        }
        let kept_processes = if kept_processes.is_empty() {
            vec![RecordedProcess {
                id: "0".to_owned(),
                name: info.program.clone(),
                title: None,
                parent: None,
                start: 0,
                end: Some(end),
                threads: 1,
                usage: ProcessUsage::default(),
                plots: Vec::new(),
                heap: RecordedHeap::default(),
            }]
        } else {
            kept_processes
        };

        self.add_children(&kept_processes, &main_of, &mut kept, end);
        kept[0].markers.append(&mut self.recording_markers);
        let recorded_waits = self.waits.as_ref().is_some_and(|waits| waits.all().count > 0);
        if self.counts.samples == 0 && !recorded_waits {
            let what = MarkerKind::NoSamples {
                why: NoSamples::from_counts(&self.counts, &quality, &info),
            };
            kept[0].markers.push(RecordedMarker {
                start: 0,
                end: Some(end.max(0)),
                what,
            });
        }
        for thread in &mut kept {
            // What is inside another one that begins at the same time follows it.
            thread.markers.sort_by_key(|marker| (marker.start, Reverse(marker.end)));
        }

        let marker_names = MarkerKind::NAMES.map(|name| self.strings.intern(name));
        let event_names = (info.events.iter()).map(|event| self.strings.intern(&event.name));
        let event_names = event_names.collect();
        self.stacks.freeze();
        let tables = self.resolver.finish(&mut self.strings);
        Profile {
            info,
            quality,
            counts: self.counts,
            commit: None,
            stack_bytes: None,
            part: None,
            is_end: false,
            waits: self.waits,
            sampled,
            running: self.running.finish(end).filter(|_| !self.options.main_thread_only),
            strings: self.strings,
            tables,
            stacks: self.stacks,
            processes: kept_processes,
            machine: self.machine,
            spans,
            threads: kept,
            marker_names,
            event_names,
            symbolicated: false,
            tracks_are_cpus: self.options.per_cpu_threads,
            sources: Sources::default(),
        }
    }

    /// Each child as a marker on its parent, or on the nearest ancestor that is in the file.
    fn add_children(
        &mut self,
        processes: &[RecordedProcess],
        main_of: &[Option<usize>],
        kept: &mut [RecordedThread],
        end: i64,
    ) {
        for process in processes {
            let mut ancestor = process.parent;
            // A parent starts before its child, unless records were lost: then there may be circles.
            for _ in 0..ANCESTORS {
                let Some(ProcessId(index)) = ancestor else { break };
                let Some(thread) = main_of[index] else {
                    ancestor = processes[index].parent;
                    continue;
                };
                let markers = &mut kept[thread].markers;
                if markers.len() >= MARKERS_PER_THREAD {
                    self.counts.markers_left_out += 1;
                    break;
                }
                // A process that was found while attaching may be days old. A marker from its start would stretch the
                // time line.
                let start = process.start.max(0);
                markers.push(RecordedMarker {
                    start,
                    end: Some(process.end.unwrap_or(end).max(start)),
                    what: MarkerKind::Child {
                        pid: self.strings.intern(&process.id),
                        name: self.strings.intern(&process.name),
                    },
                });
                break;
            }
        }
    }
}

fn finish_thread(live: LiveThread, process: &RecordedProcess) -> RecordedThread {
    let name = match live.name {
        _ if live.is_main => process.title.as_ref().unwrap_or(&process.name).clone(),
        Some(name) if !name.is_empty() => name,
        _ => format!("Thread {}", live.id),
    };
    RecordedThread {
        process: ProcessId(live.process),
        id: live.id,
        is_main: live.is_main,
        name,
        start: live.start,
        end: live.end,
        samples: live.samples,
        event: None,
        markers: live.markers,
    }
}

/// The track of a named event beside a thread. For the front end it is a thread, which needs a number of its own.
fn finish_track(live: LiveThread, of: &RecordedThread, event: u32, info: &RecordingInfo) -> RecordedThread {
    let name = match info.events.get(event as usize) {
        Some(event) => event.name.as_str(),
        None => "event",
    };
    RecordedThread {
        process: of.process,
        id: format!("{} {name}", of.id),
        is_main: false,
        name: format!("{} · {name}", of.name),
        start: of.start,
        end: of.end,
        samples: live.samples,
        event: Some(event),
        markers: Vec::new(),
    }
}

/// Represents the program if no event came.
fn placeholder(info: &RecordingInfo) -> RecordedThread {
    RecordedThread {
        process: ProcessId(0),
        id: "0".to_owned(),
        is_main: true,
        name: info.program.clone(),
        start: 0,
        end: None,
        samples: Default::default(),
        event: None,
        markers: Vec::new(),
    }
}
