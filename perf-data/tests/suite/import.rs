//! perf.data files built by hand: of every layout, cut off, damaged, and made to hurt.

use std::io::Cursor;

use crate::common::*;
use perf_data::import::{Import, ImportError, Imported};
use proptest::prelude::*;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, LostCause, ProcessEvent, RecordingEvent, ThreadEvent};
use recording::module::BuildId;
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Stack};

/// What every file of these tests has: out of order within a round, two events, a loss.
fn some_records() -> Vec<Vec<u8>> {
    vec![
        comm(10, b"split\0\0\0"),
        sample(30, 1),
        sample(20, 1),
        sample(25, 2),
        round(),
        sample(40, 1),
        round(),
        sample(60, 1),
        lost(50, 3),
        round(),
    ]
}

/// The same records, compressed in pieces of a few bytes that end anywhere.
fn compressed_file(records: &[Vec<u8>]) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    let plain: Vec<Vec<u8>> = records
        .iter()
        .filter(|record| record[0] != FINISHED_ROUND as u8)
        .cloned()
        .collect();
    let plain = plain.concat();
    let mut packed = vec![0; plain.len() + 1000];
    let mut output = zstd_safe::OutBuffer::around(&mut packed[..]);
    let mut input = zstd_safe::InBuffer::around(&plain);
    context.compress_stream(&mut output, &mut input).unwrap();
    assert_eq!(context.flush_stream(&mut output), Ok(0));
    let bytes = output.pos();
    packed.truncate(bytes);
    let pieces: Vec<Vec<u8>> = packed.chunks(50).map(|piece| record(81, 0, piece)).collect();
    pipe_file(&pieces)
}

/// Remembers what came, in short.
#[derive(Default)]
struct Seen {
    sample_times: Vec<u64>,
    frames: Vec<Frame>,
    lost: Vec<(LostCause, u64)>,
    malformed: Vec<&'static str>,
    /// Of mappings.
    files: Vec<(Option<Inode>, Option<BuildId>)>,
}

/// Major and minor number of the device, then the inode.
type Inode = (u32, u32, u64);

