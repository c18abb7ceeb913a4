//! A part of a profile as a smaller profile: some of its threads, a range of time, without stacks that few samples
//! have.

use serde_json::Value;

use crate::data::{Calls, Data, NONE, SavedData, Stack};
use crate::view::select::{Filter, KeptKinds, NotFound, give_to_callers, keep, wanted_threads};

/// What stays of a profile.
#[derive(Clone, Debug, Default)]
pub struct ProfilePart {
    /// Which samples, of both kinds: [`Filter::waits`] has no effect.
    pub filter: Filter,
    /// Stacks with fewer samples, including those of their callees, become their callers; a wait keeps its own frame. 0
    /// or 1: all stacks stay.
    pub min_samples: u64,
}

impl ProfilePart {
    /// True if everything stays.
    pub fn is_all(&self) -> bool {
        let Filter {
            waits: _,
            merge_generics: _,
            threads,
            processes,
            categories,
            from_ms,
            to_ms,
            marker,
            outside_marker,
            inside,
            outside,
            // Of the spans of `inside`.
            span_part: _,
            focus,
            hide,
            drop,
        } = &self.filter;
        let lists = [threads, processes, categories, inside, outside, focus, hide, drop];
        let has_range = from_ms.is_some() || to_ms.is_some() || marker.is_some() || outside_marker.is_some();
        !has_range && lists.iter().all(|list| list.is_empty()) && self.min_samples < 2
    }
}

/// Leaves only a part. [`keep`] selects, as for all outputs; the file then loses what nothing refers to. Counters keep
/// their whole time.
///
/// # Errors
///
/// Nothing has a name that is asked for.
pub fn trim(data: &mut SavedData, part: &ProfilePart) -> Result<(), NotFound> {
    if part.is_all() {
        return Ok(());
    }
    let data = &mut data.0;
    let zero_ms = data.zero_ms(data.meta.get("profilingStartTime").and_then(Value::as_f64));
    let of_file = |ms: Option<f64>| ms.map(|ms| ms + zero_ms);
    let filter = Filter {
        from_ms: of_file(part.filter.from_ms),
        to_ms: of_file(part.filter.to_ms),
        ..part.filter.clone()
    };
    let wanted = wanted_threads(data, &filter)?;
    keep(data, &filter, KeptKinds::Both)?;
    if wanted.contains(&false) {
        keep_threads(data, &wanted);
    }
    if part.min_samples > 1 {
        drop_thin(data, part.min_samples);
    }
    drop_unused(data);
    Ok(())
}

/// New indices of what is kept; [`NONE`] for the rest.
fn renumbered(kept: &[bool]) -> Vec<u32> {
    let mut next = 0..;
    kept.iter()
        .map(|kept| if *kept { next.next().unwrap_or(NONE) } else { NONE })
        .collect()
}

fn retain<T>(all: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    all.retain(|_| kept.next().copied().unwrap_or(false));
}

fn keep_threads(data: &mut Data, wanted: &[bool]) {
    let new = renumbered(wanted);
    let of = |thread: u32| new.get(thread as usize).copied().unwrap_or(NONE);
    // The blocks of a process are in its main thread.
    for from in 0..data.threads.len() {
        let pid = &data.threads[from].pid;
        let mut same = (0..data.threads.len()).filter(|at| wanted[*at] && data.threads[*at].pid == *pid);
        if !wanted[from]
            && data.threads[from].allocations.is_some()
            && let Some(to) = same.next()
        {
            data.threads[to].allocations = data.threads[from].allocations.take();
        }
    }
    retain(&mut data.threads, wanted);
    data.counters.retain_mut(|counter| {
        counter.thread = of(counter.thread);
        counter.thread != NONE
    });
    if let Calls::Arcs(arcs) = &mut data.calls {
        arcs.retain_mut(|arc| {
            arc.thread = of(arc.thread);
            arc.thread != NONE
        });
    }
    for key in ["initialVisibleThreads", "initialSelectedThreads"] {
        let Some(Value::Array(threads)) = data.meta.get_mut(key) else {
            continue;
        };
        let left = threads
            .iter()
            .filter_map(|thread| Some(of(u32::try_from(thread.as_u64()?).ok()?)));
        let left: Vec<Value> = left.filter(|thread| *thread != NONE).map(Value::from).collect();
        // The front end wants one.
        *threads = if left.is_empty() { vec![0.into()] } else { left };
    }
}

/// The samples of stacks with few samples become samples of their callers.
fn drop_thin(data: &mut Data, min_samples: u64) {
    let mut samples = vec![0u64; data.stacks.len()];
    for thread in &data.threads {
        for (at, (_, stack, weight)) in thread.samples.iter().enumerate() {
            if let Some(sum) = samples.get_mut(stack as usize) {
                *sum += data.count_of(&thread.samples, at, weight).max(1);
            }
        }
    }
    for stack in (0..samples.len()).rev() {
        let prefix = data.stacks[stack].prefix;
        if prefix != NONE {
            samples[prefix as usize] += samples[stack];
        }
    }
    let is_thin = |(stack, samples): (&Stack, &u64)| stack.prefix != NONE && *samples < min_samples;
    let is_thin: Vec<bool> = data.stacks.iter().zip(&samples).map(is_thin).collect();
    give_to_callers(data, &is_thin);
}

/// Drops stacks, frames, functions and symbols that nothing refers to.
fn drop_unused(data: &mut Data) {
    let mut used = vec![false; data.stacks.len()];
    for thread in &mut data.threads {
        thread.map_stacks(|stack| {
            if let Some(used) = used.get_mut(stack as usize) {
                *used = true;
            }
            stack
        });
    }
    for stack in (0..used.len()).rev().filter(|stack| data.stacks[*stack].prefix != NONE) {
        let prefix = data.stacks[stack].prefix as usize;
        used[prefix] |= used[stack];
    }
    let new = renumbered(&used);
    retain(&mut data.stacks, &used);
    for stack in data.stacks.iter_mut().filter(|stack| stack.prefix != NONE) {
        stack.prefix = new[stack.prefix as usize];
    }
    data.map_stacks(|stack| new.get(stack as usize).copied().unwrap_or(stack));
    // In callgrind's files, other tables refer to functions as well.
    if !matches!(data.calls, Calls::Paths) {
        return;
    }
    let mut used = vec![false; data.frames.len()];
    data.stacks.iter().for_each(|stack| used[stack.frame as usize] = true);
    let new = renumbered(&used);
    retain(&mut data.frames, &used);
    data.stacks
        .iter_mut()
        .for_each(|stack| stack.frame = new[stack.frame as usize]);

    let mut used = vec![false; data.funcs.len()];
    data.frames.iter().for_each(|frame| used[frame.func as usize] = true);
    let new = renumbered(&used);
    retain(&mut data.funcs, &used);
    data.frames
        .iter_mut()
        .for_each(|frame| frame.func = new[frame.func as usize]);

    let mut used = vec![false; data.symbols.len()];
    let of_frames = data.frames.iter().filter(|frame| frame.symbol != NONE);
    of_frames.for_each(|frame| used[frame.symbol as usize] = true);
    let new = renumbered(&used);
    retain(&mut data.symbols, &used);
    for frame in data.frames.iter_mut().filter(|frame| frame.symbol != NONE) {
        frame.symbol = new[frame.symbol as usize];
    }
}
