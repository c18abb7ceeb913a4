//! speedscope's own format: <https://www.speedscope.app/file-format-schema.json>. A sampled profile for each thread.

use std::cmp::Reverse;
use std::io::{self, BufWriter, Write};

use rustc_hash::FxHashMap;

use super::label;
use super::{ExportUnit, Picked};
use crate::data::NO_STACK_LABEL;
use crate::data::{NONE, Thread};

/// Writes the samples of each thread, in time order.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    let data = picked.data;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",")?;
    write!(out, "\"exporter\":\"sprof {}\",\"name\":", env!("CARGO_PKG_VERSION"))?;
    json(&mut out, &data.product)?;
    let total = |thread: &Thread| (picked.samples(thread)).fold(0u64, |sum, sample| sum.saturating_add(sample.weight));
    let threads: Vec<(&Thread, u64)> = (data.threads.iter())
        .filter(|thread| picked.samples(thread).next().is_some())
        .map(|thread| (thread, total(thread)))
        .collect();
    let busiest = (0..threads.len()).max_by_key(|at| (threads[*at].1, Reverse(*at)));
    write!(
        out,
        ",\"activeProfileIndex\":{},\"shared\":{{\"frames\":[",
        busiest.unwrap_or(0)
    )?;
    // One frame for each function: speedscope adds up by frame, so a frame for each line would split functions.
    let mut ids: FxHashMap<(String, u32), usize> = FxHashMap::default();
    let mut frames: Vec<usize> = Vec::with_capacity(data.funcs.len());
    for (func, row) in data.funcs.iter().enumerate() {
        let name = label::function(data, func as u32).into_owned();
        let next = ids.len();
        let id = *ids.entry((name.clone(), row.file)).or_insert(next);
        frames.push(id);
        if id < next {
            continue;
        }
        out.write_all(b"{\"name\":")?;
        json(&mut out, &name)?;
        if row.file != NONE {
            out.write_all(b",\"file\":")?;
            json(&mut out, data.text(row.file))?;
        }
        out.write_all(b"},\n")?;
    }
    let no_stack = ids.len();
    write!(out, "{{\"name\":\"{NO_STACK_LABEL}\"}}]}},\"profiles\":[")?;
    for (at, (thread, total)) in threads.into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",\n")?;
        }
        profile(&mut out, picked, thread, total, &frames, no_stack)?;
    }
    out.write_all(b"]}\n")?;
    out.flush()
}

fn profile(
    out: &mut impl Write,
    picked: &Picked<'_>,
    thread: &Thread,
    total: u64,
    frames: &[usize],
    no_stack: usize,
) -> io::Result<()> {
    let data = picked.data;
    let unit = match picked.counted() {
        ExportUnit::Samples | ExportUnit::Named => "none",
        ExportUnit::Nanoseconds => "nanoseconds",
        ExportUnit::Bytes => "bytes",
    };
    out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
    json(out, &format!("{}: {}", label::process(thread), label::thread(thread)))?;
    write!(
        out,
        ",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{total},\"samples\":["
    )?;
    let mut path = Vec::new();
    for (at, sample) in picked.samples(thread).enumerate() {
        path.clear();
        let mut next = sample.stack;
        while next != NONE {
            let stack = data.stacks[next as usize];
            path.push(frames[data.frames[stack.frame as usize].func as usize]);
            next = stack.prefix;
        }
        if path.is_empty() {
            path.push(no_stack);
        }
        out.write_all(if at > 0 { b",[" } else { b"[" })?;
        for (at, frame) in path.iter().rev().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            write!(out, "{frame}")?;
        }
        out.write_all(b"]")?;
    }
    out.write_all(b"],\"weights\":[")?;
    for (at, sample) in picked.samples(thread).enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        write!(out, "{}", sample.weight)?;
    }
    out.write_all(b"]}")
}

fn json(out: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}
