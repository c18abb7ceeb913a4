//! What is selected, as a report with the same conditions has it.

use super::*;

/// `A..B` in seconds, from the page's whole microseconds.
pub(super) fn time_range(shown: &Value) -> String {
    let seconds = |at: usize| format!("{:.6}", shown["range"][at].as_f64().unwrap() / 1e6);
    format!("--time-range={}..{}", seconds(0), seconds(1))
}

#[test]
fn what_is_selected_in_the_viewer_has_the_figures_of_a_report_with_the_same_conditions() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (ours, profile) = record()
        .options(&["--off-cpu"])
        .profile(program("threads").unwrap(), &["300", "3"]);
    let busy = middle_of(times_in(&profile, "thread_work"), &ours.output);
    let (split, _) = record().profile(program("split").unwrap(), &["300"]);
    let folder = temp_dir();
    let fib = folder.path().join("fib.folded");
    std::fs::write(
        &fib,
        "main;fib;fib;fib 500\nmain;fib;add 100\nmain;parse;read 300\nmain;parse 50\nother 50\n",
    )
    .unwrap();
    let without_lines = crate::push::profile(folder.path());
    let spans = crate::span_views::requests(folder.path(), 400, 100);
    let at_span = "(() => {
        const canvas = document.querySelector('.flame canvas');
        const { left, top } = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new PointerEvent('pointerup', { clientX: left + 2, clientY: top + 18 + 8 + 5 }));
    })()";
    let thread = 3;
    let choose_thread = format!(".row-thread:nth-child({thread} of .row-thread)");
    let steps = |parts: &[Vec<Value>]| parts.concat();
    let searched = |name: &str| {
        let keys = [
            ["click", "#tab-functions"],
            ["key", "/"],
            ["type", name],
            ["key", "Enter Home"],
        ];
        keys.iter().map(|step| json!(step)).collect::<Vec<_>>()
    };
    let tasks = [
        json!({ "url": url(&page(&ours.output, &[])), "steps": steps(&[
            vec![json!(["drag", busy])], both_orders(),
            vec![json!(["kind", "Waits"])], both_orders(),
            vec![json!(["key", "Escape"]), json!(["kind", "CPU time"]), json!(["click", ".row-group .twist"]), json!(["click", choose_thread])], both_orders(),
            vec![json!(["key", "Escape"]), json!(["show", ""])],
        ]) }),
        json!({ "url": url(&page(&split.output, &[])), "steps": steps(&[
            at_tab("tree", &[]),
            // The whole of it, by keys.
            vec![json!(["key", "/"]), json!(["type", "/^(sixty|thirty)$/"]), json!(["key", "Enter"]), json!(["show", ""]), json!(["key", "Escape"])],
            // With a row for each caller: one sample in `run_split`'s own code ends the row of several.
            at_tab("flame", &[json!(["click", ".flame-view [aria-pressed]"]), json!(["focus", ".flame"]), json!(["key", "ArrowDown ArrowDown ArrowDown ArrowDown Enter"])]),
            vec![json!(["key", "Escape"]), json!(["show", ""])],
            at_tab("heat", &[json!(["focus", ".heat"]), json!(["key", "ArrowDown ArrowDown Enter"])]),
        ]) }),
        json!({ "url": url(&page(&fib, &[])), "width": 320, "height": 640, "dark": true, "steps": steps(&[
            // The first row by self is `fib`.
            vec![json!(["focus", ".list"]), json!(["key", "Home h"]), json!(["show", ""]), json!(["click", ".crumb"])],
            vec![json!(["focus", ".list"]), json!(["key", "Home d"]), json!(["show", ""]), json!(["click", ".crumb"])],
            vec![json!(["focus", ".list"]), json!(["key", "Home f"]), json!(["show", ""]), json!(["click", ".crumb"])],
            vec![json!(["focus", ".list"]), json!(["key", "Home Enter"]), json!(["show", ""])],
            at_tab("inverted", &[]),
            searched("/^add$/"),
            at_tab("callers", &[]),
            saved_and_copied(),
        ]) }),
        json!({ "url": url(&page(&without_lines, &[])), "steps": steps(&[
            searched("/^work$/"),
            vec![json!(["click", "#tab-source"]), json!(["eval", "document.querySelector('.side .legend').textContent"])],
        ]) }),
        json!({ "url": url(&page(&spans, &[])), "width": 360, "height": 800, "dark": true, "steps": steps(&[
            at_tab("markers", &[json!(["axe", ""]), json!(["inside", "request"])]),
            vec![json!(["click", "#tab-functions"])], both_orders(),
            vec![json!(["kind", "Waits"])], both_orders(),
            vec![json!(["url", "**/*.html*count=1*inside=request*"]), json!(["reload", ""]), json!(["show", ""]), json!(["key", "Escape"]), json!(["show", ""])],
            // The first request is below the left edge of the chart, in the lane after that of markers.
            vec![json!(["kind", "CPU time"]), json!(["click", "#tab-chart"]), json!(["eval", at_span]), json!(["show", ""])],
        ]) }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let functions = ["--view", "functions"];

    let shown = |task: usize, at: usize| &answers[task]["shown"][at];
    let range = time_range(shown(0, 0));
    let expected = report(&ours.output, &[&functions[..], &[&range]].concat());
    assert!(expected["selection"]["samples"].as_u64() > Some(30), "{expected}");
    assert_as_report(&range, [shown(0, 0), shown(0, 1)], &expected);
    let expected = report(&ours.output, &[&functions[..], &["--waits", &range]].concat());
    assert_as_report("waits in the range", [shown(0, 2), shown(0, 3)], &expected);
    let labels = shown(0, 4)["labels"].as_array().unwrap();
    let chosen: Vec<&Value> = labels.iter().filter(|label| label[2] == "true").collect();
    assert_eq!(chosen.len(), 1, "{labels:?}");
    let name = chosen[0][1].as_str().unwrap();
    let expected = report(&ours.output, &[&functions[..], &["--thread", name]].concat());
    assert_as_report(name, [shown(0, 4), shown(0, 5)], &expected);
    let all = report(&ours.output, &functions);
    assert_eq!(
        shown(0, 6)["weight"].as_f64().unwrap() as u64,
        whole(&all, &all["selection"]["weight"])
    );

    // Each row of the opened tree is one of the report's.
    let tree = report(&split.output, &["--view", "tree", "--min-percent", "0"]);
    let in_tree: Vec<(u64, String, u64, u64)> = (tree["views"][0]["rows"].as_array().unwrap().iter())
        .map(|row| {
            let weight = |key: &str| whole(&tree, &row[key]["weight"]);
            let name = row["function"].as_str().unwrap().to_owned();
            (
                row["depth"].as_u64().unwrap() + 1,
                name,
                weight("self"),
                weight("total"),
            )
        })
        .collect();
    let rows = shown(1, 0)["lists"][0].as_array().unwrap();
    assert!(rows.len() > 3, "{rows:?}");
    for (row, (name, own, total)) in rows.iter().zip(rows_of_page(&shown(1, 0)["lists"][0])) {
        let row = (row["level"].as_u64().unwrap(), name, own, total);
        assert!(in_tree.contains(&row), "{row:?} is not in {in_tree:?}");
    }
    // What the search finds is on this share of the stacks, and the tree is open down to it.
    let all = report(&split.output, &functions);
    let total = |name: &str| rows_of_report(&all).into_iter().find(|row| row.0 == name).unwrap().2;
    let searched = shown(1, 1);
    assert_eq!(
        searched["matched"].as_f64().unwrap() as u64,
        total("sixty") + total("thirty"),
        "{searched}"
    );
    let current = searched["lists"][0]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["isCurrent"] == true)
        .unwrap();
    assert!(current["isFound"] == true && current["name"] == "sixty", "{searched}");
    let zoomed = shown(1, 2)["zoomed"].as_str().unwrap();
    assert!(total(zoomed) * 10 > total("main") * 9, "{zoomed}");
    assert_eq!(shown(1, 3)["zoomed"], "");
    let cell = shown(1, 4);
    assert_eq!(cell["range"], json!([40_000, 60_000]), "{cell}");
    let expected = report(&split.output, &[&functions[..], &["--time-range=0.04..0.06"]].concat());
    assert_eq!(cell["samples"], expected["selection"]["samples"], "{cell}");

    // Of spans: rows of their own, and what threads did inside.
    assert_eq!(shown(4, 0)["worst"], json!([]));
    let labels = shown(4, 1)["labels"].as_array().unwrap();
    let rows_of_spans: Vec<&Value> = { labels.iter() }
        .filter(|label| label[0].as_str().unwrap().contains("row-spans"))
        .map(|label| &label[1])
        .collect();
    assert_eq!(rows_of_spans, ["spans", "async spans"]);
    assert_eq!(shown(4, 1)["crumbs"], json!(["inside request \u{d7}"]));
    let inside = ["--inside", "request"];
    let expected = report(&spans, &[&functions[..], &inside].concat());
    assert_eq!(expected["selection"]["samples"], 1760);
    assert_as_report("inside", [shown(4, 2), shown(4, 3)], &expected);
    let expected = report(&spans, &[&functions[..], &inside, &["--waits"]].concat());
    assert_as_report("waits inside", [shown(4, 4), shown(4, 5)], &expected);
    assert_eq!(shown(4, 6)["samples"], expected["selection"]["samples"]);
    assert!(
        shown(4, 7)["samples"] == 400 && shown(4, 7)["crumbs"] == json!([]),
        "{}",
        shown(4, 7)
    );

    assert_eq!(shown(4, 9)["crumbs"], json!(["inside request \u{d7}"]));
    let note = shown(3, 0).as_str().unwrap();
    assert!(note.starts_with("No source line is known of work: "), "{note}");

    let rows = |at: usize| rows_of_page(&shown(2, at)["lists"][0]);
    let expected = |options: &[&str]| {
        let options = [&functions[..], options].concat();
        let mut rows = rows_of_report(&report(&fib, &options));
        rows.sort();
        rows
    };
    let sorted = |mut rows: Vec<Row>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(rows(0)), expected(&["--hide", "fib"]));
    let crumbs = |at: usize| shown(2, at)["crumbs"].clone();
    assert_eq!(crumbs(0), json!(["hidden: fib (callers keep its time) \u{d7}"]));
    assert_eq!(sorted(rows(1)), expected(&["--drop", "fib"]));
    assert_eq!(crumbs(1), json!(["without stacks with fib \u{d7}"]));
    assert_eq!(sorted(rows(2)), expected(&["--focus", "fib"]));
    assert_eq!(
        rows(3),
        [("main".to_owned(), 0, 600)],
        "the callers of fib, of the outermost call"
    );
    let callees = rows_of_page(&shown(2, 3)["lists"][1]);
    assert_eq!(callees, [("add".to_owned(), 100, 100)], "the callees of fib");
    let inverted = rows(4);
    assert_eq!(inverted[0], ("fib".to_owned(), 500, 500), "by self: {inverted:?}");
    assert_eq!(shown(2, 5)["note"], "It calls nothing in these samples.");
    for answer in &answers[2]["shown"].as_array().unwrap()[..6] {
        assert_eq!(answer["overflow"], 0, "the page is no wider than its window");
    }
    assert_saved_and_copied(&answers[2]["shown"].as_array().unwrap()[6..], &fib);
}

