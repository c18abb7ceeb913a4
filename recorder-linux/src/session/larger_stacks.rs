//! Once many stacks are deeper than what a sample copies, samples copy more.
//!
//! What is not copied is read from the program's memory later, which may be another call's by then. rustc at 1 kHz, of all stacks: with
//! copies of 16 KiB 3.4 % were cut and 4 to 7 % not verified, with 64 KiB 0.1 and 0.2 %. The kernel copies what the stack has, so the
//! program pays for deep stacks alone.
//!
//! The larger event is opened with the first one, and is off: an event that is opened later would have to be opened for each thread.

use std::io;

use recording::event::Role;

use crate::open::{Opened, RingBytes};
use crate::sys::ring::Ring;
use perf_data::translate::Translator;

/// So many samples are looked at together: 50 ms of a busy thread at 1 kHz.
const SAMPLES: u64 = 50;
/// Of these, one in so many must need more bytes than it has.
const ONE_IN: u64 = 25;

/// Which dumps are in use.
#[derive(Debug, Default)]
pub(super) struct LargerStacks {
    state: State,
    samples: u64,
    beyond_sample: u64,
}

#[derive(Debug, Default, PartialEq)]
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
        translator: &Translator,
    ) -> io::Result<Option<RingBytes>> {
        match self.state {
            State::Never => Ok(None),
            State::Larger { lost } if translator.lost(Role::Running) > lost => {
                self.state = State::Never;
                opened.notes.push(format!(
                    "samples copied {} KiB of stack again after larger copies were lost: deeper stacks may be cut",
                    opened.usual.stack_bytes >> 10
                ));
                opened.events.switch_to_larger_stacks(false)?;
                Ok(Some(opened.usual))
            }
            State::Larger { .. } => Ok(None),
            State::Usual => {
                self.samples += samples;
                self.beyond_sample += beyond_sample;
                if self.samples < SAMPLES {
                    return Ok(None);
                }
                let (all, beyond) = (
                    std::mem::take(&mut self.samples),
                    std::mem::take(&mut self.beyond_sample),
                );
                if beyond * ONE_IN < all {
                    return Ok(None);
                }
                let Some(larger) = map_rings(opened) else {
                    self.state = State::Never;
                    return Ok(None);
                };
                opened.events.switch_to_larger_stacks(true)?;
                let lost = translator.lost(Role::Running);
                self.state = State::Larger { lost };
                opened.notes.push(format!(
                    "samples copied up to {} KiB of stack, instead of {}, once {:.0} % of the stacks were deeper",
                    larger.stack_bytes.div_ceil(1 << 10),
                    opened.usual.stack_bytes >> 10,
                    100.0 * beyond as f64 / all as f64
                ));
                Ok(Some(larger))
            }
        }
    }
}

/// Rings for the larger event: of its own, or the usual ones where no more memory may be locked and they have room.
fn map_rings(opened: &mut Opened) -> Option<RingBytes> {
    let larger = opened.larger?;
    let events = opened.events.larger_stacks();
    if events.is_empty() {
        return None;
    }
    let rings: io::Result<Vec<Ring>> = events.iter().map(|event| Ring::map(event, larger.ring_bytes)).collect();
    match rings {
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
            (has_room && opened.events.share_larger_stacks().is_ok()).then_some(shared)
        }
    }
}
