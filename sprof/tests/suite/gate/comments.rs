//! A stand-in of GitHub's API for the comments of a pull request, and what `gate/comment` writes there.

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};

use super::{Runner, TOKEN, repository_root, text, tools};
use crate::support::store::{Answer, Behaviour, StandIn, State};

/// GitHub's contract for the comments of pull request 7. Everyone but `Bot` may write the words that mark ours.
fn comments(call: &str, headers: &HashMap<String, &str>, body: &[u8], state: &mut State) -> Answer {
    if headers.get("authorization") != Some(&format!("Bearer {TOKEN}").as_str()) {
        return Answer::text(401, "{}");
    }
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    for line in command_lines {
        assert!(!String::from_utf8_lossy(&line).contains(TOKEN));
    }
    if let Some(page) = call.strip_prefix("GET /repos/you/app/issues/7/comments?per_page=100&page=") {
        let first = (page.parse::<usize>().unwrap() - 1) * 100;
        let all = state.objects.values().skip(first).take(100);
        let all: Vec<Value> = all
            .map(|(comment, _)| serde_json::from_slice(comment).unwrap())
            .collect();
        return Answer::text(200, json!(all).to_string());
    }
    let text = serde_json::from_slice::<Value>(body).unwrap()["body"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.chars().count() <= 65536);
    let (status, id) = match call.strip_prefix("PATCH /repos/you/app/issues/comments/") {
        Some(id) => (200, id.parse().unwrap()),
        None if call == "POST /repos/you/app/issues/7/comments" => (201, state.objects.len()),
        None => return Answer::text(404, "{}"),
    };
    keep_comment(state, id, "Bot", &text);
    Answer::text(status, json!({"id": id}).to_string())
}

fn keep_comment(state: &mut State, id: usize, user: &str, text: &str) {
    let comment = json!({"id": id, "user": {"type": user}, "body": text});
    let kept = state.objects.entry(format!("{id:06}")).or_default();
    *kept = (comment.to_string().into_bytes(), kept.1 + 1);
}

pub(super) fn api() -> StandIn {
    StandIn::start_as(Behaviour::Honest, comments)
}

pub(super) fn last_comment(api: &StandIn) -> String {
    let comment = api.with(|state| state.objects.values().last().unwrap().0.clone());
    serde_json::from_slice::<Value>(&comment).unwrap()["body"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Runs `gate/comment` with this status, and returns what it printed.
fn comment(runner: &Runner, api: &StandIn, status: &str, summary: &str, variables: &[(&str, &str)]) -> String {
    fs::write(runner.path("summary.md"), summary).unwrap();
    let output = runner
        .command(repository_root().join("gate/comment"))
        .args([status, "summary.md", "parser"])
        .env("GITHUB_API_URL", format!("http://127.0.0.1:{}", api.port))
        .env("GITHUB_TOKEN", TOKEN)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let log = text(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
    assert_eq!(fs::read_dir(runner.path("tmp")).unwrap().count(), 0);
    log
}

#[test]
fn one_comment_is_kept_up_to_date() {
    let Some(()) = tools() else { return };
    let runner = Runner::new("", "");
    let api = api();
    let marker = "<!-- sprof parser -->\n";
    api.with(|state| {
        for id in 0..150 {
            keep_comment(state, id, "User", &format!("{marker}All is well."));
        }
        keep_comment(
            state,
            150,
            "Bot",
            "<!-- sprof encoder -->\nThe comment of another comparison.",
        );
    });
    let writes = |api: &StandIn| -> Vec<String> {
        let calls = api.calls();
        calls.into_iter().filter(|call| !call.starts_with("GET ")).collect()
    };
    // Nothing to say.
    for status in ["0", "3", "125"] {
        comment(&runner, &api, status, "## sprof: nothing\n", &[]);
    }
    assert_eq!(writes(&api), [""; 0]);
    let posted = "POST /repos/you/app/issues/7/comments";
    comment(
        &runner,
        &api,
        "1",
        "## sprof: a rule is broken\n\n| `a` | \"b\" \\ $x |\n",
        &[],
    );
    assert_eq!(writes(&api), [posted]);
    assert!(last_comment(&api).starts_with(&format!(
        "{marker}## sprof: a rule is broken\n\n| `a` | \"b\" \\ $x |\n"
    )));
    // The next runs replace it, also by what is well again.
    let replaced = "PATCH /repos/you/app/issues/comments/151";
    comment(&runner, &api, "1", &"still ".repeat(20_000), &[]);
    assert!(last_comment(&api).contains("still still"));
    comment(&runner, &api, "0", "## sprof: all rules are kept\n", &[]);
    assert_eq!(writes(&api), [posted, replaced, replaced]);
    assert!(last_comment(&api).starts_with(&format!("{marker}## sprof: all rules are kept\n")));
    assert_eq!(api.with(|state| state.objects.len()), 152);
}

#[test]
fn without_a_right_to_comment_there_is_none() {
    let Some(()) = tools() else { return };
    let runner = Runner::new("", "");
    let none = api();
    for (variables, said) in [
        (&[("GITHUB_TOKEN", "")][..], "there is no token"),
        (&[("GITHUB_EVENT_NAME", "push")], "this is not a pull request"),
        (
            &[("GITHUB_REPOSITORY", "they/app")],
            "a fork's pull request cannot get one",
        ),
    ] {
        let log = comment(&runner, &none, "1", "## sprof: a rule is broken\n", variables);
        assert!(log.contains(said), "{said}: {log}");
    }
    assert_eq!(none.calls(), [""; 0]);
    // The replies have the token in them.
    for (behaviour, calls) in [
        (Behaviour::Status(403), 1),
        (Behaviour::Says("not JSON"), 1),
        (Behaviour::Redirects, 1),
        (Behaviour::NoReply, 1),
        (Behaviour::Says("[]"), 2),
    ] {
        let api = StandIn::start(behaviour);
        comment(&runner, &api, "1", "## sprof: a rule is broken\n", &[]);
        assert_eq!(api.calls().len(), calls, "{behaviour:?}");
    }
}