/// Uses the menu in a page of `fib.folded` at `add`, and notes what it saves and copies.
fn saved_and_copied() -> Vec<Value> {
    let mut steps = vec![json!([
        "eval",
        "URL.createObjectURL = (blob) => { window.blob = blob; return ''; };
         HTMLAnchorElement.prototype.click = () => {};
         Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } });"
    ])];
    let use_menu = |item: &str, result: &str| {
        [
            json!(["click", "#menu summary"]),
            json!(["click", format!("#{item}")]),
            json!(["eval", result]),
        ]
    };
    steps.push(json!(["key", "Escape"]));
    steps.extend(use_menu("save-folded", "window.blob.text()"));
    steps.extend(use_menu("copy-stack", "window.copied"));
    steps.extend([json!(["click", "#tab-inverted"]), json!(["focus", ".list"])]);
    steps.push(json!(["key", "Home ArrowRight ArrowDown"]));
    steps.extend(use_menu("copy-stack", "window.copied"));
    steps.extend(use_menu("copy-text", "window.copied"));
    steps.extend(use_menu("copy-markdown", "window.copied"));
    // The colours are of the page, and stay.
    let colors = "[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor, location.hash.includes('light')]";
    steps.extend([
        json!(["eval", colors]),
        json!(["click", "#menu summary"]),
        json!(["focus", "#theme"]),
        json!(["key", "l i Tab"]),
        json!(["reload", ""]),
        json!(["eval", colors]),
    ]);
    steps
}

