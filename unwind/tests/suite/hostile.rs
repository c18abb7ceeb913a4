//! Files that lie and stacks that are not stacks: the unwinder neither panics nor hangs, and says what it could not do.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use crate::common::{Captured, Collector, PID, capture, map, own_mappings, sample, sp};
use crate::damage::{cases, damage};
use proptest::prelude::*;
use recording::clock::Timestamp;
use recording::event::{Event, Mapping, Pid, ProcessEvent};
use recording::sink::{EventSink, InMemory, ModuleFile, ModuleFiles, ModuleMiss, NoMemory, ReadAt};
use recording::stack::Registers;
use unwind::{UnwindEngine, UnwindOptions, Unwinder};

/// This program's file.
static OWN: LazyLock<Arc<Vec<u8>>> = LazyLock::new(|| Arc::new(std::fs::read("/proc/self/exe").expect("own file")));

/// Ranges of the file that the unwinder reads: headers and unwind sections.
static TARGETS: LazyLock<Vec<(usize, usize)>> = LazyLock::new(|| {
    use object::{Object, ObjectSection};
    let file = object::File::parse(&OWN[..]).expect("own file");
    let sections_at = u64::from_le_bytes(OWN[40..48].try_into().unwrap()) as usize;
    let mut targets = vec![(0, 64 + 56 * 16), (sections_at, OWN.len())];
    for name in [".eh_frame", ".eh_frame_hdr", ".note.gnu.build-id"] {
        if let Some((offset, size)) = file.section_by_name(name).and_then(|section| section.file_range()) {
            targets.push((offset as usize, (offset + size) as usize));
        }
    }
    targets
});

/// The file with some bytes changed, or cut short.
struct Damaged {
    patches: Vec<(usize, Vec<u8>)>,
    len: usize,
}

impl ReadAt for Damaged {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let at = usize::try_from(offset).map_err(|_| std::io::ErrorKind::UnexpectedEof)?;
        let bytes = OWN[..self.len].get(at..).and_then(|bytes| bytes.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        for (start, patch) in &self.patches {
            for (index, byte) in patch.iter().enumerate() {
                if let Some(slot) = (start + index).checked_sub(at).and_then(|at| buffer.get_mut(at)) {
                    *slot = *byte;
                }
            }
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.len as u64
    }
}

/// One file for every mapping.
struct OneFile(ModuleFile);

impl ModuleFiles for OneFile {
    fn open(&mut self, _pid: Pid, _mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        Ok(self.0.clone())
    }
}

/// Samples of this process, unwound by both engines with another file in the place of its own.
fn unwind_with(file: impl ReadAt + Send + Sync + 'static, samples: &[Captured]) {
    let bytes = Arc::new(file);
    for engine in [UnwindEngine::Sprof, UnwindEngine::Framehop] {
        let file = ModuleFile {
            readable_path: None,
            bytes: bytes.clone(),
        };
        unwind_by(engine, file, samples);
    }
}

fn unwind_by(engine: UnwindEngine, file: ModuleFile, samples: &[Captured]) {
    let files = OneFile(file);
    let mut unwinder = Unwinder::new(
        Collector::default(),
        NoMemory,
        files,
        UnwindOptions {
            max_frames: 1000,
            engine,
        },
    );
    for (start, len, file_offset, path) in own_mappings() {
        map(&mut unwinder, PID, *start, *len, *file_offset, path.as_bytes());
    }
    for captured in samples {
        unwinder.on_event(&sample(captured));
    }
    let (collector, quality) = unwinder.finish();
    assert_eq!(collector.stacks.len(), samples.len());
    let concluded = quality.rooted + quality.truncated_total() + quality.unverified;
    assert_eq!(concluded, samples.len() as u64, "{quality:?}");
    assert!(collector.stacks.iter().all(|frames| frames.len() <= 1001));
}

#[inline(never)]
fn some_depth(depth: usize) -> Captured {
    let captured = if depth == 0 {
        capture(1 << 15)
    } else {
        some_depth(depth - 1)
    };
    black_box(captured)
}

/// Addresses where there is code, near it, and anywhere.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<prop::sample::Index>().prop_flat_map(|index| {
            let maps = own_mappings();
            let (start, len, ..) = maps[index.index(maps.len())];
            start..start + len
        }),
        prop_oneof![Just(0), Just(8), Just(u64::MAX), Just(u64::MAX - 15), Just(1 << 63)],
        any::<u64>(),
    ]
}

fn any_registers() -> impl Strategy<Value = Registers> {
    (address(), address(), address(), address(), any::<bool>(), any::<bool>()).prop_map(
        |(ip, sp, fp, lr, x86, near)| {
            let fp = if near { sp.wrapping_add(lr % 512 * 8) } else { fp };
            if x86 {
                Registers::X86_64 { ip, sp, bp: fp }
            } else {
                Registers::Aarch64 { pc: ip, sp, fp, lr }
            }
        },
    )
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn random_bytes_are_no_module(mut bytes in prop::collection::vec(any::<u8>(), 0..4096), magic in any::<bool>()) {
        if magic && bytes.len() > 64 {
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            bytes[54..58].copy_from_slice(&[56, 0, 9, 0]);
            bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        }
        unwind_with(InMemory(bytes), &[some_depth(2)]);
    }

    #[test]
    fn a_damaged_file_gives_what_is_left(damage in damage(1..200)) {
        let (patches, len) = damage.patches(&OWN, &TARGETS);
        unwind_with(Damaged { patches, len }, &[some_depth(0), some_depth(5)]);
    }

    #[test]
    fn a_random_snapshot_is_cut_somewhere(
        registers in any_registers(),
        words in prop::collection::vec(address(), 0..300),
        odd in 0usize..8,
        link in any::<bool>(),
    ) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if link {
            // Chains of frame pointers, some of them loops.
            for at in (0..bytes.len() / 8).step_by(2) {
                let target = sp(&registers).wrapping_add(words[at] % 2048);
                bytes[at * 8..at * 8 + 8].copy_from_slice(&target.to_le_bytes());
            }
        }
        bytes.truncate(bytes.len().saturating_sub(odd));
        unwind_with(Damaged { patches: Vec::new(), len: OWN.len() }, &[Captured { registers, bytes }]);
    }
}

#[test]
fn a_mapping_at_the_end_of_the_address_space_is_taken() {
    let files = OneFile(ModuleFile {
        readable_path: None,
        bytes: Arc::new(InMemory(Vec::new())),
    });
    let mut unwinder = Unwinder::new(Collector::default(), NoMemory, files, UnwindOptions::default());
    for (start, len, offset) in [(u64::MAX - 4095, u64::MAX, u64::MAX), (0, u64::MAX, 0), (4096, 0, 1)] {
        map(&mut unwinder, PID, start, len, offset, b"/x");
    }
    let registers = Registers::X86_64 {
        ip: u64::MAX,
        sp: u64::MAX - 7,
        bp: u64::MAX,
    };
    unwinder.on_event(&sample(&Captured {
        registers,
        bytes: vec![0xff; 8],
    }));
    unwinder.on_event(&Event::process(Timestamp(1), PID, ProcessEvent::End));
    assert_eq!(unwinder.finish().1.samples, 1);
}
