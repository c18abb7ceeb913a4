//! The callgrind format, for callgrind_annotate and KCachegrind: <https://valgrind.org/docs/manual/cl-format.html>.
//! Costs by function and line, with calls between functions.
//!
//! A sampling profiler counts no calls. The number of samples stands in the format's number of calls.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use rustc_hash::FxHashMap;

use super::label;
use super::{ExportUnit, Picked, PickedTime};
use crate::data::NO_STACK_LABEL;
use crate::data::{Data, NONE};
use crate::text::one_line;
use crate::view::callees::Callees;

/// Writes the self cost of each line of each function, and the cost of its calls.
///
/// The inclusive cost of a function (self cost and calls) is the cost of samples with it on the stack. For a recursive
/// function, only the innermost call on a stack counts. If each call counted, a recursion of depth 100 would cost 100
/// times its time.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    let costs = Costs::new(picked);
    let data = picked.data;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let event = match (picked.named(), picked.counted(), picked.time()) {
        (Some((name, _)), ..) => label::event(name),
        (_, ExportUnit::Samples, _) => "Samples".to_owned(),
        (_, ExportUnit::Bytes, _) => "Bytes".to_owned(),
        (_, _, PickedTime::Cpu) => "CPU_ns".to_owned(),
        (_, _, PickedTime::Waits) => "Wait_ns".to_owned(),
        (_, _, PickedTime::All) => "Wall_ns".to_owned(),
    };
    writeln!(
        out,
        "# callgrind format\nversion: 1\ncreator: sprof {}",
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(out, "cmd: {}", one_line(&data.product))?;
    writeln!(out, "desc: Calls: sampled, so their numbers are those of samples")?;
    writeln!(out, "positions: line\nevents: {event}\nsummary: {}", costs.total)?;
    let mut names = NumberedNames::default();
    for (func, costs) in &costs.funcs {
        writeln!(out)?;
        names.write(&mut out, data, *func, "")?;
        let mut current = None;
        for ((file, line), own) in &costs.own {
            names.line_file(&mut out, data, *func, *file, &mut current)?;
            writeln!(out, "{line} {own}")?;
        }
        for ((file, line, callee), (count, cost)) in &costs.calls {
            names.line_file(&mut out, data, *func, *file, &mut current)?;
            names.write(&mut out, data, *callee, "c")?;
            writeln!(out, "calls={count} 0\n{line} {cost}")?;
        }
    }
    writeln!(out, "\ntotals: {}", costs.total)?;
    out.flush()
}

/// Costs of all functions; [`NONE`] is for samples without a stack.
#[derive(Default)]
struct Costs {
    funcs: BTreeMap<u32, FuncCosts>,
    total: u64,
}

#[derive(Default)]
struct FuncCosts {
    /// By the line's file, if that is not the function's, and line; 0 if unknown.
    own: BTreeMap<(Option<u32>, u32), u64>,
    /// By the same and called function: samples and cost.
    calls: BTreeMap<(Option<u32>, u32, u32), (u64, u64)>,
}

/// Samples that end at a stack or above it: rows of the profile, samples, cost.
#[derive(Clone, Copy, Default)]
struct StackSums {
    rows: u64,
    count: u64,
    weight: u64,
}

impl StackSums {
    fn add(&mut self, other: StackSums) {
        self.rows = self.rows.saturating_add(other.rows);
        self.count = self.count.saturating_add(other.count);
        self.weight = self.weight.saturating_add(other.weight);
    }

    fn without(self, other: StackSums) -> StackSums {
        StackSums {
            rows: self.rows.saturating_sub(other.rows),
            count: self.count.saturating_sub(other.count),
            weight: self.weight.saturating_sub(other.weight),
        }
    }
}

impl Costs {
    /// Takes time in proportion to the number of stacks, however deep they are.
    fn new(picked: &Picked<'_>) -> Costs {
        let data = picked.data;
        let mut costs = Costs::default();
        let mut sums: Vec<StackSums> = vec![StackSums::default(); data.stacks.len()];
        for sample in data.threads.iter().flat_map(|thread| picked.samples(thread)) {
            costs.total = costs.total.saturating_add(sample.weight);
            let Some(of) = sums.get_mut(sample.stack as usize) else {
                add(
                    costs.funcs.entry(NONE).or_default().own.entry((None, 0)).or_default(),
                    sample.weight,
                );
                continue;
            };
            of.add(StackSums {
                rows: 1,
                count: sample.count,
                weight: sample.weight,
            });
            let (func, file, line) = place(data, sample.stack);
            let own = &mut costs.funcs.entry(func).or_default().own;
            add(own.entry((file, line)).or_default(), sample.weight);
        }
        // Callees come after their callers.
        for stack in (0..data.stacks.len()).rev() {
            if let Some(caller) = prefix(data, stack as u32) {
                let of = sums[stack];
                sums[caller as usize].add(of);
            }
        }
        let repeated = repeated(data, &sums);
        for stack in 0..data.stacks.len() as u32 {
            let Some(caller) = prefix(data, stack) else { continue };
            let innermost = sums[stack as usize].without(repeated[stack as usize]);
            if innermost.rows > 0 {
                let (func, file, line) = place(data, caller);
                let calls = &mut costs.funcs.entry(func).or_default().calls;
                let call = calls.entry((file, line, place(data, stack).0)).or_default();
                add(&mut call.0, innermost.count);
                add(&mut call.1, innermost.weight);
            }
        }
        costs
    }
}

