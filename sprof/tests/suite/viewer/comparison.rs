//! The comparison of two profiles.

use super::*;

/// Of the window, px. All functions are rows on the screen: how many of the kernel there are depends on chance.
const HEIGHT: u32 = 8000;

/// What `sprof diff` says of two files.
fn difference(files: [&Path; 2], options: &[&str]) -> Value {
    let mut command = sprof();
    command
        .arg("diff")
        .args(files)
        .args(["--format", "json", "--limit", "10000"]);
    parsed(&run(command.args(options)))
}

#[test]
fn two_profiles_are_compared_with_the_figures_of_diff() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let folded = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let hostile = "</script><img src=x onerror=alert(1)>";
    let before = "main;parse;token 2000\nmain;parse 1000\nmain;old 1000\nmain;rest 6000\nmain;fib;fib 30\n";
    let after = "main;parse;token 4000\nmain;parse 1000\nmain;new 1000\nmain;rest 6000\nmain;fib;fib 30\n";
    let (before, after) = (
        folded("before.folded", before),
        folded("after.folded", &format!("{after}main;{hostile} 500\n")),
    );
    // Two programs: most of each is new or gone.
    let recorded = [("split", &["300"][..]), ("threads", &["100", "2"])]
        .map(|(name, arguments)| record().profile(program(name).unwrap(), arguments).0);
    let pairs = [
        [before.as_path(), after.as_path()],
        [recorded[0].output.as_path(), recorded[1].output.as_path()],
    ];
    // Red and blue pixels.
    let colors = "(() => { const canvas = document.querySelector('.flame canvas'); \
         const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); const found = [0, 0]; \
         for (let at = 0; at < data.length; at += 4) { \
         if (data[at] - data[at + 2] > 30) found[0]++; else if (data[at + 2] - data[at] > 30) found[1]++; } return found; })()";
    let steps: Vec<Value> = [
        vec![json!(["show", ""])],
        at_tab(
            "tree",
            &[json!(["key", "/"]), json!(["type", "token"]), json!(["key", "Enter"])],
        ),
        vec![json!(["key", "Escape"])],
        at_tab("flame", &[json!(["focus", ".flame"]), json!(["key", "ArrowDown"])]),
        vec![json!(["eval", colors])],
        at_tab("callers", &[]),
    ]
    .concat();
    let mut tasks: Vec<Value> = (pairs.iter())
        .map(|files| json!({ "url": url(&comparison(*files)), "height": HEIGHT, "steps": steps }))
        .collect();
    // Served: the viewer of a comparison shows the same.
    let mut command = sprof();
    command.env_remove("SSH_CONNECTION").arg("diff").args(pairs[0]);
    command.args(["--viewer", "--no-open", "--port", "0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let link = lines
        .find_map(|line| Some(line.split_once("open http://")?.1.to_owned()))
        .unwrap();
    tasks.push(json!({ "url": format!("http://{link}"), "height": HEIGHT, "steps": [["show", ""]] }));
    let answers = browse(&tasks);
    child.kill().unwrap();
    child.wait().unwrap();
    let Some(answers) = answers else { return };
    for (files, answer) in pairs.iter().zip(&answers) {
        let shown = &answer["shown"];
        let rows = shown[0]["lists"][0].as_array().unwrap();
        let mut compared = 0;
        for (by, at) in [("inlined", 0), ("total", 1)] {
            let all = difference(
                *files,
                &["--by", by, "--false-discoveries", "99.9", "--min-change", "0.0001"],
            );
            let changes = all["changes"].as_array().unwrap();
            compared += changes.len();
            for change in changes {
                let library = change["library"].as_str().unwrap_or_default();
                let row = (rows.iter()).find(|row| row["name"] == change["function"] && row["cells"][7] == library);
                let row = row.unwrap_or_else(|| panic!("{change} is not shown"));
                for (side, place) in [("new", at), ("base", 2 + at)] {
                    let (expected, found) = (&change[side]["share"], &row["sides"][place]);
                    assert!(
                        (expected.as_f64().unwrap() - found.as_f64().unwrap()).abs() < 1e-9,
                        "{by} {side} {row}: {change}"
                    );
                }
            }
            let listed = difference(*files, &["--by", by]);
            let mut listed: Vec<&Value> = (listed["changes"].as_array().unwrap().iter())
                .map(|change| &change["function"])
                .collect();
            let mut sure: Vec<&Value> = rows
                .iter()
                .filter(|row| row["sure"][at] == true)
                .map(|row| &row["name"])
                .collect();
            listed.sort_by_key(|name| name.to_string());
            sure.sort_by_key(|name| name.to_string());
            assert_eq!(sure, listed, "{by}");
        }
        assert!(compared > 3, "{compared}");
        assert_eq!(answer["requests"].as_array().unwrap().len(), 1, "{answer}");
    }
    let shown = &answers[0]["shown"];
    assert_eq!(shown[0]["title"], "after.folded against before.folded - sprof");
    let token = |at: usize| {
        let rows = shown[at]["lists"][0].as_array().unwrap();
        rows.iter().find(|row| row["name"] == "token").unwrap()["cells"].clone()
    };
    // 4,000 of 12,530 samples, and 2,000 of 10,030.
    assert_eq!(token(0)[2], "+11.98", "{}", token(0));
    assert_eq!(
        [&token(1)[0], &token(1)[1], &token(1)[2]],
        ["31.92 %", "19.94 %", "+11.98"],
        "{}",
        token(1)
    );
    assert!(
        shown[2]["hint"].as_str().unwrap().starts_with("100.00 %, was 100.00 %"),
        "{}",
        shown[2]
    );
    for pixels in shown[3].as_array().unwrap() {
        assert!(pixels.as_u64() > Some(1000), "red and blue: {shown}");
    }
    assert_eq!(
        answers[pairs.len()]["shown"][0]["lists"],
        shown[0]["lists"],
        "served: {answers:?}"
    );
}
