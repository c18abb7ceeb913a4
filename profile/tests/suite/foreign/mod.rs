//! Files of other profilers, and our own exports in their formats: read back, nothing of them is lost; and whatever is
//! in them, reading ends with data or with an error that names the file and the place.

mod formats;
mod heap;
mod kinds;
mod perf_script_text;
mod valgrind;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::data::data;
use crate::common::exports::{Costs, common_name};
use crate::damage::{cases, damage};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use profile::data::{Calls, Data, WeightUnit};
use profile::export::{Picked, PickedTime, callgrind, firefox, folded, perf_script, pprof};
use profile::read::{self, Foreign, ForeignFormat, ReadError, ReadLimits};
use profile::view::functions::functions;
use profile::view::select::{Filter, select};
use proptest::prelude::*;
use tempfile::TempDir;

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("given.out");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn read_as(kind: ForeignFormat, bytes: &[u8], event: Option<&str>) -> Result<Foreign, ReadError> {
    let (_dir, path) = file(bytes);
    read::foreign(&path, kind, event, ReadLimits::default())
}

fn read(bytes: &[u8], event: Option<&str>) -> Foreign {
    let (_dir, path) = file(bytes);
    let kind = read::kind(&path).unwrap();
    read::foreign(&path, kind, event, ReadLimits::default()).unwrap()
}

