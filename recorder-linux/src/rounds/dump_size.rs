//! The size of stack copies: larger once many stacks are deeper than their copies.
//!
//! Waits have events and rings of their own, so the copies of samples and of waits are counted, switched and announced
//! separately.
//!
//! Bytes that are not copied are read from the program's memory later, and may belong to another call by then. With
//! copies of 16 KiB, 3.4 % of all stacks of rustc at 1 kHz were cut and 4 to 7 % not verified; with 64 KiB, 0.2 and
//! 0.3 %. The kernel copies as much as the stack has: a sample costs the program 1.1 times the minimal record's time
//! with 16 KiB, and 1.4 times with a stack of 40 KiB that is copied whole.
//!
//! The larger event is opened with the first one, and is off: an event that is opened later would miss the threads that
//! start meanwhile. Each thread inherits it. The time of 400 processes on 2 CPUs did not show that cost.
//!
//! Larger samples first go to the rings of the usual ones. They get larger rings of their own once a child has made
//! them, which may take half a second (`sys/ring_maker.rs`). Waits stay in their rings: the number of stacks a second
//! is limited (`StackLimit`), and stacks without room would be left out anyway.

use recording::clock::Timestamp;
use recording::event::Role;

use crate::open::{OpenedEvents, RingBytes, StackCopies};
use crate::sys::process::monotonic_ns;
use crate::sys::ring_maker::RingMaker;
use perf_data::translate::Translator;

/// Samples, or waits, that are judged together: 50 ms of a busy thread at 1 kHz.
const SAMPLES: u64 = 50;
/// Copies become larger if more than one stack in this number needs more bytes than its sample has.
const ONE_IN: u64 = 25;

/// A thread that starts while events are switched inherits their old state, and the switch misses it (`inherit_event`
/// in kernel/events/core.c). So events are switched again in the next rounds, which changes nothing for all other
/// threads.
const SWITCHED_AGAIN: u32 = 2;

/// Window, in samples, for the losses of larger copies.
const SAMPLES_FOR_LOSSES: u64 = 1000;
/// A ring that holds fewer stacks of waits than this loses them when some threads begin to wait together.
const FEWEST_WAITS: usize = 8;

/// The size of the copies of the stacks of one role.
#[derive(Debug)]
pub(super) struct DumpSize {
    role: Role,
    in_use: DumpsInUse,
    /// Samples, and samples that needed more bytes, since the last judgement.
    samples: u64,
    beyond_sample: u64,
    /// Rounds left in which events are switched again.
    again: u32,
    /// Makes rings for larger dumps. Dropped with the recording: until then it may wait for a CPU.
    maker: Option<RingMaker>,
}

#[derive(Debug)]
enum DumpsInUse {
    Usual,
    /// Lost records before the present window, and samples in the window.
    Larger {
        lost: u64,
        samples: u64,
    },
    /// Larger dumps can't be opened, or lost records: they are not tried again.
    UsualForEver,
}

impl DumpSize {
    /// For samples ([`Role::Running`]) or waits ([`Role::WaitStack`]).
    pub(super) fn new(role: Role) -> DumpSize {
        DumpSize {
            role,
            in_use: DumpsInUse::Usual,
            samples: 0,
            beyond_sample: 0,
            again: 0,
            maker: None,
        }
    }

    /// Counts a round with `samples` samples of the role; `beyond_sample` of them needed more bytes than they have.
    /// `are_too_many`: more samples come than are wanted. Returns the rings and dumps that are in use from now on;
    /// `None` if they did not change.
    pub(super) fn after_round(
        &mut self,
        samples: u64,
        beyond_sample: u64,
        are_too_many: bool,
        opened: &mut OpenedEvents,
        translator: &mut Translator,
    ) -> Option<RingBytes> {
        let all_lost = translator.lost(self.role);
        if self.again > 0 {
            self.again -= 1;
            // Losses from before the switch are reported after it.
            if let DumpsInUse::Larger { lost, .. } = &mut self.in_use {
                *lost = all_lost;
            }
            return self.switch(opened, translator);
        }
        match &mut self.in_use {
            DumpsInUse::Larger { lost, samples: so_far } => {
                *so_far += samples;
                let most = match self.role {
                    Role::Running => 0,
                    // Each wait without its stack is counted, and a burst may lose some.
                    _ => SAMPLES.max(*so_far),
                };
                if are_too_many || all_lost.saturating_sub(*lost) <= most {
                    if *so_far >= SAMPLES_FOR_LOSSES {
                        (*lost, *so_far) = (all_lost, 0);
                    }
                    return self.take_rings(opened);
                }
                let usual = opened.copies(self.role).usual;
                opened.notes.push(format!(
                    "{} went back to {} KiB stack copies after larger ones overflowed the buffers; deeper stacks may be cut",
                    self.copied(),
                    usual.stack_bytes >> 10
                ));
                self.begin(DumpsInUse::UsualForEver, opened, translator);
                Some(usual)
            }
            DumpsInUse::UsualForEver => None,
            DumpsInUse::Usual => {
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
                self.begin_larger(beyond as f64 / all as f64, opened, translator)
            }
        }
    }

