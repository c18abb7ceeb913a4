//! Spans of programs with the crate `sprof-spans` or `sprof.h`: [`spans::format`] has what they write.
//!
//! 1. `socket`: programs that sprof starts send their memory at their first span. `found` opens that of others.
//! 2. `memory`: reads the rings of a program, and trusts nothing in them.
//! 3. `clock`: from the processor's counter to the clock of the recording.
//! 4. `SpanSink` does all that once a round, and sends the spans.

mod clock;
mod found;
mod memory;
mod sink;
mod socket;

pub(crate) use sink::SpanSink;
pub(crate) use socket::SpanSocket;
