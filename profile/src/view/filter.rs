//! What a filter names: threads, categories and functions of a profile.

use crate::data::{Category, Data, Thread};

/// Conditions on samples. All conditions must hold. A condition with several values holds for any of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// True selects waits, false samples of running threads. A view never adds up both.
    pub waits: bool,
    /// Threads, by name or tid. Empty: all.
    pub threads: Vec<String>,
    /// Processes, by name or pid. Empty: all.
    pub processes: Vec<String>,
    /// Categories of the leaf frame. Empty: all.
    pub categories: Vec<String>,
    /// Start of the range, ms since recording began.
    pub from_ms: Option<f64>,
    /// End of the range, exclusive, ms since recording began.
    pub to_ms: Option<f64>,
    /// Only times inside a marker of this name in a thread of the same process.
    pub marker: Option<String>,
    /// Only times outside of all markers of this name in the threads of the same process.
    pub outside_marker: Option<String>,
    /// Only what a thread did inside a span with any of these names. Empty: all.
    pub inside: Vec<String>,
    /// Only what a thread did outside of all spans with any of these names.
    pub outside: Vec<String>,
    /// Of the spans of `inside`, only some. `None`: all.
    pub span_part: Option<SpanPart>,
    /// Only stacks with any of these functions (see [`find`]).
    pub focus: Vec<String>,
    /// Functions to remove from stacks. Their callers get their cost.
    pub hide: Vec<String>,
    /// Functions whose samples are left out: those with any of these functions on their stack.
    pub drop: Vec<String>,
    /// Treats instances of a generic function as one function.
    pub merge_generics: bool,
}

/// A part of all spans with one name, by their length. Both hold percent: those that took longest are at least one
/// span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpanPart {
    /// Those that took longest.
    Slowest(f64),
    /// All others.
    Usual(f64),
}

/// Nothing has the requested name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {asked:?} in this profile; {}", list(.known))]
pub struct NotFound {
    /// The kind of thing: thread, function.
    pub kind: &'static str,
    /// The requested name.
    pub asked: String,
    /// Some of the existing names.
    pub known: Vec<String>,
}

fn list(known: &[String]) -> String {
    match known {
        [] => "it has none at all".to_owned(),
        known => format!("it has {}", known.join(", ")),
    }
}

/// Most names that an error lists.
const KNOWN: usize = 12;

/// Functions with this name (see [`of_name`](super::names::of_name)). If none has it, all functions whose name contains
/// it.
///
/// # Errors
///
/// No function has the name or a name that contains it.
pub fn find(data: &Data, asked: &str) -> Result<Vec<u32>, NotFound> {
    let names = (0..data.funcs.len() as u32).map(|func| data.func_name(func));
    let found = of_name_or_part(names, asked);
    if !found.is_empty() {
        return Ok(found.into_iter().map(|func| func as u32).collect());
    }
    let lower = asked.to_lowercase();
    let alike = (0..data.funcs.len() as u32).map(|func| data.func_name(func));
    let mut alike: Vec<String> = alike
        .filter(|name| name.to_lowercase().contains(&lower))
        .map(str::to_owned)
        .collect();
    if alike.is_empty() || asked.is_empty() {
        alike = vec![format!("{} others", data.funcs.len())];
    }
    Err(not_found("function", asked, alike))
}

/// Indices of the names that [`of_name`](super::names::of_name) finds, or else of all that contain the text.
pub(super) fn of_name_or_part<'a>(names: impl Iterator<Item = &'a str> + Clone, asked: &str) -> Vec<usize> {
    let found = super::names::of_name(names.clone(), asked);
    if !found.is_empty() || asked.is_empty() {
        return found;
    }
    let containing = names.enumerate().filter(|(_, name)| name.contains(asked));
    containing.map(|(index, _)| index).collect()
}

pub(super) fn not_found(kind: &'static str, asked: &str, mut known: Vec<String>) -> NotFound {
    known.sort();
    known.dedup();
    known.truncate(KNOWN);
    NotFound {
        kind,
        asked: asked.to_owned(),
        known,
    }
}

/// The two names of a thread, or of its process.
type TwoNames = fn(&Thread) -> [&str; 2];

pub(crate) fn wanted_threads(data: &Data, filter: &Filter) -> Result<Vec<bool>, NotFound> {
    let mut wanted = vec![true; data.threads.len()];
    let parts: [(&'static str, &[String], TwoNames); 2] = [
        ("thread", &filter.threads, |thread| [&thread.name, &thread.tid]),
        ("process", &filter.processes, |thread| {
            [&thread.process_name, &thread.pid]
        }),
    ];
    for (kind, asked, names) in parts {
        if asked.is_empty() {
            continue;
        }
        for asked in asked {
            if !data
                .threads
                .iter()
                .any(|thread| names(thread).contains(&asked.as_str()))
            {
                let known = data.threads.iter().map(|thread| names(thread)[0].to_owned()).collect();
                return Err(not_found(kind, asked, known));
            }
        }
        for (wanted, thread) in wanted.iter_mut().zip(&data.threads) {
            *wanted &= asked.iter().any(|asked| names(thread).contains(&asked.as_str()));
        }
    }
    Ok(wanted)
}

/// The subcategories of each category that the filter names, by themselves or by their category.
pub(super) fn wanted_categories(data: &Data, filter: &Filter) -> Result<Option<Vec<Vec<bool>>>, NotFound> {
    if filter.categories.is_empty() {
        return Ok(None);
    }
    // At least the category itself, which also stands for subcategories that are not listed.
    let parts = |category: &Category| vec![false; category.subcategories.len().max(1)];
    let mut wanted: Vec<Vec<bool>> = data.categories.iter().map(parts).collect();
    for asked in &filter.categories {
        let mut found = false;
        for (wanted, category) in wanted.iter_mut().zip(&data.categories) {
            for (part, wanted) in wanted.iter_mut().enumerate() {
                // The first one is the category itself.
                let name = category.subcategories.get(part).filter(|_| part > 0);
                let is_it = category.is_called(asked) || name.is_some_and(|name| name.eq_ignore_ascii_case(asked));
                *wanted |= is_it;
                found |= is_it;
            }
        }
        if !found {
            let waits = data.categories.iter().filter(|category| category.is_wait);
            let reasons = waits.flat_map(|waits| waits.subcategories.iter().skip(1));
            let names = data.categories.iter().map(|category| &category.name).chain(reasons);
            return Err(not_found("category", asked, names.cloned().collect()));
        }
    }
    Ok(Some(wanted))
}
