//! Once many stacks are deeper than what a sample copies, samples copy more.
//!
//! What is not copied is read from the program's memory later, which may be another call's by then. rustc at 1 kHz, of all stacks: with
//! copies of 16 KiB 3.4 % were cut and 4 to 7 % not verified, with 64 KiB 0.2 and 0.3 %. The kernel copies what the stack has: a sample
//! costs the program 1.1 times the minimal record's time with 16 KiB, and 1.4 times with a stack of 40 KiB that is copied whole.
//!
//! The larger event is opened with the first one, and is off: an event that is opened later would miss the threads that start meanwhile.
//! Each thread inherits it, which did not show in the time that 400 processes take, on 2 CPUs.
//!
//! Rings for it are mapped when they are needed, by a thread: the kernel clears their memory first, which took 18 to 220 ms for 64 MiB. When
//! the recorder waited for that, the samples of this time were completed late, and not verified.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recording::clock::Timestamp;
use recording::event::Role;

use crate::open::{Opened, RingBytes};
use crate::sys::perf_event::EventFd;
use crate::sys::process::monotonic_ns;
use crate::sys::ring::Ring;
use perf_data::translate::Translator;

/// So many samples are looked at together: 50 ms of a busy thread at 1 kHz.
const SAMPLES: u64 = 50;
/// Of these, one in so many must need more bytes than it has.
const ONE_IN: u64 = 25;

/// A thread that starts while events are switched inherits them as they were, and is not seen by the switch (`inherit_event` in
/// kernel/events/core.c). So they are switched again in the next rounds, which changes nothing for all others.
const SWITCHED_AGAIN: u32 = 2;

/// Which dumps are in use.
#[derive(Debug, Default)]
pub(super) struct LargerStacks {
    state: State,
    samples: u64,
    beyond_sample: u64,
    /// So many rounds are left in which events are switched again.
    again: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Usual,
    /// Rings for larger ones are being mapped, as this share of stacks was deeper.
    Mapping { share: f64, rings: Mapping },
    /// With so many records lost before.
    Larger { lost: u64 },
    /// Larger ones are not to be had, or were too large.
    Never,
}

impl LargerStacks {
    /// After a round with so many samples, some of which needed more bytes than they have. The rings and dumps that are in use from now
    /// on, if they are others.
    pub(super) fn after(
        &mut self,
        samples: u64,
        beyond_sample: u64,
        opened: &mut Opened,
        translator: &mut Translator,
    ) -> Option<RingBytes> {
        if self.again > 0 {
            self.again -= 1;
            // Losses from before the switch are reported after it.
            if let State::Larger { lost } = &mut self.state {
                *lost = translator.lost(Role::Running);
            }
            return self.switch(opened, translator);
        }
        match &self.state {
            State::Larger { lost } if translator.lost(Role::Running) > *lost => {
                opened.notes.push(format!(
                    "samples copied {} KiB of stack again after larger copies were lost: deeper stacks may be cut",
                    opened.usual.stack_bytes >> 10
                ));
                self.begin(State::Never, opened, translator);
                Some(opened.usual)
            }
            State::Larger { .. } | State::Never => None,
            State::Usual => {
                self.samples += samples;
                self.beyond_sample += beyond_sample;
                if self.samples < SAMPLES {
                    return None;
                }
                let (all, beyond) = (
                    std::mem::take(&mut self.samples),
                    std::mem::take(&mut self.beyond_sample),
                );
                if beyond * ONE_IN < all {
                    return None;
                }
                let share = beyond as f64 / all as f64;
                self.state = match Mapping::begin(opened) {
                    Some(rings) => State::Mapping { share, rings },
                    None => {
                        note_none(share, opened);
                        State::Never
                    }
                };
                None
            }
            State::Mapping { rings, .. } if !rings.is_done() => None,
            State::Mapping { .. } => match std::mem::replace(&mut self.state, State::Never) {
                State::Mapping { share, rings } => self.mapped(share, rings, opened, translator),
                _ => None,
            },
        }
    }

