//! The page as a file: its texts, its scripts, and how anyone can use it.

use super::*;
use crate::serve_dir;

#[test]
fn names_from_a_profile_are_text_and_nothing_else() {
    let folder = temp_dir();
    let path = folder.path().join("hostile.folded");
    const NAMES: [&str; 4] = [
        "</script><script>alert(1)</script>",
        "<img src=https://example.com/x onerror=alert(2)>",
        "\u{1b}[31m\u{202e}red",
        "__proto__",
    ];
    let lines = NAMES
        .iter()
        .zip(1..)
        .map(|(name, weight)| format!("main;{} {weight}\n", name.replace(';', ":")));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let html = page(&path, &[]);
    let text = std::fs::read_to_string(&html).unwrap();
    assert!(
        text.contains("default-src 'none'") && !text.contains("alert") && !text.contains("example.com"),
        "{text}"
    );
    if !chromium() {
        return;
    }
    let every = [
        "functions",
        "flame",
        "tree",
        "inverted",
        "callers",
        "source",
        "heat",
        "markers",
    ];
    let steps: Vec<Value> = every.iter().flat_map(|tab| at_tab(tab, &[])).collect();
    let Some(answers) = browse(&[json!({ "url": url(&html), "steps": steps })]) else {
        return;
    };
    let rows = answers[0]["shown"][0]["lists"][0].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["__proto__", "\\u001b[31m\\u202ered", NAMES[1], NAMES[0]]);
    assert_eq!(
        answers[0]["requests"].as_array().unwrap().len(),
        1,
        "{:?}",
        answers[0]["requests"]
    );
}

