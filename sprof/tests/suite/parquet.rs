//! `sprof export -f parquet`: the queries of docs/parquet.md, in the databases that they are for, have the sums of
//! `sprof report` and `sprof diff`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::schema::parsed;
use crate::support::skip::{Need, has};
use crate::support::{sprof, temp_dir, tests_dir};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Samples of each path.
const SAMPLES: usize = 400;

/// A database, by its heading in the documentation and by its name in tests/client/query.py.
#[derive(Clone, Copy)]
pub(crate) struct Database {
    heading: &'static str,
    name: &'static str,
}

pub(crate) const DUCKDB: Database = Database {
    heading: "DuckDB",
    name: "duckdb",
};
const CLICKHOUSE: Database = Database {
    heading: "ClickHouse",
    name: "clickhouse",
};

/// Where `.ci/run` installed `tests/client/requirements.txt`: `SPROF_PYTHON_DIR`, else `target/python`.
pub(crate) fn python() -> PathBuf {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python");
    let dir = std::env::var_os("SPROF_PYTHON_DIR").map_or(default, PathBuf::from);
    dir.join("bin/python")
}

impl Database {
    /// Goes on where the database is installed.
    pub(crate) fn installed(self) -> Option<Database> {
        let (need, module) = match self.name {
            "duckdb" => (Need::Duckdb, "duckdb"),
            _ => (Need::Clickhouse, "chdb"),
        };
        let found = Command::new(python())
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status();
        let reason = format!("no {module} (`.ci/run client` installs it)");
        has(need, found.is_ok_and(|status| status.success()), &reason).then_some(self)
    }

    /// The rows of a query over the views of the documentation, in a folder with `rows/*.parquet`.
    pub(crate) fn rows(self, folder: &Path, query: &str) -> Vec<Vec<String>> {
        let mut statements = statements(self.heading);
        statements.push(query.to_owned());
        let mut child = Command::new(python())
            .arg(tests_dir().join("client/query.py"))
            .arg(self.name)
            .current_dir(folder)
            // Days are those of UTC, wherever the database runs.
            .env("TZ", "Asia/Tokyo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let text = json!(statements).to_string();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}: {query}", self.name);
        let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The statements of SQL below a heading of the documentation.
fn statements(heading: &str) -> Vec<String> {
    let page = std::fs::read_to_string(tests_dir().join("../../docs/parquet.md")).unwrap();
    let (_, below) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, sql) = below.split_once("```sql\n").unwrap();
    let (sql, _) = sql.split_once("```").unwrap();
    let statements = sql.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}

fn query(heading: &str) -> String {
    let [query] = &statements(heading)[..] else {
        panic!("{heading} has one query")
    };
    query.clone()
}

/// A profile of two threads: `main` calls `parse`, which may call itself and `parse` of another library; and one wait.
/// `ms`: of the paths main; main, parse; main, parse, parse; main, parse, parse of the library.
fn profile(dir: &Path, name: &str, start_ms: u64, ms: [f64; 4]) -> PathBuf {
    let thread = |tid: u32, stacks: &[u32], ms: &[f64]| {
        json!({"name": "worker", "processName": "shop", "pid": "7", "tid": tid, "markers": {"length": 0},
               "samples": {"length": stacks.len(), "stack": stacks, "time": (1..=stacks.len()).collect::<Vec<_>>(),
                           "weight": ms, "weightType": "tracing-ms"}})
    };
    // Each path often enough that a change is none of chance.
    let stacks: Vec<u32> = (0..4).cycle().take(4 * SAMPLES).collect();
    let weights: Vec<f64> = ms.into_iter().cycle().take(4 * SAMPLES).collect();
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": "shop", "startTime": start_ms, "interval": 1, "symbolicated": true,
                 "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]},
                                {"name": "Off-CPU", "color": "blue", "subcategories": ["Other"], "isWait": true}]},
        "libs": [{"name": "shop"}, {"name": "libjson.so"}],
        "shared": {
            "stringArray": ["main", "parse", "caf\u{e9} \"it's\"; \\", "shop", "libjson.so", "src/parse.c"],
            "stackTable": {"frame": [0, 1, 1, 2, 3], "prefix": [null, 0, 1, 1, 0], "length": 5},
            "frameTable": {"func": [0, 1, 2, 3], "line": [1, 2, 3, 4], "category": [0, 0, 0, 1], "subcategory": [0, 0, 0, 0],
                           "address": [-1, -1, -1, -1], "inlineDepth": [0, 0, 0, 0], "length": 4},
            "funcTable": {"name": [0, 1, 1, 2], "resource": [0, 0, 1, -1], "source": [0, 0, null, null], "length": 4},
            "resourceTable": {"lib": [0, 1], "name": [3, 4], "host": [null, null], "type": [1, 1], "length": 2},
            "sources": {"filename": [5], "length": 1},
        },
        "threads": [thread(7, &stacks, &weights), thread(8, &[1, 4], &[ms[1], 123.0])],
    });
    let path = dir.join(name);
    std::fs::write(&path, profile.to_string()).unwrap();
    path
}

