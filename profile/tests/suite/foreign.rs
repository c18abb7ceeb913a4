//! Files of other profilers, and our own exports in their formats: read back, nothing of them is lost; and whatever is
//! in them, reading ends with data or with an error that names the file and the place.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::data::data;
use crate::common::exports::{Costs, common_name};
use crate::damage::{cases, damage};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use profile::data::{Calls, Data, Unit};
use profile::export::{Picked, Time, callgrind, firefox, folded, perf_script, pprof};
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
    let scale = if data.unit == Unit::Milliseconds { 1e6 } else { 1.0 };
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
    #[test]
    fn pprof_files_of_our_own_are_read_back_to_the_sample(data in data(), time in prop_oneof![Just(Time::Cpu), Just(Time::All)]) {
        let picked = Picked::new(&data, time);
        let mut bytes = Vec::new();
        pprof::write(&picked, &mut bytes).unwrap();
        let mut expected = common::data::expected(&data, time);
        if data.unit == Unit::Samples {
            // A sample of 1 ms each.
            expected.sum *= 1_000_000;
            expected.own.values_mut().chain(expected.total.values_mut()).for_each(|weight| *weight *= 1_000_000);
        }
        let found = read(&bytes, None);
        prop_assert_eq!(&costs(&found.data), &expected);
        prop_assert_eq!(found.data.unit == Unit::Bytes, data.unit == Unit::Bytes);
        // And how many samples there were.
        let samples = read(&bytes, Some("samples"));
        let counted = picked.totals();
        let expected = if data.unit == Unit::Samples { counted.weight } else { counted.samples };
        prop_assert_eq!(costs(&samples.data).sum, expected);
    }

    /// With its threads, whose numbers are all that it has of the names of processes.
    #[test]
    fn perf_script_text_of_our_own_is_read_back_to_the_sample(data in data(), time in prop_oneof![Just(Time::Cpu), Just(Time::All)]) {
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
        let picked = Picked::new(&data, Time::All);
        let mut bytes = Vec::new();
        callgrind::write(&picked, &mut bytes).unwrap();
        let found = read(&bytes, None);
        prop_assert!(matches!(found.data.calls, Calls::Arcs(_)));
        prop_assert_eq!(&costs(&found.data), &common::data::expected(&data, Time::All));
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

const GOOD: [ForeignFormat; 9] = [
    ForeignFormat::Pprof,
    ForeignFormat::Callgrind,
    ForeignFormat::Cachegrind,
    ForeignFormat::Dhat,
    ForeignFormat::PerfScript,
    ForeignFormat::Folded,
    ForeignFormat::Speedscope,
    ForeignFormat::CpuProfile,
    ForeignFormat::Gperftools,
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

fn good(which: usize) -> Vec<u8> {
    match GOOD[which] {
        ForeignFormat::Pprof => {
            let mut bytes = Vec::new();
            pprof::write(&Picked::new(&common::data::example(), Time::All), &mut bytes).unwrap();
            let mut inflated = Vec::new();
            GzDecoder::new(&bytes[..]).read_to_end(&mut inflated).unwrap();
            inflated
        }
        ForeignFormat::Callgrind => {
            let mut bytes = Vec::new();
            callgrind::write(&Picked::new(&common::data::example(), Time::All), &mut bytes).unwrap();
            bytes
        }
        ForeignFormat::Dhat => DHAT.as_bytes().to_vec(),
        ForeignFormat::Speedscope => SPEEDSCOPE.as_bytes().to_vec(),
        ForeignFormat::CpuProfile => CPU_PROFILE.as_bytes().to_vec(),
        ForeignFormat::Gperftools => gperftools(8, false),
        ForeignFormat::PerfScript => {
            let mut bytes = Vec::new();
            perf_script::write(&Picked::new(&common::data::example(), Time::All), &mut bytes).unwrap();
            bytes
        }
        ForeignFormat::Folded => {
            let mut bytes = Vec::new();
            let data = common::data::example();
            folded::write(&Picked::new(&data, Time::All), folded::FoldedOptions::default(), &mut bytes).unwrap();
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

#[test]
fn a_callgrind_file_that_is_cut_off_says_how_much_of_it_there_is() {
    let whole = "# callgrind format\nevents: Ir\nsummary: 16\n\nfn=f\n1 10\n2 6\n\ntotals: 16\n";
    let found = read(whole.as_bytes(), None);
    assert!(
        !found.notes.iter().any(|note| note.contains("cut off")),
        "{:?}",
        found.notes
    );
    let found = read(&whole.as_bytes()[..whole.find("2 6").unwrap()], None);
    assert_eq!(costs(&found.data).sum, 10);
    assert!(
        found.notes[0].contains("its lines add up to 10 Ir, but its own sum is 16"),
        "{:?}",
        found.notes
    );
}

/// <https://valgrind.org/docs/manual/cl-format.html>: its example, with a second part and a thread of its own.
#[test]
fn callgrind_names_positions_parts_and_threads_are_understood() {
    let text = "# callgrind format\nversion: 1\ncreator: callgrind-3.19\npid: 7\ncmd: ./app -x\npart: 1\nthread: 1\n\
        positions: line\nevents: Ir Dr\n\
        fl=(1) file1.c\nfn=(1) main\n16 20 1\ncfn=(2) func1\ncalls=1 50\n16 400 4\ncfi=(2) file2.c\ncfn=(3) func2\ncalls=3 20\n+0 400 3\n\
        \nfn=(2)\n51 100\ncfi=(2)\ncfn=(3)\ncalls=2 20\n+0 300 2\n\nfl=(2)\nfn=(3)\n20 700 5\nfi=(3) inlined.h\n+1 3\nfe=(2)\n\
        totals: 823 6\npart: 1\nthread: 2\nevents: Dr Ir\nfn=(3)\n20 1 9\ntotals: 1 9\n";
    let found = read(text.as_bytes(), None);
    let data = &found.data;
    assert_eq!((data.product.as_str(), data.arguments.as_str()), ("app", "-x"));
    assert_eq!(data.weights.as_ref().unwrap().others, ["Dr"]);
    let threads: Vec<_> = data
        .threads
        .iter()
        .map(|thread| (thread.pid.as_str(), thread.tid.as_str()))
        .collect();
    assert_eq!(threads, [("7", "1"), ("7", "2")]);
    let found = costs(data);
    assert_eq!(found.sum, 832);
    let of = |name: &str| (found.own[name], found.total[name]);
    // The function with a line of another file is one.
    assert_eq!(of("func2"), (712, 712));
    assert_eq!(of("func1"), (100, 400));
    assert_eq!(of("main"), (20, 820));
    let only = Filter {
        threads: vec!["1".into()],
        ..Filter::default()
    };
    let selection = select(data, &only).unwrap();
    assert_eq!(selection.total.weight, 823.0);
    let reads = read(text.as_bytes(), Some("Dr"));
    assert_eq!(costs(&reads.data).sum, 7);
    let text = read_as(ForeignFormat::Callgrind, text.as_bytes(), Some("Cy"))
        .unwrap_err()
        .to_string();
    assert!(text.contains("counts no \"Cy\"; it counts Ir, Dr"), "{text}");
}

#[test]
fn dhat_files_have_several_sums_of_bytes_and_blocks() {
    let of = |event: Option<&str>| read(DHAT.as_bytes(), event).data;
    let all = of(None);
    assert_eq!(
        (all.product.as_str(), all.arguments.as_str(), all.unit),
        ("app", "-x", Unit::Bytes)
    );
    let weights = all.weights.clone().unwrap();
    assert_eq!(
        (weights.name.as_str(), weights.unit.as_str()),
        ("total-bytes", "bytes allocated")
    );
    assert_eq!(weights.others.len(), 7);
    let found = costs(&all);
    assert_eq!(
        (
            found.sum,
            found.own["malloc"],
            found.total["keep"],
            found.total["f(int)"]
        ),
        (1007, 1007, 1000, 7)
    );
    let lines: Vec<u32> = all.frames.iter().map(|frame| frame.line).collect();
    assert_eq!(lines[2..], [37, 52, 3]);
    for (event, unit, sum) in [
        ("total-blocks", Unit::Counts, 11),
        ("at-gmax-bytes", Unit::Bytes, 200),
        ("at-gmax-blocks", Unit::Counts, 2),
        ("at-end-bytes", Unit::Bytes, 100),
        ("max-bytes", Unit::Bytes, 307),
    ] {
        let data = of(Some(event));
        assert_eq!((data.unit, costs(&data).sum), (unit, sum), "{event}");
    }
    // Ad hoc events have units of their own; and copies neither peak nor end.
    let ad_hoc = r#"{"dhatFileVersion":2,"mode":"ad-hoc","verb":"Occurred","bklt":false,"bu":"unit","bksu":"events","cmd":"a","pid":1,
        "pps":[{"tb":5,"tbk":2,"fs":[1]}],"ftbl":["[root]","0x1: f (a.c:1)"]}"#;
    let data = read(ad_hoc.as_bytes(), None).data;
    let weights = data.weights.unwrap();
    assert_eq!(
        (weights.name.as_str(), weights.others, data.unit),
        ("total-unit", vec!["total-events".to_owned()], Unit::Counts)
    );
    let text = error(ForeignFormat::Dhat, DHAT.replace("[1,4]", "[1,9]").as_bytes());
    assert!(
        text.contains("pps[1].fs has the frame 9; expected one of the 5 frames of ftbl"),
        "{text}"
    );
    let text = error(
        ForeignFormat::Dhat,
        DHAT.replace("Version\":2", "Version\":3").as_bytes(),
    );
    assert!(text.contains("expected dhatFileVersion 2, found 3"), "{text}");
    let text = error(ForeignFormat::Dhat, &DHAT.as_bytes()[..300]);
    assert!(text.contains("is cut off: it ends at line"), "{text}");
}

/// `a` calls `b`, which calls `a`: arcs hold their cost several times. No total is more than the whole circle.
#[test]
fn functions_that_call_each_other_in_a_circle_cost_no_more_than_the_circle() {
    let text = "events: Ir\nfn=main\n1 5\ncfn=a\ncalls=1 1\n1 100\n\nfn=a\n1 40\ncfn=b\ncalls=3 1\n1 150\n\nfn=b\n1 60\ncfn=a\ncalls=2 1\n1 90\n\
        \ntotals: 105\n";
    let found = read_as(ForeignFormat::Callgrind, text.as_bytes(), None).unwrap();
    let costs = costs(&found.data);
    assert_eq!(
        (costs.total["main"], costs.total["a"], costs.total["b"]),
        (105, 100, 100)
    );
    let selection = select(&found.data, &Filter::default()).unwrap();
    assert_eq!(profile::view::arcs::in_circles(&selection), 2);
}

fn taken_for(bytes: &[u8]) -> String {
    let (_dir, path) = file(bytes);
    read::kind(&path).map_or("None".to_owned(), |kind| format!("{kind:?}"))
}

fn number(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below as u64) as usize
}

/// Letters are fields of protobuf, keys of callgrind and numbers of threads, so each kind is tried against all others:
/// whole, and a hundred beginnings of each. A beginning that tells nothing yet is refused, but never taken for another
/// kind.
#[test]
fn no_kind_of_file_is_taken_for_another_nor_is_its_beginning() {
    let mut folded = String::new();
    for (at, name) in [
        "main", "app", "python", "hello", "query", "h", "zsh", "2;x", "rustc", "java", "events", "fn=x",
    ]
    .into_iter()
    .enumerate()
    {
        for line in [format!("{name};work;leaf {at}\n"), format!("{name} 12\n")] {
            assert_eq!(taken_for(line.as_bytes()), "Folded", "{line}");
            folded.push_str(&line);
        }
    }
    let mut json = Vec::new();
    serde_json::to_writer(
        &mut json,
        &serde_json::json!({"meta": {"interval": 1, "version": 30}, "threads": []}),
    )
    .unwrap();
    let mut perf_data = b"PERFILE2".to_vec();
    perf_data.extend([0x68, 0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0, 0].repeat(20));
    let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap()[..8192].to_vec();
    let files = [
        ("Pprof", good(0)),
        ("Callgrind", good(1)),
        ("Cachegrind", good(2)),
        ("Dhat", good(3)),
        ("Folded", folded.into_bytes()),
        ("PerfScript", good(4)),
        ("Speedscope", good(6)),
        ("CpuProfile", good(7)),
        ("Gperftools", good(8)),
        ("Gperftools", gperftools(4, true)),
        ("None", json),
        ("None", perf_data),
        ("None", elf),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for (kind, bytes) in &files {
        assert_eq!(taken_for(bytes), *kind);
        assert_eq!(taken_for(&gzip(bytes)), *kind);
        for _ in 0..100 {
            let len = number(&mut state, bytes.len());
            let found = taken_for(&bytes[..len]);
            assert!(
                found == *kind || found == "None",
                "{len} bytes of {kind} are taken for {found}"
            );
        }
    }
}

/// As perf 6.1 and 6.12 print it: with and without process ids, call chains, periods and source lines, with several
/// events, a thread that gets its name later, losses, and functions that are inlined.
#[test]
fn perf_script_has_threads_times_events_and_call_paths() {
    let text = "# ========\n# captured on    : Sun Nov 22 02:00:00 2026\n# os release : 6.1.0\n# ========\n#\n\
        sh  70/71 [000]   100.000000:    1000000 cpu-clock:u: \n\t          10 helper+0x1 (inlined)\n  a.c:7\n\t          10 work+0x1 (/home/app)\n\
        \t           5 main+0x2 (/home/app)\n\n\
        app  70/71 [001]   100.250000:    2000000 cpu-clock:u: \n\t    ffff8100 [unknown] ([kernel.kallsyms])\n\t           5 main+0x9 (/home/app)\n\n\
        app  70/70 [001]   100.100000:         1 page-faults:u: \n\t           5 main+0x9 (/home/app)\n\n\
        app  70/70 [001]   100.200000: PERF_RECORD_LOST lost 12\n\
        what is this\n";
    let found = read(text.as_bytes(), None);
    let data = &found.data;
    assert_eq!((data.unit, data.os.as_str()), (Unit::Milliseconds, "Linux 6.1.0"));
    let thread = &data.threads[0];
    assert_eq!(
        (thread.name.as_str(), thread.pid.as_str(), thread.tid.as_str()),
        ("app", "70", "71")
    );
    assert_eq!(thread.samples.time_ms, [0.0, 250.0]);
    let costs = costs(data);
    assert_eq!(costs.sum, 3_000_000);
    assert_eq!(
        (costs.own["helper"], costs.total["work"], costs.total["main"]),
        (1_000_000, 1_000_000, 3_000_000)
    );
    let helper = data
        .frames
        .iter()
        .find(|frame| data.func_name(frame.func) == "helper")
        .unwrap();
    assert_eq!(
        (helper.is_inlined(), helper.line, data.lib_name(helper.func)),
        (true, 7, Some("app"))
    );
    for note in [
        "12 records were lost",
        "the leaf of 1 sample;",
        "1 line is not understood and left out, the first of them line 20",
    ] {
        assert!(
            found.notes.iter().any(|told| told.contains(note)),
            "{note}: {:?}",
            found.notes
        );
    }
    assert_eq!(data.weights.as_ref().unwrap().others, ["page-faults:u"]);
    let faults = read(text.as_bytes(), Some("page-faults:u")).data;
    assert_eq!((faults.unit, faults.threads.len()), (Unit::Counts, 1));
    // Without process ids, call chains and periods.
    let short = "     app    7 [000]     1.500000: cpu-clock:      10 work+0x3 (/home/app)\n     app    7 [000]     1.600000: cpu-clock:      10 work+0x5 (/home/app)\n";
    let found = read(short.as_bytes(), None);
    assert_eq!(
        (found.data.unit, found.data.threads[0].tid.as_str()),
        (Unit::Samples, "7")
    );
    let selection = select(&found.data, &Filter::default()).unwrap();
    assert_eq!((selection.total.samples, functions(&selection).len()), (2, 1));
    let asked = read_as(ForeignFormat::PerfScript, text.as_bytes(), Some("cycles"))
        .unwrap_err()
        .to_string();
    assert!(
        asked.contains("counts no \"cycles\"; it counts cpu-clock:u, page-faults:u"),
        "{asked}"
    );
    let empty = error(ForeignFormat::PerfScript, b"# nothing\n");
    assert!(empty.contains("expected a sample of perf script"), "{empty}");
}

/// The text has the name of the thread at each sample, and no exec.
#[test]
fn programs_that_one_process_executes_are_processes_of_their_own() {
    let sample = |ids: &str, name: &str, ms: u32, file: &str| {
        format!(
            "{name} {ids} [000] 100.{ms:03}000: 1000000 cpu-clock:\n\t 10 work+0x1 ({file})\n\t 5 main+0x1 ({file})\n\n"
        )
    };
    let chain = |ids: &str| {
        [
            sample(ids, "perf-exec", 0, "[kernel.kallsyms]"),
            sample(ids, "one", 1, "/tmp/one"),
            sample(ids, "two", 2, "/tmp/two"),
            sample(ids, "two", 3, "/usr/lib/libc.so.6"),
            sample(ids, "three", 4, "/tmp/three"),
        ]
        .concat()
    };
    let found = |text: &str| {
        let found = read(text.as_bytes(), None);
        assert_eq!(
            found
                .notes
                .iter()
                .filter(|note| note.contains("not understood"))
                .count(),
            0
        );
        let rows = found.data.threads.iter().map(|thread| {
            let ids = format!("{}/{}", thread.pid, thread.tid);
            let is_main = if thread.is_main { " main" } else { "" };
            format!(
                "{} {} {ids}{is_main} {}",
                thread.process_name,
                thread.name,
                thread.samples.stack.len()
            )
        });
        (found.data.product.clone(), rows.collect::<Vec<_>>())
    };
    assert_eq!(
        found(&chain("7/7")),
        (
            "one".to_owned(),
            vec![
                "perf-exec perf-exec 7/7 main 1".to_owned(),
                "one one 7.1/7.1 main 1".to_owned(),
                "two two 7.2/7.2 main 2".to_owned(),
                "three three 7.3/7.3 main 1".to_owned(),
            ]
        )
    );
    // perf script prints no process unless it is asked to.
    let (_, rows) = found(&chain("7"));
    assert_eq!(rows[1..], ["one one /7.1 1", "two two /7.2 2", "three three /7.3 1"]);
    // Threads and a main thread that take names of their own are in one process.
    let text = [
        sample("7/7", "app", 0, "/tmp/app"),
        sample("7/8", "app", 1, "/tmp/app"),
        sample("7/7", "main loop", 2, "/tmp/app"),
        sample("7/8", "worker", 3, "/tmp/app"),
    ];
    let (product, rows) = found(&text.concat());
    let expected = [
        "main loop app 7/7 main 1",
        "main loop worker 7/8 2",
        "main loop main loop 7/7.1 1",
    ];
    assert_eq!(
        (product.as_str(), &rows[..]),
        ("main loop", &expected.map(str::to_owned)[..])
    );
}

/// `perf script --no-merge-callchains` of `perf record --call-graph fp,defer`.
#[test]
fn deferred_call_chains_of_perf_script_are_no_samples() {
    let text = "app 7 [000] 1.000001: 1000 cycles:P:\n\tffff81 sys_read+0x1 ([kernel.kallsyms])\n\t600000001 (cookie) ([unknown])\n\n\
        app 7 [000] 1.000002: DEFERRED CALLCHAIN [cookie: 600000001]\n\t 10 work+0x1 (/tmp/app)\n\n";
    let found = read(text.as_bytes(), None);
    let costs = costs(&found.data);
    assert_eq!(costs.sum, 1000);
    assert_eq!(costs.own.get("sys_read"), Some(&1000));
    assert_eq!(
        costs.total.get("[truncated: deferred call chain not recorded]"),
        Some(&1000)
    );
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("1 deferred call chain is printed apart")),
        "{:?}",
        found.notes
    );
}

#[test]
fn folded_stacks_share_their_beginnings() {
    let text = b"\nmain;work;leaf 12\nmain;work 3\r\nmain;operator new(unsigned long) 4.5\nmain;work;leaf 1";
    for bytes in [&text[..], &gzip(text)] {
        let Foreign { data, notes } = read(bytes, None);
        assert!(notes.is_empty(), "{notes:?}");
        let samples = &data.threads[0].samples;
        assert_eq!(samples.stack, [2, 1, 3, 2]);
        assert_eq!(samples.weight.as_deref(), Some(&[12.0, 3.0, 4.5, 1.0][..]));
        assert_eq!(data.func_name(3), "operator new(unsigned long)");
        assert_eq!(data.stacks.len(), 4);
    }
    // One stack may be longer than all that tells another kind.
    let deep = format!("main{} 1\n", ";a_frame_of_a_deep_stack".repeat(2000));
    assert_eq!(read(deep.as_bytes(), None).data.stacks.len(), 2001);
}

#[test]
fn lines_that_are_no_folded_stacks_are_named() {
    for (text, line) in [
        (&b"a;b 12\na;b\n"[..], "line 2"),
        (b"a;b 1\n\na;b twelve", "line 3"),
        (b"a 1\n 5\n", "line 2"),
        (b"a 1\nb inf\n", "line 2"),
    ] {
        let error = error(ForeignFormat::Folded, text);
        assert!(
            error.contains(line) && error.contains("given.out") && error.contains("a;b;c 12"),
            "{error}"
        );
    }
}

/// Each track has a name. Nothing is drawn as busy, or has a length, that the file does not say.
fn assert_true_for_the_front_end(saved: &profile::data::Saved) {
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

#[test]
fn kinds_are_told_by_content() {
    let of = |bytes: &[u8]| {
        let (_dir, path) = file(bytes);
        read::kind(&path)
    };
    for (which, kind) in GOOD.into_iter().enumerate() {
        assert_eq!(of(&good(which)), Some(kind));
        assert_eq!(of(&gzip(&good(which))), Some(kind));
    }
    for other in [
        &b""[..],
        b"{\"meta\":{}}",
        b"\x7fELF\x02\x01\x01",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"events",
        b"hello: world\n",
        b"{\"meta\": 1}",
        b"hello world",
        b"a;b\0 12",
        b"\x1f\x8b\x08",
        b"\n\n\n",
        &[0; 5000],
        &[0x0a; 5000],
    ] {
        assert_eq!(of(other), None, "{other:?}");
    }
    assert_eq!(read::kind(Path::new("/dev/zero")), None);
    assert_eq!(read::kind(Path::new("/nonexistent")), None);
}

/// `-F` of perf script drops any field; the shares stay.
#[test]
fn perf_script_text_without_some_fields_has_the_same_shares() {
    let leaf = "\t    55d0c0de1149 leaf+0x9 (/opt/app)\n\t    55d0c0de1180 main+0x8 (/opt/app)\n\n";
    let other = "\t    55d0c0de1300 other+0x20 (/opt/app)\n\t    55d0c0de1180 main+0x8 (/opt/app)\n\n";
    for head in [
        "app 4100 cycles: ",
        "foo: bar [worker] 21332 cycles:u: ",
        "  4100/4101   100.000000:    1000000 cpu-clock: ",
        "app  4100 [003]   100.000000: ",
        "app     1000000 cycles: ",
        "cycles: ",
        "app",
        "  4100",
        "100.000000: cycles: ",
        "",
    ] {
        let text: String = [leaf, leaf, other, leaf]
            .map(|frames| format!("{head}\n{frames}"))
            .concat();
        assert_eq!(taken_for(text.as_bytes()), "PerfScript", "{head}");
        let found = read(text.as_bytes(), None);
        let selection = select(&found.data, &Filter::default()).unwrap();
        assert_eq!(selection.total.samples, 4, "{head}");
        let samples = |name: &str| {
            let rows = functions(&selection).into_iter();
            rows.filter(|row| selection.name(row.func) == name)
                .map(|row| row.own.samples)
                .sum::<u64>()
        };
        assert_eq!(
            (samples("leaf"), samples("other"), samples("main")),
            (3, 1, 0),
            "{head}"
        );
        assert!(
            !found.notes.iter().any(|note| note.contains("not understood")),
            "{head}: {:?}",
            found.notes
        );
        let says_no_times = found.notes.iter().any(|note| note.contains("has no times"));
        assert_eq!(says_no_times, !head.contains("100.000000"), "{head}");
    }
    let lines = "     app  2243   7f2b0eb76439 leaf\n     app  2243   7f2b0eb76440 other\n";
    let found = read(lines.as_bytes(), None).data;
    assert_eq!(
        (found.threads[0].samples.len(), found.threads[0].tid.as_str()),
        (2, "2243")
    );
}

#[test]
fn speedscope_has_samples_or_the_opening_and_closing_of_calls() {
    let found = read(SPEEDSCOPE.as_bytes(), None).data;
    assert_eq!((found.product.as_str(), found.unit), ("app", Unit::Milliseconds));
    assert_eq!(found.imported_from, "speedscope's format, of py-spy@0.4.0");
    let [sampled, evented] = &found.threads[..] else {
        panic!("{:?}", found.threads)
    };
    assert_eq!((sampled.name.as_str(), evented.name.as_str()), ("t1", "t2"));
    assert_eq!(sampled.samples.weight.as_deref(), Some(&[10.0, 20.0, 10.0][..]));
    assert_eq!(evented.samples.weight.as_deref(), Some(&[250.0, 500.0, 250.0][..]));
    assert_eq!(evented.samples.time_ms, [0.0, 250.0, 750.0]);
    let costs = costs(&found);
    assert_eq!(
        (costs.own["leaf"], costs.own["work"], costs.own["main"]),
        (510_000_000, 20_000_000, 510_000_000)
    );
    let frame = found
        .frames
        .iter()
        .find(|frame| found.func_name(frame.func) == "main")
        .unwrap();
    assert_eq!(
        (frame.line, found.text(found.funcs[frame.func as usize].file)),
        (3, "a.py")
    );
    for (from, to, expected) in [
        (
            "[0,1,2]",
            "[0,1,7]",
            "expected an index of shared.frames, which has 3 frames, found 7",
        ),
        (",0.01]", "]", "expected 3 weights, one for each sample, found 2"),
        (
            "\"at\":1.75",
            "\"at\":1.1",
            "events[2]: expected a time that is not before",
        ),
        (
            "\"C\",\"frame\":2",
            "\"C\",\"frame\":0",
            "events[2]: expected the opening of a call, or the closing",
        ),
        ("evented", "spied", "expected \"sampled\" or \"evented\""),
    ] {
        let text = error(ForeignFormat::Speedscope, SPEEDSCOPE.replace(from, to).as_bytes());
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn cpu_profiles_of_v8_have_functions_by_place_and_waits() {
    let found = read(CPU_PROFILE.as_bytes(), None).data;
    let samples = &found.threads[0].samples;
    assert_eq!(samples.time_ms, [1.0, 3.0, 4.0, 6.0]);
    assert_eq!(samples.weight.as_deref(), Some(&[2.0, 1.0, 2.0, 4.0][..]));
    let selection = select(&found, &Filter::default()).unwrap();
    // What is idle is no CPU time; two functions have one name.
    assert_eq!((selection.total.samples, selection.total.weight), (3, 5.0));
    let rows = functions(&selection);
    let leaves: Vec<f64> = (rows.iter().filter(|row| selection.name(row.func).starts_with("leaf")))
        .map(|row| row.own.weight)
        .collect();
    assert_eq!(leaves, [3.0, 2.0]);
    let is_anonymous =
        |row: &&profile::view::functions::FunctionRow| selection.name(row.func).starts_with("(anonymous)");
    assert_eq!(rows.iter().find(is_anonymous).map(|row| row.total.weight), Some(5.0));
}

#[test]
fn cpu_profiles_of_gperftools_are_read_whatever_the_words() {
    for (bytes, is_big_endian) in [(8, false), (8, true), (4, false), (4, true)] {
        let file = gperftools(bytes, is_big_endian);
        let found = read(&file, None).data;
        assert_eq!((found.product.as_str(), found.interval_ms), ("app", 2.0));
        assert_eq!(found.threads[0].samples.weight.as_deref(), Some(&[6.0, 2.0][..]));
        assert_eq!(found.threads[0].samples.count.as_deref(), Some(&[3, 1][..]));
        // The caller is at its call, which is before the return address.
        let addresses: Vec<_> = found.frames.iter().map(|frame| (frame.lib, frame.address)).collect();
        assert_eq!(addresses, [(0, Some(0x180)), (0, Some(0x149))]);
        assert!(!found.symbolicated);
    }
}

#[test]
fn differences_of_two_profiles_are_named_and_have_no_shares() {
    let text = error(ForeignFormat::Folded, b"main;a 10\nmain;b -3\n");
    assert!(
        text.contains("the difference of two profiles: 1 of its 2 rows are negative"),
        "{text}"
    );
    assert!(text.contains("sprof diff"), "{text}");
}

/// UTF-8, UTF-16 and UTF-32 of both byte orders, with and without a mark, and Latin-1.
fn encoded(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let marked = format!("\u{feff}{text}");
    let pairs = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let quads =
        |text: &str, bytes: fn(u32) -> [u8; 4]| text.chars().map(u32::from).flat_map(bytes).collect::<Vec<u8>>();
    vec![
        ("UTF-8", text.into()),
        ("UTF-8 with a mark", marked.clone().into()),
        (
            "Latin-1",
            text.chars().map(|character| u8::try_from(character).unwrap()).collect(),
        ),
        ("UTF-16 LE", pairs(text, u16::to_le_bytes)),
        ("UTF-16 LE with a mark", pairs(&marked, u16::to_le_bytes)),
        ("UTF-16 BE", pairs(text, u16::to_be_bytes)),
        ("UTF-16 BE with a mark", pairs(&marked, u16::to_be_bytes)),
        ("UTF-32 LE", quads(text, u32::to_le_bytes)),
        ("UTF-32 BE with a mark", quads(&marked, u32::to_be_bytes)),
    ]
}

#[test]
fn texts_of_any_kind_encoding_and_line_end_are_read() {
    for (which, kind) in GOOD.iter().enumerate() {
        if matches!(kind, ForeignFormat::Pprof | ForeignFormat::Gperftools) {
            continue;
        }
        let text = String::from_utf8(good(which)).unwrap();
        let text = text.replace("main", "größe").replace("leaf", "größe");
        let expected = costs(&read(text.as_bytes(), None).data);
        assert!(expected.total.contains_key("größe"), "{kind:?}: {text}");
        // A line that is longer than what shows the encoding.
        let long = match kind {
            ForeignFormat::Folded => Some(format!("{} 1\n{text}", "größe;".repeat(2000))),
            _ => None,
        };
        for text in [Some(text), long].into_iter().flatten() {
            let expected = costs(&read(text.as_bytes(), None).data);
            for end in ["\n", "\r\n", "\r"] {
                for (encoding, bytes) in encoded(&text.replace('\n', end)) {
                    for bytes in [gzip(&bytes), bytes] {
                        let (_dir, path) = file(&bytes);
                        assert_eq!(read::kind(&path), Some(*kind), "{encoding}, {end:?}");
                        let found = read::foreign(&path, *kind, None, ReadLimits::default()).unwrap();
                        assert!(costs(&found.data) == expected, "{kind:?}, {encoding}, {end:?}");
                    }
                }
            }
        }
    }
}

/// Each with a way to something that is read; and none of them is taken for a file that is.
#[test]
fn files_that_are_not_read_are_named() {
    let mut tar = vec![b'x'; 257];
    tar.extend(b"ustar\0");
    let files: &[(&str, &[u8], &str)] = &[
        (
            "a.json",
            b"{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\"}]}",
            "a Chrome trace",
        ),
        ("a.json", b"[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1}]", "a Chrome trace"),
        (
            "a.heapsnapshot",
            b"{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\"]}}}",
            "a heap snapshot of V8",
        ),
        (
            "a.cpuprofile",
            b"{\"head\":{\"functionName\":\"(root)\",\"hitCount\":0}}",
            "before Node.js 8",
        ),
        ("a.json", b"{\"start_time\": 1, \"root_frame\": {}}", "pyinstrument"),
        ("a.heap", b"heap profile:  1: 2 [ 3: 4] @ heapprofile\n", "pprof -proto"),
        ("goroutine", b"goroutine profile: total 7\n", "pprof's legacy format"),
        ("a", b"--- contentionz 1 ---\n", "pprof's legacy format"),
        (
            "massif.out.7",
            b"desc: (none)\ncmd: ./a\ntime_unit: i\n#-----------\n",
            "massif",
        ),
        ("heaptrack.a.7.gz", b"v 10400 3\nx 4 /a\n", "heaptrack_print"),
        ("a.jfr", b"FLR\0\0\x02", "Flight Recorder"),
        (
            "a.nettrace",
            b"Nettrace\x14\0\0\0!FastSerialization.1",
            "dotnet-trace convert",
        ),
        ("a.etl", b"\0\0\x01\0\x48", "ETL"),
        ("a.prof", b"{(\x03\0\0\0s", "cProfile"),
        ("a.xz", b"\xfd7zXZ\0\0\x04", "xz -dk"),
        ("a.zst", b"\x28\xb5\x2f\xfd\x04", "zstd -d"),
        ("a.bz2", b"BZh91AY", "bzip2 -dk"),
        ("a.zip", b"PK\x03\x04", "unzip"),
        ("a.tar", &tar, "tar xf"),
        ("gmon.out", b"gmon\x01\0\0\0", "gprof"),
        ("a.svg", b"<?xml version=\"1.0\"?>\n<svg width=\"1\">", "a picture"),
        (
            "a.txt",
            b"# To display the perf.data header info, please use --header\n",
            "perf report",
        ),
        ("a.txt", b"@[\n    leaf+1\n]: 7\n", "stackcollapse-bpftrace.pl"),
    ];
    for (name, bytes, expected) in files {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join(name);
        for bytes in [bytes.to_vec(), gzip(bytes)] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read::kind(&path), None, "{name}");
            let text = read::whole(&path, ReadLimits::default()).unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains(name), "{name}: {text}");
        }
    }
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("run.trace");
    std::fs::create_dir(&path).unwrap();
    let text = read::whole(&path, ReadLimits::default()).unwrap_err().to_string();
    assert!(text.contains("Instruments"), "{text}");
}
