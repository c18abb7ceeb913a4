//! Which code was at an address when: JIT code is made, moved and replaced.

/// The code at an address from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeAt {
    /// Start, ns on the clock of the recording; 0 if the source has no times.
    pub from_ns: u64,
    /// Relative address; `None` if the code moved away.
    pub relative: Option<u64>,
}

/// The history of one address, in time order.
pub type Timeline = Vec<CodeAt>;

/// Steps at most for all addresses. Real programs need a few for each sampled function; only a hostile dump, with a
/// million functions over all addresses, needs this many.
const MAX_STEPS: usize = 1 << 24;

/// Code that was made or moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedCode {
    pub(super) from_ns: u64,
    pub(super) start: u64,
    pub(super) size: u64,
    /// Relative address of its first byte.
    pub(super) relative: u64,
    /// The earlier address, if the code moved.
    pub(super) moved_from: Option<u64>,
}

/// The timelines of addresses (ascending, unique), from code in the order of its placement.
pub(super) fn timelines(placed: impl Iterator<Item = PlacedCode>, addresses: &[u64]) -> Vec<Timeline> {
    let mut timelines = vec![Timeline::new(); addresses.len()];
    let mut steps = 0;
    for code in placed {
        let end = code.start.saturating_add(code.size);
        if let Some(old) = code.moved_from {
            for at in within(addresses, old, old.saturating_add(code.size)) {
                let here = code.relative.wrapping_add(addresses[at] - old);
                // Only if no other code was placed there meanwhile.
                if timelines[at].last().is_some_and(|last| last.relative == Some(here)) {
                    set(&mut timelines[at], code.from_ns, None);
                    steps += 1;
                }
            }
        }
        for at in within(addresses, code.start, end) {
            let relative = code.relative.wrapping_add(addresses[at] - code.start);
            set(&mut timelines[at], code.from_ns, Some(relative));
            steps += 1;
        }
        if steps > MAX_STEPS {
            break;
        }
    }
    timelines
}

fn within(addresses: &[u64], start: u64, end: u64) -> std::ops::Range<usize> {
    let first = addresses.partition_point(|address| *address < start);
    let last = addresses.partition_point(|address| *address < end);
    first..last.max(first)
}

fn set(timeline: &mut Timeline, from_ns: u64, relative: Option<u64>) {
    match timeline.last_mut() {
        Some(last) if last.from_ns == from_ns => last.relative = relative,
        Some(last) if last.relative == relative => {}
        _ => timeline.push(CodeAt { from_ns, relative }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(from_ns: u64, start: u64, relative: u64, moved_from: Option<u64>) -> PlacedCode {
        PlacedCode {
            from_ns,
            start,
            size: 0x100,
            relative,
            moved_from,
        }
    }

    fn at(from_ns: u64, relative: Option<u64>) -> CodeAt {
        CodeAt { from_ns, relative }
    }

    #[test]
    fn code_is_where_it_was_before_and_after_a_move() {
        let code = [
            placed(10, 0x1000, 0x50, None),
            placed(20, 0x3000, 0x50, Some(0x1000)),
            placed(30, 0x1000, 0x400, None),
        ];
        let found = timelines(code.into_iter(), &[0x1004, 0x2000, 0x3004]);
        assert_eq!(found[0], [at(10, Some(0x54)), at(20, None), at(30, Some(0x404))]);
        assert_eq!(found[1], []);
        assert_eq!(found[2], [at(20, Some(0x54))]);
    }

    #[test]
    fn a_move_away_leaves_the_code_that_came_there_meanwhile() {
        let code = [
            placed(10, 0x1000, 0x50, None),
            placed(15, 0x1000, 0x400, None),
            placed(20, 0x3000, 0x50, Some(0x1000)),
        ];
        let found = timelines(code.into_iter(), &[0x1004]);
        assert_eq!(found[0], [at(10, Some(0x54)), at(15, Some(0x404))]);
    }

    #[test]
    fn of_two_at_one_time_the_later_one_counts() {
        let code = [placed(10, 0x1000, 0x50, None), placed(10, 0x1000, 0x400, None)];
        assert_eq!(timelines(code.into_iter(), &[0x1000]), [[at(10, Some(0x400))]]);
    }
}
