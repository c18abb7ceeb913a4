//! Blocks of memory in the viewer: each measure has the bytes of a report, also of a time, of a thread and of a kind of
//! code.

use super::selection::time_range;
use super::*;

#[test]
fn measures_of_the_heap_have_the_bytes_and_the_errors_of_reports() {
    if !chromium() {
        return;
    }
    let (recording, profile) = record()
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
        (
            json!(["drag", first_part(&profile, file)]),
            &ALL[..],
            &["--time-range"][..],
        ),
        (thread, &["allocated", "peak", "blocks"][..], &["--thread", "frees"][..]),
    ];
    let mut tasks: Vec<Value> = (parts.iter())
        .map(|(select, measures, _)| {
            let measures = measures
                .iter()
                .flat_map(|name| [vec![kind(name)], both_orders(), vec![json!(["eval", CODES])]].concat());
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
        vec![
            json!(["eval", DRAWN_CODES]),
            kind("peak"),
            json!(["click", ".code:has-text(\"program\")"]),
        ],
        vec![json!(["click", "#tab-functions"])],
        both_orders(),
        // `temporary` keeps nothing.
        vec![
            kind("temporary"),
            json!(["key", "1 Home"]),
            json!(["show", ""]),
            kind("retained"),
            json!(["show", ""]),
        ],
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
        assert_eq!(shown.len(), 3 * measures.len());
        for (measure, pages) in measures.iter().zip(shown.chunks(3)) {
            let what = format!("{measure} {options:?}");
            let report = report(
                file,
                &[&FUNCTIONS_AND_CODES[..], &["--measure", measure], options].concat(),
            );
            assert!(report["selection"]["samples"].as_u64() > Some(20), "{what}: {report}");
            assert_as_report(&what, [pages[0], pages[1]], &report);
            let codes = assert_codes(pages[2], &report);
            // A block of the whole time is taken by the C library.
            assert!(
                !options.is_empty() || *measure != "allocated" || codes.len() == 2,
                "{codes:?}"
            );
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
    let retained = report(file, &["--view", "categories", "--measure", "retained"]);
    let expected: Vec<Value> = { codes_of_report(&retained).into_iter() }
        .map(|(name, _, weight)| json!([name, weight]))
        .collect();
    assert_eq!(shown[8], json!(expected), "drawn in the timeline");
    let of_program = ["--view", "functions", "--measure", "peak", "--category", "Program"];
    assert_as_report(
        "own code at the peak",
        [&shown[9], &shown[10]],
        &report(file, &of_program),
    );
    let [chosen, without] = [&shown[11], &shown[12]].map(|shown| shown["hint"].as_str().unwrap());
    assert!(chosen.contains(": temporary"), "{chosen}");
    assert!(without.starts_with("Click a function"), "{without}");
    for tree in [tree, inverted, callers] {
        let rows = rows_of_page(&tree["lists"][0]);
        let cell = tree["lists"][0][0]["cells"][1].as_str().unwrap();
        assert!(!rows.is_empty() && cell.contains(" ±"), "{tree}");
    }
}

/// Where to drag in the timeline, as parts of its width: over four tenths of all that happened to blocks. The last of
/// them is before 0.45 s of the program's second, however long the host stops the machine.
fn first_part(profile: &Profile, file: &Path) -> [f64; 2] {
    let length_ms = report(file, &[])["profile"]["duration_ms"].as_f64().unwrap();
    let threads = profile.json["threads"].as_array().unwrap().iter();
    let times = threads.filter_map(|thread| thread["nativeAllocations"]["time"].as_array());
    let mut times: Vec<f64> = times.flatten().map(|time| time.as_f64().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    [5, 45].map(|percent| times[percent * times.len() / 100] / length_ms)
}

/// The kinds of code in the timeline, and how much of each is drawn.
const DRAWN_CODES: &str = "[...document.querySelectorAll('.code')]
    .map((button) => [button.textContent, JSON.parse(document.getElementById('rows-canvas').dataset.codes)[button.dataset.code]])
    .filter(([, weight]) => weight > 0)";
