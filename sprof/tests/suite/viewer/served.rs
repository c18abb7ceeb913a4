//! The viewer as the local server has it.

use super::*;
use crate::support::wait_until;

#[test]
fn the_server_has_the_viewer_with_sources_and_other_pages_read_nothing() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (recording, _) = record().profile(program("inline_dwarf5").unwrap(), &["200"]);
    let served = Served::start(&std::fs::read(&recording.output).unwrap(), "profile.json.gz", &[]);
    let origin = format!("http://{}", served.address);
    let viewer = format!("{origin}/{}/view/", served.token);
    let fetch = |path: &str| {
        let script = format!("fetch('{origin}{path}').then((answer) => answer.status, (error) => error.name)");
        json!(["eval", script])
    };
    let mut steps = both_orders();
    steps.extend([
        json!(["key", "1 Home s"]),
        json!(["until", ".source .hot code:not(:empty)"]),
        json!(["show", ""]),
        fetch(&format!("/{}/view/data", served.token)),
        fetch("/wrong/view/data"),
        fetch(&format!("/{}/view/../../etc/passwd", served.token)),
        json!(["eval", "fetch(document.getElementById('save-svg').href).then((answer) => answer.text())"]),
        json!(["eval", "fetch(document.getElementById('save-pprof').href).then((answer) => answer.arrayBuffer()).then((bytes) => [...new Uint8Array(bytes)])"]),
    ]);
    let data = format!("/{}/view/data", served.token);
    let folder = temp_dir();
    let other = folder.path().join("other.html");
    std::fs::write(&other, "<p>Another origin").unwrap();
    let framed = format!(
        "new Promise((done) => {{ const frame = document.createElement('iframe'); frame.onload = () => done(frame.contentDocument === null); \
         frame.src = '{viewer}'; document.body.append(frame); }})"
    );
    let tasks = [
        json!({ "url": viewer, "steps": steps }),
        json!({ "url": url(&other), "raw": true, "steps": [fetch(&data), ["eval", framed]] }),
    ];
    let Some(answers) = browse_all(&tasks) else { return };
    let shown = |at: usize| &answers[0]["shown"][at];
    assert_as_report(
        "served",
        [shown(0), shown(1)],
        &report(&recording.output, &["--view", "functions"]),
    );
    let hot = shown(2)["lists"][0].as_array().unwrap();
    let line = line_of("inline.c", "INNERMOST_LINE").to_string();
    assert!(
        hot.iter()
            .any(|row| row["line"] == line.as_str() && row["own"].as_f64() > Some(0.0)),
        "{hot:?}"
    );
    assert_eq!((shown(3), shown(4), shown(5)), (&200.into(), &404.into(), &404.into()));
    let svg = run(sprof()
        .arg("export")
        .arg(&recording.output)
        .args(["-q", "-f", "svg", "-o", "-"]));
    assert_eq!(shown(6).as_str().unwrap().as_bytes(), svg);
    let pprof = folder.path().join("profile.pb.gz");
    let bytes = shown(7).as_array().unwrap().iter();
    std::fs::write(
        &pprof,
        bytes.map(|byte| byte.as_u64().unwrap() as u8).collect::<Vec<_>>(),
    )
    .unwrap();
    let [theirs, ours] = [&pprof, &recording.output].map(|file| report(file, &["--view", "functions"]));
    assert_eq!(theirs["selection"]["samples"], ours["selection"]["samples"]);
    for request in answers[0]["requests"].as_array().unwrap() {
        assert!(request.as_str().unwrap().contains(&origin), "{request}");
    }
    assert_eq!(answers[1]["shown"], json!(["TypeError", true]), "{}", answers[1]);
}

/// Address and share, in percent with a decimal, of each instruction with samples.
fn sampled_instructions(profile: &Path, function: &str) -> Vec<(String, String)> {
    let mut command = sprof();
    command.arg("annotate").arg(profile).arg(function);
    let text = String::from_utf8(run(command.args(["--asm", "--no-lines", "--context", "0"]))).unwrap();
    let lines = text.lines().skip_while(|line| !line.contains("self  address")).skip(1);
    lines
        .filter_map(|line| {
            let (share, rest) = line.split_once(" %  ")?;
            Some((rest.split_whitespace().next()?.to_owned(), share.trim().to_owned()))
        })
        .collect()
}

