//! The same programs in other containers: as memory, in fat files, without symbols, damaged.

use std::sync::{Arc, LazyLock};

use object::read::macho::{MachHeader, Segment};
use object::{LittleEndian, macho};
use proptest::prelude::*;
use recording::clock::Timestamp;
use recording::event::{Event, Mapping, ProcessEvent};
use recording::module::BuildId;
use recording::sink::{EventSink, InMemory, KeptFile, Layout, ModuleMiss, NoMemory, ReadAt};
use unwind::{UnwindOptions, Unwinder};

use super::trace::Trace;
use super::{Files, compare, fixture};
use crate::common::{Captured, Collector, PID, sample};
use crate::damage::{cases, damage};

/// What is loaded of a file.
struct Loaded(InMemory<Vec<u8>>);

impl Loaded {
    fn of(file: &[u8]) -> Loaded {
        let header = macho::MachHeader64::<LittleEndian>::parse(file, 0).unwrap();
        let mut commands = header.load_commands(LittleEndian, file, 0).unwrap();
        let mut segments = Vec::new();
        while let Some(command) = commands.next().unwrap() {
            if let Some((segment, _)) = command.segment_64().unwrap() {
                segments.push((segment.vmaddr(LittleEndian), segment.data(LittleEndian, file).unwrap()));
            }
        }
        let base = { segments.iter() }.find(|(_, data)| !data.is_empty()).unwrap().0;
        let mut memory = Vec::new();
        for (address, data) in segments.into_iter().filter(|(_, data)| !data.is_empty()) {
            let at = (address - base) as usize;
            memory.resize(memory.len().max(at + data.len()), 0);
            memory[at..at + data.len()].copy_from_slice(data);
        }
        Loaded(InMemory(memory))
    }
}

impl ReadAt for Loaded {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn layout(&self) -> Layout {
        Layout::Memory
    }
}

fn uuid(file: &[u8]) -> BuildId {
    let header = macho::MachHeader64::<LittleEndian>::parse(file, 0).unwrap();
    BuildId::of_uuid(header.uuid(LittleEndian, file, 0).unwrap().unwrap())
}

/// A fat file with these slices.
fn fat(slices: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [0xcafe_babe, slices.len() as u32].map(u32::to_be_bytes).concat();
    let mut at = 0x4000;
    for slice in slices {
        let cpu = u32::from_le_bytes(slice[4..8].try_into().unwrap());
        bytes.extend(
            [cpu, 0, at as u32, slice.len() as u32, 14]
                .map(u32::to_be_bytes)
                .concat(),
        );
        at += slice.len().next_multiple_of(0x4000);
    }
    for slice in slices {
        bytes.resize(bytes.len().next_multiple_of(0x4000), 0);
        bytes.extend_from_slice(slice);
    }
    bytes
}

#[test]
fn memory_serves_as_well_as_the_file() {
    for name in ["aarch64-c-o2-compact", "x86_64-c-o2-no-fp-compact", "aarch64-rust-o2"] {
        let trace = Trace::read(&fixture(name));
        let (count, wrong, _) = compare(&trace, |file| Arc::new(Loaded::of(file)));
        assert!(count > 900 && wrong.is_empty(), "{name}: {:?}", wrong.first());
    }
}

#[test]
fn without_its_symbol_the_trampoline_is_known_by_the_kernels_frame() {
    let without_symbol = |file: &[u8]| -> KeptFile {
        let mut file = file.to_vec();
        let name = b"\0__sigtramp\0";
        if let Some(at) = file.windows(name.len()).position(|bytes| bytes == name) {
            file[at + 1] = b'x';
        }
        Arc::new(InMemory(file))
    };
    let trace = Trace::read(&fixture("aarch64-c-o2-compact"));
    let (_, wrong, _) = compare(&trace, without_symbol);
    assert!(wrong.is_empty(), "{:?}", wrong.first());
}

#[test]
fn the_slice_of_a_fat_file_is_chosen_by_its_uuid() {
    let arm = Trace::read(&fixture("aarch64-c-o2-compact"));
    let intel = Trace::read(&fixture("x86_64-c-o2-compact"));
    let (arm_file, intel_file) = (&arm.images[0].file, &intel.images[0].file);
    let both: KeptFile = Arc::new(InMemory(fat(&[intel_file, arm_file])));
    let module = |build_id| {
        let mut unwinder = Unwinder::new(
            Collector::default(),
            NoMemory,
            Files(vec![("/app".into(), both.clone())]),
            UnwindOptions::default(),
        );
        let mapping = Mapping {
            start: 0x1_0000_0000,
            len: 0x4000,
            file_offset: 0,
            path: b"/app",
            build_id,
            inode: None,
        };
        unwinder.on_event(&Event::process(Timestamp(0), PID, ProcessEvent::Map(&mapping)));
        let (collector, quality) = unwinder.finish();
        (collector.images[0].module.arch, quality.module_misses)
    };
    assert_eq!(module(Some(uuid(arm_file))), (Some("aarch64"), Default::default()));
    assert_eq!(module(Some(uuid(intel_file))), (Some("x86_64"), Default::default()));
    let other = Some(BuildId::of_uuid([7; 16]));
    assert_eq!(module(other), (None, [(ModuleMiss::Replaced, 1)].into_iter().collect()));
    assert_eq!(
        module(None),
        (None, [(ModuleMiss::NotIdentified, 1)].into_iter().collect())
    );
    // In a fat file of one slice, each stack is as in the file alone.
    let (_, wrong, _) = compare(&arm, |file| Arc::new(InMemory(fat(&[file]))));
    assert!(wrong.is_empty(), "{:?}", wrong.first());
}

