//! Builds a tree and drops it, by turns, and prints the share of dropping. Nodes have a `Drop` of the program's own,
//! which does other work.

use std::hint::black_box;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// CPU time of this thread, s (CLOCK_THREAD_CPUTIME_ID).
fn now() -> f64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` has the layout of a timespec on 64-bit Linux, and outlives the call.
    unsafe { clock_gettime(3, &mut time) };
    time.seconds as f64 + time.nanoseconds as f64 / 1e9
}

struct Node {
    children: Vec<Node>,
    name: String,
}

fn build(depth: u32) -> Node {
    let children = if depth == 0 { 0 } else { 8 };
    Node {
        children: (0..children).map(|_| build(depth - 1)).collect(),
        name: format!("a node at depth {depth}"),
    }
}

struct Session(u64);

#[inline(never)]
fn flush(seed: u64) -> u64 {
    (0..2_000_000).fold(seed, |sum: u64, round| black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round)))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.0 = flush(self.0);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The share is that of the median round. Where the host of a virtual machine takes the CPU away, the clock goes on and
/// no timer ticks.
fn main() {
    let (mut building, mut dropping) = (Vec::new(), Vec::new());
    let start = now();
    let mut end = start;
    while end - start < 2.0 {
        let begin = now();
        let tree = black_box(build(5));
        drop(Session((tree.children.len() + tree.name.len()) as u64));
        let before = now();
        drop(tree);
        end = now();
        building.push(before - begin);
        dropping.push(end - before);
    }
    let (building, dropping) = (median(building), median(dropping));
    println!("share={:.4}", dropping / (building + dropping));
}
