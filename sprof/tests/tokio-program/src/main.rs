//! Tasks that compute and sleep, on the runtime of the argument: `current` or `multi`. It prints of each task the
//! times of its async span, ns since the start: before and after its begin, before and after its end.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sprof_spans::{async_span, span};
use tracing::{info_span, Instrument as _};
use tracing_subscriber::prelude::*;

const TASKS: u64 = 20;

#[inline(never)]
fn compute(ms: u64) {
    let _span = span!("compute");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(ms) {
        black_box(());
    }
}

async fn step() {
    compute(2);
    tokio::time::sleep(Duration::from_millis(10)).await;
    compute(2);
}

async fn request(id: u64, start: Instant) -> String {
    let now = || start.elapsed().as_nanos();
    let before = now();
    let whole = async_span!("request", id = id);
    let after = now();
    // A span of `tracing` is one for each poll: two, with the sleep between them.
    step().instrument(info_span!("step", id)).await;
    let before_end = now();
    drop(whole);
    format!("{before} {after} {before_end} {}", now())
}

fn main() {
    tracing_subscriber::registry()
        .with(sprof_spans::SpanLayer::default())
        .init();
    let mut builder = match std::env::args().nth(1).as_deref() {
        Some("current") => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(2).enable_time().build().unwrap();
    let start = Instant::now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS).map(|id| tokio::spawn(request(id, start))).collect();
        for task in tasks {
            println!("{}", task.await.unwrap());
        }
    });
}
