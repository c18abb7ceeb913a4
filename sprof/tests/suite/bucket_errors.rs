//! Uploads into buckets that fail: what is sent again, what is kept, and what is said.
#![cfg(target_os = "linux")]

use std::collections::HashMap;

use crate::bucket::{endpoint, methods, only_object, refused, share, shared, sprof};
use crate::share::{IMPATIENT, User, fails, text};
use crate::support::bucket::{get, s3, signed_address};
use crate::support::store::{Answer, Behaviour, NOBODY_LISTENS, StandIn, State};

#[test]
fn what_may_go_well_the_second_time_is_sent_again_and_stored_once() {
    for (behaviour, busy, times) in [(Behaviour::LosesFirstReply, 0, 2), (Behaviour::Honest, 1, 1)] {
        let (user, server) = (User::new(), StandIn::start_as(behaviour, s3));
        server.with(|state| state.busy = busy);
        let link = shared(
            &user,
            &mut share(&user, &endpoint(&server), &["--to", "s3://open"], &user.file()),
        );
        let (_, bytes, stored) = only_object(&server);
        assert_eq!(
            (methods(&server).join(" ").as_str(), stored),
            ("PUT PUT GET", times),
            "{behaviour:?}"
        );
        assert_eq!(get(&signed_address(&link)).2, bytes);
    }
}

/// Takes an object once.
fn once(call: &str, headers: &HashMap<String, &str>, body: &[u8], state: &mut State) -> Answer {
    match state.objects.is_empty() {
        true => s3(call, headers, body, state),
        false => Answer::text(403, "no more"),
    }
}

#[test]
fn what_may_have_arrived_is_listed_whatever_later_attempts_say() {
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::LosesFirstReply, once));
    let mut command = share(&user, &endpoint(&server), &["--to", "s3://open"], &user.file());
    refused(&user, &mut command, &["403", "unknown whether the profile arrived"]);
    assert_eq!((methods(&server).join(" ").as_str(), user.keys().len()), ("PUT PUT", 1));
    let listed = sprof(&user, "").args(["share", "--list"]).output().unwrap();
    assert!(
        text(&listed.stdout).contains(&format!("s3:/{}", only_object(&server).0)),
        "{listed:?}"
    );
}

#[test]
fn a_server_that_fails_or_lies_is_named_with_the_next_step() {
    const NOTHING: &str = "Nothing was shared";
    const UNKNOWN: &str = "unknown whether the profile arrived";
    // At once: each waits between its attempts.
    let cases: [(Behaviour, &[&str], usize, usize); 10] = [
        (Behaviour::Status(413), &["413", NOTHING], 1, 0),
        (Behaviour::Redirects, &["another address", NOTHING], 1, 0),
        (
            Behaviour::Status(500),
            &["status 500", UNKNOWN, "share --delete s3://open/"],
            3,
            1,
        ),
        (Behaviour::NoReply, &["closed without a reply", UNKNOWN], 3, 1),
        (
            Behaviour::Silent,
            &["within 2 s", UNKNOWN, "--timeout allows more"],
            3,
            1,
        ),
        (Behaviour::Endless, &["larger than", UNKNOWN], 1, 1),
        (
            Behaviour::Replies(
                403,
                "",
                "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
            ),
            &[
                "AccessDenied: Access Denied",
                "AWS_ACCESS_KEY_ID",
                "s3:PutObject",
                NOTHING,
            ],
            1,
            0,
        ),
        (
            Behaviour::Replies(
                403,
                "",
                "<Error><Code>AccessDenied</Code><Message>not {call} plantedsessiontoken/plantedsessiontoken==</Message></Error>",
            ),
            &["AccessDenied: not PUT", "[...]"],
            1,
            0,
        ),
        (
            Behaviour::Replies(
                403,
                "Date: Tue, 24 Nov 2015 11:13:23 GMT\r\n",
                "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
            ),
            &["Request has expired", "clock is", "ahead of the server's"],
            1,
            0,
        ),
        (
            Behaviour::Replies(
                301,
                "x-amz-bucket-region: us-west-2\r\n",
                "<Error><Code>PermanentRedirect</Code><Message>x</Message></Error>",
            ),
            &["--s3-region us-west-2", NOTHING],
            1,
            0,
        ),
    ];
    std::thread::scope(|scope| {
        for (behaviour, words, calls, kept) in cases {
            scope.spawn(move || {
                let (user, server) = (User::new(), StandIn::start_as(behaviour, s3));
                let mut command = share(&user, &endpoint(&server), &["-v", "--to", "s3://open"], &user.file());
                if behaviour == Behaviour::Silent {
                    command.args(IMPATIENT);
                }
                refused(&user, &mut command, words);
                server.wait_for_calls(calls);
                assert_eq!(
                    (server.calls().len(), user.keys().len()),
                    (calls, kept),
                    "{behaviour:?}"
                );
            });
        }
    });
}

#[test]
fn what_is_wrong_with_bucket_region_and_credentials_is_said() {
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
    let (endpoint, file) = (endpoint(&server), user.file());
    for (variables, to, words) in [
        (
            &[][..],
            "s3://none/x",
            &["NoSuchBucket", "There is no bucket none", "--s3-endpoint"][..],
        ),
        (
            &[("AWS_REGION", "us-east-1")],
            "s3://open",
            &["--s3-region eu-central-1"],
        ),
        (
            &[("AWS_ACCESS_KEY_ID", "AKIAOTHER")],
            "s3://open",
            &["InvalidAccessKeyId", "It is from AWS_ACCESS_KEY_ID"],
        ),
        (
            &[("AWS_SECRET_ACCESS_KEY", "plantedsecret2")],
            "s3://open",
            &["SignatureDoesNotMatch", "secret key is wrong"],
        ),
        (
            &[("AWS_SESSION_TOKEN", "plantedsession2")],
            "s3://open",
            &["ExpiredToken", "get new credentials"],
        ),
    ] {
        let mut command = share(&user, &endpoint, &["--to", to], &file);
        refused(&user, command.envs(variables.iter().copied()), words);
    }
    assert!(user.keys().is_empty() && server.with(|state| state.objects.is_empty()));
    refused(
        &user,
        &mut share(&user, NOBODY_LISTENS, &["--to", "s3://open"], &file),
        &[NOBODY_LISTENS, "refused", "Nothing was shared"],
    );
    let asked = server.calls().len();
    for (options, words) in [
        (&["--to", "s3://"][..], &["name of a bucket"][..]),
        (
            &["--to", "parca=http://localhost"],
            &["s3://BUCKET/FOLDER", "sprof push"],
        ),
        (
            &["--to", "s3://open", "--server", "https://example.org"],
            &["one of them"],
        ),
        (&["--to", "s3://open", "--expires", "8d"], &["7 days"]),
        (
            &["--to", "s3://open", "--s3-endpoint", "http://example.org"],
            &["https://"],
        ),
        (&["--parquet"], &["--to s3://BUCKET/FOLDER"]),
        (&["--to", "s3://open", "--service", "shop"], &["--parquet"]),
    ] {
        fails(&mut share(&user, &endpoint, options, &file), 2, words);
    }
    let mut none = share(&user, &endpoint, &["--to", "s3://open"], &file);
    none.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    fails(&mut none, 2, &["AWS_PROFILE", "export-credentials"]);
    assert_eq!(server.calls().len(), asked);
}
