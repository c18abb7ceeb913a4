//! The rows of the timeline for many threads and processes.

use super::*;

/// A process with 30 alike threads and 8 idle ones, one whose 5 threads have its name, and 10 alike processes. Of the
/// threads a higher number starts earlier.
pub(super) fn many_threads(folder: &Path) -> PathBuf {
    let mut text = String::new();
    let mut add = |name: &str, pid: u32, tid: u32, start_ms: u32, samples: u32| {
        for ms in start_ms..start_ms + samples {
            let time = 5.0 + f64::from(ms) / 1000.0;
            text += &format!(
                "{name} {pid}/{tid} {time:.6}: 1000000 cpu-clock:\n\t30 work+0x0 (/app)\n\t10 main+0x0 (/app)\n\n"
            );
        }
    };
    add("app", 100, 100, 0, 20);
    for number in 1..=30 {
        add(&format!("worker-{number}"), 100, 100 + number, 100 - number, 20);
    }
    for (tid, name) in (200..).zip('a'..='h') {
        add(&format!("idle-{name}"), 100, tid, tid, 1);
    }
    for tid in 250..255 {
        add("same", 250, tid, tid, 20);
    }
    for pid in 300..310 {
        add("sh", pid, pid, pid, 30);
    }
    let file = folder.join("many.txt");
    std::fs::write(&file, text).unwrap();
    file
}

pub(super) fn task(page: &Path) -> Value {
    let by_start = "(() => {
        const order = document.getElementById('row-order');
        order.value = 'start';
        order.dispatchEvent(new Event('change'));
    })()";
    let open = [
        json!(["show", ""]),
        json!(["focus", ".row-process"]),
        json!(["key", "ArrowRight"]),
        json!(["click", ".row-group:has-text(\"worker\") .text"]),
    ];
    let chosen = [
        json!(["url", "**/*.html*threads=*"]),
        json!(["reload", ""]),
        json!(["show", ""]),
        json!(["focus", ".list"]),
        json!(["key", "Escape"]),
        json!(["click", "#row-filter"]),
        json!(["type", "worker-2"]),
        json!(["key", "Enter Enter"]),
        json!(["show", ""]),
        json!(["eval", by_start]),
        json!(["axe", ""]),
        json!(["url", "**/*.html*order=start*"]),
        json!(["reload", ""]),
        json!(["show", ""]),
    ];
    let steps = [&open[..], &both_orders(), &chosen].concat();
    json!({ "url": url(page), "width": 360, "height": 800, "dark": true, "steps": steps })
}

/// The figures of a group are those of a report with its threads.
pub(super) fn assert_few_rows(file: &Path, answer: &Value) {
    let shown = |at: usize| &answer["shown"][at];
    let labels = |at: usize| -> Vec<&str> {
        let labels = shown(at)["labels"].as_array().unwrap().iter();
        labels.map(|label| label[1].as_str().unwrap()).collect()
    };
    let with_threads = |numbers: &[u32]| {
        let names = numbers
            .iter()
            .flat_map(|number| ["--thread".to_owned(), format!("worker-{number}")]);
        let options: Vec<String> = ["--view".to_owned(), "functions".to_owned()]
            .into_iter()
            .chain(names)
            .collect();
        report(file, &options.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(labels(0), ["app", "sh \u{b7} 10 processes", "same \u{b7} 5 threads"]);
    let open = labels(1);
    let group = open
        .iter()
        .position(|label| *label == "worker-* \u{b7} 30 threads")
        .unwrap();
    assert_eq!(open.len(), group + 35, "{open:?}");
    assert_eq!(
        open[group + 31..],
        [
            "app",
            "8 idle threads",
            "sh \u{b7} 10 processes",
            "same \u{b7} 5 threads"
        ]
    );
    let all = with_threads(&(1..=30).collect::<Vec<_>>());
    assert_as_report("a group", [shown(1), shown(2)], &all);
    assert_eq!(shown(3)["weight"], shown(1)["weight"], "after a reload");
    assert_eq!(shown(3)["crumbs"], json!(["30 threads \u{d7}"]));
    let found: Vec<u32> = [2].into_iter().chain(20..30).collect();
    let name = |number: &u32| format!("worker-{number}");
    let mut expected: Vec<String> = found.iter().map(name).collect();
    expected.insert(0, "app, worker-* \u{b7} 11 threads".to_owned());
    assert_eq!(labels(4), expected);
    assert_eq!(shown(4)["samples"], with_threads(&found)["selection"]["samples"]);
    expected[1..].reverse();
    assert_eq!(shown(6)["worst"], json!([]));
    assert_eq!(labels(7), expected);
    assert_eq!(shown(7)["samples"], shown(4)["samples"]);
    assert_eq!((&shown(1)["overflow"], &shown(7)["overflow"]), (&json!(0), &json!(0)));
}
