//! Chooses samples and simplifies their stacks: the first step of every view.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::conditions::{ResolvedFilter, SampleKinds};
use super::cost::Cost;
pub(crate) use super::filter::wanted_threads;
pub use super::filter::{Filter, NotFound, SpanPart, find};
use super::names::merged;
use super::span_times::SelectedSpans;
use crate::category::{CATEGORIES, CodeKind};
use crate::data::{Data, NONE, RunExtent, Stack};

/// Selected samples by stack.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// The profile.
    pub data: &'a Data,
    /// The stacks without hidden functions. A stack comes after its caller's stack.
    pub stacks: Cow<'a, [Stack]>,
    /// Self cost of each stack.
    pub own: Vec<Cost>,
    /// Samples that have no stack.
    pub without_stack: Cost,
    /// All selected samples.
    pub total: Cost,
    /// Samples of the other kind that meet all other conditions: waits, or with [`Filter::waits`] samples of running
    /// threads.
    pub other_kind: Cost,
    /// For each thread: the cost of its selected samples, and of those of the other kind.
    pub threads: Vec<(Cost, Cost)>,
    /// Selected samples by category of the leaf; the last entry is for leaves without a category.
    pub categories: Vec<Cost>,
    /// Costs by category and subcategory of the leaf.
    pub(super) subcategories: FxHashMap<(u32, u16), Cost>,
    pub(super) conditions: ResolvedFilter<'a>,
    /// For each function, the function that represents it.
    merged: Option<Vec<u32>>,
    names: FxHashMap<u32, String>,
}

impl Selection<'_> {
    /// True if the filter selects the thread with this index.
    pub(super) fn has_thread(&self, thread: u32) -> bool {
        self.conditions
            .wanted_threads
            .get(thread as usize)
            .is_some_and(|wanted| *wanted)
    }

    /// The function that represents the stack's leaf.
    pub fn func(&self, stack: u32) -> u32 {
        let func = self.data.frames[self.stacks[stack as usize].frame as usize].func;
        self.representative(func)
    }

    /// The function that represents this one.
    pub fn representative(&self, func: u32) -> u32 {
        self.merged.as_ref().map_or(func, |merged| merged[func as usize])
    }

    /// The name of a function that represents itself.
    pub fn name(&self, func: u32) -> &str {
        match self.names.get(&func) {
            Some(name) => name,
            None => self.data.func_name(func),
        }
    }

    /// Like [`find`], with each function replaced by the one that represents it.
    ///
    /// # Errors
    ///
    /// No function has the name or a name that contains it.
    pub fn find(&self, asked: &str) -> Result<Vec<u32>, NotFound> {
        let mut found: Vec<u32> = find(self.data, asked)?
            .into_iter()
            .map(|func| self.representative(func))
            .collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Functions whose name contains this text.
    pub fn containing(&self, asked: &str) -> Vec<u32> {
        let funcs = (0..self.data.funcs.len() as u32).filter(|func| self.representative(*func) == *func);
        funcs.filter(|func| self.name(*func).contains(asked)).collect()
    }

    /// Cost of each stack including its callees.
    pub fn totals(&self) -> Vec<Cost> {
        let mut totals = self.own.clone();
        for stack in (0..totals.len()).rev() {
            let prefix = self.stacks[stack].prefix;
            if prefix != NONE {
                let cost = totals[stack];
                totals[prefix as usize] += cost;
            }
        }
        totals
    }
}

