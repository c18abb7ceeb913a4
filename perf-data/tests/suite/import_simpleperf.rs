//! Files as Android's simpleperf writes them, built by hand.

use std::io::Cursor;
use std::time::{Duration, SystemTime};

use crate::common::simpleperf::*;
use crate::common::*;
use perf_data::import::{Import, Imported, RecordedFile, RecordedFunction};
use proptest::prelude::*;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, ProcessEvent, RecordingEvent, ThreadEvent};
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Stack};

const REGS_AND_STACK: u64 = 1 << 12 | 1 << 13;
const EXCLUDE_USER_CHAIN: u64 = 1 << 22;
const CONTEXT_USER: u64 = -512i64 as u64;
const PROT_READ: u32 = 1;
const PROT_EXEC: u32 = 4;
const PROT_JIT: u32 = 0x4000;

/// cpu-clock at 1000 Hz with `--call-graph dwarf`.
fn dwarf_attr() -> Vec<u8> {
    let mut attr = attr(CPU_CLOCK);
    attr[24..32].copy_from_slice(&(SAMPLE_TYPE | REGS_AND_STACK).to_ne_bytes());
    let flags = 1u64 << 10 | 1 << 18 | EXCLUDE_USER_CHAIN;
    attr[40..48].copy_from_slice(&flags.to_ne_bytes());
    attr
}

/// A sample that simpleperf has unwound: no registers, no stack, and a call chain with a user part.
fn unwound(time: u64) -> Vec<u8> {
    let fields = [1, 0x1010, pair(7, 7), time, 0, 1_000_000];
    let chain = [4, CONTEXT_USER, 0x1010, 0x9000, 0x1023];
    record(9, 2, &words(&[&fields[..], &chain, &[0, 0]].concat()))
}

const LIBRARY: &str = "/data/app/base.apk!/lib/arm64-v8a/libfoo.so";

fn file_of(features: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let records = [
        own_record(32769, &vec![0xff; 200_000]),
        // Of an older boot.
        mmap2(5, LIBRARY, 0x1000, 0x1000, 0x4000, PROT_READ | PROT_EXEC),
        mmap2(6, "/system/framework/boot.vdex", 0x8000, 0x1000, 0x2000, PROT_READ),
        mmap2(7, "jit_app_cache:0-100", 0x9000, 0x100, 0x77, PROT_JIT),
        mmap2(8, "/system/fonts/plain.ttf", 0xa000, 0x100, 0, PROT_READ),
        unwound(1_000_000),
        own_record(32774, &[1; 40]),
        unwound(2_000_000),
    ];
    file_with_features(&[(dwarf_attr(), 1)], &records, features)
}

fn facts() -> (u64, Vec<u8>) {
    let facts = [
        ("simpleperf_version", "1.build.1"),
        ("event_type_info", "task-clock:u,1,0\nsched:sched_switch,2,91"),
        ("app_package_name", "com.example.app"),
        ("android_version", "14"),
        ("product_props", "Google:Pixel 5:redfin"),
        ("timestamp", "1700000000"),
    ];
    (META_INFO, meta_info(&facts))
}

fn functions() -> [Vec<u8>; 3] {
    // The code is mapped from offset 0x4000 of its file and linked for 0x14000.
    let library = [(0x14010, 0x10, "_ZN3foo3barEv"), (0x14020, 0x10, "caller")];
    let dex = [(0x2010, 8, "com.example.Main.run")];
    [
        file(LIBRARY, ELF, 0x14000, 0x4000, &library),
        file("/system/framework/boot.vdex", DEX, 0, 0, &dex),
        file("[kernel.kallsyms]", KERNEL, 0, 0, &[(0xffff_8000_0000, 64, "vfs_read")]),
    ]
}

fn whole_file() -> Vec<u8> {
    file_of(&[(FILE, functions().concat()), facts()])
}

#[derive(Default)]
struct Seen {
    stacks: Vec<(u64, Vec<Frame>)>,
    maps: Vec<(String, u64, u64)>,
    malformed: Vec<&'static str>,
}