fn assert_saved_and_copied(shown: &[Value], file: &Path) {
    let exported = run(sprof().arg("export").arg(file).args(["-q", "-f", "folded", "-o", "-"]));
    let exported = String::from_utf8(exported).unwrap();
    // The viewer's flame graph has no row of processes.
    let lines: Vec<&str> = exported.lines().map(|line| line.split_once(';').unwrap().1).collect();
    let text = |at: usize| shown[at].as_str().unwrap();
    assert_eq!(text(1).lines().collect::<Vec<_>>(), lines);
    assert_eq!(text(2), "add\nfib\nmain\n");
    // The second caller of `fib`.
    assert_eq!(text(3), "fib\nfib\nfib\n");
    let rows: Vec<&str> = text(4).lines().collect();
    assert_eq!(rows[..2], ["Total\tsamples\tFunction", "50.00 %\t500\tfib"]);
    assert_eq!(rows[2], "50.00 %\t500\t\u{a0}\u{a0}fib");
    let markdown: Vec<&str> = text(5).lines().collect();
    let expected = [
        "| Total | samples | Function |",
        "|---|---|---|",
        "| 50.00 % | 500 | fib |",
    ];
    assert_eq!(markdown[..3], expected);
    assert_eq!(shown[6], json!(["dark", "rgb(15, 19, 24)", false]));
    assert_eq!(shown[7], json!(["light", "rgb(255, 255, 255)", false]));
}

