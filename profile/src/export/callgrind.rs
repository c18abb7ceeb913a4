//! The callgrind format, for callgrind_annotate and KCachegrind: <https://valgrind.org/docs/manual/cl-format.html>. Costs by function and
//! line, with calls between functions.
//!
//! A sampling profiler counts no calls. The number of samples stands in the format's number of calls.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::label::{self, NO_STACK};
use super::{Counted, Picked, Time};
use crate::data::{Data, NONE};
use crate::text::one_line;

/// Writes the self cost of each line of each function, and the cost of its calls.
///
/// The inclusive cost of a function (self cost and calls) is the cost of samples with it on the stack. For a recursive function, only the
/// innermost call on a stack counts. If each call counted, a recursion of depth 100 would cost 100 times its time.
pub fn write(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    let costs = Costs::of(picked);
    let data = picked.data;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let event = match (picked.named(), picked.counted(), picked.time()) {
        (Some((name, _)), ..) => label::event(name),
        (_, Counted::Samples, _) => "Samples".to_owned(),
        (_, Counted::Bytes, _) => "Bytes".to_owned(),
        (_, _, Time::Cpu) => "CPU_ns".to_owned(),
        (_, _, Time::Waits) => "Wait_ns".to_owned(),
        (_, _, Time::All) => "Wall_ns".to_owned(),
    };
    writeln!(
        out,
        "# callgrind format\nversion: 1\ncreator: sprof {}",
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(out, "cmd: {}", one_line(&data.product))?;
    writeln!(out, "desc: Calls: sampled, so their numbers are those of samples")?;
    writeln!(out, "positions: line\nevents: {event}\nsummary: {}", costs.total)?;
    let mut names = Names::default();
    for (func, costs) in &costs.funcs {
        writeln!(out)?;
        names.write(&mut out, data, *func, "")?;
        for (line, own) in &costs.own {
            writeln!(out, "{line} {own}")?;
        }
        for ((line, callee), (count, cost)) in &costs.calls {
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
    /// By line; 0 if unknown.
    own: BTreeMap<u32, u64>,
    /// By line and called function: samples and cost.
    calls: BTreeMap<(u32, u32), (u64, u64)>,
}

impl Costs {
    fn of(picked: &Picked<'_>) -> Costs {
        let data = picked.data;
        let mut stacks: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        for sample in data.threads.iter().flat_map(|thread| picked.samples(thread)) {
            let (count, weight) = stacks.entry(sample.stack).or_default();
            *count = count.saturating_add(sample.count);
            *weight = weight.saturating_add(sample.weight);
        }
        let mut costs = Costs::default();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        for (stack, (count, weight)) in stacks {
            costs.total = costs.total.saturating_add(weight);
            seen.clear();
            let mut callee = None;
            let mut next = stack;
            if next == NONE {
                add(costs.funcs.entry(NONE).or_default().own.entry(0).or_default(), weight);
            }
            while next != NONE {
                let node = data.stacks[next as usize];
                let frame = data.frames[node.frame as usize];
                let line = if frame.line == NONE { 0 } else { frame.line };
                let of = costs.funcs.entry(frame.func).or_default();
                let is_innermost = seen.insert(frame.func);
                match callee {
                    None => add(of.own.entry(line).or_default(), weight),
                    Some(callee) if is_innermost => {
                        let call = of.calls.entry((line, callee)).or_default();
                        add(&mut call.0, count);
                        add(&mut call.1, weight);
                    }
                    Some(_) => {}
                }
                callee = Some(frame.func);
                next = node.prefix;
            }
        }
        costs
    }
}

fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// Each name is written once; later lines use its number.
#[derive(Default)]
struct Names {
    objects: FxHashMap<String, usize>,
    files: FxHashMap<String, usize>,
    functions: FxHashMap<String, usize>,
}

impl Names {
    /// The object, file and function; the prefix `c` marks a callee.
    fn write(&mut self, out: &mut impl Write, data: &Data, func: u32, prefix: &str) -> io::Result<()> {
        let row = data.funcs.get(func as usize);
        let object = row.and_then(|_| data.lib_name(func)).unwrap_or("???");
        let file = row.map_or("", |row| data.text(row.file));
        let name = row.map_or(NO_STACK.into(), |_| label::function(data, func));
        let file_key = if prefix.is_empty() { "fl" } else { "cfi" };
        put(out, &format!("{prefix}ob"), &mut self.objects, object)?;
        put(
            out,
            file_key,
            &mut self.files,
            if file.is_empty() { "???" } else { file },
        )?;
        put(out, &format!("{prefix}fn"), &mut self.functions, &name)
    }
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
