//! DHAT's JSON for valgrind's own viewer (`dh_view.html`): blocks of memory by call path. Version 2:
//! <https://valgrind.org/docs/manual/dh-manual.html>, dhat/dh_view.js.

use std::io::{self, BufWriter, Write};

use serde_json::json;

use super::label;
use crate::data::blocks::{Block, TEMPORARY_MS, peak};
use crate::data::{Data, Frame, NO_STACK_LABEL, NONE};
use crate::text::numbers::bytes;
use crate::unique::Unique;

/// Writes the blocks of memory: of each call path, what was allocated, what lived at the peak of the heap, at the
/// path's own peak and at the end, and the sum of lifetimes. Bytes and numbers of blocks are rounded for each path.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(data: &Data, out: impl Write) -> io::Result<()> {
    let blocks = data.blocks();
    let peak_ms = peak(&blocks).map_or(0.0, |(time_ms, _)| time_ms);
    let last_ms = blocks.iter().map(|block| block.time_ms).fold(0.0, f64::max);
    let end_ms = data.length_ms().unwrap_or(0.0).max(last_ms);
    let mut frames: Unique<String> = Unique::default();
    frames.index("[root]".to_owned());
    // The viewer refuses two points of one path: stacks of several threads may have the same frames.
    let mut paths: Unique<Vec<u32>> = Unique::default();
    let mut points: Vec<Vec<Block>> = Vec::new();
    for block in blocks {
        let path = paths.index(path(data, block.stack, &mut frames)) as usize;
        if path == points.len() {
            points.push(Vec::new());
        }
        points[path].push(block);
    }
    let process = data.threads.iter().find(|thread| thread.allocations.is_some());
    let losses = data
        .recorded
        .as_ref()
        .and_then(|recorded| recorded.heap.as_ref()?.lost.as_ref());
    let lost = losses.filter(|lost| lost.bytes > 0).map_or_else(String::new, |lost| {
        format!("; {} not in it were lost", bytes(lost.bytes as f64))
    });
    let mut out = BufWriter::with_capacity(1 << 16, out);
    // Readers know the format by its first key.
    write!(
        out,
        "{{\"dhatFileVersion\":2,\"mode\":\"heap, blocks sampled by sprof{lost}\",\"verb\":\"Allocated\","
    )?;
    out.write_all("\"bklt\":true,\"bkacc\":false,\"tu\":\"µs\",\"Mtu\":\"s\",\"cmd\":".as_bytes())?;
    serde_json::to_writer(&mut out, format!("{} {}", data.product, data.arguments).trim_end())?;
    let pid = process.and_then(|thread| thread.pid.parse::<u64>().ok()).unwrap_or(0);
    if let Some(interval) = data.heap_interval() {
        // A key of ours, which the viewer does not look for.
        write!(out, ",\"sprofHeapInterval\":{interval}")?;
    }
    let [tuth, te, tg] = [TEMPORARY_MS, end_ms, peak_ms].map(micros);
    write!(out, ",\"pid\":{pid},\"tuth\":{tuth},\"te\":{te},\"tg\":{tg}\n,\"pps\":")?;
    for (at, (path, blocks)) in paths.all.iter().zip(&points).enumerate() {
        out.write_all(if at == 0 { b"[" } else { b"\n," })?;
        let own_peak_ms = peak(blocks).map_or(0.0, |(time_ms, _)| time_ms);
        let sums = |is_counted: &dyn Fn(&Block) -> bool| {
            let counted = || blocks.iter().filter(|block| is_counted(block));
            let sum: f64 = counted().map(|block| block.weight).sum();
            let number: f64 = counted().map(Block::blocks).sum();
            (sum.round() as u64, number.round() as u64)
        };
        let (tb, tbk) = sums(&|_| true);
        let (mb, mbk) = sums(&|block| block.is_live_at(own_peak_ms));
        let (gb, gbk) = sums(&|block| block.is_live_at(peak_ms));
        let (eb, ebk) = sums(&|block| block.freed_ms.is_infinite());
        let life_ms = |block: &Block| block.freed_ms.min(block.process_end_ms).min(end_ms) - block.time_ms;
        let tl = micros(blocks.iter().map(|block| life_ms(block) * block.blocks()).sum());
        let point = json!({
            "tb": tb, "tbk": tbk, "tl": tl, "mb": mb, "mbk": mbk, "gb": gb, "gbk": gbk, "eb": eb, "ebk": ebk, "fs": path,
        });
        serde_json::to_writer(&mut out, &point)?;
    }
    out.write_all(b"]\n,\"ftbl\":")?;
    serde_json::to_writer(&mut out, &frames.all)?;
    out.write_all(b"}\n")?;
    out.flush()
}

fn micros(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

/// The frames of a stack, leaf first.
fn path(data: &Data, mut stack: u32, frames: &mut Unique<String>) -> Vec<u32> {
    let mut path = Vec::new();
    while let Some(node) = data.stacks.get(stack as usize) {
        path.push(frames.index(frame_text(data, &data.frames[node.frame as usize])));
        stack = node.prefix;
    }
    if path.is_empty() {
        path.push(frames.index(NO_STACK_LABEL.to_owned()));
    }
    path
}

/// `0x1248: keep (a.c:37)`, `0x17b4: malloc (in /usr/lib/libc.so.6)`
fn frame_text(data: &Data, frame: &Frame) -> String {
    let (address, name) = (frame.address.unwrap_or(0), label::function(data, frame.func));
    let place = match (data.line_file(frame), data.libs.get(frame.lib as usize)) {
        (file, _) if file != NONE && frame.line != NONE => format!(" ({}:{})", data.text(file), frame.line),
        (_, Some(lib)) => format!(" (in {})", label::library(lib)),
        _ => String::new(),
    };
    format!("0x{address:X}: {name}{place}")
}