impl EventSink for Seen {
    fn on_event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Thread(_, ThreadEvent::Sample(sample)) => {
                let frames = match sample.stack {
                    Stack::Frames(frames) => frames.to_vec(),
                    _ => Vec::new(),
                };
                self.stacks.push((event.time.0, frames));
            }
            EventKind::Process(_, ProcessEvent::Map(mapping)) => {
                let path = String::from_utf8_lossy(mapping.path).into_owned();
                self.maps.push((path, mapping.start, mapping.file_offset));
            }
            EventKind::Recording(RecordingEvent::Malformed(what)) => self.malformed.push(what),
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

fn import(file: &[u8]) -> (Seen, Imported) {
    let mut seen = Seen::default();
    let imported = Import::open(Cursor::new(file), None, None)
        .unwrap()
        .run(&mut seen)
        .unwrap();
    (seen, imported)
}

#[test]
fn stacks_that_simpleperf_unwound_are_whole_and_their_addresses_are_those_of_calls() {
    let (seen, imported) = import(&whole_file());
    let at = |address| Frame::InstructionPointer(Avma(address));
    let stack = vec![at(0x1010), at(0x9000), at(0x1023)];
    assert_eq!(seen.stacks, [(1_000_000, stack.clone()), (2_000_000, stack)]);
    assert_eq!(seen.malformed, Vec::<&str>::new());
    assert_eq!(imported.notes, Vec::<String>::new());
}

#[test]
fn mappings_that_hold_named_code_count_as_code() {
    let (seen, _) = import(&whole_file());
    let map = |path: &str, start, offset| (path.to_owned(), start, offset);
    assert_eq!(
        seen.maps,
        [
            map(LIBRARY, 0x1000, 0x4000),
            map("/system/framework/boot.vdex", 0x8000, 0x2000),
            // Its symbols are addresses of the process.
            map("jit_app_cache:0-100", 0x9000, 0x9000),
        ]
    );
}

#[test]
fn names_of_functions_are_at_their_offsets_in_the_file() {
    let function = |start, len, name: &str| RecordedFunction {
        start,
        len,
        name: name.to_owned(),
    };
    let expected = [
        RecordedFile {
            path: LIBRARY.into(),
            is_kernel: false,
            functions: vec![function(0x4010, 16, "_ZN3foo3barEv"), function(0x4020, 16, "caller")],
        },
        RecordedFile {
            path: b"/system/framework/boot.vdex".to_vec(),
            is_kernel: false,
            functions: vec![function(0x2010, 8, "com.example.Main.run")],
        },
        RecordedFile {
            path: b"[kernel.kallsyms]".to_vec(),
            is_kernel: true,
            functions: vec![function(0xffff_8000_0000, 64, "vfs_read")],
        },
    ];
    assert_eq!(import(&whole_file()).1.files, expected);
    // Since Android 12 in another form.
    let library = [(0x14010, 0x10, "_ZN3foo3barEv"), (0x14020, 0x10, "caller")];
    let dex = [(0x2010, 8, "com.example.Main.run")];
    let messages = [
        file2(LIBRARY, ELF, 0x14000, 0x4000, &library),
        file2("/system/framework/boot.vdex", DEX, 0, 0, &dex),
        file2("[kernel.kallsyms]", KERNEL, 0, 0, &[(0xffff_8000_0000, 64, "vfs_read")]),
    ];
    let file = file_of(&[facts(), (FILE2, messages.concat())]);
    assert_eq!(import(&file).1.files, expected);
}

#[test]
fn facts_of_the_recording_are_taken_over() {
    let (_, imported) = import(&whole_file());
    let info = imported.info;
    assert_eq!(info.event, "task-clock:u");
    assert_eq!(info.program, "com.example.app");
    assert_eq!(info.host.os.as_deref(), Some("Android 14 (Google Pixel 5)"));
    // What was mapped before has times of its own, which are not those of the samples.
    assert_eq!((info.clock.timestamp.0, info.end.0), (1_000_000, 2_000_000));
    let ended = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    assert_eq!(info.clock.wall, ended - Duration::from_millis(1));
}

#[test]
fn mappings_may_stand_in_a_section_of_their_own() {
    let initial = mmap2(0, "/system/lib64/libc.so", 0x4_0000, 0x1000, 0, PROT_EXEC);
    let file = file_of(&[(FILE, functions().concat()), facts(), (INIT_MAP, initial)]);
    let (seen, _) = import(&file);
    assert_eq!(seen.maps[0].0, "/system/lib64/libc.so");
    assert_eq!(seen.maps.len(), 4);
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let initial = mmap2(0, "/system/lib64/libc.so", 0x4_0000, 0x1000, 0, PROT_EXEC);
    let messages = file2(LIBRARY, ELF, 0x14000, 0x4000, &[(0x14010, 0x10, "bar")]);
    // Without the big record, which nearly all damage would fall into.
    let records = [
        mmap2(5, LIBRARY, 0x1000, 0x1000, 0x4000, PROT_READ | PROT_EXEC),
        own_record(32774, &[1; 40]),
        unwound(1_000_000),
    ];
    let features = [
        (FILE, functions().concat()),
        facts(),
        (FILE2, messages),
        (INIT_MAP, initial),
    ];
    Just(file_with_features(&[(dwarf_attr(), 1)], &records, &features))
}

proptest! {
    #![proptest_config(damage::cases(3000))]

    #[test]
    fn damaged_files_never_panic_or_hang(file in damaged(any_file())) {
        if let Ok(import) = Import::open(Cursor::new(&file), None, None) {
            let _ = import.run(&mut Seen::default());
        }
    }

    #[test]
    fn sections_of_random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for number in [FILE, META_INFO, FILE2, INIT_MAP] {
            let file = file_with_features(&[(dwarf_attr(), 1)], &[unwound(1)], &[(number, bytes.clone())]);
            import(&file);
        }
    }
}
