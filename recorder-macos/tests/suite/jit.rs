//! Files of JIT compilers, found among the open files of a process.

use recorder_macos::files::open_perf_map;
use recorder_macos::kernel::Mach as _;
use recorder_macos::sampling::sample;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Pid, ProcessEvent};
use recording::sink::{Completion, EventSink};
use recording::stack::Registers;

use crate::events::{MS, plan};
use crate::xnu::Xnu;
use crate::xnu::fault::Faults;
use crate::xnu::machine::{Behaviour, Machine};
use crate::xnu::program::{Moment, Program};

const JIT: u64 = 0x3_0000_0000;
const STACK: u64 = 0x1_6fe0_0000;

/// Mappings with their times.
#[derive(Default)]
struct Maps(Vec<(u64, String, u64)>);

impl EventSink for Maps {
    fn on_event(&mut self, event: &Event<'_>) {
        if let EventKind::Process(_, ProcessEvent::Map(mapping)) = event.kind {
            let path = String::from_utf8_lossy(mapping.path).into_owned();
            self.0.push((event.time.0, path, mapping.len));
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

/// A process whose thread executes code at this address alone.
fn process(ip: u64) -> Xnu {
    let mut machine = Machine::new(4, 2);
    machine.start(None, 1, Behaviour::RUNS);
    let registers = Registers::X86_64 { ip, sp: STACK, bp: 0 };
    machine.set_program(
        0,
        Program {
            path: "/app".to_owned(),
            base: 0x1_0450_0000,
            memory: vec![0; 0x4000],
            jit: (JIT, vec![0; 0x4000]),
            moments: vec![Moment {
                registers,
                stack: vec![0; 64],
            }],
        },
    );
    Xnu::new(machine, Faults::default())
}

fn record(xnu: &Xnu, ms: u64) -> Maps {
    let mut maps = Maps::default();
    let deadline = Some(xnu.now_ns() + ms * MS);
    sample(xnu, plan(101, true, MS, deadline), &mut maps).unwrap();
    maps
}

#[test]
fn a_jitdump_that_is_open_is_reported_once_without_an_address() {
    let xnu = process(JIT + 0x100);
    let opened_ns = xnu.now_ns() + 200 * MS;
    xnu.lock().plan(opened_ns, |machine| {
        let files = [
            "/dev/null",
            "/tmp/jit-101.dump",
            "/tmp/jit-x.dump",
            "/tmp/other/jit-101.dump",
        ];
        machine.processes[0].open_files = files.map(Into::into).into();
    });
    let maps = record(&xnu, 500).0;
    let paths: Vec<(&str, u64)> = maps.iter().map(|(_, path, len)| (&**path, *len)).collect();
    assert_eq!(paths[0], ("//anon", 0x4000));
    assert_eq!(paths[1..], [("/tmp/jit-101.dump", 0), ("/tmp/other/jit-101.dump", 0)]);
    let found_ns = maps[1].0 - opened_ns;
    assert!(found_ns < 60 * MS, "{found_ns} ns");
}

#[test]
fn a_process_without_jit_code_is_not_asked_for_its_files() {
    let xnu = process(0x9000_0000);
    xnu.lock().machine.processes[0].open_files = vec!["/tmp/jit-101.dump".into()];
    let maps = record(&xnu, 200).0;
    assert!(maps.iter().all(|(_, path, _)| !path.contains("jit-")), "{maps:?}");
}

#[test]
fn the_perf_map_that_a_process_has_open_is_read_wherever_it_is() {
    let xnu = process(JIT);
    let folder = tempfile::tempdir().unwrap();
    let [other, own] = ["perf-102.map", "perf-101.map"].map(|name| folder.path().join(name));
    std::fs::write(&other, "").unwrap();
    std::fs::write(&own, "300000000 100 compiled\n").unwrap();
    xnu.lock().machine.processes[0].open_files = vec![other, own.clone()];
    let user = rustix::process::geteuid().as_raw();
    xnu.lock().user = user;
    let (path, file) = open_perf_map(&xnu, Pid(101), xnu.now_ns()).unwrap();
    assert_eq!((path, file.len()), (own, 23));
    // Of somebody else, also of root.
    xnu.lock().user = user + 1;
    assert!(open_perf_map(&xnu, Pid(101), xnu.now_ns()).is_none());
}
