//! The text of `perf script`.

use super::*;

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
    assert_eq!((data.unit, data.os.as_str()), (WeightUnit::Milliseconds, "Linux 6.1.0"));
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
    assert_eq!((faults.unit, faults.threads.len()), (WeightUnit::Counts, 1));
    // Without process ids, call chains and periods.
    let short = "     app    7 [000]     1.500000: cpu-clock:      10 work+0x3 (/home/app)\n     app    7 [000]     1.600000: cpu-clock:      10 work+0x5 (/home/app)\n";
    let found = read(short.as_bytes(), None);
    assert_eq!(
        (found.data.unit, found.data.threads[0].tid.as_str()),
        (WeightUnit::Samples, "7")
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