/// What functions cost, as the views tell.
fn costs(data: &Data) -> Costs {
    let scale = if data.unit == WeightUnit::Milliseconds {
        1e6
    } else {
        1.0
    };
    let whole = |weight: f64| (weight * scale).round() as u64;
    let selection = select(data, &Filter::default()).unwrap();
    let mut costs = Costs {
        sum: whole(selection.total.weight),
        ..Costs::default()
    };
    let rows = functions(&selection);
    let rows = rows
        .iter()
        .map(|row| (common_name(selection.name(row.func)), row.own, row.total));
    let without = (
        "[no stack]".to_owned(),
        selection.without_stack,
        selection.without_stack,
    );
    for (name, own, total) in rows.chain([without]) {
        *costs.own.entry(name.clone()).or_default() += whole(own.weight);
        *costs.total.entry(name).or_default() += whole(total.weight);
    }
    costs.forget_nothing_spent();
    costs
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn pprof_files_of_our_own_are_read_back_to_the_sample(data in data(), time in prop_oneof![Just(PickedTime::Cpu), Just(PickedTime::All)]) {
        let picked = Picked::new(&data, time);
        let mut bytes = Vec::new();
        pprof::write(&picked, &mut bytes).unwrap();
        let mut expected = common::data::expected(&data, time);
        if data.unit == WeightUnit::Samples {
            // A sample of 1 ms each.
            expected.sum *= 1_000_000;
            expected.own.values_mut().chain(expected.total.values_mut()).for_each(|weight| *weight *= 1_000_000);
        }
        let found = read(&bytes, None);
        prop_assert_eq!(&costs(&found.data), &expected);
        prop_assert_eq!(found.data.unit == WeightUnit::Bytes, data.unit == WeightUnit::Bytes);
        // And how many samples there were.
        let samples = read(&bytes, Some("samples"));
        let counted = picked.totals();
        let expected = if data.unit == WeightUnit::Samples { counted.weight } else { counted.samples };
        prop_assert_eq!(costs(&samples.data).sum, expected);
    }

    /// With its threads, whose numbers are all that it has of the names of processes.
    #[test]
    fn perf_script_text_of_our_own_is_read_back_to_the_sample(data in data(), time in prop_oneof![Just(PickedTime::Cpu), Just(PickedTime::All)]) {
        let picked = Picked::new(&data, time);
        let mut bytes = Vec::new();
        perf_script::write(&picked, &mut bytes).unwrap();
        prop_assume!(picked.totals().samples > 0);
        let found = read(&bytes, None);
        let (found_costs, expected) = (costs(&found.data), common::data::expected(&data, time));
        // The format has no library of an inlined function, so totals of equal names in several are others; and what
        // stands for a function without a name, `lib+0x1f`, is to all its readers an offset in a function.
        let mut own = std::collections::BTreeMap::new();
        for (name, weight) in expected.own {
            let bare = name.rsplit_once("+0x").map_or(&*name, |(bare, _)| bare);
            *own.entry(bare.to_owned()).or_default() += weight;
        }
        prop_assert_eq!((found_costs.sum, &found_costs.own), (expected.sum, &own));
        let is_whole = !found.notes.iter().any(|note| note.contains("not understood"));
        prop_assert!(is_whole, "{:?}", found.notes);
    }

    /// Of recursion, too: a function's total is what was spent while it was on the stack.
    #[test]
    fn callgrind_files_of_our_own_are_read_back_to_the_sample(data in data()) {
        let picked = Picked::new(&data, PickedTime::All);
        let mut bytes = Vec::new();
        callgrind::write(&picked, &mut bytes).unwrap();
        let found = read(&bytes, None);
        prop_assert!(matches!(found.data.calls, Calls::Arcs(_)));
        prop_assert_eq!(&costs(&found.data), &common::data::expected(&data, PickedTime::All));
        let is_whole = !found.notes.iter().any(|note| note.contains("cut off"));
        prop_assert!(is_whole, "{:?}", found.notes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check(&bytes, None)?;
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn good_files_that_are_cut_or_changed_are_read_or_refused(
        which in 0usize..GOOD.len(),
        damage in damage(0..6),
        is_gzip in any::<bool>(),
    ) {
        let mut bytes = damage.anywhere(&good(which));
        if is_gzip {
            bytes = gzip(&bytes);
        }
        check(&bytes, None)?;
        // The compressed bytes themselves cut off.
        let half = bytes.len() * 2 / 3;
        check(&bytes[..half], None)?;
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Words of the formats in any order get further into the readers than any bytes.
    #[test]
    fn words_of_the_formats_in_any_order_are_read_or_refused(words in prop::collection::vec(0usize..WORDS.len(), 0..60)) {
        let mut text = "# callgrind format\nevents: Ir Dr\n".to_owned();
        words.into_iter().for_each(|word| text.push_str(WORDS[word]));
        check(text.as_bytes(), Some("Dr"))?;
    }
}

const WORDS: [&str; 24] = [
    "fn=(1) f\n",
    "fn=(2) g\n",
    "fn=(1)\n",
    "fn=(3)\n",
    "fn=\n",
    "fl=(1) a.c\n",
    "fi=(2) b.h\n",
    "fe=(1)\n",
    "ob=(1) /x\n",
    "cob=(1)\n",
    "cfn=(1)\n",
    "cfn=(2)\n",
    "cfi=(2)\n",
    "calls=2 3\n",
    "calls=18446744073709551615 0\n",
    "1 2 3\n",
    "+1 18446744073709551615\n",
    "-99999 1\n",
    "* 1 1 1\n",
    "part: 2\n",
    "thread: 7\n",
    "totals: 5 5\n",
    "positions: instr line\n",
    "0x10 +3 4\n",
];

const GOOD: [ForeignFormat; 11] = [
    ForeignFormat::Pprof,
    ForeignFormat::Callgrind,
    ForeignFormat::Cachegrind,
    ForeignFormat::Dhat,
    ForeignFormat::PerfScript,
    ForeignFormat::Folded,
    ForeignFormat::Speedscope,
    ForeignFormat::CpuProfile,
    ForeignFormat::Gperftools,
    ForeignFormat::Massif,
    ForeignFormat::Heaptrack,
];

/// Both kinds of profiles that the schema of speedscope has.
const SPEEDSCOPE: &str = r#"{"exporter":"py-spy@0.4.0","name":"app","activeProfileIndex":0,
"$schema":"https://www.speedscope.app/file-format-schema.json",
"shared":{"frames":[{"name":"main","file":"a.py","line":3},{"name":"work"},{"name":"leaf"}]},
"profiles":[{"type":"sampled","name":"t1","unit":"seconds","startValue":1.0,"endValue":1.04,
"samples":[[0,1,2],[0,1],[0]],"weights":[0.01,0.02,0.01]},
{"type":"evented","name":"t2","unit":"seconds","startValue":1,"endValue":2,"events":[{"type":"O","frame":0,"at":1},
{"type":"O","frame":2,"at":1.25},{"type":"C","frame":2,"at":1.75},{"type":"C","frame":0,"at":2}]}]}
"#;

/// As `node --cpu-prof` writes it, in one line there.
const CPU_PROFILE: &str = r#"{"nodes":[
{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"hitCount":0,"children":[2,5]},
{"id":2,"callFrame":{"functionName":"","scriptId":"9","url":"file:///a.js","lineNumber":0,"columnNumber":0},"hitCount":0,"children":[3,4]},
{"id":3,"callFrame":{"functionName":"leaf","scriptId":"9","url":"file:///a.js","lineNumber":0,"columnNumber":13},"hitCount":2},
{"id":4,"callFrame":{"functionName":"leaf","scriptId":"9","url":"file:///a.js","lineNumber":8,"columnNumber":2},"hitCount":1},
{"id":5,"callFrame":{"functionName":"(idle)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"hitCount":1}],
"startTime":1000000,"endTime":1010000,"samples":[3,3,4,5],"timeDeltas":[1000,2000,1000,2000]}
"#;

/// A CPU profile of gperftools: 3 samples of `leaf`, called from `main`, and 1 of `main`; 2 ms each.
fn gperftools(bytes: usize, is_big_endian: bool) -> Vec<u8> {
    let words: [u64; 17] = [0, 3, 0, 2000, 0, 3, 2, 0x1149, 0x1181, 1, 1, 0x1180, 0, 1, 0, 0, 0];
    let words = words[..15].iter().flat_map(|word| match is_big_endian {
        true => word.to_be_bytes()[8 - bytes..].to_vec(),
        false => word.to_le_bytes()[..bytes].to_vec(),
    });
    let maps =
        "00001000-00002000 r-xp 00000000 08:01 7 /opt/app\n00003000-00004000 r-xp 00001000 08:01 8 /lib/libc.so.6\n";
    words.chain(maps.bytes()).collect()
}

/// As dh_main.c writes it.
const DHAT: &str = r#"{"dhatFileVersion":2
,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":false,"tu":"instrs","Mtu":"Minstr","tuth":500
,"cmd":"./app -x","pid":7,"te":198013,"tg":193332
,"pps":
 [{"tb":1000,"tbk":10,"tl":8767,"mb":300,"mbk":3,"gb":200,"gbk":2,"eb":100,"ebk":1,"acc":[-1000,0],"fs":[1,2,3]}
 ,{"tb":7,"tbk":1,"tl":1,"mb":7,"mbk":1,"gb":0,"gbk":0,"eb":0,"ebk":0,"fs":[1,4]}
 ]
,"ftbl":["[root]","0x4841: malloc (in /usr/lib/vgpreload.so)","0x109248: keep (a.c:37)","0x10: main (a.c:52:7)","0x11: f(int) (b.cc:3)"]
}
"#;

/// As ms_main.c writes it.
const MASSIF: &str = "desc: (none)
cmd: ./app -x=1
time_unit: i
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=0
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=empty
#-----------
snapshot=1
#-----------
time=100
mem_heap_B=1000
mem_heap_extra_B=24
mem_stacks_B=0
heap_tree=peak
n3: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 690 0x1091E5: leaf (a.c:37)
  n0: 690 0x109247: main (a.c:8)
 n2: 300 0x109178: keep (a.c:4)
  n0: 295 0x109242: main (a.c:8)
  n0: 5 in 1 place, below massif's threshold (1.00%)
 n0: 10 in 2 places, all below massif's threshold (1.00%)
#-----------
snapshot=2
#-----------
time=300
mem_heap_B=64
mem_heap_extra_B=8
mem_stacks_B=0
heap_tree=detailed
n1: 64 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 64 0x109178: keep (a.c:4)
  n0: 64 0x109242: main (a.c:8)
#-----------
snapshot=3
#-----------
time=400
mem_heap_B=64
mem_heap_extra_B=8
mem_stacks_B=0
heap_tree=empty
";

/// As heaptrack_interpret writes it.
const HEAPTRACK: &str = "v 10400 3
X ./app -x 1
I 1000 5e298f
s 8 /opt/app
s 4 main
s 3 a.c
s 4 leaf
s 1b operator new(unsigned long)
s 7 inlined
i 1000 1 2 3 8
t 1 0
i 1010 1 4 3 5
t 2 1
a 10 2
+ 0
+ 0
i 7f00 0 5
t 3 2
a 100 3
+ 1
c a
R 100
- 1
- 0
i 1020 1 6 3 9 4 3 c
t 4 1
a 20 4
+ 2
- 2
i 5500 1
t 5 1
a 1 5
+ 3
c 14
# strings: 6
# ips: 5
";

fn good(which: usize) -> Vec<u8> {
    match GOOD[which] {
        ForeignFormat::Pprof => {
            let mut bytes = Vec::new();
            pprof::write(&Picked::new(&common::data::example(), PickedTime::All), &mut bytes).unwrap();
            let mut inflated = Vec::new();
            GzDecoder::new(&bytes[..]).read_to_end(&mut inflated).unwrap();
            inflated
        }
        ForeignFormat::Callgrind => {
            let mut bytes = Vec::new();
            callgrind::write(&Picked::new(&common::data::example(), PickedTime::All), &mut bytes).unwrap();
            bytes
        }
        ForeignFormat::Dhat => DHAT.as_bytes().to_vec(),
        ForeignFormat::Massif => MASSIF.as_bytes().to_vec(),
        ForeignFormat::Heaptrack => HEAPTRACK.as_bytes().to_vec(),
        ForeignFormat::Speedscope => SPEEDSCOPE.as_bytes().to_vec(),
        ForeignFormat::CpuProfile => CPU_PROFILE.as_bytes().to_vec(),
        ForeignFormat::Gperftools => gperftools(8, false),
        ForeignFormat::PerfScript => {
            let mut bytes = Vec::new();
            perf_script::write(&Picked::new(&common::data::example(), PickedTime::All), &mut bytes).unwrap();
            bytes
        }
        ForeignFormat::Folded => {
            let mut bytes = Vec::new();
            let data = common::data::example();
            folded::write(&Picked::new(&data, PickedTime::All), folded::FoldedOptions::default(), &mut bytes).unwrap();
            bytes
        }
        ForeignFormat::Cachegrind => b"desc: I1 cache: none\ncmd: ./app\nevents: Ir Dr\nfl=/a.c\nfn=main\n1 10 2\n2 5\nfn=(below main)\n0 1 1\nsummary: 16 3\n"
            .to_vec(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Every kind of reader, and every view that has tables of its own, survive it; errors name the file.
fn check(bytes: &[u8], event: Option<&str>) -> Result<(), TestCaseError> {
    let (_dir, path) = file(bytes);
    let found = read::kind(&path);
    for kind in GOOD.into_iter().chain(found) {
        match read::foreign(&path, kind, event, ReadLimits::default()) {
            Ok(read) => {
                let selection = select(&read.data, &Filter::default()).unwrap();
                functions(&selection);
                profile::view::lines::lines(&selection);
                profile::view::tree::top_down(&selection);
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.contains("given.out"), "{}", text);
                prop_assert!(
                    text.contains("expected") || text.contains(" at ") || text.contains("counts"),
                    "{}",
                    text
                );
            }
        }
    }
    Ok(())
}

fn taken_for(bytes: &[u8]) -> String {
    let (_dir, path) = file(bytes);
    read::kind(&path).map_or("None".to_owned(), |kind| format!("{kind:?}"))
}

fn error(kind: ForeignFormat, bytes: &[u8]) -> String {
    read_as(kind, bytes, None).unwrap_err().to_string()
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    let head = "# callgrind format\nevents: Ir\n";
    for (body, line, expected) in [
        (
            "fn=(7)\n",
            3,
            "expected the number of a name that was given before, found (7)",
        ),
        ("1 2\n", 3, "expected a line `fn=...` before the first costs"),
        ("fn=f\n1 x\n", 4, "expected a cost, found \"x\""),
        ("fn=f\n1 2 3\n", 4, "expected at most 1 costs"),
        ("fn=f\n-1 2\n", 4, "expected a position that is not below 0"),
        (
            "fn=f\ncalls=1 1\n1 2\n",
            5,
            "expected a line `cfn=...` before `calls=...`",
        ),
        (
            "positions: bytes\n",
            3,
            "expected `instr`, `bb` or `line`, found \"bytes\"",
        ),
        ("hello\n", 3, "expected `key: value`"),
    ] {
        let text = error(ForeignFormat::Callgrind, format!("{head}{body}").as_bytes());
        assert!(text.contains("given.out") && text.contains(expected), "{text}");
        assert!(text.contains(&format!("line {line}")), "{text}");
    }
    let text = error(ForeignFormat::Callgrind, b"# callgrind format\n");
    assert!(
        text.contains("expected a line `events: ...`, found the end at line 1"),
        "{text}"
    );
}

#[test]
fn errors_name_the_byte_of_a_file_that_is_no_text() {
    let whole = good(0);
    let cut = error(ForeignFormat::Pprof, &whole[..whole.len() - 3]);
    assert!(cut.contains("is cut off: it ends at byte"), "{cut}");
    let text = error(ForeignFormat::Pprof, &[0x0a, 0x04, 0x08, 0x01, 0x10, 0x02, 0x0b]);
    assert!(
        text.contains("expected a number or bytes in field 1, found type 3 of protobuf at byte 6"),
        "{text}"
    );
    let text = error(ForeignFormat::Pprof, &gzip(&[0x0a, 0x04, 0x08, 0x01, 0x10, 0x02, 0x0b]));
    assert!(text.contains("at byte 6 of the inflated file"), "{text}");
}

/// 100,000 to 1: what a compressed file inflates to is not held, and its end is not waited for.
#[test]
fn a_file_that_inflates_without_end_is_refused_within_limits() {
    let limits = ReadLimits {
        json_bytes: 8 << 20,
        values: 1 << 20,
        ..ReadLimits::default()
    };
    let refuse = |bytes: &[u8], kind: ForeignFormat| {
        let (_dir, path) = file(&gzip(bytes));
        read::foreign(&path, kind, None, limits).unwrap_err().to_string()
    };
    // Empty samples, texts of one byte, one text that claims to be long, one line.
    let text = refuse(&[0x12, 0x00].repeat(16 << 20), ForeignFormat::Pprof);
    assert!(text.contains("too large"), "{text}");
    let text = refuse(&[0x32, 0x01, b'x'].repeat(2 << 20), ForeignFormat::Pprof);
    assert!(text.contains("too large: its number of values"), "{text}");
    let mut long = vec![0x32, 0xff, 0xff, 0xff, 0xff, 0x0f];
    long.resize(64 << 10, b'x');
    let text = refuse(&long, ForeignFormat::Pprof);
    assert!(text.contains("expected a message of at most"), "{text}");
    let text = refuse(&vec![b'#'; 4 << 20], ForeignFormat::Callgrind);
    assert!(text.contains("too large: one line of it"), "{text}");
    let lines: String = (0..400_000).map(|line| format!("fn=f{line}\n1 1\n")).collect();
    let text = refuse(format!("events: Ir\n{lines}").as_bytes(), ForeignFormat::Callgrind);
    assert!(text.contains("too large: its number of values"), "{text}");
}

/// Each track has a name. Nothing is drawn as busy, or has a length, that the file does not say.
fn assert_true_for_the_front_end(saved: &profile::data::SavedData) {
    for thread in &saved.threads {
        assert!(!thread.name.is_empty());
        let deltas = thread.samples.cpu_delta.as_ref().unwrap();
        assert_eq!(deltas.len(), thread.samples.len());
        assert!(!saved.is_summed || deltas.iter().all(|delta| *delta == 0.0));
    }
    let end = saved.meta.get("profilingEndTime").map(|end| end.as_f64().unwrap());
    match (saved.duration_ms, saved.is_summed) {
        (Some(duration), true) => assert!((end.unwrap() - duration).abs() < 1e-3 * duration, "{end:?} {duration}"),
        (Some(duration), false) => assert!(end.unwrap() >= duration),
        (None, true) => assert_eq!(end, None),
        (None, false) => assert!(end.is_some()),
    }
}

/// Written for the front end and read again, it has the same figures under the same names.
#[test]
fn converted_files_keep_what_they_count() {
    let large =
        b"desc: I1\ncmd: ./app\nevents: Ir Dr\nfl=/a.c\nfn=main\n1 10000000000000 2\nsummary: 10000000000000 2\n";
    for bytes in (0..GOOD.len()).map(good).chain([large.to_vec()]) {
        let before = read(&bytes, None).data;
        let (_dir, path) = file(b"");
        let saved = before.clone().into_saved();
        assert_true_for_the_front_end(&saved);
        firefox::write_data_gz(&saved, &mut std::fs::File::create(&path).unwrap()).unwrap();
        assert_eq!(read::kind(&path), None);
        let after = read::whole(&path, ReadLimits::default()).unwrap();
        let (found, mut expected) = (costs(&after), costs(&before));
        if before.calls != Calls::Paths {
            // Totals came from arcs, which the format does not have.
            expected.total = expected.own.clone();
        }
        assert_eq!(found, expected, "{before:?}");
        let facts = |data: &Data| {
            let Data {
                unit,
                weights,
                is_summed,
                interval_ms,
                duration_ms,
                ..
            } = data.clone();
            let threads = data.threads.iter().map(|thread| {
                let samples = &thread.samples;
                let counts = samples
                    .iter()
                    .enumerate()
                    .map(|(at, (.., weight))| data.count_of(samples, at, weight));
                (
                    thread.name.clone(),
                    thread.pid.clone(),
                    samples.time_ms.clone(),
                    counts.sum::<u64>(),
                )
            });
            let names = (
                data.product.clone(),
                data.imported_from.clone(),
                data.calls == Calls::Paths,
            );
            (
                unit,
                weights,
                is_summed,
                interval_ms,
                duration_ms,
                names,
                threads.collect::<Vec<_>>(),
            )
        };
        assert_eq!(facts(&after), facts(&before));
    }
}

#[test]
fn facts_of_a_later_version_are_not_taken_for_ours() {
    let text = |version: u32| {
        format!(
            r#"{{"meta":{{"preprocessedProfileVersion":70,"sprof":{{"version":{version},"recorded":{{"lost":7}}}}}},"threads":[{{"name":"t","samples":{{}}}}]}}"#
        )
    };
    let data = |version| {
        let (_dir, path) = file(text(version).as_bytes());
        read::whole(&path, ReadLimits::default()).unwrap()
    };
    let (ours, later) = (data(1), data(2));
    assert_eq!(ours.recorded.map(|recorded| recorded.lost), Some(7));
    assert!(!ours.newer_facts && later.newer_facts && later.recorded.is_none());
}
