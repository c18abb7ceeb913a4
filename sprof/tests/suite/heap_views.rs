//! What people read of a recorded heap: tables, rules, and other tools' views of it.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::heap::heap_of;
use crate::support::client::script;
use crate::support::machine::alone;
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::skip::{Need, has};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Recording, program, record, sprof};

/// A sum of the table of the heap, and its standard error.
fn estimate(row: &Value, sum: &str) -> (f64, f64) {
    let number = |key: &str| row[sum][key].as_f64().unwrap();
    (number("estimate"), number("standard_error"))
}

#[test]
fn the_report_has_the_true_bytes_up_to_its_own_error_by_the_function_that_wanted_them() {
    let heap = program("heap").unwrap();
    let recording = record()
        .options(&["--heap", "--heap-interval", "64K"])
        .run(&heap, &["32", "16", "thread"]);
    heap_has_the_true_bytes(&recording.output);
}

/// Of a recording of `heap 32 16 thread`.
pub(crate) fn heap_has_the_true_bytes(file: &Path) {
    let report = |options: &[&str]| -> Value {
        let mut command = sprof();
        command.arg("report").arg(file).args(options).args(["-f", "json"]);
        parsed(&output(&mut command).stdout)
    };
    let table = report(&["--view", "heap", "--hide", "take"]);
    let rows = table["views"][0]["rows"].as_array().unwrap();
    let row = |function: &str| rows.iter().find(|row| row["function"] == function).unwrap();
    let mib = f64::from(1 << 20);
    for (function, sum, truth) in [
        ("keeps", "allocated", 32.0),
        ("keeps", "retained", 32.0),
        ("keeps", "at_peak", 32.0),
        ("frees", "allocated", 64.0),
    ] {
        // `keeps` also takes the list of its blocks.
        let list = if function == "keeps" { 32.0 * 256.0 * 8.0 } else { 0.0 };
        let (bytes, error) = estimate(row(function), sum);
        let truth = truth * mib + list;
        assert!(error > 0.0 && error < 0.2 * truth, "{function} {sum}: {bytes} {error}");
        assert!((bytes - truth).abs() < 5.0 * error, "{function} {sum}: {bytes} {error}");
    }
    assert_eq!(estimate(row("frees"), "retained").0, 0.0);
    assert!(estimate(row("frees"), "temporary").0 > 32.0 * mib);
    assert!(row("keeps")["median_life_ms"].is_null());
    // Each view is of the same blocks.
    for (measure, sum) in [
        ("allocated", "allocated"),
        ("retained", "retained"),
        ("peak", "at_peak"),
        ("blocks", "blocks"),
    ] {
        let selection = report(&["--measure", measure])["selection"].take();
        assert_eq!(selection["kind"], if measure == "blocks" { "count" } else { "bytes" });
        let whole = selection["weight"].as_f64().unwrap();
        let (bytes, _) = estimate(&rows[0], sum);
        assert!((whole - bytes).abs() <= 1e-6 * bytes, "{measure}: {whole} {bytes}");
    }
}

/// For a second or more, so that the memory is read also where sprof has no CPU for half of it.
#[test]
fn the_summary_and_the_report_say_how_much_of_the_growth_in_memory_was_seen() {
    let heap = program("heap").unwrap();
    let heap = heap.to_str().unwrap();
    let mib = f64::from(1 << 20);
    let growth = |seen: &Value| {
        let number = |key: &str| seen["growth"][key].as_f64().unwrap_or_else(|| panic!("{key}: {seen}"));
        assert_eq!(number("processes"), 1.0, "{seen}");
        (number("seen") / mib, number("grown") / mib)
    };
    let exact = &["--heap", "--heap-interval", "64K"];
    let (recording, kept) = heap_of(record().options(exact), &[heap, "64", "1024", "rest", "rest"]);
    let (seen, grown) = growth(&kept);
    // 64 MiB, 2 MiB more that are freed at once, and what the allocator needs.
    assert!(
        (54.0..=grown).contains(&seen) && (62.0..80.0).contains(&grown),
        "{kept}"
    );
    assert_eq!(kept["unseen"], serde_json::json!([]), "{kept}");
    assert!(recording.stderr.contains("heap seen: "), "{}", recording.stderr);
    let report = output(sprof().arg("report").arg(&recording.output));
    assert!(String::from_utf8_lossy(&report.stdout).contains("heap seen: "));
    let (_, mapped) = heap_of(record().options(exact), &[heap, "4", "1024", "map", "rest", "rest"]);
    let (seen, grown) = growth(&mapped);
    assert!(seen < 10.0 && (62.0..80.0).contains(&grown), "{mapped}");
    let cause = mapped["unseen"][0]["cause"].as_str().unwrap_or_default();
    assert!(
        cause.starts_with("most of its memory does not come from malloc"),
        "{mapped}"
    );
}

