//! The text of `perf script`, for stackcollapse-perf.pl, inferno-collapse-perf, the Firefox Profiler and others.
//!
//! There is no specification: perf's tools/perf/builtin-script.c writes it. The number before the event is perf's
//! period, here the sample's weight. Readers that count samples get the same result if each weight is one.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use super::label;
use super::{ExportUnit, Picked, PickedTime};
use crate::data::NO_STACK_LABEL;
use crate::data::{Data, NONE, Thread};
use crate::text::one_line;

/// Writes each sample with its stack, leaf first; thread after thread, each in time order.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    let data = picked.data;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let event: Cow<'_, str> = match (picked.named(), picked.counted(), picked.time()) {
        (Some((name, _)), ExportUnit::Nanoseconds, _) => format!("{}-ns", label::event(name)).into(),
        (Some((name, _)), ..) => label::event(name).into(),
        (_, ExportUnit::Samples, PickedTime::Waits) => "waits".into(),
        (_, ExportUnit::Samples, _) => "samples".into(),
        (_, ExportUnit::Bytes, _) => "bytes".into(),
        (_, _, PickedTime::Cpu) => "cpu-ns".into(),
        (_, _, PickedTime::Waits) => "wait-ns".into(),
        (_, _, PickedTime::All) => "wall-ns".into(),
    };
    for thread in &data.threads {
        let (comm, pid, tid) = names(thread);
        for sample in picked.samples(thread) {
            let us = (sample.time_ms.max(0.0) * 1e3).round() as u64;
            writeln!(
                out,
                "{comm} {pid}/{tid} {}.{:06}: {:>10} {event}: ",
                us / 1_000_000,
                us % 1_000_000,
                sample.weight
            )?;
            stack(&mut out, data, sample.stack)?;
        }
    }
    out.flush()
}

fn stack(out: &mut impl Write, data: &Data, mut stack: u32) -> io::Result<()> {
    if stack == NONE {
        writeln!(out, "\t{:>16x} {NO_STACK_LABEL} ([unknown])", 0)?;
    }
    while stack != NONE {
        let node = data.stacks[stack as usize];
        let frame = data.frames[node.frame as usize];
        let name = label::function(data, frame.func);
        // Readers take a bracketed name at the start for the process.
        let name = one_line(&name);
        let lib = data.lib_name(frame.func).unwrap_or("[unknown]");
        let lib = one_line(lib).replace(['(', ')'], "_");
        let place = if frame.is_inlined() { "inlined" } else { &lib };
        writeln!(out, "\t{:>16x} {name} ({place})", frame.address.unwrap_or(0))?;
        stack = node.prefix;
    }
    writeln!(out)
}

/// Process, pid and tid. Readers need numbers.
fn names(thread: &Thread) -> (String, u64, u64) {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let comm = match thread.name.as_str() {
        "" => label::process(thread).into_owned(),
        name => name.to_owned(),
    };
    (one_line(&comm).into_owned(), number(&thread.pid), number(&thread.tid))
}
