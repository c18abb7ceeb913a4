//! From the processor's counter to the clock of the recording.

use std::fs;

use crate::sys::counter::counter;
use crate::sys::process::monotonic_ns;

/// Least distance of two points, ns. Between them the kernel's clock runs evenly: it is corrected by less than a
/// thousandth.
const POINT_NS: u64 = 100_000_000;

/// The two clocks at some moments.
#[derive(Debug)]
pub(super) struct CounterClock {
    /// Counter and ns, both ascending. The last one is the latest, and may be close to the one before.
    points: Vec<(u64, u64)>,
}

/// True if the kernel makes its clock of the counter that programs can read.
pub(super) fn is_kernel_clock() -> bool {
    let name = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    name.is_ok_and(|name| {
        name.trim()
            == if cfg!(target_arch = "x86_64") {
                "tsc"
            } else {
                "arch_sys_counter"
            }
    })
}

impl CounterClock {
    pub(super) fn new() -> CounterClock {
        CounterClock { points: vec![point()] }
    }

    /// Reads both clocks.
    pub(super) fn look(&mut self) {
        self.add(point());
    }

    fn add(&mut self, point: (u64, u64)) {
        if self
            .points
            .last()
            .is_none_or(|last| last.0 >= point.0 || last.1 > point.1)
        {
            return;
        }
        if let [.., (_, before), (_, last)] = self.points[..]
            && last - before < POINT_NS
        {
            self.points.pop();
        }
        self.points.push(point);
    }

    /// The time at this count: between two points in proportion, and beyond them with the pace of the nearest two.
    pub(super) fn ns(&self, count: u64) -> u64 {
        let next = self.points.partition_point(|point| point.0 <= count);
        let next = next.clamp(1, self.points.len().saturating_sub(1).max(1));
        let (Some(before), Some(after)) = (self.points.get(next - 1), self.points.get(next)) else {
            return self.points.first().map_or(0, |point| point.1);
        };
        let part = i128::from(count) - i128::from(before.0);
        let ns = part * i128::from(after.1 - before.1) / i128::from(after.0 - before.0);
        u64::try_from(i128::from(before.1) + ns).unwrap_or_default()
    }
}

/// Both clocks at one moment: of three readings, the one that took least.
fn point() -> (u64, u64) {
    let readings = [(); 3].map(|()| {
        let before = counter();
        let ns = monotonic_ns();
        let took = counter().saturating_sub(before);
        (took, before + took / 2, ns)
    });
    let (_, count, ns) = readings.into_iter().min().unwrap_or_default();
    (count, ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_proportion_between_points_and_go_on_beyond_them() {
        let mut clock = CounterClock {
            points: vec![(1000, 50)],
        };
        assert_eq!(clock.ns(7), 50);
        // From 0.15 s on the clock is twice as fast. Points in between are left out.
        for point in [
            (2000, 1050),
            (150_001_000, 150_000_050),
            (160_001_000, 170_000_050),
            (200_001_000, 250_000_050),
        ] {
            clock.add(point);
        }
        assert_eq!(clock.points.len(), 3);
        let times = [0, 1000, 100_001_000, 175_001_000, 200_002_000].map(|count| clock.ns(count));
        assert_eq!(times, [0, 50, 100_000_050, 200_000_050, 250_002_050]);
        // A clock that goes back is not believed.
        clock.add((5, 300_000_000));
        assert_eq!(clock.points.len(), 3);
        // Any count has a time.
        clock.ns(u64::MAX);
    }

    #[test]
    fn a_count_has_the_time_at_which_it_was_read() {
        let mut clock = CounterClock::new();
        let moments = [(); 20].map(|()| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            (monotonic_ns(), counter(), monotonic_ns())
        });
        clock.look();
        // A hypervisor may take the CPU away in between, but not each time.
        let close = moments.iter().filter(|(before, count, after)| {
            let ns = clock.ns(*count);
            ns + 2000 > *before && ns < *after + 2000
        });
        assert!(close.count() > 0);
    }
}
