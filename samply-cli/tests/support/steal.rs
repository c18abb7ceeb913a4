//! CPU time that the host of a virtual machine takes away from it. Which of the clocks goes on meanwhile (that of a program's CPU time,
//! that of perf's events, the timers of samples) is the kernel's doing, so what they count differs by as much: seen with two thirds
//! taken away were half of the samples that the program's own CPU time promised, and twice its CPU time in events.

use std::sync::Mutex;

/// (CPU time used, CPU time taken away), in ticks.
type Ticks = (u64, u64);

static BEGAN: Mutex<Ticks> = Mutex::new((0, 0));

/// Begins to count.
pub(crate) fn begin() {
    if let (Some(now), Ok(mut began)) = (ticks(), BEGAN.lock()) {
        *began = now;
    }
}

/// How much was taken away since [`begin`], of what was left: bounds on CPU time and on numbers of samples are wider by as much. 0 on
/// a machine of one's own.
pub(crate) fn stolen() -> f64 {
    let (Some(now), Ok(began)) = (ticks(), BEGAN.lock()) else {
        return 0.0;
    };
    let (left, stolen) = (now.0.saturating_sub(began.0), now.1.saturating_sub(began.1));
    stolen as f64 / left.max(1) as f64
}

/// `cpu  user nice system idle iowait irq softirq steal ...` of proc_stat(5).
fn ticks() -> Option<Ticks> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let words: Vec<u64> = (stat.lines().next()?.split_whitespace().skip(1))
        .map_while(|word| word.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = words.get(..8)?.try_into().ok()?;
    Some((user + nice + system + irq + softirq, steal))
}
