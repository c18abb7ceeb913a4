//! Spans of programs with the crate `sprof-spans` or `sprof.h`: [`spans::format`] has what they write.
//!
//! 1. `socket`: programs that sprof starts send their memory at their first span. `found` opens that of others.
//! 2. `memory`: reads the rings of a program, and trusts nothing in them.
//! 3. `clock`: from the processor's counter to the clock of the recording.
//! 4. `switches`: what is sampled, where programs pause and resume the recording.
//! 5. `SpanSink` does all that once a round, sends the spans, and holds back what is not sampled.

mod clock;
mod found;
mod memory;
mod sink;
mod socket;
mod switches;

pub(crate) use sink::SpanSink;
pub(crate) use socket::SpanSocket;
pub(crate) use switches::SamplingSwitch;