/// Turns the wheel over the flame graph: alone, which zooms nothing, and with Ctrl.
const ZOOM_BY_WHEEL: &str = "(() => {
    const canvas = document.querySelector('.flame canvas');
    const { left, width, top } = canvas.getBoundingClientRect();
    const turn = (ctrlKey) => canvas.dispatchEvent(new WheelEvent('wheel',
        { clientX: left + width / 4, clientY: top + 90, deltaY: -100, ctrlKey, bubbles: true, cancelable: true }));
    const scrolls = turn(false);
    const before = document.querySelector('.flame-view').dataset.part;
    turn(true);
    canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: left + width / 4, clientY: top + 30, pointerType: 'mouse', bubbles: true }));
    return [scrolls, before, document.querySelector('.flame-view').dataset.part, document.getElementById('tip').textContent];
})()";

/// The address follows a moment later, so each step waits for it.
#[test]
fn an_address_shows_the_same_after_a_reload_and_back_takes_back_a_step() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (split, profile) = record().profile(program("split").unwrap(), &["300"]);
    let busy = middle_of(times_in(&profile, "run_split"), &split.output);
    let page = url(&page(&split.output, &[]));
    let mut steps = Vec::new();
    for (what, argument, address) in [
        ("drag", json!(busy), "time="),
        ("click", json!(".row-thread"), "threads="),
        ("focus", json!(".list"), ""),
        ("key", json!("Home f"), "focus="),
        ("key", json!("3"), "sort=name"),
        ("click", json!("#tab-flame"), "tab=flame"),
        ("show", json!(""), ""),
        ("click", json!(".flame-view [aria-pressed]"), "whole="),
        ("focus", json!(".flame"), ""),
        ("key", json!("ArrowDown ArrowDown Enter"), "zoom="),
        ("eval", json!(ZOOM_BY_WHEEL), "part="),
        ("key", json!("/"), ""),
        ("type", json!("main"), "search=main"),
        ("show", json!(""), ""),
        ("reload", json!(""), ""),
        ("show", json!(""), ""),
    ] {
        steps.push(json!([what, argument]));
        steps.push(json!(["url", format!("**/*.html*{address}*")]));
    }
    for _ in 0..6 {
        steps.extend([json!(["back", ""]), json!(["show", ""])]);
    }
    let mut tasks = vec![json!({ "url": page, "steps": steps })];
    // Of another profile, and nonsense.
    for address in [
        "tab=tree&function=1&of=0",
        "tab=..&time=9-1&threads=x&focus=-1&zoom=1e9&count=99&sort=",
    ] {
        tasks.push(json!({ "url": format!("{page}#{address}"), "steps": [["show", ""]] }));
    }
    let Some(answers) = browse(&tasks) else { return };
    let facts = |shown: &Value| {
        let keys = [
            "tab", "sum", "weight", "matched", "crumbs", "lists", "zoomed", "part", "range", "labels", "hint",
        ];
        keys.map(|key| shown[key].clone())
    };
    let [callers_in_a_row, wheel, shown @ ..] = &answers[0]["shown"].as_array().unwrap()[..] else {
        panic!("{}", answers[0])
    };
    // A quarter from the left stays where it is.
    let length = (-0.25f64).exp();
    let from = 0.25 * (1.0 - length);
    let part = format!("{from:.4},{:.4}", from + length);
    assert_eq!(
        [&wheel[0], &wheel[1], &wheel[2]],
        [&json!(true), &json!("0.0000,1.0000"), &json!(part)]
    );
    assert!(wheel[3].as_str().unwrap().starts_with("total "), "{wheel}");
    assert_eq!(facts(&shown[0]), facts(&shown[1]));
    let samples = |options: &[&str]| report(&split.output, options)["selection"]["samples"].as_f64().unwrap();
    let (in_sixty, all) = (samples(&["--focus", "sixty"]), samples(&[]));
    let headline = shown[0]["headline"].as_str().unwrap();
    // By chance `sixty` may have less than half of few samples: then the headline is of its caller.
    if all >= HEADLINE_SAMPLES && in_sixty >= 0.5 * all {
        let share = whole_percent(in_sixty, all);
        assert!(headline.starts_with(&format!("{share} % of ")), "{share}: {headline}");
        assert!(
            headline.contains(" of CPU time is in sixty and what it calls, "),
            "{headline}"
        );
        assert!(headline.contains(" of that in xorshift."), "{headline}");
    }
    let figures = |shown: &Value| (shown["tab"].clone(), shown["crumbs"].as_array().unwrap().len());
    assert_eq!(figures(&shown[0]), (json!("flame"), 3), "{}", shown[0]);
    assert!(shown[0]["zoomed"] != "" && shown[2]["zoomed"] == "", "{}", shown[0]);
    // What is above `main` on all stacks is a row.
    let folded = [callers_in_a_row, &shown[0], &shown[2], &shown[3]].map(|shown| shown["folded"].as_u64().unwrap());
    assert_eq!(folded, [1, 0, 0, 1]);
    let back: Vec<_> = shown[2..].iter().map(figures).collect();
    let expected = [
        ("flame", 3),
        ("flame", 3),
        ("functions", 3),
        ("functions", 2),
        ("functions", 1),
        ("functions", 0),
    ];
    assert_eq!(back, expected.map(|(tab, crumbs)| (json!(tab), crumbs)));
    for other in &answers[1..] {
        let shown = &other["shown"][0];
        assert_eq!(figures(shown), (json!("functions"), 0), "{other}");
        assert!(shown["hint"].as_str().unwrap().contains("another profile"), "{other}");
    }
}

