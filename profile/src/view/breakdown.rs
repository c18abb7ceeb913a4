//! The cost of each thread, process and category.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::select::Selection;

/// A thread or a process.
#[derive(Clone, Debug, PartialEq)]
pub struct PartRow {
    /// Its name.
    pub name: String,
    /// For a thread, its process's name.
    pub process: Option<String>,
    /// The process id in the file.
    pub pid: String,
    /// For a thread, its id in the file.
    pub tid: Option<String>,
    /// Number of threads; 1 for a thread.
    pub threads: usize,
    /// Cost of its selected samples.
    pub own: Cost,
    /// Cost of its samples of the other kind, usually waits.
    pub other_kind: Cost,
}

impl PartRow {
    fn is_empty(&self) -> bool {
        self.own.is_zero() && self.other_kind.is_zero()
    }

    /// Busiest first.
    fn order(&self, other: &PartRow) -> Ordering {
        let by_cost = other.own.weight.total_cmp(&self.own.weight);
        let by_cost = by_cost.then(other.other_kind.weight.total_cmp(&self.other_kind.weight));
        by_cost.then_with(|| (&self.name, &self.pid, &self.tid).cmp(&(&other.name, &other.pid, &other.tid)))
    }
}

/// A category.
#[derive(Clone, Debug, PartialEq)]
pub struct CategoryRow {
    /// Its name; empty for samples without a category.
    pub name: String,
    /// Cost of samples with a leaf of this category.
    pub own: Cost,
    /// The parts of `own` in subcategories, largest first. What is in none is left out.
    pub parts: Vec<(String, Cost)>,
}

/// Threads with samples, busiest first.
pub fn threads(selection: &Selection<'_>) -> Vec<PartRow> {
    by_thread(selection).into_iter().map(|(_, row)| row).collect()
}

/// The rows of [`threads`], each with the index of its thread.
pub(super) fn by_thread(selection: &Selection<'_>) -> Vec<(usize, PartRow)> {
    let threads = selection.data.threads.iter().zip(&selection.threads);
    let rows = threads.map(|(thread, (own, other_kind))| PartRow {
        name: thread.name.clone(),
        process: Some(thread.process_name.clone()),
        pid: thread.pid.clone(),
        tid: Some(thread.tid.clone()),
        threads: 1,
        own: *own,
        other_kind: *other_kind,
    });
    let mut rows: Vec<(usize, PartRow)> = rows.enumerate().filter(|(_, row)| !row.is_empty()).collect();
    rows.sort_by(|(_, a), (_, b)| a.order(b));
    rows
}

/// Processes with samples, busiest first. Threads with one pid are one process.
pub fn processes(selection: &Selection<'_>) -> Vec<PartRow> {
    let mut at: FxHashMap<&str, usize> = FxHashMap::default();
    let mut rows: Vec<PartRow> = Vec::new();
    for (thread, (own, other_kind)) in selection.data.threads.iter().zip(&selection.threads) {
        let index = *at.entry(&thread.pid).or_insert(rows.len());
        if index == rows.len() {
            rows.push(PartRow {
                name: thread.process_name.clone(),
                process: None,
                pid: thread.pid.clone(),
                tid: None,
                threads: 0,
                own: Cost::default(),
                other_kind: Cost::default(),
            });
        }
        let row = &mut rows[index];
        if thread.is_main && !thread.process_name.is_empty() {
            let has_title = selection.data.main_threads_have_titles && thread.event.is_none();
            let name = if has_title { &thread.name } else { &thread.process_name };
            row.name.clone_from(name);
        }
        row.threads += 1;
        row.own += *own;
        row.other_kind += *other_kind;
    }
    rows.retain(|row| !row.is_empty());
    rows.sort_by(PartRow::order);
    rows
}

/// Categories with samples, largest first.
pub fn categories(selection: &Selection<'_>) -> Vec<CategoryRow> {
    let names = selection
        .data
        .categories
        .iter()
        .map(|category| category.name.as_str())
        .chain([""]);
    let parts = |category: usize| {
        let of_all = selection.data.categories.get(category);
        // The first one is the category itself.
        let parts = of_all.map_or(&[][..], |of| &of.subcategories).iter().zip(0..).skip(1);
        let cost = |at: u16| selection.subcategories.get(&(category as u32, at)).copied();
        let mut parts: Vec<(String, Cost)> = parts
            .filter_map(|(name, at)| Some((name.clone(), cost(at).filter(|cost| !cost.is_zero())?)))
            .collect();
        parts.sort_by(|(a, of_a), (b, of_b)| of_b.weight.total_cmp(&of_a.weight).then_with(|| a.cmp(b)));
        parts
    };
    let mut rows: Vec<CategoryRow> = (names.zip(&selection.categories).enumerate())
        .map(|(category, (name, own))| CategoryRow {
            name: name.to_owned(),
            own: *own,
            parts: parts(category),
        })
        .filter(|row| !row.own.is_zero())
        .collect();
    rows.sort_by(|a, b| b.own.weight.total_cmp(&a.own.weight).then_with(|| a.name.cmp(&b.name)));
    rows
}