fn run(arguments: &[&str]) -> Vec<u8> {
    let mut command = sprof();
    for variable in [
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "GITHUB_SHA",
        "CI_COMMIT_SHA",
        "GIT_COMMIT",
    ] {
        command.env_remove(variable);
    }
    let output = command.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output.stdout
}

/// A release that was recorded so many days ago.
struct Release {
    version: &'static str,
    day: u64,
    file: PathBuf,
}

/// Three releases, and their rows in `rows/` of the folder.
fn releases(folder: &Path) -> [Release; 3] {
    std::fs::create_dir(folder.join("rows")).unwrap();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    // Late: a day of UTC, and another one in other zones of time.
    let today = now_ms / DAY_MS;
    let release = |version: &'static str, days: u64, ms: [f64; 4]| {
        let day = today - days;
        let start_ms = day * DAY_MS + DAY_MS - 60_000;
        let file = profile(folder, &format!("{version}.json"), start_ms, ms);
        let rows = folder.join("rows").join(format!("{version}.parquet"));
        let [from, to] = [&file, &rows].map(|path| path.to_str().unwrap());
        run(&[
            "export",
            from,
            "-q",
            "--wall",
            "-o",
            to,
            "--service",
            "shop",
            "--service-version",
            version,
        ]);
        Release { version, day, file }
    };
    [
        release("1.3.0", 40, [1.0, 9.0, 1.0, 1.0]),
        release("1.4.0", 3, [1.0, 2.000001, 0.5, 4.0]),
        release("1.5.0", 1, [1.5, 1.25, 3.0, 0.25]),
    ]
}

/// By function and library: time of its own and in all, ns.
type Times = BTreeMap<(String, String), (u64, u64)>;