/// Two threads of a made file: `work` calls `first` and then `second` for half of the time each, `other` runs in
/// between.
#[test]
fn the_stack_chart_has_each_function_at_its_time_and_many_threads_are_few_rows() {
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let file = folder.path().join("phases.txt");
    let mut text = String::new();
    for ms in 1..=1000 {
        let (thread, function) = match ms {
            ..=400 => (10, "first"),
            401..=600 => (11, "other"),
            _ => (10, "second"),
        };
        for (call, at) in [(function, 0x30), ("work", 0x20), ("main", 0x10)] {
            if call == function {
                text += &format!(
                    "app 10/{thread} {:.6}: 1000000 cpu-clock:\n",
                    5.0 + f64::from(ms) / 1000.0
                );
            }
            text += &format!("\t{at:x} {call}+0x0 (/app)\n");
        }
        text += "\n";
    }
    std::fs::write(&file, text).unwrap();
    let boxes = "JSON.parse(document.querySelector('.flame').dataset.blocks)";
    // Of the first thread: a line of pixels near 100 %.
    let colors = "(() => {
        const canvas = document.getElementById('rows-canvas');
        const row = document.querySelector('.row-thread');
        const line = canvas.getContext('2d').getImageData(canvas.width * 0.4, row.offsetTop - canvas.parentNode.offsetTop + 6, canvas.width * 0.5, 1).data;
        return [...new Set(new Uint32Array(line.buffer))].length;
    })()";
    let steps = json!([
        ["click", "#tab-chart"],
        ["eval", boxes],
        ["click", ".flame-view [aria-pressed]"],
        ["eval", boxes],
        ["drag", [0.5, 0.9]],
        ["eval", boxes],
        ["show", ""],
        ["eval", "document.querySelector('.flame').clientWidth"],
        ["click", "#zoom-in"],
        ["eval", colors]
    ]);
    let many = super::rows::many_threads(folder.path());
    let tasks = [
        json!({ "url": url(&page(&file, &[])), "steps": steps }),
        super::rows::task(&page(&many, &[])),
    ];
    let Some(answers) = browse(&tasks) else { return };
    super::rows::assert_few_rows(&many, &answers[1]);
    let shown = answers[0]["shown"].as_array().unwrap();
    let width = shown[4].as_f64().unwrap();
    // Thread, function, row, from and to as parts of what is shown. The first sample is at 0 ms, the last one at 999.
    let parts = |shown: &Value| -> Vec<(usize, String, u64, f64, f64)> {
        let threads = shown.as_array().unwrap().iter().enumerate();
        let boxes = threads.flat_map(|(thread, block)| block[1].as_array().unwrap().iter().map(move |of| (thread, of)));
        let text = |of: &Value| of[0].as_str().unwrap().to_owned();
        boxes
            .map(|(thread, of)| {
                let [from, to] = [1, 2].map(|at| of[at].as_f64().unwrap() / width);
                (thread, text(of), of[3].as_u64().unwrap(), from, to)
            })
            .collect()
    };
    let assert_parts = |shown: &Value, expected: &[(usize, &str, u64, f64, f64)]| {
        let found = parts(shown);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (of, expected) in found.iter().zip(expected) {
            assert_eq!((of.0, &*of.1, of.2), (expected.0, expected.1, expected.2));
            // Two pixels.
            let is_there = [of.3 - expected.3, of.4 - expected.4]
                .into_iter()
                .all(|by| by.abs() <= 2.0 / width);
            assert!(is_there, "{of:?} {expected:?}");
        }
    };
    let phases = [
        (0, "first", 0, 0.0, 0.4),
        (0, "second", 0, 0.6, 1.0),
        (1, "other", 0, 0.4, 0.6),
    ];
    assert_parts(&shown[0], &phases);
    // `main` and `work` are above all of them.
    assert_eq!(shown[0][0][0], 2);
    let whole = phases.map(|(thread, name, _, from, to)| {
        let rows = ["main", "work", name].into_iter().zip(0..);
        rows.map(move |(name, row)| (thread, name, row, from, to))
            .collect::<Vec<_>>()
    });
    assert_parts(&shown[1], &whole.concat());
    let range = [0, 1].map(|at| shown[3]["range"][at].as_f64().unwrap() / 999e3);
    let at = |part: f64| ((part - range[0]) / (range[1] - range[0])).clamp(0.0, 1.0);
    let selected: Vec<_> = (phases[1..].iter())
        .flat_map(|(thread, name, _, from, to)| {
            ["main", "work", *name]
                .into_iter()
                .zip(0..)
                .map(|(name, row)| (*thread, name, row, at(*from), at(*to)))
        })
        .collect();
    assert_parts(&shown[2], &selected);
    let report = report(&file, &["--view", "functions", &time_range(&shown[3])]);
    assert_eq!(shown[3]["samples"], report["selection"]["samples"]);
    assert_eq!(shown[5], 1, "a thread at 100 % has no gaps, however short the time");
}

