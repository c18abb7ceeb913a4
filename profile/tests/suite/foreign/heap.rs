//! Files of massif and heaptrack: blocks of memory by place. What the tools themselves say of real files is compared in
//! the tests of the command line.

use super::*;

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    zstd_safe::compress(&mut packed, bytes, 3).unwrap();
    packed
}

/// The sum of the weights, and what functions cost themselves.
fn sums(bytes: &[u8], event: &str) -> (u64, Vec<(String, u64)>) {
    let found = costs(&read(bytes, Some(event)).data);
    let own = found.own.into_iter().filter(|(_, own)| *own > 0);
    (found.sum, own.collect())
}

fn names(functions: &[(&str, u64)]) -> Vec<(String, u64)> {
    functions.iter().map(|(name, own)| ((*name).to_owned(), *own)).collect()
}

#[test]
fn heaptrack_s_blocks_are_added_up_by_place() {
    let all = read(HEAPTRACK.as_bytes(), None);
    assert_eq!(all.notes, [""; 0]);
    let data = &all.data;
    assert_eq!(
        (
            data.product.as_str(),
            data.arguments.as_str(),
            data.imported_from.as_str()
        ),
        ("app", "-x 1", "heaptrack 1.4.0")
    );
    let weights = data.weights.clone().unwrap();
    assert_eq!((weights.name.as_str(), weights.unit.as_str()), ("allocated", "bytes"));
    assert_eq!(
        weights.others,
        ["retained", "peak", "temporary", "blocks", "temporary-blocks"]
    );
    // `leaf` takes 16, 16 and 256 bytes, and frees the 256 and then 16. A function inlined in it takes 32 and frees
    // them. An address without a name takes 1.
    let nameless = "[unknown]";
    for (event, sum, own) in [
        (
            "allocated",
            321,
            names(&[(nameless, 1), ("inlined", 32), ("leaf", 288)]),
        ),
        ("blocks", 5, names(&[(nameless, 1), ("inlined", 1), ("leaf", 3)])),
        // Before the last block is taken, when the 256 bytes lived.
        ("peak", 288, names(&[("leaf", 288)])),
        ("retained", 17, names(&[(nameless, 1), ("leaf", 16)])),
        ("temporary", 288, names(&[("inlined", 32), ("leaf", 256)])),
        ("temporary-blocks", 2, names(&[("inlined", 1), ("leaf", 1)])),
    ] {
        assert_eq!(sums(HEAPTRACK.as_bytes(), event), (sum, own), "{event}");
    }
    // The allocator's caller is the leaf, `operator new` is left out, and the inlined function is below its caller.
    let mut out = Vec::new();
    folded::write(
        &Picked::new(data, PickedTime::All),
        folded::FoldedOptions::default(),
        &mut out,
    )
    .unwrap();
    let out = String::from_utf8(out).unwrap();
    for stack in ["main;leaf 288", "main;leaf;inlined 32", "main;[unknown] 1"] {
        assert!(out.lines().any(|line| line.ends_with(stack)), "{stack}: {out}");
    }
    let (frame, lib) = (
        data.frames.iter().find(|frame| frame.inline_depth > 0).unwrap(),
        data.libs[0].path.as_deref(),
    );
    assert_eq!((frame.line, lib), (9, Some("/opt/app")));
}