/// Line, self and total of each line of a file with samples.
fn sampled_lines(profile: &Path, file: &str, options: &[&str]) -> Vec<(u64, u64, u64)> {
    let report = report(profile, &[&["--view", "lines", "--limit", "0"], options].concat());
    let rows = report["views"][0]["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["line"].is_u64() && row["file"].as_str().unwrap().ends_with(file));
    let weight = |row: &Value, key: &str| whole(&report, &row[key]["weight"]);
    let mut rows: Vec<_> = rows
        .map(|row| (row["line"].as_u64().unwrap(), weight(row, "self"), weight(row, "total")))
        .collect();
    rows.sort_unstable();
    rows
}

/// The same of the page.
fn lines_of_page(list: &Value) -> Vec<(u64, u64, u64)> {
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    let rows = list.as_array().unwrap().iter();
    let rows = rows.filter(|row| number(row, "total") > 0);
    rows.map(|row| (number(row, "row") + 1, number(row, "own"), number(row, "total")))
        .collect()
}

#[test]
fn the_served_viewer_has_source_and_assembly_side_by_side_with_the_figures_of_report_and_annotate() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (recording, _) = record().profile(program("split").unwrap(), &["300"]);
    let served = Served::start(&std::fs::read(&recording.output).unwrap(), "profile.json.gz", &[]);
    let viewer = format!("http://{}/{}/view/", served.address, served.token);
    let to_source = |until: &str| {
        [
            json!(["key", "/"]),
            json!(["type", "/^sixty$/"]),
            json!(["key", "Enter"]),
            json!(["key", "Home s"]),
            json!(["until", until]),
        ]
    };
    // What is marked on both sides, and whether the current rows are in view.
    let marked = json!([
        "eval",
        "[...document.querySelectorAll('.list.source')].map((list) => [
            [...list.querySelectorAll('.linked')].map((row) => Number(row.dataset.row)),
            Number(list.querySelector('[aria-selected]').dataset.row)])"
    ]);
    let mut steps = to_source(".asm .hot").to_vec();
    steps.extend([
        json!(["show", ""]),
        marked.clone(),
        json!(["focus", ".asm"]),
        json!(["key", "ArrowDown ArrowUp"]),
        marked.clone(),
        json!(["show", ""]),
        json!(["focus", ".source"]),
        json!(["key", "ArrowDown ArrowUp"]),
        marked,
        json!(["eval", "[...document.querySelectorAll('.asm .jump-hot')].length"]),
        json!([
            "eval",
            "[...document.querySelectorAll('.source:not(.asm) [aria-selected] .token-type')].map((of) => of.textContent)"
        ]),
        json!(["axe", ""]),
        json!(["key", "h"]),
        json!(["until", ".source .hot"]),
        json!(["show", ""]),
        json!(["key", "Escape Escape"]),
        json!(["until", ".asm .hot"]),
        json!(["focus", ".asm"]),
        json!(["key", "Enter"]),
        json!(["until", ".source:not(.asm) .hot"]),
        json!(["show", ""]),
    ]);
    let saved = url(&page(&recording.output, &[]));
    let mut on_a_phone = to_source(".source-view").to_vec();
    on_a_phone.push(json!(["eval", "document.querySelector('#panel').textContent"]));
    let tasks = [
        json!({ "url": viewer, "height": 3000, "steps": steps }),
        json!({ "url": saved, "width": 360, "steps": on_a_phone }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let shown = &answers[0]["shown"];
    let whole = shown[0]["weight"].as_f64().unwrap();
    let [lines, instructions] = [0, 1].map(|side| &shown[0]["lists"][side]);
    assert_eq!(lines_of_page(lines), sampled_lines(&recording.output, "/split.c", &[]));
    let instructions = instructions.as_array().unwrap();
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    let sampled: Vec<(String, String)> = (instructions.iter())
        .filter(|row| number(row, "own") > 0)
        .map(|row| {
            let share = format!("{:.1}", 100.0 * (number(row, "own") as f64 / whole));
            (row["cells"][2].as_str().unwrap().to_owned(), share)
        })
        .collect();
    let expected = sampled_instructions(&recording.output, "sixty");
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(sampled, expected);
    // Each sample of the function is at one of its instructions, or below one.
    let total: u64 = instructions.iter().map(|row| number(row, "total")).sum();
    let functions = rows_of_report(&report(&recording.output, &["--view", "functions"]));
    assert_eq!(
        Some(total),
        functions.iter().find(|row| row.0 == "sixty").map(|row| row.2)
    );

    // A line and its instructions are marked together, whichever side has the keys.
    let rows = lines.as_array().unwrap();
    let line = &rows
        .iter()
        .find(|row| row["text"].as_str().unwrap().contains("void sixty"))
        .unwrap()["row"];
    // The first of those with most: of its own, else with what it calls.
    let most = |rows: &[Value]| {
        let by_cost = |row: &&Value| (number(row, "own"), number(row, "total"));
        rows.iter().rev().max_by_key(by_cost).unwrap()["row"].clone()
    };
    assert_eq!(shown[1], json!([[[], line], [[], most(instructions)]]));
    assert_eq!(
        (&shown[2][0], &shown[2][1][1]),
        (&json!([[line], line]), &most(instructions))
    );
    let hint = shown[3]["hint"].as_str().unwrap();
    assert!(
        hint.contains("xorshift (common.h:") && hint.contains("inlined into sixty (split.c:"),
        "{hint}"
    );
    assert_eq!(shown[4], shown[2]);
    assert!(shown[4][1][0].as_array().unwrap().len() > 2, "{}", shown[4]);
    assert!(
        shown[5].as_u64() > Some(1),
        "the hottest loop has no line: {}",
        shown[5]
    );
    assert_eq!(shown[6], json!(["uint64_t"]));
    assert_eq!(shown[7]["worst"], json!([]));

    // Without the function, its callers have its time.
    let hidden = sampled_lines(&recording.output, "/split.c", &["--hide", "sixty"]);
    assert_eq!(lines_of_page(&shown[8]["lists"][0]), hidden);

    // Enter opens the source of an instruction, also of an inlined function.
    let inlined = lines_of_page(&shown[9]["lists"][0]);
    assert!(inlined.iter().any(|line| line.1 > 0), "{inlined:?}");
    assert_eq!(inlined, sampled_lines(&recording.output, "/common.h", &[]));

    let said = answers[1]["shown"][0].as_str().unwrap();
    assert!(
        said.contains("A page in a file has no machine code: `sprof load --viewer` serves it"),
        "{said}"
    );
    assert!(
        said.contains("split.c: the page holds no text of it. Export or record with --embed-sources"),
        "{said}"
    );
}

/// `sprof record` in a terminal that opens a browser, and the link that the browser gets.
fn opened(ui: &str) -> Option<(Terminal, String)> {
    let folder = temp_dir();
    let path = browser_stand_in(folder.path());
    let program = format!("{} 50", program("split").unwrap().display());
    let environment = [("DISPLAY", ":0"), ("PATH", path.as_str())];
    let terminal = Terminal::start(&environment, &["--port", "0", "--ui-url", ui], &program)?;
    terminal.wait_for("until Ctrl-C");
    let said = folder.path().join("arguments");
    wait_until(|| said.exists(), || terminal.text());
    let arguments = std::fs::read_to_string(said).unwrap();
    let link = arguments.lines().find(|line| line.starts_with("http://")).unwrap();
    Some((terminal, link.to_owned()))
}

/// Answers each request with a page.
fn ui_that_answers() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A browser may open a connection beforehand, and ask by another one.
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nUI",
                );
            });
        }
    });
    format!("http://{address}")
}