#[test]
fn the_times_of_what_is_selected_are_in_the_timeline_and_the_heat_map() {
    if !chromium() {
        return;
    }
    // 300 threads that wait for a CPU, and a program of one function at a time.
    let (waits, _) = record()
        .options(&["--off-cpu"])
        .profile(program("threads").unwrap(), &["300", "3"]);
    let (split, _) = record().profile(program("split").unwrap(), &["300"]);
    // Weights of the pixels of all threads, and of what is selected or found.
    let drawn = json!([
        "eval",
        "(({ weight, matched }) => [document.getElementById('rows-canvas').dataset.drawn, matched || weight])
            (document.querySelector('.sum').dataset)",
    ]);
    let heat = json!([
        "eval",
        "[document.querySelector('.heat-view [data-most]').dataset.most,
            Number(document.getElementById('recorded').textContent.match(/(\\d+) threads/)[1])]",
    ]);
    let foot = json!([
        "eval",
        "[document.getElementById('hint').textContent, document.querySelector('.chosen').textContent]"
    ]);
    let codes = json!([
        "eval",
        "JSON.parse(document.getElementById('rows-canvas').dataset.codes)"
    ]);
    let tasks = [
        json!({ "url": url(&page(&waits.output, &[])), "steps": [["kind", "Waits"], ["click", "#tab-heat"], heat] }),
        json!({ "url": url(&page(&split.output, &[])), "steps": [
            drawn, ["key", "/"], ["type", "/^thirty$/"], ["key", "Enter"], drawn,
            ["key", "Home f Escape"], drawn, ["key", "Escape"],
            ["key", "/"], ["type", "thirty"], ["key", "Enter"], ["click", "#tab-heat"], ["show", ""], ["key", "Escape"],
            // The foot has the figures of the view that is shown.
            ["click", "#tab-inverted"], ["focus", ".list"], ["key", "Home"], ["click", "#tab-callers"], foot,
            codes, ["click", ".code:has-text(\"program\")"], drawn, ["show", ""],
        ] }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let shown = |task: usize, at: usize| &answers[task]["shown"][at];
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap(),
    };
    let pair = |task: usize, at: usize| -> [f64; 2] { [0, 1].map(|side| number(&shown(task, at)[side])) };
    let [most, threads] = pair(0, 0);
    // Parts of waits that fill a cell add up to it. The page cuts their starts to whole microseconds: two pieces of one
    // wait, of 100 ms or more each, may overlap by almost one.
    assert!(
        most > 0.0 && most <= threads * (20e6 + 1e3),
        "{most} ns of waits of {threads} threads in 20 ms"
    );
    let [all, _] = pair(1, 0);
    // Of one sample a part may stand for time before the recording. There are few where the host had the CPU.
    let samples = report(&split.output, &[])["selection"]["samples"].as_f64().unwrap();
    let allowed = all * f64::max(0.02, 1.0 / samples);
    for (of, at) in [("all", 0), ("search", 1), ("focus", 2)] {
        let [drawn, selected] = pair(1, at);
        assert!((drawn - selected).abs() < allowed, "{of}: {drawn} of {selected}");
        assert!(at == 0 || selected < 0.7 * all, "{of}: {selected} of {all}");
    }
    let note = shown(1, 3)["note"].as_str().unwrap();
    assert!(note.contains("Only stacks with thirty."), "{note}");
    let [foot, head] = [0, 1].map(|side| shown(1, 4)[side].as_str().unwrap());
    let total = foot.strip_prefix("total ").unwrap().split(';').next().unwrap();
    assert!(head.contains(total), "{foot}: {head}");

    // The graphs have the colours of what ran.
    let sums = shown(1, 5).as_array().unwrap().iter().map(number);
    assert!((sums.sum::<f64>() - all).abs() < allowed, "{}: {all}", shown(1, 5));
    let [drawn, selected] = pair(1, 6);
    assert!((drawn - selected).abs() < allowed, "{drawn} of {selected}");
    let report = report(&split.output, &["--category", "Program"]);
    assert_eq!(shown(1, 7)["samples"], report["selection"]["samples"]);
    assert_eq!(shown(1, 7)["crumbs"], json!(["only program \u{d7}"]));
}