/// The functions of `sprof report`, and the time of all.
fn reported(release: &Release) -> (Times, u64) {
    let path = release.file.to_str().unwrap();
    let report = run(&["report", path, "--view", "functions", "--format", "json"]);
    let report: Value = parsed(&report);
    let ns = |cost: &Value| (cost["time_ms"].as_f64().unwrap() * 1e6).round() as u64;
    let mut times = Times::new();
    for row in report["views"][0]["rows"].as_array().unwrap() {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let key = (text("function"), text("library"));
        assert_eq!(times.insert(key, (ns(&row["self"]), ns(&row["total"]))), None);
    }
    let all = times.values().map(|(own, _)| own).sum();
    (times, all)
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

/// One folder for all queries.
struct Case {
    folder: tempfile::TempDir,
    releases: [Release; 3],
    /// For each release.
    reported: [(Times, u64); 3],
}

#[test]
fn the_queries_of_the_documentation_have_the_sums_of_reports_and_comparisons() {
    let databases: Vec<Database> = [DUCKDB, CLICKHOUSE]
        .into_iter()
        .filter_map(Database::installed)
        .collect();
    if databases.is_empty() {
        return;
    }
    let folder = temp_dir();
    let releases = releases(folder.path());
    let reported = releases.each_ref().map(reported);
    let case = Case {
        folder,
        releases,
        reported,
    };
    for database in databases {
        case.the_hottest_functions_of_this_week(database);
        case.what_changed_between_two_releases(database);
        case.one_function_over_time(database);
    }
}

impl Case {
    fn the_hottest_functions_of_this_week(&self, database: Database) {
        let mut expected = Times::new();
        for (times, _) in &self.reported[1..] {
            for (function, (own, total)) in times {
                let sum = expected.entry(function.clone()).or_default();
                (sum.0, sum.1) = (sum.0 + own, sum.1 + total);
            }
        }
        let sql = query("The hottest functions of this week");
        for (sql, part) in [(sql.clone(), 0), (sql.replace("FROM own", "FROM total"), 1)] {
            let rows = database.rows(self.folder.path(), &sql);
            let found = rows
                .iter()
                .map(|row| ((row[0].clone(), row[1].clone()), row[2].parse().unwrap()));
            let found: BTreeMap<(String, String), u64> = found.collect();
            let part = expected
                .iter()
                .map(|(function, (own, total))| (function.clone(), [*own, *total][part]));
            assert_eq!(found, part.collect(), "{}: {sql}", database.name);
            let values: Vec<u64> = rows.iter().map(|row| row[2].parse().unwrap()).collect();
            assert!(values.is_sorted_by(|a, b| a >= b) && rows.len() == 3, "{rows:?}");
        }
        // The second thread has one more sample of `main, parse`.
        let known = |name: &str, library: &str| expected[&(name.to_owned(), library.to_owned())];
        assert_eq!(known("main", "shop").0, 1_000_000_000);
        assert_eq!(known("parse", "libjson.so"), (1_700_000_000, 1_700_000_000));
        let own = 401 * (2_000_001 + 1_250_000) + 400 * (500_000 + 3_000_000);
        assert_eq!(known("parse", "shop"), (own, own + 1_700_000_000));
    }

    fn what_changed_between_two_releases(&self, database: Database) {
        let rows = database.rows(self.folder.path(), &query("What changed between two releases"));
        let [_, old, new] = self.releases.each_ref().map(|release| release.file.to_str().unwrap());
        let diff = run(&["diff", old, new, "--by", "inlined", "--format", "json"]);
        let diff: Value = parsed(&diff);
        let changes = diff["changes"].as_array().unwrap();
        assert_eq!((changes.len(), rows.len()), (3, 3), "{diff:#}\n{rows:?}");
        for change in changes {
            let name = [&change["function"], &change["library"]].map(|text| text.as_str().unwrap());
            let row = rows.iter().find(|row| row[..2] == name).unwrap();
            for (column, side) in [(2, "base"), (3, "new")] {
                let expected = change[side]["share"].as_f64().unwrap();
                assert!(
                    (number(&row[column]) - expected).abs() < 1e-9,
                    "{}: {row:?} {change}",
                    database.name
                );
            }
        }
        // The largest change first.
        assert_eq!(rows[0][..2], ["parse", "libjson.so"]);
    }

    fn one_function_over_time(&self, database: Database) {
        let rows = database.rows(self.folder.path(), &query("One function over time"));
        assert_eq!(rows.len(), self.releases.len(), "{rows:?}");
        for ((row, release), (times, all)) in rows.iter().zip(&self.releases).zip(&self.reported) {
            // `parse` of both libraries.
            let of = times.iter().filter(|((name, _), _)| name == "parse");
            let ns: u64 = of.map(|(_, (own, _))| own).sum();
            assert_eq!(row[1].parse(), Ok(ns), "{}: {}", database.name, release.version);
            assert!((number(&row[2]) - ns as f64 / *all as f64).abs() < 1e-12, "{row:?}");
            let date = Command::new("date")
                .args(["-u", "-d", &format!("@{}", release.day * DAY_MS / 1000), "+%Y-%m-%d"])
                .output()
                .unwrap();
            let date = String::from_utf8(date.stdout).unwrap();
            assert!(row[0].starts_with(date.trim()), "{}: {row:?} {date}", database.name);
        }
    }
}

#[test]
fn waits_ids_and_labels_have_columns() {
    let Some(database) = DUCKDB.installed() else { return };
    let folder = temp_dir();
    std::fs::create_dir(folder.path().join("rows")).unwrap();
    let file = profile(folder.path(), "app.json", 1_700_000_000_123, [1.0; 4]);
    let path = |name: &str| folder.path().join("rows").join(name).to_str().unwrap().to_owned();
    let file = file.to_str().unwrap();
    let labels = [
        "--label",
        "host.name=build-7",
        "--label",
        "region=eu",
        "--commit",
        "2f3a91c",
    ];
    run(&[
        &["export", file, "-q", "--off-cpu", "-o", &path("wait.parquet")],
        &labels[..],
    ]
    .concat());
    run(&["export", file, "-q", "-f", "parquet", "-o", &path("cpu.parquet")]);
    let texts = [
        "service",
        "version",
        "commit",
        "host",
        "labels['region']",
        "process",
        "pid",
        "thread",
        "nullif(file, '')",
    ];
    let texts: Vec<String> = texts.iter().map(|text| format!("coalesce(min({text}), '-')")).collect();
    let query = format!(
        "SELECT measure, unit, count(*), sum(value), sum(samples), min(epoch_us(recorded_at)), {} FROM own GROUP BY ALL ORDER BY measure",
        texts.join(", ")
    );
    let rows = database.rows(folder.path(), &query);
    // The first sample's time, 1 ms after the file's start.
    let start_us = "1700000000124000";
    let (cpu_ns, cpu_samples) = ((4 * SAMPLES as u64 + 1) * 1_000_000, 4 * SAMPLES + 1);
    let cpu = format!("cpu nanoseconds 5 {cpu_ns} {cpu_samples} {start_us} shop - - - - shop 7 worker src/parse.c");
    let wait = format!("wait nanoseconds 1 123000000 1 {start_us} shop - 2f3a91c build-7 eu shop 7 worker -");
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(rows, [cpu, wait]);
    let ids = database.rows(
        folder.path(),
        "SELECT count(DISTINCT profile_id), min(length(profile_id)) FROM own",
    );
    assert_eq!(ids, [["1", "32"]]);
}