#[test]
fn heaptrack_s_files_are_read_as_they_are_compressed_and_cut() {
    let (_, whole) = sums(HEAPTRACK.as_bytes(), "allocated");
    let bytes = HEAPTRACK.as_bytes().to_vec();
    let packed = zstd(&bytes);
    // Two frames, as `zstd` writes them of two files.
    let frames = [zstd(&bytes[..200]), zstd(&bytes[200..])].concat();
    for packed in [gzip(&bytes), packed.clone(), frames] {
        assert_eq!(taken_for(&packed), "Heaptrack");
        assert_eq!(sums(&packed, "allocated").1, whole);
    }
    let text = error(ForeignFormat::Heaptrack, &packed[..packed.len() - 9]);
    assert!(text.contains("is cut off: it ends at about byte"), "{text}");
    let mut broken = packed.clone();
    broken[20..40].fill(0xff);
    let text = error(ForeignFormat::Heaptrack, &broken);
    assert!(text.contains("broken zstd stream"), "{text}");
    // A text that is cut is read to its last whole line.
    let end = HEAPTRACK.find("- 1\n").unwrap();
    for rest in ["", "-", "+ 0"] {
        let cut = format!("{}{rest}", &HEAPTRACK[..end]);
        let read = read(cut.as_bytes(), Some("allocated"));
        assert_eq!(costs(&read.data).sum, 288, "{rest}");
        assert!(read.notes[0].contains("later are missing"), "{:?}", read.notes);
    }
    let attached = HEAPTRACK.replace("I 1000", "A\nS leak:foo\nI 1000");
    let notes = read(attached.as_bytes(), None).notes;
    assert!(
        notes[0].contains("attached") && notes[1].contains("suppresses leaks"),
        "{notes:?}"
    );
    // Versions 1 and 2 have texts without their lengths.
    let old = HEAPTRACK.replace("v 10400 3", "v 10100 1");
    let old: Vec<String> = (old.lines())
        .map(
            |line| match line.strip_prefix("s ").and_then(|rest| rest.split_once(' ')) {
                Some((_, text)) => format!("s {text}\n"),
                None => format!("{line}\n"),
            },
        )
        .collect();
    assert_eq!(sums(old.concat().as_bytes(), "allocated").1, whole);
}

#[test]
fn errors_of_heaptrack_s_files_name_the_line() {
    let head = "v 10400 3\ns 4 leaf\ni 10 0 1\nt 1 0\na 10 1\n";
    for (body, expected) in [
        ("+ 1\n", "kind of blocks 1; expected one of the 1 before at line 6"),
        ("- 0\n", "a block of kind 0 is freed; expected that one lives at line 6"),
        ("+ 0\n- 0\n- 0\n", "expected that one lives at line 8"),
        ("+ x\n", "expected a hexadecimal number at line 6"),
        ("+ +0\n", "expected a hexadecimal number at line 6"),
        ("a 1 2\n", "call path 2; expected one of the 1 before at line 6"),
        ("t 2 0\n", "address 2; expected one of the 1 before at line 6"),
        ("t 1 2\n", "call path 2; expected one of the 1 before at line 6"),
        ("i 7 2\n", "text 2; expected one of the 1 before at line 6"),
        ("i 7 0 1 2 1\n", "text 2; expected one of the 1 before at line 6"),
        ("a ffffffffffffffff 1\n+ 1\n+ 0\n", "expected fewer at line 8"),
        ("?\n", "expected a line of heaptrack's, `+ 1a` at line 6"),
        ("x 2 /a\n", "heaptrack_interpret"),
        (
            "v 10400 4\n",
            "version 4 of heaptrack's format; expected 1 to 3 at line 6",
        ),
    ] {
        let text = error(ForeignFormat::Heaptrack, format!("{head}{body}").as_bytes());
        assert!(text.contains(expected), "{body}: {text}");
    }
    let text = error(ForeignFormat::Heaptrack, b"+ 0\n");
    assert!(text.contains("expected the version of the format"), "{text}");
    let text = read_as(ForeignFormat::Heaptrack, head.as_bytes(), Some("leaked"))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("counts no \"leaked\"; it counts allocated, retained, peak"),
        "{text}"
    );
}

/// A few bytes do not become many stacks, and equal lines cost no work.
#[test]
fn heaptrack_s_call_paths_stay_within_limits() {
    let inlined = " 1 0 1".repeat(60_000);
    let head = format!("v 10400 3\ns 1 f\ni 1 0{inlined}\n");
    let same = format!("{head}{}a 1 1\n+ 0\n# strings: 1\n", "t 1 0\n".repeat(100_000));
    assert_eq!(costs(&read(same.as_bytes(), None).data).sum, 1);
    let deeper = format!("{head}t 1 0\nt 1 1\n");
    let text = error(ForeignFormat::Heaptrack, deeper.as_bytes());
    assert!(
        text.contains("a call path of 120000 frames; expected at most 65536"),
        "{text}"
    );
    // A line of a few bytes has a thousand frames that no other has.
    let lines = |at: u32| format!("i {at:x} 0 1 0 {at:x}\nt {at:x} 0\nt 1 {:x}\n", 2 * at - 3);
    let many: String = (2..4000).map(lines).collect();
    let head = format!("v 10400 3\ns 1 f\ni 1 0{}\n", " 1 0 1".repeat(1000));
    let text = error(ForeignFormat::Heaptrack, format!("{head}{many}").as_bytes());
    assert!(text.contains("the memory that its content would take"), "{text}");
}