#[test]
fn names_of_generic_functions_are_short_and_whole_where_they_are_chosen() {
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let file = folder.path().join("sort.folded");
    let name = "void std::a_long_name_of_a_namespace_that_fills_a_line::sort<int*, std::less<int> >(int*, int*, std::less<int>)";
    std::fs::write(&file, format!("main;{name} 5\n")).unwrap();
    let cross = "(({ right }, edge) => right <= edge)(document.querySelector('.cross').getBoundingClientRect(),
        Math.min(innerWidth, document.querySelector('.crumb').getBoundingClientRect().right))";
    let steps = json!([
        ["focus", ".list"],
        ["key", "Home"],
        ["show", ""],
        ["key", "f"],
        ["eval", cross]
    ]);
    let script = folder.path().join("script.callgrind");
    let alike = ["void f<int>(int)", "void f<long>(long)"];
    let [one, other] = alike;
    let text = format!(
        "events: Ir\nfl=/folder/app.js\nfn=fib app.js:1:19\n3 10\nfl=a.cc\nfn={one}\n4 9\nfn={other}\n5 8\nfn=g<int>(int)\n6 7\n"
    );
    std::fs::write(&script, text).unwrap();
    let place = json!(["eval", "document.querySelector('.list-row .place').textContent"]);
    let whole = json!([
        "eval",
        "[...document.querySelectorAll('.name .after')].map(({ textContent }) => textContent)"
    ]);
    let tasks = [
        json!({ "url": url(&page(&file, &[])), "width": 320, "steps": steps }),
        json!({ "url": url(&page(&script, &[])), "steps": [place, whole] }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    assert_eq!(answers[1]["shown"][0], "/folder", "the name says the file");
    assert_eq!(
        answers[1]["shown"][1],
        json!(alike),
        "two functions are `f<_>`, one is `g<_>`"
    );
    let shown = &answers[0]["shown"][0];
    let row = &shown["lists"][0][0];
    assert_eq!(
        (row["name"].as_str(), row["short"].as_str()),
        (
            Some(name),
            Some("std::a_long_name_of_a_namespace_that_fills_a_line::sort<_>")
        )
    );
    let hint = shown["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("total 5 samples, 100.00 %") && hint.contains(name),
        "{shown}"
    );
    assert_eq!(answers[0]["shown"][1], true, "a long name leaves room for the cross");
}

#[test]
fn the_page_has_no_serious_problem_of_accessibility_and_fits_a_screen_at_400_percent() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() || installed("node_modules/axe-core/axe.min.js").is_none() {
        return;
    }
    // Beside others, a thread of 2 ms may get no sample, and has no row then.
    alone();
    let options = ["--off-cpu", "-e", "page-faults"];
    let (recording, _) = record()
        .options(&options)
        .profile(program("threads").unwrap(), &["100", "2"]);
    share_again();
    let page = page(&recording.output, &["--embed-sources"]);
    let compared = comparison([&recording.output, &recording.output]);
    // Names and paths without a place to break a line: a checkout in `/check/work/main` was wider than the screen.
    let folder = temp_dir();
    let long = folder.path().join("long.callgrind");
    let (path, name) = ("/folder".repeat(20), "a_long_name".repeat(20));
    let text = format!("cmd: {name}\nevents: Ir\nfl={path}/a.c\nfn={name}\n3 10\nfn=work\n9 70\n");
    std::fs::write(&long, text).unwrap();
    let long = self::page(&long, &[]);
    let every = [
        "functions",
        "flame",
        "tree",
        "inverted",
        "callers",
        "source",
        "heat",
        "markers",
        "chart",
    ];
    let tested = |tabs: &[&str]| {
        let mut steps = vec![json!(["focus", ".list"]), json!(["key", "Home"])];
        if tabs == every {
            let click = |id: &str| json!(["click", format!("#{id} summary")]);
            steps.extend([click("quality"), click("menu"), json!(["axe", ""])]);
            steps.extend([click("menu"), click("quality")]);
        }
        for tab in tabs {
            steps.extend([
                json!(["click", format!("#tab-{tab}")]),
                json!(["axe", ""]),
                json!(["show", ""]),
            ]);
        }
        steps.extend([json!(["click", "#help-open"]), json!(["axe", ""])]);
        steps
    };
    let mut tasks = Vec::new();
    // Colours do not depend on the size, nor the layout on the colours.
    for (width, height, dark) in [(1024, 768, false), (320, 256, true)] {
        for (page, tabs) in [(&page, &every[..]), (&compared, &every[..5]), (&long, &every[..6])] {
            tasks.push(
                json!({ "url": url(page), "width": width, "height": height, "dark": dark, "steps": tested(tabs) }),
            );
        }
    }
    // The team's page, which has no script.
    let served = Served::of_folder(serve_dir::shop(), &[]);
    let list = serve_dir::list(&served);
    let [before, after] = ["ci/1.json", "ci/3.json"].map(|file| serve_dir::id(&list, file));
    let width = json!([
        "eval",
        "({ overflow: document.documentElement.scrollWidth - innerWidth })"
    ]);
    for (place, width_px, dark) in [
        (String::new(), 1300, false),
        (String::new(), 320, true),
        ("trend?program=shop&function=hash".to_owned(), 320, true),
        (format!("diff?before={before}&after={after}"), 1300, false),
        (format!("p/{after}/"), 320, false),
    ] {
        let address = format!("{}{place}", served.link);
        tasks.push(
            json!({ "url": address, "raw": true, "width": width_px, "dark": dark, "steps": [["axe", ""], width] }),
        );
    }
    let Some(answers) = browse(&tasks) else { return };
    // After the axe of the open menu, and that of the first view.
    let shown = &answers[0]["shown"][2];
    assert_events_stand_below_their_threads(shown["labels"].as_array().unwrap());
    assert_headline_is_of_cpu_time(shown, &recording.output);
    for (task, answer) in tasks.iter().zip(&answers) {
        for shown in answer["shown"].as_array().unwrap() {
            let what = format!("{} {} {}: {shown}", task["url"], task["width"], task["dark"]);
            match shown.get("worst") {
                Some(worst) => {
                    assert_eq!(*worst, json!([]), "{what}");
                    assert!(shown["passed"].as_u64() > Some(10), "{what}");
                }
                // 1280 pixels at 400 % are 320: WCAG 2.2, 1.4.10.
                None => {
                    assert_eq!(shown["overflow"], 0, "{what}");
                    assert!(task["width"] != 1024 || shown["below"] == 0, "{what}");
                }
            }
        }
    }
}

/// Samples of further events have no part in it.
fn assert_headline_is_of_cpu_time(shown: &Value, profile: &Path) {
    let report = report(profile, &["--view", "functions"]);
    let headline = shown["headline"].as_str().unwrap();
    // The host may have had the CPU.
    if report["selection"]["samples"].as_f64().unwrap() < HEADLINE_SAMPLES {
        return;
    }
    let (share, rest) = headline.split_once(" % of ").unwrap();
    let (weight, function) = rest.split_once(" of CPU time is in ").unwrap();
    let function = function.split([',', ' ']).next().unwrap();
    assert!(shown["sum"].as_str().unwrap().starts_with(weight), "{shown}");
    let row = rows_of_report(&report)
        .into_iter()
        .find(|row| row.0 == function)
        .unwrap();
    let of = whole(&report, &report["selection"]["weight"]);
    assert_eq!(share, whole_percent(row.2 as f64, of as f64).to_string(), "{headline}");
}

