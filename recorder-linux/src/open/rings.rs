//! Sizes of rings: by the rate and the number of CPUs; smaller where the user's locked memory does not suffice.

use std::io;

use crate::sys::perf_event::EventFd;
use crate::sys::ring::{Ring, page_bytes};

/// Bytes of a sample besides its stack and its kernel call chain, rounded up.
const SAMPLE_HEADER_BYTES: usize = 256;
const SMALLEST_RING_BYTES: usize = 64 << 10;
const USUAL_RING_BYTES: usize = 2 << 20;
const LARGEST_RING_BYTES: usize = 32 << 20;
/// Most bytes of all rings together. On machines with many CPUs each ring has its usual size, whatever the sum.
const ALL_RINGS_BYTES: usize = 64 << 20;
/// Time for which a ring should hold a busy CPU's samples, where memory allows. The recorder sleeps for up to 0.4 s
/// (`rounds`) and competes with the program for CPU time. An ordinary user's recorder was seen to wait 160 ms for a
/// CPU, with 200 busy threads on 2 CPUs. Rings of 2 MiB lost 1 to 4 % of the samples there, at 1 kHz.
const RING_SECONDS: f64 = 1.05;

/// Larger dumps are not used if a ring holds them for less than this.
const LARGER_STACKS_FEWEST_SECONDS: f64 = 0.1;
/// Time for which rings of their own should hold larger stack copies, in seconds.
const LARGER_STACKS_RING_SECONDS: f64 = 0.5;
/// Factor by which rings for larger copies may exceed other rings. They then hold a quarter of a second at 4 kHz with
/// copies of 64 KiB, and the recorder wakes up half as often.
const MORE_ROOM: usize = 2;
/// A record has at most 64 KiB: the kernel cuts the largest dumps to what fits (perf_sample_ustack_size in
/// kernel/events/core.c).
const LARGEST_STACK_BYTES: u32 = 65528;

/// Size of each ring, and of the dumps in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingBytes {
    pub(crate) ring_bytes: usize,
    pub(crate) stack_bytes: u32,
}

/// How stacks of one role are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackCopies {
    pub(crate) usual: RingBytes,
    /// Size of the dumps that replace the usual ones in the same rings, once many stacks are deeper.
    pub(crate) larger: Option<RingBytes>,
}

impl StackCopies {
    pub(super) fn new(ring_bytes: usize, usual: u32, larger: Option<u32>) -> StackCopies {
        let with = |stack_bytes| RingBytes {
            ring_bytes,
            stack_bytes,
        };
        StackCopies {
            usual: with(usual),
            larger: larger.map(with),
        }
    }
}

impl RingBytes {
    /// Least time that a ring must hold. A ring that is full sooner loses samples whenever the recorder waits for a
    /// CPU.
    pub(crate) const FEWEST_SECONDS: f64 = 0.05;

    /// Time in which a busy CPU fills its ring, in seconds.
    pub(crate) fn seconds(self, rate_hz: f64) -> f64 {
        self.ring_bytes as f64 / (rate_hz * f64::from(self.stack_bytes.max(1024)))
    }

    /// True if a ring has room for this number of records.
    pub(crate) fn holds(self, records: usize) -> bool {
        self.ring_bytes / self.stack_bytes.max(1) as usize >= records
    }

    /// Sizes with rings of their own for these dumps; `None` if such rings could not be larger.
    pub(crate) fn with_own_rings(self, rate_hz: f64, cpus: usize) -> Option<RingBytes> {
        let wanted = (rate_hz * f64::from(self.stack_bytes) * LARGER_STACKS_RING_SECONDS) as usize;
        let ring_bytes = wanted.next_power_of_two().min(affordable_ring_bytes(cpus) * MORE_ROOM);
        (ring_bytes > self.ring_bytes).then_some(RingBytes { ring_bytes, ..self })
    }
}

/// Size of the larger dumps that the same rings have room for; `None` if they have no room for larger dumps.
pub(super) fn larger_stack_bytes(stack_bytes: u32, rate_hz: f64, cpus: usize) -> Option<u32> {
    let ring_bytes = wanted_ring_bytes(rate_hz, stack_bytes, cpus);
    [LARGEST_STACK_BYTES, 32 << 10].into_iter().find(|larger| {
        let larger_copies = RingBytes {
            ring_bytes,
            stack_bytes: *larger,
        };
        *larger > stack_bytes && larger_copies.seconds(rate_hz) >= LARGER_STACKS_FEWEST_SECONDS
    })
}

