//! Spans whose times it prints. For each line on stdin, or once with the argument `once`: ten rounds that compute for
//! 40 % and sleep for 60 %, and a message to another thread. It answers with the times of the spans `round`: before and
//! after their begin, before and after their end. With a number N: N spans, one
//! after the other. With three numbers THREADS N NS: in each thread N spans of NS ns; it answers with the sum of what
//! passed inside and around, and with the longest of both.
//!
//! With `sections`, or with `each` for each line: chosen sections, of this thread and of one that starts in a pause. It
//! answers with their number, then CPU time and other time of what is surely inside, and of what is inside at most, ns.

mod cpu_time;

use std::hint::black_box;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use cpu_time::cpu_ns;
use sprof_spans::{Flow, Recording, async_span, frame, instant, plot, span};

/// 4 ms of CPU time: a machine that gives the CPU to others meanwhile leaves as many samples.
#[inline(never)]
fn busy() {
    let end = cpu_ns() + 4_000_000;
    while cpu_ns() < end {
        for _ in 0..1000 {
            black_box(());
        }
    }
}

fn run(start: Instant) -> String {
    let now = || start.elapsed().as_nanos();
    let mut times = Vec::new();
    for round in 0..10u32 {
        let before = now();
        let outer = span!("round", round = round, text = "hällo", half = 0.5, less = -1, is = true);
        let after = now();
        {
            let _span = span!("compute");
            busy();
        }
        instant!("computed", round = round);
        {
            let _span = span!("sleep");
            sleep(Duration::from_millis(6));
        }
        frame!("turn");
        plot!("queue", round);
        let before_end = now();
        drop(outer);
        times.push(format!("{before} {after} {before_end} {}", now()));
    }
    let flow = Flow::new();
    let task = async_span!("task", id = 7u8);
    drop(span!("send", flow = flow));
    let thread = spawn(move || {
        let _span = span!("receive", flow = flow.end());
        drop(task);
    });
    thread.join().unwrap();
    times.join(" ")
}

/// Sum inside, sum around, longest inside, longest around.
fn paced(spans: u64, ns: u64) -> [u64; 4] {
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    (0..spans).fold([0; 4], |[inside, around, longest_inside, longest_around], _| {
        let before = now();
        let span = span!("paced");
        let begins = now();
        let mut ends = begins;
        while ends < begins + ns {
            ends = now();
        }
        drop(span);
        let (is_inside, is_around) = (ends - begins, now() - before);
        [inside + is_inside, around + is_around, longest_inside.max(is_inside), longest_around.max(is_around)]
    })
}

#[inline(never)]
fn inside() {
    busy();
    sleep(Duration::from_millis(2));
}

#[inline(never)]
fn outside() {
    busy();
    sleep(Duration::from_millis(2));
}

/// CPU time, and other time, of what is surely inside and of what is inside at most.
#[inline(never)]
fn section() -> [i64; 4] {
    outside();
    let now = |start: Instant| (cpu_ns(), start.elapsed().as_nanos() as i64);
    let start = Instant::now();
    let before = now(start);
    Recording::resume();
    let after = now(start);
    {
        let _span = span!("inside");
        inside();
    }
    // It is resumed.
    Recording::resume();
    let before_end = now(start);
    Recording::pause();
    let after_end = now(start);
    let _span = span!("outside");
    outside();
    let times = |from: (i64, i64), to: (i64, i64)| [to.0 - from.0, to.1 - from.1 - (to.0 - from.0)];
    let [[cpu, other], [most_cpu, most_other]] = [times(after, before_end), times(before, after_end)];
    [cpu, other, most_cpu, most_other]
}

fn sections() -> String {
    Recording::pause();
    let mut all = Vec::new();
    all.extend((0..10).map(|_| section()));
    all.extend(spawn(|| (0..10).map(|_| section()).collect::<Vec<_>>()).join().unwrap());
    let sum = |at: usize| all.iter().map(|times| times[at]).sum::<i64>();
    format!("{} {} {} {} {}", all.len(), sum(0), sum(1), sum(2), sum(3))
}

fn main() {
    let start = Instant::now();
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    if let [threads, spans, ns] = numbers[..] {
        let threads: Vec<_> = (0..threads).map(|_| spawn(move || paced(spans, ns))).collect();
        let all: Vec<[u64; 4]> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let [inside, around] = [0, 1].map(|at| all.iter().map(|of| of[at]).sum::<u64>());
        let [longest_inside, longest_around] = [2, 3].map(|at| all.iter().map(|of| of[at]).max().unwrap());
        println!("{inside} {around} {longest_inside} {longest_around}");
        return;
    }
    match std::env::args().nth(1).as_deref() {
        Some("once") => println!("{}", run(start)),
        Some("sections") => println!("{}", sections()),
        Some("each") => {
            for _ in std::io::stdin().lines() {
                println!("{}", sections());
            }
        }
        Some(many) => (0..many.parse().unwrap()).for_each(|_: u32| drop(span!("one of many"))),
        None => {}
    }
    for _ in std::io::stdin().lines() {
        println!("{}", run(start));
    }
}