#[test]
fn valgrind_s_own_viewer_shows_the_bytes_of_the_report() {
    let recording = record()
        .options(&["--heap", "--heap-interval", "64K"])
        .run(program("heap").unwrap(), &["16", "16", "thread"]);
    let exported = recording.output.with_file_name("app.dhat.json");
    let export = output(sprof().arg("export").arg(&recording.output).arg("-o").arg(&exported));
    assert!(export.status.success(), "{export:?}");
    let weight = |file: &Path, measure: &str| {
        let mut command = sprof();
        let options = ["--measure", measure, "-f", "json"];
        let output = output(command.arg("report").arg(file).args(options));
        let report: Value = parsed(&output.stdout);
        report["selection"]["weight"].as_f64().unwrap()
    };
    let bytes = ["allocated", "peak", "retained"].map(|measure| {
        let bytes = weight(&recording.output, measure);
        assert_eq!(weight(&exported, measure), bytes, "{measure}");
        bytes
    });
    let viewer = Path::new("/usr/libexec/valgrind/dh_view.html");
    let has_browser = has(Need::Chromium, Path::new("/usr/bin/chromium").exists(), "no chromium");
    if !has_browser || !has(Need::Valgrind, viewer.exists(), "no dh_view.html (Debian: valgrind)") {
        return;
    }
    let Some(shown) = script("dhat.js", &[viewer.as_os_str(), exported.as_os_str()]) else {
        return;
    };
    for (sum, bytes) in ["Total:", "At t-gmax:", "At t-end:"].into_iter().zip(bytes) {
        let digits = bytes.to_string().into_bytes();
        let thousands: Vec<_> = digits.rchunks(3).rev().map(String::from_utf8_lossy).collect();
        let expected = format!("{} bytes (100%", thousands.join(","));
        let line = shown.lines().find(|line| line.contains(sum)).unwrap_or_default();
        assert!(line.contains(&expected), "{sum} {expected}: {shown}");
    }
    assert!(shown.contains(": keeps (") && shown.contains(": main ("), "{shown}");
}