#[test]
fn the_viewer_opens_by_itself_where_the_browser_does_not_reach_the_ui() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    // Connections are accepted by the kernel, and nobody answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let answering = ui_that_answers();
    let uis = [
        // Never resolved: RFC 6761, section 6.4.
        "https://profiler.invalid".to_owned(),
        format!("http://{}", silent.local_addr().unwrap()),
        answering.clone(),
    ];
    let mut started = Vec::new();
    for ui in &uis {
        let Some(one) = opened(ui) else { return };
        started.push(one);
    }
    let tasks: Vec<Value> = (started.iter().zip(&uis))
        .map(|((_, link), ui)| {
            let steps = match *ui == answering {
                true => json!([["url", "**/from-url/**"], ["eval", "location.href"]]),
                false => json!([
                    ["until", "body[data-ready]"],
                    ["eval", "location.pathname.slice(33) + location.search"],
                    ["show", ""]
                ]),
            };
            // The page gives an answer 4 s.
            json!({ "url": link, "raw": true, "patient": *ui == answering, "steps": steps })
        })
        .collect();
    let Some(answers) = browse_all(&tasks) else { return };
    for (at, ui) in uis[..2].iter().enumerate() {
        let shown = &answers[at]["shown"];
        assert_eq!(shown[0], "/view/?instead", "{ui}");
        assert!(shown[1]["weight"].as_f64() > Some(0.0), "{shown}");
        assert!(shown[1]["hint"].as_str().unwrap().contains("does not reach"), "{shown}");
        let terminal = &started[at].0;
        terminal.wait_for(&format!(
            "the browser does not reach {ui}, so it shows the built-in viewer"
        ));
    }
    let there = answers[2]["shown"][0].as_str().unwrap();
    assert!(there.starts_with(&format!("{answering}/from-url/http%3A")), "{there}");
    let text = started[2].0.text();
    assert!(
        text.contains(there) && !text.contains("does not reach"),
        "{there}: {text}"
    );
    for (terminal, _) in started {
        assert_eq!(terminal.interrupt().0, Some(0));
    }
}

#[test]
fn the_link_to_the_viewer_is_printed_and_opens_with_an_option() {
    let folder = temp_dir();
    let path = folder.path().join("example.json.gz");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/golden/firefox-153.json.gz");
    std::fs::copy(golden, &path).unwrap();
    let said = |options: &[&str]| {
        let mut command = sprof();
        command
            .env_remove("SSH_CONNECTION")
            .args(["load", "--no-open", "--port", "0"])
            .args(options)
            .arg(&path);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<String> = lines
            .by_ref()
            .take_while(|line| !line.contains("until Ctrl-C"))
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        said
    };
    let both = said(&[]);
    let [.., ui, viewer] = &both[..] else {
        panic!("{both:?}")
    };
    assert!(
        ui.contains("/from-url/") && viewer.contains("or the built-in viewer: http://127.0.0.1:"),
        "{both:?}"
    );
    assert!(viewer.ends_with("/view/"), "{both:?}");
    let one = said(&["--viewer"]);
    assert!(
        one.last().unwrap().contains("open http://127.0.0.1:") && one.last().unwrap().ends_with("/view/"),
        "{one:?}"
    );
}