    /// Begins with larger dumps, after this share of stacks was deeper.
    fn begin_larger(
        &mut self,
        share: f64,
        opened: &mut OpenedEvents,
        translator: &mut Translator,
    ) -> Option<RingBytes> {
        self.in_use = DumpsInUse::UsualForEver;
        let StackCopies { usual, larger } = opened.copies(self.role);
        // The recording does not want larger dumps.
        let larger = larger?;
        let (copied, percent) = (self.copied(), 100.0 * share);
        let usual_kib = usual.stack_bytes >> 10;
        let larger_kib = larger.stack_bytes.div_ceil(1 << 10);
        let has_room = match self.role {
            Role::Running => larger.seconds(opened.events.rate_hz()) >= RingBytes::FEWEST_SECONDS,
            _ => larger.holds(FEWEST_WAITS),
        };
        if !has_room || !opened.events.has_larger_stacks(self.role) {
            opened.notes.push(format!(
                "{copied} copied {usual_kib} KiB of stack, though {percent:.0} % of the stacks were deeper: no descriptors or locked \
                 memory for {larger_kib} KiB; `ulimit -l unlimited` allows more"
            ));
            return None;
        }
        let lost = translator.lost(self.role);
        if self
            .begin(DumpsInUse::Larger { lost, samples: 0 }, opened, translator)
            .is_some()
        {
            return Some(usual);
        }
        opened.notes.push(format!(
            "{copied} copied up to {larger_kib} KiB of stack, instead of {usual_kib}, once {percent:.0} % of the stacks were deeper"
        ));
        if self.role == Role::Running {
            self.maker = make_rings(larger, opened);
        }
        Some(larger)
    }

    /// What copies stacks, for notes.
    fn copied(&self) -> &'static str {
        match self.role {
            Role::Running => "samples",
            _ => "waits",
        }
    }

    /// Continues with rings for larger dumps, once they are made. Without them, larger dumps stay in the usual rings.
    fn take_rings(&mut self, opened: &mut OpenedEvents) -> Option<RingBytes> {
        let rings = self.maker.as_mut()?.take(&opened.events.larger_owners())?.ok()?;
        opened.roles.extend(rings.iter().map(|_| Role::Running));
        opened.rings.extend(rings);
        opened.events.share_larger_rings().ok()?;
        own_rings(opened.samples.larger?, opened)
    }

    fn begin(
        &mut self,
        in_use: DumpsInUse,
        opened: &mut OpenedEvents,
        translator: &mut Translator,
    ) -> Option<RingBytes> {
        self.in_use = in_use;
        self.again = SWITCHED_AGAIN;
        self.switch(opened, translator)
    }

    /// Switches the events to the present state. If that fails, which was never seen, the usual events continue.
    fn switch(&mut self, opened: &mut OpenedEvents, translator: &mut Translator) -> Option<RingBytes> {
        let from = Timestamp(monotonic_ns());
        let larger = matches!(self.in_use, DumpsInUse::Larger { .. });
        let switched = opened.events.switch_to_larger_stacks(self.role, larger);
        // The events of waits report nothing else.
        if self.role == Role::Running {
            translator.reported_twice(from, Timestamp(monotonic_ns()));
        }
        let error = switched.err()?;
        opened
            .notes
            .push(format!("{} could not copy more of the stack: {error}", self.copied()));
        (self.in_use, self.again) = (DumpsInUse::UsualForEver, 0);
        // Switches back as many events as possible.
        let _ = opened.events.switch_to_larger_stacks(self.role, false);
        Some(opened.copies(self.role).usual)
    }
}

fn own_rings(larger: RingBytes, opened: &OpenedEvents) -> Option<RingBytes> {
    larger.with_own_rings(opened.events.rate_hz(), opened.events.cpus().len())
}

/// Begins to make rings for larger dumps. `None` if they would not be larger, or if no descriptor or process is left.
fn make_rings(larger: RingBytes, opened: &mut OpenedEvents) -> Option<RingMaker> {
    let own = own_rings(larger, opened)?;
    opened.events.open_larger_owners().ok()?;
    RingMaker::begin(&opened.events.larger_owners(), own.ring_bytes).ok()
}