    /// Begins with larger dumps, once there are rings for them.
    fn mapped(
        &mut self,
        share: f64,
        rings: Mapping,
        opened: &mut Opened,
        translator: &mut Translator,
    ) -> Option<RingBytes> {
        let Some(larger) = take_rings(rings, opened) else {
            note_none(share, opened);
            return None;
        };
        let lost = translator.lost(Role::Running);
        if self.begin(State::Larger { lost }, opened, translator).is_some() {
            return Some(opened.usual);
        }
        opened.notes.push(format!(
            "samples copied up to {} KiB of stack, instead of {}, once {:.0} % of the stacks were deeper",
            larger.stack_bytes.div_ceil(1 << 10),
            opened.usual.stack_bytes >> 10,
            100.0 * share
        ));
        Some(larger)
    }

    fn begin(&mut self, state: State, opened: &mut Opened, translator: &mut Translator) -> Option<RingBytes> {
        self.state = state;
        self.again = SWITCHED_AGAIN;
        self.switch(opened, translator)
    }

    /// Switches the events to the present state. If that fails, which was never seen, the usual ones go on.
    fn switch(&mut self, opened: &mut Opened, translator: &mut Translator) -> Option<RingBytes> {
        let from = Timestamp(monotonic_ns());
        let larger = matches!(self.state, State::Larger { .. });
        let switched = opened.events.switch_to_larger_stacks(larger);
        translator.reported_twice(from, Timestamp(monotonic_ns()));
        let error = switched.err()?;
        opened
            .notes
            .push(format!("samples could not copy more of the stack: {error}"));
        (self.state, self.again) = (State::Never, 0);
        // What can be switched back is.
        let _ = opened.events.switch_to_larger_stacks(false);
        Some(opened.usual)
    }
}

/// Notes that dumps stay as they are, for this share of deeper stacks.
fn note_none(share: f64, opened: &mut Opened) {
    // Without a size there was no wish for it.
    let note = opened.larger.map(|larger| {
        format!(
            "samples copied {} KiB of stack, though {:.0} % of the stacks were deeper: no descriptors or locked memory for {} KiB; \
             `ulimit -l unlimited` allows more",
            opened.usual.stack_bytes >> 10,
            100.0 * share,
            larger.stack_bytes.div_ceil(1 << 10)
        )
    });
    opened.notes.extend(note);
}

/// Rings that a thread maps.
#[derive(Debug)]
struct Mapping(JoinHandle<io::Result<Vec<Ring>>>);

impl Mapping {
    /// `None` if there is no larger event, no descriptor for it is left, or the thread can't be started.
    ///
    /// The thread must not be the one that gets a signal: call it when they are blocked.
    fn begin(opened: &Opened) -> Option<Mapping> {
        let larger = opened.larger?;
        let events: io::Result<Vec<EventFd>> = opened.events.larger_stacks().map(EventFd::try_clone).collect();
        let events = events.ok().filter(|events| !events.is_empty())?;
        // With the recorder's priority: beside busy programs it would last long, and stacks be cut meanwhile.
        let map = move || {
            let mut pause = Duration::ZERO;
            let map = |event| {
                // The kernel holds a lock while it maps that the recorder needs for more memory (`mmap_lock`).
                std::thread::sleep(pause);
                let begun = Instant::now();
                let ring = Ring::map(event, larger.ring_bytes);
                pause = begun.elapsed();
                ring
            };
            events.iter().map(map).collect()
        };
        let thread = std::thread::Builder::new().name("map rings".to_owned()).spawn(map);
        thread.ok().map(Mapping)
    }

    fn is_done(&self) -> bool {
        self.0.is_finished()
    }

    fn end(self) -> io::Result<Vec<Ring>> {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Rings for the larger event: of its own, or the usual ones where no more memory may be locked and they have room.
fn take_rings(rings: Mapping, opened: &mut Opened) -> Option<RingBytes> {
    let larger = opened.larger?;
    match rings
        .end()
        .and_then(|rings| opened.events.share_larger_stacks(true).map(|()| rings))
    {
        Ok(rings) => {
            opened.roles.extend(rings.iter().map(|_| Role::Running));
            opened.rings.extend(rings);
            Some(larger)
        }
        Err(_) => {
            let shared = RingBytes {
                ring_bytes: opened.usual.ring_bytes,
                ..larger
            };
            let has_room = shared.seconds(opened.events.rate_hz()) >= RingBytes::FEWEST_SECONDS;
            (has_room && opened.events.share_larger_stacks(false).is_ok()).then_some(shared)
        }
    }
}