#[test]
fn functions_are_those_of_the_list() {
    let trace = Trace::read(&fixture("x86_64-rust-o0"));
    let file = &trace.images[0].file;
    let functions = unwind::Functions::read(&InMemory(file));
    let all = functions.all();
    let header = macho::MachHeader64::<LittleEndian>::parse(&file[..], 0).unwrap();
    let mut commands = header.load_commands(LittleEndian, &file[..], 0).unwrap();
    let mut starts = Vec::new();
    while let Some(command) = commands.next().unwrap() {
        if command.cmd() == macho::LC_FUNCTION_STARTS {
            let command: &macho::LinkeditDataCommand<LittleEndian> = command.data().unwrap();
            let mut list = command.function_starts(LittleEndian, &file[..], 0).unwrap();
            starts = std::iter::from_fn(|| list.next().unwrap()).collect();
        }
    }
    assert!(starts.len() > 50);
    assert_eq!(all.iter().map(|function| function.start).collect::<Vec<u64>>(), starts);
    for pair in all.windows(2) {
        assert_eq!(functions.at(pair[0].end - 1).as_ref(), Some(&pair[0]));
        assert_eq!(functions.next_start(pair[0].start), Some(pair[1].start));
    }
}

/// Ranges of a file that the unwinder reads: headers, unwind sections, code, and the last segment.
fn targets(file: &[u8]) -> Vec<(usize, usize)> {
    use object::{Object, ObjectSection};
    let object = object::File::parse(file).unwrap();
    let commands = u32::from_le_bytes(file[20..24].try_into().unwrap()) as usize;
    let sections = ["__unwind_info", "__eh_frame", "__text"]
        .into_iter()
        .filter_map(|name| {
            let (at, size) = object.section_by_name(name)?.file_range()?;
            Some((at as usize, (at + size) as usize))
        });
    let tail = file.len() / 8;
    let fixed = [(0, 32), (0, 32 + commands), (file.len() - tail, file.len())];
    fixed.into_iter().chain(sections).collect()
}

/// A program, and some states of its stack.
struct Subject {
    base: u64,
    file: Vec<u8>,
    targets: Vec<(usize, usize)>,
    samples: Vec<Captured>,
}

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let subject = |name| {
        let trace = Trace::read(&fixture(name));
        let (mut samples, mut count) = (Vec::new(), 0);
        trace.states(|state| {
            count += 1;
            if count % 40 == 0 {
                samples.push(Captured {
                    registers: state.registers,
                    bytes: state.stack.to_vec(),
                });
            }
        });
        let image = &trace.images[0];
        Subject {
            base: image.base,
            file: image.file.to_vec(),
            targets: targets(&image.file),
            samples,
        }
    };
    let names = [
        "aarch64-c-o2-compact",
        "aarch64-rust-o2",
        "x86_64-c-o2-no-fp-compact",
        "x86_64-c-o2-dwarf",
    ];
    names.into_iter().map(subject).collect()
});

proptest! {
    #![proptest_config(cases(1600))]

    #[test]
    fn damaged_files_give_what_is_left(which in 0usize..4, damage in damage(1..17), is_fat in prop::bool::weighted(0.3)) {
        let subject = &SUBJECTS[which];
        let file = damage.within(&subject.file, &subject.targets);
        let file: KeptFile = match is_fat && file.len() > 8 {
            true => Arc::new(InMemory(fat(&[&file[..], &[0; 32]]))),
            false => Arc::new(InMemory(file)),
        };
        let mut unwinder = Unwinder::new(
            Collector::default(),
            NoMemory,
            Files(vec![("/program".into(), file)]),
            UnwindOptions {
            max_frames: 1000,
            ..UnwindOptions::default()
        },
        );
        crate::common::map(&mut unwinder, PID, subject.base, 0x10_0000, 0, b"/program");
        for captured in &subject.samples {
            unwinder.on_event(&sample(captured));
        }
        let (collector, quality) = unwinder.finish();
        let concluded = quality.rooted + quality.truncated_total() + quality.unverified;
        prop_assert_eq!(
            (collector.stacks.len(), concluded),
            (subject.samples.len(), subject.samples.len() as u64),
            "{:?}", quality
        );
        prop_assert!(collector.stacks.iter().all(|frames| frames.len() <= 1001));
    }
}
