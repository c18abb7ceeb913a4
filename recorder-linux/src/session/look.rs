//! A look at the stacks that are deeper than their dumps, which leaves the records in the rings.
//!
//! To complete such stacks, memory has to be read soon: some times a round, if rounds are long. All that a whole round
//! does takes 200 to 300 us for the first sample; to read the callers of one thread takes a tenth of it.

use perf_data::decode;
use perf_data::translate::Translator;
use recording::event::Role;
use recording::sink::{EventSink, Looked};

use crate::open::Opened;
use crate::session::pace::Pace;

/// After callers that had changed, so many rounds go by without a look, and twice as many after each further one.
const FIRST_PAUSE: u32 = 1;
const LONGEST_PAUSE: u32 = 16;

/// What a look found, after which records stay in the rings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) callers: Looked,
    /// The samples since the last look.
    pub(super) samples: u64,
}

/// Looks at the callers in live memory.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Rounds until the next look.
    pause: u32,
    last_pause: u32,
}

impl Look {
    /// What was found, if the records that there are can wait: they are samples whose stacks are whole, or can be
    /// completed with the callers that were read just now. `None`: all is to be taken now.
    pub(super) fn take(
        &mut self,
        pace: &Pace,
        opened: &mut Opened,
        translator: &Translator,
        sink: &mut dyn EventSink,
    ) -> Option<Seen> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let mut fill = 0.0_f64;
        for ring in &mut opened.rings {
            ring.refresh();
            fill = fill.max(ring.fill());
        }
        if !pace.may_wait(fill) {
            return None;
        }
        let mut samples = 0;
        let mut can_wait = |record: &[u8]| match translator.stack_end(record) {
            Some((thread, stack_end)) => {
                samples += 1;
                stack_end == u64::MAX || sink.may_wait(thread, stack_end)
            }
            None => decode::opens_no_file(record),
        };
        let mut rings = opened.rings.iter_mut().zip(&opened.roles);
        if !rings.all(|(ring, role)| ring.look(&mut |record| *role == Role::Running && can_wait(record))) {
            return None;
        }
        let callers = sink.look_again();
        if callers != Looked::Changed {
            self.last_pause = 0;
            return Some(Seen { callers, samples });
        }
        self.last_pause = (self.last_pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause = self.last_pause;
        None
    }
}
