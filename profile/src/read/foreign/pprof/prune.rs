//! Drops the frames of functions that match `drop_frames` and not `keep_frames`, with their callees. Their callers get
//! the cost. gperftools' heap profiles drop the allocator this way.
//!
//! The rules are those of `go tool pprof` (<https://github.com/google/pprof/blob/main/profile/prune.go>), for equal
//! figures: the matched name has no arguments, and frames before the first kept function stay.

use regex_lite::{Regex, RegexBuilder};
use rustc_hash::{FxHashMap, FxHashSet};

use super::header::{PprofHeader, SourceLine};

/// An expression whose compiled form is larger is not used.
const MAX_EXPRESSION_BYTES: usize = 1 << 18;
/// Longer names are not matched: matching takes the length of the name times that of the expression.
const MAX_NAME_BYTES: usize = 1 << 14;

/// The dropped locations.
#[derive(Default)]
pub(super) struct PrunedLocations {
    /// Locations with all functions dropped.
    whole: FxHashSet<u64>,
    /// Locations with this many inlined functions dropped, first in the list.
    part: FxHashMap<u64, usize>,
}

impl PrunedLocations {
    /// The dropped locations, and notes on expressions that cannot be used.
    pub(super) fn new(header: &PprofHeader) -> (PrunedLocations, Vec<String>) {
        let (drop, keep) = (header.text(header.drop_frames), header.text(header.keep_frames));
        if drop.is_empty() {
            return Default::default();
        }
        let compile = |text: &str| -> Option<Regex> {
            let mut builder = RegexBuilder::new(&format!("^(?:{text})$"));
            builder.size_limit(MAX_EXPRESSION_BYTES).build().ok()
        };
        let Some(drop_names) = compile(drop) else {
            return (PrunedLocations::default(), vec![not_used("drop_frames", drop)]);
        };
        let keep_names = match keep.is_empty() {
            true => None,
            false => match compile(keep) {
                Some(keep) => Some(keep),
                None => return (PrunedLocations::default(), vec![not_used("keep_frames", keep)]),
            },
        };
        // Many functions may have one name.
        let mut by_name: FxHashMap<u64, bool> = FxHashMap::default();
        let mut is_dropped_name = |text: u64| {
            *by_name.entry(text).or_insert_with(|| {
                let name = without_arguments(header.text(text));
                name.len() <= MAX_NAME_BYTES
                    && drop_names.is_match(name)
                    && !keep_names.as_ref().is_some_and(|keep| keep.is_match(name))
            })
        };
        let is_dropped: FxHashSet<u64> = (header.functions.iter())
            .filter(|(_, function)| is_dropped_name(function.name))
            .map(|(id, _)| *id)
            .collect();
        let mut pruned = PrunedLocations::default();
        for (id, location) in &header.locations {
            let lines = &header.lines[location.lines()];
            match lines.iter().rposition(|line| is_dropped.contains(&line.function)) {
                None => {}
                Some(at) if at + 1 == lines.len() => {
                    pruned.whole.insert(*id);
                }
                Some(at) => {
                    pruned.part.insert(*id, at + 1);
                }
            }
        }
        (pruned, Vec::new())
    }

    /// The kept locations of a stack, leaf first.
    pub(super) fn kept<'a>(&self, locations: &'a [u64]) -> &'a [u64] {
        if self.whole.is_empty() && self.part.is_empty() {
            return locations;
        }
        let mut has_kept = false;
        for (at, id) in locations.iter().enumerate().rev() {
            let (is_whole, is_part) = (self.whole.contains(id), self.part.contains_key(id));
            match (is_whole || is_part, has_kept) {
                (false, _) => has_kept = true,
                (true, false) => {}
                (true, true) if is_whole => return &locations[at + 1..],
                (true, true) => return &locations[at..],
            }
        }
        locations
    }

    /// The kept lines of a location, innermost first.
    pub(super) fn lines<'a>(&self, location: u64, lines: &'a [SourceLine]) -> &'a [SourceLine] {
        match self.part.get(&location) {
            Some(dropped) => lines.get(*dropped..).unwrap_or(lines),
            None => lines,
        }
    }
}

fn not_used(field: &str, expression: &str) -> String {
    let shown: String = expression.chars().take(60).collect();
    format!(
        "its {field} is not a regular expression that sprof can use, so frames that it asks to drop are shown: {shown}"
    )
}

/// `std::vector::push_back(int)` without its parameters: the last parentheses that do not belong to the name.
fn without_arguments(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut from = 0;
    while let Some(at) = name[from..].find('(').map(|at| from + at) {
        let reserved = ["(anonymous namespace)", "operator()"];
        let is_reserved = |reserved: &&str| {
            let in_it = reserved.find('(').unwrap_or(0);
            at.checked_sub(in_it)
                .and_then(|start| name.get(start..))
                .is_some_and(|rest| rest.starts_with(*reserved))
        };
        match reserved.iter().any(is_reserved) {
            true => from = at + 1,
            false => return &name[..at],
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::without_arguments;

    #[test]
    fn arguments_are_no_part_of_a_name() {
        for (name, bare) in [
            ("malloc", "malloc"),
            ("f(int)", "f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("A::operator()(int) const", "A::operator()"),
            (".f", "f"),
            ("", ""),
        ] {
            assert_eq!(without_arguments(name), bare);
        }
    }
}