/// Selects the samples that meet the filter.
///
/// # Errors
///
/// The profile has none of the threads, processes, categories, markers or functions with a name of the filter.
pub fn select<'a>(data: &'a Data, filter: &Filter) -> Result<Selection<'a>, NotFound> {
    let conditions = ResolvedFilter::new(data, filter)?;
    // The last entry is for samples without a stack.
    let mut own = vec![Cost::default(); conditions.seen.len()];
    let no_stack = data.stacks.len();
    let mut selection = Selection {
        data,
        stacks: Cow::Borrowed(&data.stacks),
        own: Vec::new(),
        without_stack: Cost::default(),
        total: Cost::default(),
        other_kind: Cost::default(),
        threads: vec![Default::default(); data.threads.len()],
        categories: vec![Cost::default(); data.categories.len() + 1],
        subcategories: FxHashMap::default(),
        conditions,
        merged: None,
        names: FxHashMap::default(),
    };
    let conditions = &selection.conditions;
    for (index, thread) in data.threads.iter().enumerate() {
        if !conditions.wanted_threads[index] {
            continue;
        }
        let times = conditions.times(index, &thread.pid);
        let (mut selected, mut other) = (Cost::default(), Cost::default());
        for (at, (time, stack, weight)) in thread.samples.iter().enumerate() {
            if !times.contain(time) {
                continue;
            }
            let stack = no_stack.min(stack as usize);
            let cost = Cost::of_samples(data.count_of(&thread.samples, at, weight), weight);
            match conditions.seen[stack] {
                SampleKinds::Selected => {
                    selected += cost;
                    own[stack] += cost;
                }
                SampleKinds::OtherKind => other += cost,
                SampleKinds::Not => {}
            }
        }
        selection.threads[index] = (selected, other);
        selection.total += selected;
        selection.other_kind += other;
    }
    selection.without_stack = own.pop().unwrap_or_default();
    selection.own = own;
    for ((category, cost), stack) in conditions.category_of.iter().zip(&selection.own).zip(&data.stacks) {
        selection.categories[data.categories.len().min(*category as usize)] += *cost;
        let subcategory = data.frames[stack.frame as usize].subcategory;
        *selection.subcategories.entry((*category, subcategory)).or_default() += *cost;
    }
    selection.categories[data.categories.len()] += selection.without_stack;
    if !filter.hide.is_empty() {
        hide(&mut selection);
    }
    if filter.merge_generics {
        merge_generics(&mut selection);
    }
    merge_addresses(&mut selection);
    Ok(selection)
}

/// The spans that a filter names.
#[derive(Clone, Debug, Default)]
pub struct ChosenSpans {
    /// The number of those whose insides it selects.
    pub number: usize,
    /// What is not known of their samples, a line each.
    pub doubts: Vec<String>,
}

/// The spans that the filter names.
///
/// # Errors
///
/// The profile has none of the threads, processes or spans with a name of the filter.
pub fn chosen_spans(data: &Data, filter: &Filter) -> Result<ChosenSpans, NotFound> {
    let spans = SelectedSpans::new(data, filter, &wanted_threads(data, filter)?)?;
    Ok(spans.map_or_else(ChosenSpans::default, |spans| ChosenSpans {
        number: spans.number,
        doubts: spans.doubts(),
    }))
}

/// The kinds of samples that [`keep`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptKinds {
    /// Samples of running threads, or with [`Filter::waits`] waits.
    One,
    /// Samples of running threads and waits.
    Both,
}

/// Drops the samples that [`select`] does not select, and removes hidden functions from stacks. Markers stay that reach
/// into the range of time in a selected thread; those of point events, which views take for samples, as samples do.
/// [`Filter::merge_generics`] has no effect.
///
/// # Errors
///
/// Nothing has a name that the filter asks for.
pub fn keep(data: &mut Data, filter: &Filter, kinds: KeptKinds) -> Result<(), NotFound> {
    let conditions = ResolvedFilter::new(data, filter)?;
    let no_stack = data.stacks.len();
    let points = data.names_of_points();
    let is_selected: Vec<(Vec<bool>, Vec<bool>)> = (data.threads.iter().zip(&conditions.wanted_threads).enumerate())
        .map(|(index, (thread, wanted))| {
            let times = conditions.times(index, &thread.pid);
            let is_selected = |time: f64, stack: u32| {
                let is_seen = match conditions.seen[no_stack.min(stack as usize)] {
                    SampleKinds::Selected => true,
                    SampleKinds::OtherKind => kinds == KeptKinds::Both,
                    SampleKinds::Not => false,
                };
                *wanted && times.contain(time) && is_seen
            };
            let samples = thread.samples.iter().map(|(time, stack, _)| is_selected(time, stack));
            let markers = thread
                .markers
                .iter()
                .map(|marker| match points.contains(data.text(marker.name)) {
                    true => is_selected(marker.start_ms, marker.stack),
                    false => *wanted && times.reach(marker.start_ms, marker.end_ms),
                });
            (samples.collect(), markers.collect())
        })
        .collect();
    let blocks = data.selected_rows(conditions.to_ms.unwrap_or(f64::INFINITY), |thread, time_ms, stack| {
        conditions.select_block(thread, &data.threads[thread as usize].pid, time_ms, stack)
    });
    let mut blocks = blocks.into_iter();
    let is_hidden = conditions.is_hidden;
    for (thread, (samples, markers)) in data.threads.iter_mut().zip(is_selected) {
        thread.samples.retain(&samples);
        let mut markers = markers.into_iter();
        thread.markers.retain(|_| markers.next().unwrap_or(false));
        if let Some(allocations) = &mut thread.allocations {
            allocations.retain(&blocks.next().unwrap_or_default());
        }
    }
    if let (Some(recorded), true) = (&mut data.recorded, filter.from_ms.is_some() || filter.to_ms.is_some()) {
        recorded.extent = RunExtent::Window;
    }
    if !filter.hide.is_empty() {
        let of_stack = |stack: &Stack| is_hidden[data.frames[stack.frame as usize].func as usize];
        let is_hidden: Vec<bool> = data.stacks.iter().map(of_stack).collect();
        give_to_callers(data, &is_hidden);
    }
    Ok(())
}