impl EventSink for Seen {
    fn on_event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Thread(_, ThreadEvent::Sample(sample)) => {
                self.sample_times.push(event.time.0);
                if let Stack::Frames(frames) = sample.stack {
                    self.frames = frames.to_vec();
                }
            }
            EventKind::Recording(RecordingEvent::Lost { cause, count, .. }) => self.lost.push((cause, count)),
            EventKind::Recording(RecordingEvent::Malformed(what)) => self.malformed.push(what),
            EventKind::Process(_, ProcessEvent::Map(mapping)) => {
                self.files.push((mapping.inode, mapping.build_id.clone()))
            }
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

fn import(file: &[u8], event: Option<&str>) -> Result<(Seen, Imported), ImportError> {
    let mut seen = Seen::default();
    let imported = Import::open(Cursor::new(file), None, event)?.run(&mut seen)?;
    Ok((seen, imported))
}

#[test]
fn normal_pipe_and_compressed_files_give_the_same_in_time_order() {
    let records = some_records();
    for file in [normal_file(&records), pipe_file(&records), compressed_file(&records)] {
        let (seen, imported) = import(&file, None).unwrap();
        assert_eq!(seen.sample_times, [20, 30, 40, 60]);
        assert_eq!(seen.lost, [(LostCause::RingFull, 3)]);
        assert_eq!(seen.malformed, Vec::<&str>::new());
        // The chain's first entry is the sample's own address.
        let at = recording::address::Avma;
        assert_eq!(
            seen.frames,
            [Frame::InstructionPointer(at(0x1010)), Frame::ReturnAddress(at(0x1020))]
        );
        assert_eq!(imported.info.program, "split");
        assert_eq!(imported.info.interval_ns, 1_000_000);
        assert_eq!(
            imported.notes,
            ["1 sample of the event page-faults is left out; --event page-faults shows it"]
        );
    }
}

/// The kernel leaves the flag for build ids set after another listener's record of the same mapping.
#[test]
fn a_device_and_an_inode_are_not_taken_for_a_build_id() {
    const HAS_BUILD_ID: u16 = 1 << 14;
    let mapping = |identity: &[u8]| {
        let place = words(&[pair(7, 7), 0x1000, 0x2000, 0x3000]);
        let rest = [words(&[pair(5, 2)]), b"/lib/x\0\0".to_vec(), sample_id(10, 1)].concat();
        record(10, HAS_BUILD_ID | 2, &[&place, identity, &rest].concat())
    };
    let id = |size: u8| {
        [
            &[size, 0, 0, 0][..],
            &vec![7; size.into()],
            &vec![0; 20 - usize::from(size)],
        ]
        .concat()
    };
    let file = |major: u32| words(&[pair(major, 1), 77, 0x1234_5678]);
    let mappings =
        [&file(8), &file(253), &file(259), &file(0), &id(20), &id(8), &id(5)].map(|identity| mapping(identity));
    let (seen, _) = import(&normal_file(&mappings), None).unwrap();
    let inode = |major| (Some((major, 1, 77)), None);
    let build_id = |size| (None, Some(BuildId(vec![7; size])));
    let [rest @ .., last] = &seen.files[..] else {
        panic!("no files")
    };
    assert_eq!(
        rest,
        [inode(8), inode(253), inode(259), inode(0), build_id(20), build_id(8)]
    );
    // 5 bytes are nobody's unless they were asked for.
    assert_eq!(last.1, None);
    let mut asks = attr(CPU_CLOCK);
    asks[44] |= 1 << 2;
    let (seen, _) = import(&pipe_file_of(&[(asks, 1)], &[mapping(&id(5))]), None).unwrap();
    assert_eq!(seen.files, [build_id(5)]);
}

#[test]
fn the_samples_of_another_event_can_be_asked_for() {
    let file = pipe_file(&some_records());
    let (seen, imported) = import(&file, Some("page-faults")).unwrap();
    assert_eq!(seen.sample_times, [25]);
    assert_eq!(imported.info.event, "page-faults");
    let error = import(&file, Some("cycles")).err().unwrap().to_string();
    assert!(error.contains("it has: cpu-clock, page-faults"), "{error}");
}

#[test]
fn a_file_that_is_cut_off_anywhere_gives_what_stands_before_and_says_so() {
    let records = some_records();
    for file in [normal_file(&records), pipe_file(&records), compressed_file(&records)] {
        let mut most = 0;
        for len in 0..=file.len() {
            let Ok((seen, imported)) = import(&file[..len], None) else {
                continue;
            };
            assert!(
                seen.sample_times.is_sorted() && seen.sample_times.len() >= most,
                "{len}"
            );
            most = seen.sample_times.len();
            let says_so = imported.notes.iter().any(|note| note.contains("cut off"));
            assert_eq!(says_so, seen.malformed == ["the file is cut off here"], "{len}");
        }
        assert_eq!(most, 4);
    }
}

#[test]
fn what_perf_did_not_finish_is_read_to_its_end() {
    let mut file = normal_file(&some_records());
    // The size of the data in the header, which perf fills in last.
    file[48..56].fill(0);
    let (seen, imported) = import(&file, None).unwrap();
    assert_eq!(seen.sample_times.len(), 4);
    assert!(
        imported.notes[0].contains("did not end properly"),
        "{:?}",
        imported.notes
    );
}

#[test]
fn other_files_and_other_byte_orders_are_told_apart() {
    assert!(matches!(import(b"{}", None), Err(ImportError::NotPerfData)));
    // Cut off in its header, which has 104 bytes.
    let whole = normal_file(&some_records());
    for end in [8, 15, 103] {
        assert!(
            matches!(import(&whole[..end], None), Err(ImportError::NoEvents)),
            "{end}"
        );
    }
    let mut swapped = normal_file(&[]);
    swapped[..8].reverse();
    assert!(matches!(import(&swapped, None), Err(ImportError::ByteOrder)));
    let empty = [&b"PERFILE2"[..], &words(&[16])].concat();
    assert!(matches!(import(&empty, None), Err(ImportError::NoEvents)));
}

#[test]
fn sizes_that_no_file_has_take_no_memory() {
    // Each word of the header becomes enormous in turn: an allocation of that size would end the test.
    let whole = normal_file(&some_records());
    for at in (8..200).step_by(8) {
        for value in [u64::MAX, i64::MAX as u64, 1 << 50] {
            let mut file = whole.clone();
            file[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            let _ = import(&file, None);
        }
    }
}

#[test]
fn a_bomb_of_compressed_zeros_ends_early() {
    // 4 GiB of zeros take 400 KB.
    let mut context = zstd_safe::CCtx::create();
    let zeros = vec![0; 16 << 20];
    let mut pieces = Vec::new();
    for _ in 0..256 {
        let mut packed = vec![0; 1 << 16];
        let mut output = zstd_safe::OutBuffer::around(&mut packed[..]);
        let mut input = zstd_safe::InBuffer::around(&zeros);
        while input.pos() < zeros.len() {
            context.compress_stream(&mut output, &mut input).unwrap();
        }
        context.flush_stream(&mut output).unwrap();
        let bytes = output.pos();
        pieces.push(record(81, 0, &packed[..bytes]));
    }
    let (seen, imported) = import(&pipe_file(&pieces), None).unwrap();
    assert_eq!(seen.malformed, ["the file is damaged from here on"]);
    assert!(imported.notes[0].contains("damaged"), "{:?}", imported.notes);
}

/// Five million records of 24 bytes, and no round that ends: no two of them are compared more often than a few times,
/// so it ends.
#[test]
fn compressed_records_without_rounds_are_all_imported() {
    const RECORDS: u64 = 5_000_000;
    const SWITCH: u32 = 14;
    let mut only_event = words(&[pair(1, 128), CPU_CLOCK, 1000, IP | TID | TIME, 0, 1 << 10 | 1 << 18]);
    only_event.resize(128, 0);
    let mut context = zstd_safe::CCtx::create();
    let mut pieces = Vec::new();
    let mut packed = vec![0; 60_000];
    for chunk in 0..RECORDS / 1000 {
        let times = (0..1000).map(|at| chunk * 1000 + at);
        let plain: Vec<u8> = times
            .flat_map(|time| record(SWITCH, 0, &words(&[pair(7, 7), 1 + time])))
            .collect();
        let mut output = zstd_safe::OutBuffer::around(&mut packed[..]);
        let mut input = zstd_safe::InBuffer::around(&plain);
        context.compress_stream(&mut output, &mut input).unwrap();
        assert_eq!(context.flush_stream(&mut output), Ok(0));
        let bytes = output.pos();
        pieces.push(record(81, 0, &packed[..bytes]));
    }
    let file = pipe_file_of(&[(only_event, 1)], &pieces);
    let (_, imported) = import(&file, None).unwrap();
    let told = imported
        .notes
        .iter()
        .any(|note| note.contains("5000000") || note.contains("5,000,000"));
    assert!(told, "{:?} of {} bytes", imported.notes, file.len());
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let records = some_records();
    prop_oneof![
        Just(normal_file(&records)),
        Just(pipe_file(&records)),
        Just(compressed_file(&records))
    ]
}

proptest! {
    #![proptest_config(damage::cases(2000))]

    #[test]
    fn damaged_files_never_panic_or_hang(file in damaged(any_file())) {
        let _ = import(&file, None);
    }

    #[test]
    fn records_of_random_bytes_never_panic(
        bodies in proptest::collection::vec((0..90u32, any::<u16>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..30),
        sample_type in any::<u64>(),
        flags in any::<u64>(),
    ) {
        let records: Vec<Vec<u8>> = bodies.iter().map(|(kind, misc, body)| record(*kind, *misc, body)).collect();
        let mut file = pipe_file(&records);
        // The first attr's sample_type and flags.
        file[16 + 8 + 24..][..8].copy_from_slice(&sample_type.to_ne_bytes());
        file[16 + 8 + 40..][..8].copy_from_slice(&flags.to_ne_bytes());
        let _ = import(&file, None);
    }
}
