//! `sprof share --to s3://...` against a stand-in that checks signatures, and against `s3rver`: what is uploaded
//! arrives whole and once, links work until they end, and no secret is shown or kept.
#![cfg(target_os = "linux")]

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::parquet::DUCKDB;
use crate::serve_dir;
use crate::server::Served;
use crate::share::{IMPATIENT, SECRETS, User, text};
use crate::support::bucket::{KEY_ID, S3rver, SECRET_KEY, TOKEN, decoded, get, s3, signed_address};
use crate::support::client::Client;
use crate::support::schema::parsed;
use crate::support::skip::perf_events;
use crate::support::store::{Behaviour, NOBODY_LISTENS, StandIn, UI};
use crate::support::{copy_program, program, temp_dir, tls_dir};

const VARIABLES: [&str; 12] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
];

/// The credentials of the stand-in.
pub(crate) fn credentials(endpoint: &str) -> [(&str, &str); 5] {
    [
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("AWS_SESSION_TOKEN", TOKEN),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ENDPOINT_URL_S3", endpoint),
    ]
}

pub(crate) fn endpoint(server: &StandIn) -> String {
    format!("http://127.0.0.1:{}", server.port)
}

/// `sprof` of a user with these credentials.
pub(crate) fn sprof(user: &User, endpoint: &str) -> Command {
    let mut command = user.sprof();
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.envs(credentials(endpoint));
    command
}

pub(crate) fn share(user: &User, endpoint: &str, options: &[&str], file: &Path) -> Command {
    let mut command = sprof(user, endpoint);
    command.args(["share", "--yes", "--ui-url", UI]).args(options).arg(file);
    command
}

/// Neither the output nor what is kept has a secret. The link, which is on stdout, has a signature.
fn shows_no_secret(user: &User, output: &Output) {
    let kept: Vec<String> = user
        .keys()
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for shown in kept.iter().map(String::as_str).chain([text(&output.stderr)]) {
        for secret in [SECRET_KEY, TOKEN, "plantedsession", "plantedsecret", KEY_ID] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        let mut signatures = shown.split("X-Amz-Signature=").skip(1);
        assert!(
            !signatures.any(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit())),
            "{shown}"
        );
    }
    assert!(!text(&output.stdout).contains("plantedsecret"), "{output:?}");
}

/// A file is shared; the link.
pub(crate) fn shared(user: &User, command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    shows_no_secret(user, &output);
    text(&output.stdout).trim_end().to_owned()
}

/// Fails with status 125 and these words, and keeps no more than it had.
pub(crate) fn refused(user: &User, command: &mut Command, words: &[&str]) {
    let output = command.output().unwrap();
    shows_no_secret(user, &output);
    assert!(output.stdout.is_empty(), "{output:?}");
    for word in words {
        assert!(
            text(&output.stderr).contains(word),
            "{word} in {}",
            text(&output.stderr)
        );
    }
    assert_eq!(output.status.code(), Some(125));
}

fn json(bytes: &[u8]) -> String {
    let mut json = String::new();
    GzDecoder::new(bytes).read_to_string(&mut json).unwrap();
    json
}

/// Path and content of the only object.
pub(crate) fn only_object(server: &StandIn) -> (String, Vec<u8>, usize) {
    server.with(|state| {
        assert_eq!(state.objects.len(), 1, "{:?}", state.objects.keys());
        let (path, (bytes, times)) = state.objects.first_key_value().unwrap();
        (path.clone(), bytes.clone(), *times)
    })
}