/// Makes the samples of these stacks samples of their callers. A wait keeps its own frame, since it would become CPU
/// time of the caller.
pub(crate) fn give_to_callers(data: &mut Data, is_dropped: &[bool]) {
    let mut instead: Vec<u32> = Vec::with_capacity(is_dropped.len());
    let mut known: FxHashMap<Stack, u32> = FxHashMap::default();
    for (own, is_dropped) in (0..).zip(is_dropped) {
        let mut stack = data.stacks[own as usize];
        stack.prefix = instead.get(stack.prefix as usize).copied().unwrap_or(NONE);
        if *is_dropped && data.is_wait(own) == data.is_wait(stack.prefix) {
            instead.push(stack.prefix);
            continue;
        }
        data.stacks[own as usize] = stack;
        instead.push(*known.entry(stack).or_insert(own));
    }
    data.map_stacks(|stack| instead.get(stack as usize).copied().unwrap_or(stack));
}

fn hide(selection: &mut Selection<'_>) {
    let is_hidden = &selection.conditions.is_hidden;
    // For each old stack, the new stack of its nearest frame that is not hidden.
    let mut kept: Vec<u32> = Vec::with_capacity(selection.stacks.len());
    let (mut stacks, mut own) = (Vec::new(), Vec::<Cost>::new());
    for (stack, cost) in selection.stacks.iter().zip(&selection.own) {
        let prefix = kept.get(stack.prefix as usize).copied().unwrap_or(NONE);
        if is_hidden[selection.data.frames[stack.frame as usize].func as usize] {
            match own.get_mut(prefix as usize) {
                Some(of_caller) => *of_caller += *cost,
                None => selection.without_stack += *cost,
            }
            kept.push(prefix);
        } else {
            kept.push(stacks.len() as u32);
            stacks.push(Stack {
                prefix,
                frame: stack.frame,
            });
            own.push(*cost);
        }
    }
    selection.stacks = Cow::Owned(stacks);
    selection.own = own;
}

fn merge_generics(selection: &mut Selection<'_>) {
    let data = selection.data;
    let mut first: FxHashMap<(String, u32, u32), u32> = FxHashMap::default();
    let mut of = Vec::with_capacity(data.funcs.len());
    for (id, func) in data.funcs.iter().enumerate() {
        let full = data.text(func.name);
        let name = merged(full);
        if name != full {
            selection.names.insert(id as u32, name.clone());
        }
        of.push(*first.entry((name, func.lib, func.file)).or_insert(id as u32));
    }
    selection.merged = Some(of);
}

/// The name for all addresses of code without a file.
pub(crate) const WITHOUT_NAMES: &str = "[code of no file, without names]";

/// Merges addresses of code without a file into one row. In a loop that Node compiled, each instruction was a row, the
/// largest with 7 % of the samples: nothing records where such functions begin. Addresses from another profiler stay,
/// because their code is unknown.
fn merge_addresses(selection: &mut Selection<'_>) {
    let data = selection.data;
    let is_address = without_names(data);
    let Some(first) = is_address.iter().position(|is_address| *is_address) else {
        return;
    };
    let all = || (0..data.funcs.len() as u32).collect();
    let merged = selection.merged.get_or_insert_with(all);
    for owner in merged.iter_mut().filter(|owner| is_address[**owner as usize]) {
        *owner = first as u32;
    }
    selection.names.insert(first as u32, WITHOUT_NAMES.to_owned());
}

/// For each function, true if it is an address of code of no file.
pub(crate) fn without_names(data: &Data) -> Vec<bool> {
    let mut is_address = vec![false; data.funcs.len()];
    let jit = CATEGORIES[CodeKind::Jit.category(false).0].name;
    let Some(jit) = data.categories.iter().position(|category| category.name == jit) else {
        return is_address;
    };
    for frame in &data.frames {
        is_address[frame.func as usize] |=
            frame.category == jit as u32 && frame.lib == NONE && data.func_name(frame.func).starts_with("0x");
    }
    is_address
}