/// With an interval of 1 each block is a sample, so chance plays no part.
#[test]
fn rules_on_the_heap_are_kept_broken_or_unknown_also_by_the_sums_of_other_tools() {
    let heap = program("heap").unwrap();
    let recorded = |mib: &str, options: &[&str]| {
        let recording = record().options(options).run(&heap, &[mib, "16"]);
        assert_eq!(recording.code, Some(7), "{}", recording.stderr);
        recording
    };
    let each = ["--heap", "--heap-interval", "1"];
    let (old, new, none) = (recorded("1", &each), recorded("2", &each), recorded("1", &[]));
    let rare = recorded("1", &["--heap", "--heap-interval", "16M"]);
    let check = |base: &Path, new: &Path, rules: &[&str]| {
        let mut command = sprof();
        command.arg("check").arg("--base").arg(base).arg(new);
        command.args(rules.iter().flat_map(|rule| ["--max-increase", rule]));
        let output = output(&mut command);
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    let rules = ["heap.retained=5%", "heap.allocated:keeps=150%", "heap.blocks:fr*=5%"];
    let exported = |recording: &Recording, name: &str, options: &[&str]| {
        let file = recording.output.with_file_name(name);
        let mut export = sprof();
        export
            .arg("export")
            .arg(&recording.output)
            .args(options)
            .arg("-o")
            .arg(&file);
        assert!(output(&mut export).status.success());
        file
    };
    let pprof = |recording| exported(recording, "app.pb.gz", &["-f", "pprof", "--measure", "retained"]);
    let dhat = [&old, &new].map(|recording| exported(recording, "app.dhat.json", &[]));
    let of_go = [&old, &new].map(pprof);
    for [base, new] in [[&old.output, &new.output], [&dhat[0], &dhat[1]], [&of_go[0], &of_go[1]]] {
        let (status, text) = check(base, new, &rules);
        assert_eq!(status, Some(1), "{text}");
        for expected in [
            "BROKEN  heap.retained may be 5 % more",
            "kept  heap.allocated:keeps may be 150 % more",
            "BROKEN  heap.blocks:fr* may be 5 % more",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(check(new, base, &rules).0, Some(0));
        assert_eq!(check(base, base, &rules).0, Some(0));
    }
    let (status, text) = check(&rare.output, &rare.output, &["heap.peak=5%"]);
    assert!(status == Some(3) && text.contains("smaller --heap-interval"), "{text}");
    // Other tools' files have the chance as well.
    let few = recorded("16", &["--heap", "--heap-interval", "1M"]);
    for rare in [pprof(&few), exported(&few, "app.dhat.json", &[])] {
        let (status, text) = check(&rare, &rare, &["heap.allocated=5%"]);
        assert!(status == Some(3) && text.contains("smaller --heap-interval"), "{text}");
    }
    let (status, text) = check(&old.output, &none.output, &["heap.peak=5%"]);
    assert!(status == Some(125) && text.contains("sprof record --heap"), "{text}");
    // A file of rules has the same words.
    let config = old.output.with_file_name("rules.toml");
    let lines = "[check.max-increase]\n\"heap.peak:keeps\" = \"5%\"\n\"heap.blocks\" = 150\n[check.max-share-increase]\n\"heap.blocks:keeps\" = 2\n";
    fs::write(&config, lines).unwrap();
    let mut command = sprof();
    command.arg("check").arg("--base").arg(&old.output).arg(&new.output);
    let checked = output(command.arg("--config").arg(&config).args(["-f", "json"]));
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let json: Value = parsed(&checked.stdout);
    let said = json["rules"].as_array().unwrap().iter().map(|rule| {
        let word = |key: &str| rule[key].as_str().unwrap_or("all");
        [word("measure"), word("function"), word("of"), word("outcome")].join(" ")
    });
    let mut said: Vec<String> = said.collect();
    said.sort();
    assert_eq!(
        said,
        [
            "blocks all amount kept",
            "blocks keeps share kept",
            "peak keeps amount broken"
        ],
        "{json}"
    );
    assert_eq!(json["groups"].as_array().unwrap().len(), 2);
    // Of the kept blocks and their list.
    let diff = output(
        sprof()
            .arg("diff")
            .args([&old.output, &new.output])
            .args(["--measure", "retained"]),
    );
    let text = String::from_utf8(diff.stdout).unwrap();
    assert!(text.contains("more retained") && text.contains(" +100.0 % "), "{text}");
    let diff = output(
        sprof()
            .arg("diff")
            .args([&old.output; 2])
            .args(["--measure", "allocated"]),
    );
    let text = String::from_utf8(diff.stdout).unwrap();
    assert!(
        !text.contains("more allocated") && text.contains("% of all or more"),
        "{text}"
    );
}

#[test]
fn only_what_leaks_on_is_among_what_grows() {
    // A thread that stands still for half a second would look as one that fills its memory late.
    alone();
    undisturbed_or_right(|| {
        let recording = record()
            .options(&["--heap", "--heap-interval", "64K"])
            .run(program("grows").unwrap(), &[] as &[&str]);
        let report = |format: &str| {
            let mut command = sprof();
            command
                .arg("report")
                .arg(&recording.output)
                .args(["--view", "heap", "-f", format]);
            String::from_utf8(output(&mut command).stdout).unwrap()
        };
        let json: Value = parsed(&report("json"));
        let [sites, growth] = [0, 1].map(|view| json["views"][view]["rows"].as_array().unwrap());
        let functions: Vec<&Value> = growth.iter().map(|row| &row["function"]).collect();
        assert_eq!(functions, [&Value::Null, &"leaks".into()], "{json}");
        let retained = |function: &str| {
            estimate(
                sites.iter().find(|row| row["function"] == function).unwrap(),
                "retained",
            )
            .0
        };
        assert!(retained("fills") > 0.0 && retained("frees_all") == 0.0, "{json}");
        // A block of 64 KiB each 2 ms.
        let (per_second, error) = estimate(&growth[1], "growth_per_s");
        assert!(error > 0.0 && (per_second / 32e6 - 1.0).abs() < 0.6, "{json}");
        let live: Vec<f64> = growth[1]["live"]
            .as_array()
            .unwrap()
            .iter()
            .map(|live| live["estimate"].as_f64().unwrap())
            .collect();
        assert!(
            live.is_sorted() && live.len() == 5 && live[4] > 2.0 * live[1],
            "{live:?}"
        );
        let [text, markdown] = ["text", "md"].map(report);
        for report in [&text, &markdown] {
            let (_, table) = report.split_once("Growth of the living heap from ").unwrap();
            assert!(table.contains("leaks") && !table.contains("fills"), "{table}");
            assert!(
                table.contains("growth a second") && table.contains("at 90 %"),
                "{table}"
            );
        }
    });
}