#[test]
fn markers_are_shown_with_their_fields_and_searched() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let path = folder.path().join("firefox.json.gz");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/golden/firefox-153.json.gz");
    std::fs::copy(&golden, &path).unwrap();
    // A field that would be a request and a dialog, if it were taken for more than text.
    const HOSTILE: &str = "</script><img src=https://example.com/libgkcodecs onerror=alert(1)>";
    let text = String::from_utf8(run(Command::new("gzip").arg("-dc").arg(&golden))).unwrap();
    let hostile = folder.path().join("hostile.json");
    std::fs::write(&hostile, text.replace("/usr/lib/firefox-esr/libgkcodecs.so", HOSTILE)).unwrap();
    let search = [
        json!(["key", "/"]),
        json!(["type", "LIBGKCODECS"]),
        json!(["key", "Enter"]),
    ];
    let steps = [
        at_tab("markers", &[]),
        at_tab("markers", &search),
        vec![json!([
            "eval",
            "[...document.querySelectorAll('.markers mark')].map((mark) => mark.textContent)"
        ])],
        // Enter selects the marker's time.
        vec![json!(["key", "Enter Escape"]), json!(["show", ""])],
    ];
    let recorded = folder.path().join("recorded.html");
    run(sprof()
        .args(["record", "-q", "-o"])
        .arg(&recorded)
        .arg("--")
        .arg(program("threads").unwrap())
        .args(["20", "2"]));
    let tasks = [
        json!({ "url": url(&page(&path, &[])), "steps": steps.concat() }),
        json!({ "url": url(&recorded), "steps": at_tab("markers", &[]) }),
        json!({ "url": url(&page(&hostile, &[])), "steps": at_tab("markers", &search) }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let rows = answers[1]["shown"][0]["lists"][0].as_array().unwrap();
    let mut renamed = 0;
    for row in rows {
        let [.., thread, name, fields] = &row["cells"].as_array().unwrap()[..] else {
            panic!("{row}")
        };
        // A busy machine has more: that samples were lost, or that the kernel took fewer.
        if name == "Renamed" {
            let new_name = format!("Old name: threads, New name: {}", thread.as_str().unwrap());
            assert_eq!(*fields, new_name, "{row}");
            renamed += 1;
        }
    }
    assert!(renamed > 5, "{rows:?}");
    let shown = &answers[2]["shown"][0];
    assert_eq!(
        shown["lists"][0][0]["cells"][4],
        format!("Details: {HOSTILE}"),
        "{shown}"
    );
    assert_eq!(
        answers[2]["requests"].as_array().unwrap().len(),
        1,
        "{}",
        answers[2]["requests"]
    );
    let shown = |at: usize| &answers[0]["shown"][at];
    assert_eq!(shown(0)["note"], "120 markers", "as many as the file has");
    assert_eq!(shown(1)["note"], "1 marker");
    // startTime 24.234042, endTime 24.920121, meta.profilingStartTime 17.319311.
    let expected = [
        "0.006914 s",
        "0.7 ms",
        "GeckoMain",
        "ReadAheadLib",
        "Details: /usr/lib/firefox-esr/libgkcodecs.so",
    ];
    assert_eq!(shown(1)["lists"][0][0]["cells"], json!(expected), "{}", shown(1));
    assert_eq!(*shown(2), json!(["libgkcodecs"]), "what is found is marked");
    assert_eq!(shown(3)["range"], json!([6914, 7600]), "{}", shown(3));
    assert_eq!(shown(3)["note"], "1 marker", "nothing else happened at that time");
}
