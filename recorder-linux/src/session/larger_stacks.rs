//! Once many stacks are deeper than what a sample copies, samples copy more.
//!
//! What is not copied is read from the program's memory later, which may be another call's by then. rustc at 1 kHz, of all stacks: with
//! copies of 16 KiB 3.4 % were cut and 4 to 7 % not verified, with 64 KiB 0.2 and 0.3 %. The kernel copies what the stack has: a sample
//! costs the program 1.1 times the minimal record's time with 16 KiB, and 1.4 times with a stack of 40 KiB that is copied whole.
//!
//! The larger event is opened with the first one, and is off: an event that is opened later would miss the threads that start meanwhile.
//! Each thread inherits it, which did not show in the time that 400 processes take, on 2 CPUs.
//!
//! Larger samples go to the rings of the usual ones at first, and to larger ones of their own once a child has had them made, which may take
//! half a second (`sys/ring_maker.rs`).

use recording::clock::Timestamp;
use recording::event::Role;

use crate::open::{Opened, RingBytes};
use crate::sys::process::monotonic_ns;
use crate::sys::ring_maker::RingMaker;
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
    /// Makes rings for larger dumps. It ends with the recording: until then it may wait for a CPU.
    maker: Option<RingMaker>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Usual,
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
            State::Larger { .. } => self.take_rings(opened),
            State::Never => None,
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
                self.begin_larger(beyond as f64 / all as f64, opened, translator)
            }
        }
    }

    /// Begins with larger dumps, once this share of stacks was deeper.
    fn begin_larger(&mut self, share: f64, opened: &mut Opened, translator: &mut Translator) -> Option<RingBytes> {
        self.state = State::Never;
        // Without a size there was no wish for it.
        let larger = opened.larger?;
        let usual_kib = opened.usual.stack_bytes >> 10;
        let larger_kib = larger.stack_bytes.div_ceil(1 << 10);
        if larger.seconds(opened.events.rate_hz()) < RingBytes::FEWEST_SECONDS || !opened.events.has_larger_stacks() {
            opened.notes.push(format!(
                "samples copied {usual_kib} KiB of stack, though {:.0} % of the stacks were deeper: no descriptors or locked memory for \
                 {larger_kib} KiB; `ulimit -l unlimited` allows more",
                100.0 * share
            ));
            return None;
        }
        let lost = translator.lost(Role::Running);
        if self.begin(State::Larger { lost }, opened, translator).is_some() {
            return Some(opened.usual);
        }
        opened.notes.push(format!(
            "samples copied up to {larger_kib} KiB of stack, instead of {usual_kib}, once {:.0} % of the stacks were deeper",
            100.0 * share
        ));
        self.maker = make_rings(larger, opened);
        Some(larger)
    }

    /// Goes on with rings for larger dumps, once they are made. Without them the usual ones serve.
    fn take_rings(&mut self, opened: &mut Opened) -> Option<RingBytes> {
        let rings = self.maker.as_mut()?.take(&opened.events.larger_owners())?.ok()?;
        opened.roles.extend(rings.iter().map(|_| Role::Running));
        opened.rings.extend(rings);
        opened.events.share_larger_rings().ok()?;
        own_rings(opened.larger?, opened)
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

fn own_rings(larger: RingBytes, opened: &Opened) -> Option<RingBytes> {
    larger.with_own_rings(opened.events.rate_hz(), opened.events.cpus().len())
}

/// Begins to make rings for larger dumps. `None` if they would not be larger, or there is no descriptor or process for it.
fn make_rings(larger: RingBytes, opened: &mut Opened) -> Option<RingMaker> {
    let own = own_rings(larger, opened)?;
    opened.events.open_larger_owners().ok()?;
    RingMaker::begin(&opened.events.larger_owners(), own.ring_bytes).ok()
}
