//! Spans whose times it prints. For each line on stdin, or once with the argument `once`: ten rounds that compute for
//! 40 % and sleep for 60 %, and a message to another thread. It answers with the times of the spans `round`: before and
//! after their begin, before and after their end. With a number: so many spans at once. With three: so many threads,
//! spans of each, and ns of each; it answers with the sum of what passed inside and around, and with the longest of
//! both.

use std::hint::black_box;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use sprof_spans::{Flow, async_span, frame, instant, plot, span};

#[inline(never)]
fn busy() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(4) {
        black_box(());
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
        Some(many) => (0..many.parse().unwrap()).for_each(|_: u32| drop(span!("one of many"))),
        None => {}
    }
    for _ in std::io::stdin().lines() {
        println!("{}", run(start));
    }
}
