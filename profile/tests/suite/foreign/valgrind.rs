//! Files of callgrind and DHAT.

use super::*;

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

/// `sprof count` joins the files of all processes.
#[test]
fn each_process_of_a_callgrind_file_has_its_name_and_what_is_missing_is_a_note() {
    let text = "# callgrind format\ndesc: sprof: the counts of 1 process are missing\n\
        # callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 7\ncmd: ./app -x\npart: 1\ndesc: Trigger: Program termination\n\
        positions: line\nevents: Ir\nfn=(1) main\n16 20\ntotals: 20\n\
        # callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 8\ncmd: /bin/true\npart: 1\n\
        positions: line\nevents: Ir\nfn=(1) other\n1 5\ntotals: 5\n";
    let found = read(text.as_bytes(), None);
    let of_threads = found.data.threads.iter();
    let names: Vec<_> = of_threads.map(|thread| (&*thread.process_name, &*thread.pid)).collect();
    assert_eq!(names, [("app", "7"), ("true", "8")]);
    assert_eq!((&*found.data.product, &*found.data.arguments), ("app", "-x"));
    assert_eq!(found.notes[0], "the counts of 1 process are missing");
    let costs = costs(&found.data);
    assert_eq!((costs.sum, costs.own["main"], costs.own["other"]), (25, 20, 5));
    assert!(found.data.weights.unwrap().is_exact);
    // Other tools write samples in this format.
    let sampled = read(text.replace("callgrind-3.19.0", "sprof").as_bytes(), None);
    assert!(!sampled.data.weights.unwrap().is_exact);
}

#[test]
fn dhat_files_have_several_sums_of_bytes_and_blocks() {
    let of = |event: Option<&str>| read(DHAT.as_bytes(), event).data;
    let all = of(None);
    assert_eq!(
        (all.product.as_str(), all.arguments.as_str(), all.unit),
        ("app", "-x", WeightUnit::Bytes)
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
        ("total-blocks", WeightUnit::Counts, 11),
        ("at-gmax-bytes", WeightUnit::Bytes, 200),
        ("at-gmax-blocks", WeightUnit::Counts, 2),
        ("at-end-bytes", WeightUnit::Bytes, 100),
        ("max-bytes", WeightUnit::Bytes, 307),
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
        ("total-unit", vec!["total-events".to_owned()], WeightUnit::Counts)
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
