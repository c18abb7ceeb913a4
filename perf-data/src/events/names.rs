//! The events that have the same name on every machine, with the numbers of include/uapi/linux/perf_event.h.

use std::sync::OnceLock;

/// `enum perf_type_id`.
pub const HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub const SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`.
pub const TRACEPOINT: u32 = 2;
/// `PERF_TYPE_HW_CACHE`.
pub const HW_CACHE: u32 = 3;
/// `PERF_TYPE_RAW`.
pub const RAW: u32 = 4;

/// PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK.
const CLOCKS: [u64; 2] = [0, 1];
/// PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS.
const IN_SCHEDULER: [u64; 2] = [3, 4];

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenericEvent {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
}

impl GenericEvent {
    /// True for cpu-clock and task-clock, which count nanoseconds.
    pub fn counts_cpu_time(self) -> bool {
        self.kind == SOFTWARE && CLOCKS.contains(&self.config)
    }

    /// True for those that hardly come by the thousand a second: cpu-migrations, major-faults, alignment-faults and
    /// emulation-faults.
    pub fn is_rare(self) -> bool {
        self.kind == SOFTWARE && matches!(self.config, 4 | 6 | 7 | 8)
    }

    /// True for those that happen in the kernel only: who may not sample it gets none of them.
    pub fn is_in_kernel(self) -> bool {
        self.kind == SOFTWARE && IN_SCHEDULER.contains(&self.config)
    }
}

/// Name, other name, `enum perf_hw_id`.
const OF_HARDWARE: [(&str, &str, u64); 10] = [
    ("cycles", "cpu-cycles", 0),
    ("instructions", "", 1),
    ("cache-references", "", 2),
    ("cache-misses", "", 3),
    ("branch-instructions", "branches", 4),
    ("branch-misses", "", 5),
    ("bus-cycles", "", 6),
    ("stalled-cycles-frontend", "idle-cycles-frontend", 7),
    ("stalled-cycles-backend", "idle-cycles-backend", 8),
    ("ref-cycles", "", 9),
];

/// Name, other name, `enum perf_sw_ids`.
const OF_SOFTWARE: [(&str, &str, u64); 9] = [
    ("cpu-clock", "", 0),
    ("task-clock", "", 1),
    ("page-faults", "faults", 2),
    ("context-switches", "cs", 3),
    ("cpu-migrations", "migrations", 4),
    ("minor-faults", "", 5),
    ("major-faults", "", 6),
    ("alignment-faults", "", 7),
    ("emulation-faults", "", 8),
];

/// `enum perf_hw_cache_id`, `perf_hw_cache_op_id` and `perf_hw_cache_op_result_id`, in their order, with all names that
/// perf takes (evsel__hw_cache and its neighbours in tools/perf/util/evsel.c).
const CACHES: [&[&str]; 7] = [
    &["L1-dcache", "l1-d", "l1d", "L1-data"],
    &["L1-icache", "l1-i", "l1i", "L1-instruction"],
    &["LLC", "L2"],
    &["dTLB", "d-tlb", "Data-TLB"],
    &["iTLB", "i-tlb", "Instruction-TLB"],
    &["branch", "branches", "bpu", "btb", "bpc"],
    &["node"],
];
/// Words for operations. The first one names accesses (`loads`), the second one misses (`load-misses`).
const OPERATIONS: [&[&str]; 3] = [
    &["loads", "load", "read"],
    &["stores", "store", "write"],
    &["prefetches", "prefetch", "speculative-read", "speculative-load"],
];
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// What sort of event a name is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventSort {
    /// Counted by the processor.
    Hardware,
    /// Counted by the processor, by cache and kind of access.
    Cache,
    /// Counted by the kernel.
    Software,
}

/// All names that events are listed by, with their sort.
pub fn all() -> &'static [(String, EventSort)] {
    static ALL: OnceLock<Vec<(String, EventSort)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let of = |names: &[(&str, &str, u64)], sort| -> Vec<(String, EventSort)> {
            (names.iter()).map(|(name, _, _)| ((*name).to_owned(), sort)).collect()
        };
        let mut all = of(&OF_HARDWARE, EventSort::Hardware);
        for cache in CACHES {
            for operation in OPERATIONS {
                all.push((format!("{}-{}", cache[0], operation[0]), EventSort::Cache));
                all.push((format!("{}-{}-misses", cache[0], operation[1]), EventSort::Cache));
            }
        }
        all.extend(of(&OF_SOFTWARE, EventSort::Software));
        all
    })
}

/// The event with this name, if every machine has the name. `None` for names of single PMUs, and for others.
pub fn find(name: &str) -> Option<GenericEvent> {
    let is = |known: &str| !known.is_empty() && known.eq_ignore_ascii_case(name);
    let find = |names: &[(&str, &str, u64)], kind| {
        let (_, _, config) = names.iter().find(|(one, other, _)| is(one) || is(other))?;
        Some(GenericEvent { kind, config: *config })
    };
    find(&OF_HARDWARE, HARDWARE)
        .or_else(|| find(&OF_SOFTWARE, SOFTWARE))
        .or_else(|| cache(name))
}

/// `CACHE[-OPERATION][-RESULT]`, the last two in any order: L1-dcache-misses are those of loads, as in perf.
fn cache(name: &str) -> Option<GenericEvent> {
    let (id, mut rest) = one_of(name, &CACHES)?;
    let (mut operation, mut result) = (None, None);
    while let Some(words) = rest.strip_prefix('-') {
        let as_operation = one_of(words, &OPERATIONS).filter(|_| operation.is_none());
        let as_result = one_of(words, &RESULTS).filter(|_| result.is_none());
        (operation, result, rest) = match (as_operation, as_result) {
            (Some((found, rest)), _) => (Some(found), result, rest),
            (None, Some((found, rest))) => (operation, Some(found), rest),
            (None, None) => return None,
        };
    }
    Some(GenericEvent {
        kind: HW_CACHE,
        config: id | operation.unwrap_or(0) << 8 | result.unwrap_or(0) << 16,
    })
}

/// The first of these words with which the text begins, as a whole word, and the rest of the text; `None` if it begins
/// with none.
fn one_of<'a>(text: &'a str, names: &[&[&str]]) -> Option<(u64, &'a str)> {
    let of = |name: &str| {
        let front = text.get(..name.len())?;
        let rest = &text[name.len()..];
        (front.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.starts_with('-'))).then_some(rest)
    };
    (0u64..)
        .zip(names)
        .find_map(|(index, names)| names.iter().find_map(|name| of(name)).map(|rest| (index, rest)))
}

/// Names to suggest, at most.
const SUGGESTIONS: usize = 3;

/// Those of `known` that someone who wrote `name` may have meant, nearest first.
pub fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let worst = (name.chars().count() / 3).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|known| {
            let distance = match known.starts_with(name) && name.len() >= 3 {
                true => 1,
                false => distance(name, known, worst)?,
            };
            Some((distance, known))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(SUGGESTIONS)
        .map(|(_, known)| known.to_owned())
        .collect()
}

/// Letters to add, take away or change (Levenshtein); `None` if these are more than `worst`.
fn distance(a: &str, b: &str, worst: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > worst {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().filter(|distance| *distance <= worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_found() {
        for (name, _) in all() {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(distance("kitten", "sitting", 4), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
        assert_eq!(distance("", "ab", 2), Some(2));
        assert_eq!(distance("same", "same", 1), Some(0));
    }
}
