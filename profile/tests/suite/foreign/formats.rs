//! Folded stacks, speedscope, and CPU profiles of V8 and gperftools.

use super::*;

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

#[test]
fn speedscope_has_samples_or_the_opening_and_closing_of_calls() {
    let found = read(SPEEDSCOPE.as_bytes(), None).data;
    assert_eq!((found.product.as_str(), found.unit), ("app", WeightUnit::Milliseconds));
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