#[test]
fn a_recording_is_written_as_a_page_in_one_go() {
    let Some(()) = kernel_samples() else { return };
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name);
    let records = |options: &[&str], names: [&str; 2]| {
        let mut command = sprof();
        command.arg("record").args(options).args([names[0]]).arg(path(names[1]));
        run(command.arg("--").arg(program("split").unwrap()).arg("50"));
    };
    let start = |name: &str| std::fs::read_to_string(path(name)).unwrap()[..15].to_owned();
    records(
        &["-q", "-s", "-o", path("app.json.gz").to_str().unwrap()],
        ["--html", "beside.html"],
    );
    assert!(path("app.json.gz").exists());
    assert_eq!(start("beside.html"), "<!DOCTYPE html>");
    records(&["-q", "--embed-sources"], ["-o", "alone.html"]);
    assert_eq!(start("alone.html"), "<!DOCTYPE html>");
    let exported = page(&path("app.json.gz"), &["--embed-sources"]);
    if !chromium() {
        return;
    }
    let steps: Vec<Value> = at_tab("source", &[]);
    let pages = ["beside.html", "alone.html"].map(&path);
    let tasks: Vec<Value> = (pages.iter().chain([&exported]))
        .map(|page| json!({ "url": url(page), "steps": steps }))
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    let has_text = |answer: &Value| {
        let rows = answer["shown"][0]["lists"][0].as_array();
        rows.into_iter().flatten().any(|row| {
            row["text"].as_str().unwrap().contains("xorshift") || row["text"].as_str().unwrap().contains("for (")
        })
    };
    assert_eq!(answers.iter().map(has_text).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn the_page_s_scripts_pass_the_type_checker() {
    let Some(tsc) = installed("node_modules/typescript/bin/tsc") else {
        return;
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/src/export/html/js");
    let output = Command::new("node").arg(tsc).arg("-p").arg(scripts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn source_text_has_the_colours_of_its_language_and_jumps_have_lines_that_do_not_cross() {
    if installed("node_modules/typescript/bin/tsc").is_none() {
        return;
    }
    let script = concat!(
        include_str!("../../../../profile/src/export/html/js/highlight.js"),
        include_str!("../../../../profile/src/export/html/js/jumps.js"),
        r##"
        // Of each line, the tokens with colours.
        const kinds = (path, text) =>
          tokensOf(text, path).map((line) => line.filter(([kind]) => kind).map(([kind, part]) => kind[0] + ":" + part).join(" "));
        console.log(JSON.stringify([
          kinds("a.rs", "/* one\r\ntwo */ fn f<'a>(c: 'a') {\nlet s = r#\"a \"b\"\nc\"#; 0x1f_u8 + 1.5; Vec"),
          kinds("b.hpp", "#include <a>\nchar c = '\\''; // 'x\nauto s = R\"x(a)\"\n)x\"; size_t n = 1'000;"),
          kinds("c.go", "func f() { return `a\n\"` } // b"),
          kinds("d.mjs", "const s = `a\\`\n`; let n = 'it'"),
          kinds("e.py", "def f(): # it's\n  '''a\nb''' if \"c\" else 1"),
          kinds("f.txt", "for if 1"),
          tokensOfInstruction("L2: jne 0x1140 -> L1").map(([kind, part]) => kind + ":" + part.trim()),
          jumpsOf(["a", "L1: b", "je 0x4 -> L2", "c", "L2: d", "jne 0x1 -> L1"], [0, 0, 0, 5, 1, 0]),
        ]));"##
    );
    let output = Command::new("node").args(["-e", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!([
        ["c:/* one", "c:two */ k:fn s:'a'", r##"k:let s:r#"a "b""##, r##"s:c"# n:0x1f_u8 n:1.5 t:Vec"##],
        ["k:#include", r"k:char s:'\'' c:// 'x", r#"k:auto s:R"x(a)""#, r#"s:)x" t:size_t n:1'000"#],
        ["k:func k:return s:`a", "s:\"` c:// b"],
        [r"k:const s:`a\`", "s:` k:let s:'it'"],
        ["k:def c:# it's", "s:'''a", "s:b''' k:if s:\"c\" k:else n:1"],
        [""],
        ["type:L2:", "keyword:jne", ":", "number:0x1140", ":", "type:-> L1"],
        [
            { "from": 2, "to": 4, "lane": 0, "isHot": false },
            { "from": 5, "to": 1, "lane": 1, "isHot": true },
        ],
    ]);
    assert_eq!(found, expected);
}