/// Ring size for events that come at any rate.
pub(super) fn largest_ring_bytes(cpus: usize) -> usize {
    wanted_ring_bytes(f64::INFINITY, 0, cpus)
}

pub(super) fn wanted_ring_bytes(rate_hz: f64, stack_bytes: u32, cpus: usize) -> usize {
    let bytes_a_second = rate_hz * (stack_bytes as usize + SAMPLE_HEADER_BYTES) as f64;
    let bytes = ((bytes_a_second * RING_SECONDS) as usize).clamp(USUAL_RING_BYTES, affordable_ring_bytes(cpus));
    1 << bytes.ilog2()
}

/// The largest size of a ring where each of `cpus` CPUs has one, a power of two.
fn affordable_ring_bytes(cpus: usize) -> usize {
    1 << (ALL_RINGS_BYTES / cpus.max(1))
        .clamp(USUAL_RING_BYTES, LARGEST_RING_BYTES)
        .ilog2()
}

/// Maps a ring for every event. Halves all rings where the user's locked memory does not suffice (516 KiB a CPU and
/// RLIMIT_MEMLOCK, `perf_event_mlock_kb`).
pub(crate) fn map_rings(
    wanted: &[(&EventFd, usize)],
    wanted_bytes: usize,
    announcements: &mut Vec<String>,
) -> Result<(Vec<Ring>, usize), String> {
    let mut bytes = wanted_bytes;
    let smallest = SMALLEST_RING_BYTES.max(page_bytes());
    loop {
        let halved = wanted_bytes / bytes;
        let rings: io::Result<Vec<Ring>> = (wanted.iter())
            .map(|(event, wanted)| Ring::map(event, (wanted / halved).max(smallest)))
            .collect();
        match rings {
            Ok(rings) => {
                if bytes < USUAL_RING_BYTES.min(wanted_bytes) {
                    announcements.push(format!(
                        "rings of {} KiB a CPU instead of {}: samples may be lost at high rates; `ulimit -l unlimited` allows more",
                        bytes >> 10,
                        wanted_bytes >> 10
                    ));
                }
                return Ok((rings, bytes));
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) && bytes > smallest => {
                bytes /= 2;
            }
            Err(error) => {
                return Err(format!(
                    "cannot map a perf ring of {} KiB: {error}; allow more locked memory with `ulimit -l unlimited`",
                    bytes >> 10
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_a_second_within_what_the_machine_affords() {
        let mebibytes = |rate_hz, cpus| wanted_ring_bytes(rate_hz, 16384, cpus) >> 20;
        assert_eq!(mebibytes(100.0, 2), 2);
        assert_eq!(mebibytes(1000.0, 2), 16);
        assert_eq!(mebibytes(10_000.0, 2), 32);
        assert_eq!(mebibytes(1000.0, 8), 8);
        assert_eq!(mebibytes(10_000.0, 64), 2);
    }

    #[test]
    fn dumps_are_larger_where_rings_hold_a_tenth_of_a_second_of_them() {
        let larger = larger_stack_bytes;
        assert_eq!(larger(16384, 1000.0, 2), Some(65528));
        assert_eq!(larger(65528, 1000.0, 2), None);
        assert_eq!(larger(16384, 4000.0, 2), Some(65528));
        assert_eq!(larger(16384, 10_000.0, 2), Some(32768));
        assert_eq!(larger(16384, 20_000.0, 2), None);
        assert_eq!(larger(16384, 1000.0, 16), Some(32768));
        assert_eq!(larger(16384, 1000.0, 64), None);
        assert_eq!(larger(16384, 100.0, 64), Some(65528));
        let own = |rate_hz, cpus| {
            let larger = larger_stack_bytes(16384, rate_hz, cpus);
            let copies = StackCopies::new(wanted_ring_bytes(rate_hz, 16384, cpus), 16384, larger);
            Some(copies.larger?.with_own_rings(rate_hz, cpus)?.ring_bytes >> 20)
        };
        assert_eq!(own(1000.0, 2), Some(32));
        assert_eq!(own(4000.0, 2), Some(64));
        assert_eq!(own(10_000.0, 2), Some(64));
        assert_eq!(own(1000.0, 16), Some(8));
        assert_eq!(own(100.0, 64), Some(4));
        assert_eq!(own(10.0, 2), None, "rings last 3 s");
    }
}