pub(crate) fn methods(server: &StandIn) -> Vec<String> {
    let calls = server.calls();
    calls
        .iter()
        .map(|call| call.split(' ').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_profile_in_a_bucket_has_a_link_that_works_until_it_is_deleted() {
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
    let endpoint = endpoint(&server);
    let file = user.file();
    let output = share(&user, &endpoint, &["-v", "--to", "s3://open/team/ci"], &file)
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    shows_no_secret(&user, &output);
    let (path, bytes, _) = only_object(&server);
    assert!(
        path.starts_with("/open/team/ci/") && path.ends_with(".json.gz"),
        "{path}"
    );
    let object = format!("s3:/{path}");
    for words in [
        &format!("to be uploaded to s3://open/team/ci at {endpoint}: "),
        "everybody with the link can read it for 7 days",
        "taken out: ",
        "the link works until ",
        "session token",
        &format!("share --delete {object}"),
    ] {
        assert!(stderr.contains(words), "{words} in {stderr}");
    }
    assert_eq!(methods(&server), ["PUT", "GET"]);
    let link = text(&output.stdout).trim_end();
    let (status, head, read) = get(&signed_address(link));
    assert_eq!((status, &read), (200, &bytes), "{head}");
    assert!(json(&read).contains("leaf"));

    let listed = sprof(&user, &endpoint).args(["share", "--list"]).output().unwrap();
    let line = text(&listed.stdout);
    assert!(
        line.contains(&object) && line.contains(&endpoint) && line.contains("works until"),
        "{line}"
    );
    shows_no_secret(&user, &listed);

    // The same again is the same object.
    let again = shared(
        &user,
        &mut share(&user, &endpoint, &["--to", "s3://open/team/ci", "--json"], &file),
    );
    let again: Value = parsed(&again);
    assert_eq!(again["object"], object.as_str());
    assert!(again["expires_ms"].as_u64().is_some() && again["link"].as_str().unwrap().starts_with(UI));
    assert_eq!(only_object(&server), (path, bytes, 2));
    assert_eq!(user.keys().len(), 2);
    // As the browser's address bar has it.
    let from_browser = format!("{link}calltree/?v=11");
    let deleted = sprof(&user, &endpoint)
        .args(["share", "--delete", &from_browser])
        .output()
        .unwrap();
    assert!(deleted.status.success(), "{}", text(&deleted.stderr));
    assert!(server.with(|state| state.objects.is_empty()) && user.keys().is_empty());
    assert_eq!(get(&signed_address(link)).0, 404);
    for gone in [&object, &from_browser, &signed_address(link)] {
        refused(
            &user,
            sprof(&user, &endpoint).args(["share", "--delete", gone]),
            &["there is no key for"],
        );
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[test]
fn a_link_ends() {
    const HOUR_S: u64 = 3600;
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
    let options = ["--to", "s3://open", "--expires", "12h"];
    let before_ms = now_ms();
    let link = shared(&user, &mut share(&user, &endpoint(&server), &options, &user.file()));
    let after_ms = now_ms();
    let listed = || {
        let output = sprof(&user, NOBODY_LISTENS).args(["share", "--list"]).output();
        text(&output.unwrap().stdout).to_owned()
    };
    assert!(listed().contains("its link works until"), "{}", listed());
    // The server's clock is moved: a link that works for a second may have ended before a slow machine follows it.
    server.with(|state| state.clock_ahead_s = 11 * HOUR_S);
    assert_eq!(get(&signed_address(&link)).0, 200);
    server.with(|state| state.clock_ahead_s = 12 * HOUR_S + 1);
    let (status, _, body) = get(&signed_address(&link));
    assert!(
        status == 403 && text(&body).contains("Request has expired"),
        "{}",
        text(&body)
    );
    // The noted end is moved: otherwise the test would wait for sprof's clock.
    let kept = user.keys().remove(0);
    let mut json: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    let expires_ms = json["object"]["expires_ms"].as_u64().unwrap();
    let length_ms = 12 * HOUR_S * 1000;
    assert!(
        (before_ms + length_ms..=after_ms + length_ms).contains(&expires_ms),
        "{json}"
    );
    json["object"]["expires_ms"] = before_ms.into();
    std::fs::write(&kept, json.to_string()).unwrap();
    assert!(listed().contains("its link has ended"), "{}", listed());
}

#[test]
fn a_bucket_that_lets_no_page_read_gets_the_rule_to_set() {
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
    let mut command = share(&user, &endpoint(&server), &["--to", "s3://closed"], &user.file());
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    shows_no_secret(&user, &output);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    for words in ["CORS", "put-bucket-cors", "--bucket closed", "AllowedOrigins", UI] {
        assert!(stderr.contains(words), "{words} in {stderr}");
    }
    // The link is there, and works where the rule is set.
    assert_eq!(get(&signed_address(text(&output.stdout).trim_end())).0, 200);
}

#[test]
fn a_bucket_that_keeps_versions_is_no_deletion_without_a_word() {
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
    let endpoint = endpoint(&server);
    share(&user, &endpoint, &["--to", "s3://versioned"], &user.file())
        .output()
        .unwrap();
    let object = format!("s3:/{}", only_object(&server).0);
    let output = sprof(&user, &endpoint)
        .args(["share", "--delete", &object])
        .output()
        .unwrap();
    assert!(
        output.status.success() && text(&output.stderr).contains("keeps versions"),
        "{output:?}"
    );
}

#[test]
fn credentials_of_a_profile_serve_too_and_a_certificate_is_checked() {
    let (user, server) = (User::new(), StandIn::start_tls_as(s3));
    let path = user.folder.path().join("credentials");
    let text_of_file = format!("[team]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET_KEY}\n");
    std::fs::write(&path, text_of_file).unwrap();
    let share = || {
        let mut command = share(&user, "", &["--to", "s3://open"], &user.file());
        for variable in [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_ENDPOINT_URL_S3",
        ] {
            command.env_remove(variable);
        }
        command
            .envs([
                ("AWS_PROFILE", "team"),
                ("AWS_ENDPOINT_URL", &format!("https://localhost:{}", server.port)),
            ])
            .env("AWS_SHARED_CREDENTIALS_FILE", &path);
        command
    };
    refused(
        &user,
        &mut share(),
        &["certificate is not valid", "SSL_CERT_FILE", "Nothing was shared"],
    );
    assert!(server.calls().is_empty());
    let link = shared(&user, share().env("SSL_CERT_FILE", tls_dir().join("ca.pem")));
    assert!(!signed_address(&link).contains("X-Amz-Security-Token"));
    assert_eq!(methods(&server), ["PUT", "GET"]);
}

#[test]
#[ignore = "long: what is shared goes the same way, and has a test of it"]
fn a_large_profile_arrives_whole_or_not_at_all() {
    let user = User::new();
    let file = user.large_file();
    let cases = [
        (Behaviour::HalfClosed, &[][..], "closed without a reply"),
        (Behaviour::Stuck, &IMPATIENT, "took nothing"),
    ];
    for (behaviour, options, words) in cases {
        let server = StandIn::start_as(behaviour, s3);
        let mut command = share(&user, &endpoint(&server), &["--to", "s3://open"], &file);
        refused(&user, command.args(options), &[words, "Nothing was shared"]);
        assert!(user.keys().is_empty());
    }
    let server = StandIn::start_as(Behaviour::Honest, s3);
    let link = shared(
        &user,
        &mut share(&user, &endpoint(&server), &["--to", "s3://open"], &file),
    );
    let (_, bytes, _) = only_object(&server);
    assert!(bytes.len() > 9_000_000);
    assert_eq!(get(&signed_address(&link)).2, bytes);
}

#[test]
fn rows_in_a_bucket_are_those_of_the_profile() {
    let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
    let options = [
        "--to",
        "s3://closed/rows",
        "--parquet",
        "--service",
        "shop",
        "--service-version",
        "1.5.0",
    ];
    let mut command = share(&user, &endpoint(&server), &options, &user.file());
    let output = command
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=payments")
        .output()
        .unwrap();
    shows_no_secret(&user, &output);
    let (stderr, address) = (text(&output.stderr), text(&output.stdout).trim_end());
    assert!(output.status.success(), "{stderr}");
    // Whatever is added is shown before.
    let added = stderr.lines().find(|line| line.contains("added to it: ")).unwrap();
    for label in ["service.name=shop", "service.version=1.5.0", "team=payments"] {
        assert!(added.contains(label), "{label} in {added}");
    }
    let (path, bytes, _) = only_object(&server);
    assert_eq!(address, format!("s3:/{path}"));
    assert!(
        path.starts_with("/closed/rows/") && path.ends_with(".parquet"),
        "{path}"
    );
    // The bucket is read by databases, and by no page.
    assert_eq!(methods(&server), ["PUT"]);
    let Some(database) = DUCKDB.installed() else { return };
    // As `'s3://closed/rows/*.parquet'` finds it.
    let rows = user.folder.path().join("rows");
    std::fs::create_dir(&rows).unwrap();
    std::fs::write(rows.join(path.rsplit('/').next().unwrap()), bytes).unwrap();
    let query = "SELECT function, service, version, value, samples FROM own ORDER BY function";
    let found = database.rows(user.folder.path(), query);
    let [leaf, rest] = &found[..] else { panic!("{found:?}") };
    assert_eq!(leaf[..3], ["leaf", "shop", "1.5.0"]);
    assert_eq!(
        (rest[0].as_str(), leaf[4].as_str(), rest[4].as_str()),
        ("rest", "12", "4")
    );
    let deleted = sprof(&user, &endpoint(&server))
        .args(["share", "--delete", address])
        .output()
        .unwrap();
    assert!(deleted.status.success() && server.with(|state| state.objects.is_empty()));
}

#[test]
fn a_recording_goes_to_a_bucket_without_what_is_private() {
    let Some(()) = perf_events() else { return };
    for (form, ending) in [(&[][..], ".json.gz"), (&["--parquet"], ".parquet")] {
        let (user, server) = (User::new(), StandIn::start_as(Behaviour::Honest, s3));
        let folder = user.folder.path().join("home/annaplant/project");
        std::fs::create_dir_all(&folder).unwrap();
        let copy = folder.join("split");
        copy_program(program("split").unwrap(), &copy);
        let mut command = sprof(&user, &endpoint(&server));
        command.env("HOME", user.folder.path().join("home/annaplant"));
        command.args([
            "record",
            "--share",
            "--yes",
            "--include-args",
            "--ui-url",
            UI,
            "--to",
            "s3://open",
        ]);
        command.args(form).arg("-o").arg(folder.join("profile.json.gz"));
        command.arg("--").arg(&copy).args(["300", "argumentplant"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        shows_no_secret(&user, &output);
        let (path, bytes, _) = only_object(&server);
        assert!(path.ends_with(ending) && !path.contains("plant"), "{path}");
        let link = text(&output.stdout).lines().last().unwrap();
        if form.is_empty() {
            assert_eq!(get(&signed_address(link)).2, bytes);
            let json = json(&bytes);
            for secret in SECRETS
                .iter()
                .copied()
                .chain([user.folder.path().to_str().unwrap(), SECRET_KEY])
            {
                assert!(!json.contains(secret), "{secret} in {json}");
            }
        } else {
            assert_eq!(link, format!("s3:/{path}"));
        }
    }
}

#[test]
fn s3rver_takes_gives_lists_and_deletes() {
    let Some(server) = S3rver::start() else { return };
    let user = User::new();
    let endpoint = &server.endpoint;
    let as_s3rver = |command: &mut Command| {
        command
            .env("AWS_ACCESS_KEY_ID", "S3RVER")
            .env("AWS_SECRET_ACCESS_KEY", "S3RVER")
            .env_remove("AWS_SESSION_TOKEN");
    };
    let mut command = share(&user, endpoint, &["--to", "s3://open/ci"], &user.file());
    as_s3rver(&mut command);
    let link = shared(&user, &mut command);
    let (status, head, bytes) = get(&signed_address(&link));
    assert_eq!(status, 200, "{head}");
    assert!(head.contains(&format!("Access-Control-Allow-Origin: {UI}")), "{head}");
    assert!(json(&bytes).contains("leaf"));
    if let Some(client) = Client::load(&signed_address(&link)) {
        let functions = client.run(&["thread", "functions"]);
        assert!(functions.to_string().contains("leaf"), "{functions}");
    }
    // Longer than a week is not accepted by the server, either.
    let address = signed_address(&link);
    let (longer, _, _) = get(&address.replace("X-Amz-Expires=604800", "X-Amz-Expires=604801"));
    assert_eq!(longer, 400);
    let mut closed = share(
        &user,
        endpoint,
        &["--to", "s3://closed", "--expires", "2m"],
        &user.large_file(),
    );
    as_s3rver(&mut closed);
    let output = closed.output().unwrap();
    assert!(
        text(&output.stderr).contains("put-bucket-cors"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(125));
    let mut none = share(&user, endpoint, &["--to", "s3://none"], &user.file());
    as_s3rver(&mut none);
    refused(&user, &mut none, &["NoSuchBucket", "There is no bucket none"]);
    let mut rows = share(&user, endpoint, &["--to", "s3://open/rows", "--parquet"], &user.file());
    as_s3rver(&mut rows);
    assert!(shared(&user, &mut rows).starts_with("s3://open/rows/"));

    let mut variables = credentials(endpoint);
    (variables[0].1, variables[1].1, variables[2].1) = ("S3RVER", "S3RVER", "");
    let served = Served::of("s3://open", temp_dir(), &variables, &[]);
    let page = serve_dir::list(&served);
    let object = address.split('?').next().unwrap().rsplit_once("/open/").unwrap().1;
    let object = decoded(object);
    let id = serve_dir::id(&page, &object);
    let file = served.get(&served.secret(&format!("/p/{id}/file")));
    assert_eq!((file.status, file.body), (200, bytes));

    let mut delete = sprof(&user, endpoint);
    delete.args(["share", "--delete", &link]);
    as_s3rver(&mut delete);
    assert!(delete.status().unwrap().success());
    assert_eq!(get(&address).0, 404);
}