#[test]
fn massif_has_the_trees_of_the_peak_and_of_the_last_snapshot_with_one() {
    let peak = read(MASSIF.as_bytes(), None);
    let data = &peak.data;
    assert_eq!(
        (
            data.product.as_str(),
            data.arguments.as_str(),
            data.imported_from.as_str(),
            data.unit
        ),
        ("app", "-x=1", "massif", WeightUnit::Bytes)
    );
    let weights = data.weights.clone().unwrap();
    assert_eq!(
        (weights.name.as_str(), weights.others),
        ("peak", vec!["retained".to_owned()])
    );
    assert_eq!(
        peak.notes,
        ["24 bytes that the allocator adds to blocks are in no place"]
    );
    let below = "[in 2 places, all below massif's threshold (1.00%)]";
    assert_eq!(
        sums(MASSIF.as_bytes(), "peak"),
        (1000, names(&[(below, 10), ("keep", 300), ("leaf", 690)]))
    );
    let found = costs(data);
    assert_eq!(
        (found.total["main"], found.total["keep"]),
        (985, 300),
        "{:?}",
        found.total
    );
    let lines: Vec<u32> = data.frames.iter().map(|frame| frame.line).collect();
    assert!(lines.contains(&37) && lines.contains(&8), "{lines:?}");
    let last = read(MASSIF.as_bytes(), Some("retained"));
    assert_eq!(sums(MASSIF.as_bytes(), "retained"), (64, names(&[("keep", 64)])));
    assert_eq!(
        last.notes[0],
        "retained: what lived at snapshot 2, the last one of 4 that has places, at 300 of 400 i"
    );
    // Of a file that has no tree after its peak, the peak's is the last.
    let cut = &MASSIF[..MASSIF.find("#-----------\nsnapshot=2").unwrap()];
    assert_eq!(sums(cut.as_bytes(), "retained").0, 1000);
    // heaptrack_print writes no peak, and times that are no whole numbers.
    let without = MASSIF
        .replace("heap_tree=peak", "heap_tree=detailed")
        .replace("time=100", "time=0.001");
    assert_eq!(costs(&read(without.as_bytes(), None).data).sum, 64);
}

#[test]
fn errors_of_massif_name_the_line_and_what_it_does_not_count() {
    for event in ["allocated", "temporary", "blocks"] {
        let text = read_as(ForeignFormat::Massif, MASSIF.as_bytes(), Some(event))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains(&format!("counts no {event:?}; it counts peak, retained")),
            "{text}"
        );
    }
    let line = |start: &str| 1 + MASSIF.lines().position(|line| line.starts_with(start)).unwrap();
    for (old, new, expected) in [
        ("n3: 1000", "n3: 1001", "1001 bytes; expected the 1000 of mem_heap_B"),
        (
            " n1: 690",
            " n1: 1690",
            "1690 bytes; expected at most the 1000 that no line of the same caller has",
        ),
        ("  n0: 690", "   n0: 690", "expected `  n0: 1024"),
        ("n3: 1000", "n4: 1000", "expected ` n0: 1024"),
        ("n3: 1000", "n: 1000", "expected `n0: 1024"),
        (
            "mem_heap_B=1000",
            "mem_heap_B=x",
            "expected a number of bytes, found \"x\"",
        ),
        ("heap_tree=peak", "heap_tree=new", "expected a line of massif's"),
    ] {
        let text = error(ForeignFormat::Massif, MASSIF.replacen(old, new, 1).as_bytes());
        assert!(text.contains(expected) && text.contains("at line"), "{new}: {text}");
    }
    let cut = &MASSIF[..MASSIF.find("  n0: 690").unwrap()];
    let text = error(ForeignFormat::Massif, cut.as_bytes());
    assert!(text.contains("is cut off: it ends at"), "{text}");
    let text = error(ForeignFormat::Massif, MASSIF.replace("n3: 1000", "n3: 999").as_bytes());
    assert!(text.contains(&format!("at line {}", line("n3: "))), "{text}");
    let empty = "desc: (none)\ncmd: ./a\ntime_unit: i\n#-----------\nsnapshot=0\n#-----------\ntime=0\nmem_heap_B=0\nheap_tree=empty\n";
    let text = error(ForeignFormat::Massif, empty.as_bytes());
    assert!(text.contains("no snapshot has a tree of the heap"), "{text}");
}
