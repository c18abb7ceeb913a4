//! A program that never ran, recorded all the same: stacks that grow out of each other, and symbols for their
//! addresses.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::builder::{BuildOptions, Builder};
use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, Pid, ProcessEvent};
use recording::info::{Host, PeriodUnit, RecordingInfo};
use recording::module::{BuildId, FileRole, Image, Module, ModuleKind};
use recording::sink::EventSink;
use recording::stack::Frame;

/// Frames of a stack.
pub(crate) const DEPTH: u64 = 30;
/// Where the program's code begins.
pub(crate) const CODE: u64 = 0x1000_0000;
/// The clock when recording began.
pub(crate) const CLOCK: u64 = 1_000_000_000;
/// The process.
pub(crate) const PID: Pid = Pid(100);

/// xorshift64: the same stacks in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Stacks that grow out of each other, as those of a program do: each differs from an earlier one in its last 1-8
/// frames. They use 50,000 addresses. Leaf first.
pub(crate) fn stacks(count: u64) -> Vec<Vec<Frame>> {
    let mut random = Random(88_172_645_463_325_252);
    let mut stacks: Vec<Vec<Frame>> = vec![
        (0..DEPTH)
            .map(|at| Frame::ReturnAddress(Avma(CODE + at * 64)))
            .collect(),
    ];
    while (stacks.len() as u64) < count {
        let mut stack = stacks[random.below(stacks.len() as u64) as usize].clone();
        let change = 1 + random.below(8) as usize;
        for frame in &mut stack[..change] {
            *frame = Frame::ReturnAddress(Avma(CODE + random.below(50_000) * 16));
        }
        stacks.push(stack);
    }
    stacks
}

/// Which of `stacks` stacks a sample has: nine of ten samples are in one stack of a hundred, as in a program with hot
/// loops.
pub(crate) fn hot(random: &mut Random, stacks: u64) -> u32 {
    let among = if random.below(10) == 0 { stacks } else { stacks / 100 };
    random.below(among) as u32
}

fn clock() -> ClockReference {
    ClockReference {
        timestamp: Timestamp(CLOCK),
        wall: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
    }
}

/// A builder that knows the process and its program.
pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new(clock(), BuildOptions::default());
    let (time, pid) = (Timestamp(CLOCK), PID);
    builder.on_event(&Event::process(time, pid, ProcessEvent::Start { parent: None }));
    let module = Arc::new(Module {
        kind: ModuleKind::File,
        path: "/opt/million".into(),
        readable_path: None,
        build_id: Some(BuildId(vec![7; 20])),
        arch: Some("x86_64"),
    });
    let (start, end) = (Avma(CODE), Avma(CODE * 2));
    let image = Image {
        start,
        end,
        base: start,
        module,
        role: FileRole::default(),
    };
    builder.on_event(&Event::process(time, pid, ProcessEvent::Image(&image)));
    builder
}

/// What is known of the recording at its end.
pub(crate) fn info(end: Timestamp) -> RecordingInfo {
    RecordingInfo {
        program: "million".into(),
        args: None,
        clock: clock(),
        end,
        run_starts: Vec::new(),
        whole_runs: None,
        interval_ns: 1_000_000,
        event: "cpu-clock".into(),
        unit: PeriodUnit::CpuNanoseconds,
        events: Vec::new(),
        kernel_included: true,
        notes: Vec::new(),
        heap: None,
        host: Host::default(),
    }
}

/// A function every 256 bytes, with two more inlined into the odd ones.
pub(crate) fn symbols(address: u64) -> AddressInfo {
    let start = address & !0xff;
    let frame = |depth: u64| SourceFrame {
        function: Some(format!("crate_name::module::function_{start:x}_{depth}")),
        file: Some(format!("/home/me/project/src/module_{}.rs", start % 97)),
        declared_in: None,
        line: Some(address as u32 & 0xff),
        column: Some(9),
        krate: None,
    };
    AddressInfo {
        function: Some(FunctionSymbol {
            is_named: true,
            name: format!("crate_name::module::function_{start:x}_0"),
            start,
            size: Some(0x100),
            v8: None,
            krate: None,
        }),
        frames: (0..=(start >> 8) % 2 * 2).rev().map(frame).collect(),
    }
}