/// The function and line of a stack's leaf, and the line's file if that is not the function's; line 0 if unknown.
fn place(data: &Data, stack: u32) -> (u32, Option<u32>, u32) {
    let frame = data.frames[data.stacks[stack as usize].frame as usize];
    let file = Some(frame.line_file).filter(|file| *file != NONE);
    (frame.func, file, if frame.line == NONE { 0 } else { frame.line })
}

fn prefix(data: &Data, stack: u32) -> Option<u32> {
    Some(data.stacks[stack as usize].prefix).filter(|prefix| *prefix != NONE)
}

/// For each stack, the samples in which the function of its caller is called once more, further in.
fn repeated(data: &Data, sums: &[StackSums]) -> Vec<StackSums> {
    let callees = Callees::new(&data.stacks);
    let mut repeated = vec![StackSums::default(); sums.len()];
    // The innermost call of each function on the way to the stack that is visited.
    let mut innermost: Vec<u32> = vec![NONE; data.funcs.len()];
    // Each stack on the way, with the call of its function that it hides, and its callee that is visited next.
    let mut way: Vec<(u32, u32, u32)> = Vec::new();
    // The place of each stack in `way`, while it is there.
    let mut depth: Vec<u32> = vec![0; sums.len()];
    let mut next = callees.first_root();
    loop {
        if next != NONE {
            let func = place(data, next).0 as usize;
            let hidden = std::mem::replace(&mut innermost[func], next);
            if hidden != NONE {
                // The callee of the hidden call, on this way.
                let below = way
                    .get(depth[hidden as usize] as usize + 1)
                    .map_or(next, |below| below.0);
                repeated[below as usize].add(sums[next as usize]);
            }
            depth[next as usize] = way.len() as u32;
            way.push((next, hidden, callees.next(next)));
            next = callees.first(next);
        } else if let Some((done, hidden, sibling)) = way.pop() {
            innermost[place(data, done).0 as usize] = hidden;
            next = sibling;
        } else {
            return repeated;
        }
    }
}

fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// Each name is written once; later lines use its number.
#[derive(Default)]
struct NumberedNames {
    objects: FxHashMap<String, usize>,
    files: FxHashMap<String, usize>,
    functions: FxHashMap<String, usize>,
}

impl NumberedNames {
    /// The object, file and function; the prefix `c` marks a callee.
    fn write(&mut self, out: &mut impl Write, data: &Data, func: u32, prefix: &str) -> io::Result<()> {
        let row = data.funcs.get(func as usize);
        let object = row.and_then(|_| data.lib_name(func)).unwrap_or("???");
        let file = file_of(data, func);
        let name = row.map_or(NO_STACK_LABEL.into(), |_| label::function(data, func));
        let file_key = if prefix.is_empty() { "fl" } else { "cfi" };
        put(out, &format!("{prefix}ob"), &mut self.objects, object)?;
        put(out, file_key, &mut self.files, file)?;
        put(out, &format!("{prefix}fn"), &mut self.functions, &name)
    }

    /// The file of the next lines of a function, if the lines before have another file.
    fn line_file(
        &mut self,
        out: &mut impl Write,
        data: &Data,
        func: u32,
        file: Option<u32>,
        current: &mut Option<u32>,
    ) -> io::Result<()> {
        if file == *current {
            return Ok(());
        }
        *current = file;
        match file {
            Some(file) => put(out, "fi", &mut self.files, data.text(file)),
            None => put(out, "fe", &mut self.files, file_of(data, func)),
        }
    }
}

fn file_of(data: &Data, func: u32) -> &str {
    let file = data.funcs.get(func as usize).map_or("", |row| data.text(row.file));
    if file.is_empty() { "???" } else { file }
}

fn put(out: &mut impl Write, key: &str, ids: &mut FxHashMap<String, usize>, name: &str) -> io::Result<()> {
    let next = ids.len() + 1;
    match ids.get(name) {
        Some(id) => writeln!(out, "{key}=({id})"),
        None => {
            ids.insert(name.to_owned(), next);
            writeln!(out, "{key}=({next}) {}", one_line(name))
        }
    }
}
