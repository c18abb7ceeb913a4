//! The viewer as the local server has it.

use super::*;

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

#[test]
fn the_served_viewer_has_the_assembly_of_a_function_with_the_samples_of_annotate() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (recording, _) = record().profile(program("split").unwrap(), &["300"]);
    let served = Served::start(&std::fs::read(&recording.output).unwrap(), "profile.json.gz", &[]);
    let viewer = format!("http://{}/{}/view/", served.address, served.token);
    let steps = |hot: &str| {
        let find = json!(["type", "/^sixty$/"]);
        json!([
            ["key", "/"],
            find,
            ["key", "Enter"],
            ["key", "Home a"],
            ["until", hot],
            ["show", ""]
        ])
    };
    let saved = url(&page(&recording.output, &[]));
    let tasks = [
        json!({ "url": viewer, "height": 3000, "steps": steps(".asm .hot") }),
        json!({ "url": saved, "steps": steps("#asm[aria-pressed=true]") }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let shown = &answers[0]["shown"][0];
    let whole = shown["weight"].as_f64().unwrap();
    let rows = shown["lists"][0].as_array().unwrap().iter();
    let sampled: Vec<(String, String)> = rows
        .filter(|row| row["own"].as_f64() > Some(0.0))
        .map(|row| {
            let share = format!("{:.1}", 100.0 * row["own"].as_f64().unwrap() / whole);
            (row["cells"][1].as_str().unwrap().to_owned(), share)
        })
        .collect();
    let expected = sampled_instructions(&recording.output, "sixty");
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(sampled, expected);
    let note = answers[1]["shown"][0]["note"].as_str().unwrap();
    assert!(note.contains("holds no machine code"), "{note}");
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
    let start = Instant::now();
    while !said.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(20));
    }
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
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nUI",
            );
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
            json!({ "url": link, "raw": true, "steps": steps })
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
