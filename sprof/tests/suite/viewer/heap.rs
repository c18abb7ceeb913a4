//! Blocks of memory in the viewer: each measure has the bytes of a report, also of a time and of a thread.

use super::selection::time_range;
use super::*;

#[test]
fn measures_of_the_heap_have_the_bytes_and_the_errors_of_reports() {
    if !chromium() {
        return;
    }
    let (recording, _) = record()
        .options(&["--heap", "--heap-interval", "64K"])
        .profile(program("grows").unwrap(), &[] as &[&str]);
    let file = &recording.output;
    let url = url(&page(file, &[]));
    let kind = |measure: &str| json!(["kind", format!("Heap: {measure}")]);
    const ALL: [&str; 5] = ["allocated", "retained", "peak", "temporary", "blocks"];
    // The thread frees all that it takes, after the time that is selected.
    let thread = json!([
        "eval",
        "[...document.querySelectorAll('.row-thread')].find((row) => row.querySelector('.text').textContent === 'frees').click()"
    ]);
    let parts = [
        (json!(["key", "Escape"]), &ALL[..], &[][..]),
        (json!(["drag", [0.05, 0.45]]), &ALL[..], &["--time-range"][..]),
        (thread, &["allocated", "peak", "blocks"][..], &["--thread", "frees"][..]),
    ];
    let mut tasks: Vec<Value> = (parts.iter())
        .map(|(select, measures, _)| {
            let measures = measures
                .iter()
                .flat_map(|name| [vec![kind(name)], both_orders()].concat());
            let steps: Vec<Value> = [kind("allocated"), select.clone()]
                .into_iter()
                .chain(measures)
                .collect();
            json!({ "url": url, "steps": steps })
        })
        .collect();
    let heads = json!([
        "eval",
        "[...document.querySelectorAll('.list-head .cell')].map((cell) => cell.textContent)"
    ]);
    let steps = [
        vec![kind("retained"), heads, json!(["show", ""])],
        ["tree", "inverted", "flame"]
            .iter()
            .flat_map(|tab| at_tab(tab, &[]))
            .collect(),
        at_tab("functions", &[json!(["focus", ".list"]), json!(["key", "2 Home"])]),
        at_tab("callers", &[json!(["eval", DRAWN])]),
    ];
    tasks.push(json!({ "url": url, "height": 3000, "steps": steps.concat() }));
    let Some(answers) = browse(&tasks) else { return };
    for ((_, measures, options), answer) in parts.iter().zip(&answers) {
        // A click on a thread shows nothing.
        let shown: Vec<&Value> = answer["shown"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|shown| !shown.is_null())
            .collect();
        let range = time_range(shown[0]);
        let options = if *options == ["--time-range"] {
            &[&*range][..]
        } else {
            options
        };
        assert_eq!(shown.len(), 2 * measures.len());
        for (measure, pages) in measures.iter().zip(shown.chunks(2)) {
            let what = format!("{measure} {options:?}");
            let report = report(
                file,
                &[&["--view", "functions", "--measure", measure], options].concat(),
            );
            assert!(report["selection"]["samples"].as_u64() > Some(20), "{what}: {report}");
            assert_as_report(&what, [pages[0], pages[1]], &report);
        }
    }

    let shown = &answers[3]["shown"];
    assert_eq!(
        shown[0],
        json!([
            "Self ▼",
            "Bytes ± error",
            "Total",
            "Bytes ± error",
            "Function",
            "File or library"
        ])
    );
    // The sum and its error, as the first row of the table has it.
    let table = run(sprof().arg("report").arg(file).args(["--view", "heap"]));
    let table = String::from_utf8(table).unwrap();
    let sum = shown[1]["sum"].as_str().unwrap().split_once(" in ").unwrap().0;
    assert!(
        sum.contains(" ±") && table.contains(&format!("  {sum}  ")),
        "{sum}: {table}"
    );
    let labels = shown[1]["labels"].to_string();
    assert!(labels.contains("Memory") && labels.contains("Heap"), "{labels}");
    let (tree, inverted, callers) = (&shown[2], &shown[3], &shown[7]);
    assert_drawn("retained", &shown[1], &shown[6]);
    for tree in [tree, inverted, callers] {
        let rows = rows_of_page(&tree["lists"][0]);
        let cell = tree["lists"][0][0]["cells"][1].as_str().unwrap();
        assert!(!rows.is_empty() && cell.contains(" ±"), "{tree}");
    }
}
