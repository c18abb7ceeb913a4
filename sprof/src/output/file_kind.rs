//! Kinds of files that sprof writes, recognised by the requested name and by the content of an existing file.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use profile::read;
use recording::regular_file;

/// Bytes that are read to recognise a kind.
const SNIFFED_BYTES: u64 = 64 << 10;

/// The kind of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Profile,
    FlameGraph,
    Page,
    Folded,
    Pprof,
    Speedscope,
    Callgrind,
    Dhat,
    PerfScript,
    Otlp,
    Parquet,
    ReportText,
    ReportMarkdown,
    ReportJson,
    ReportJunit,
}

use FileKind::*;

/// Endings of names and the kinds that they allow, longer endings first. Other names allow every kind.
const ENDS: &[(&str, &[FileKind])] = &[
    (".svg", &[FlameGraph]),
    (".html", &[Page]),
    (".htm", &[Page]),
    (".folded", &[Folded]),
    (".pb.gz", &[Pprof]),
    (".pprof", &[Pprof]),
    (".speedscope.json", &[Speedscope]),
    (".callgrind", &[Callgrind]),
    (".dhat.json", &[Dhat]),
    (".otlp", &[Otlp]),
    (".parquet", &[Parquet]),
    (".json.gz", &[Profile]),
    (".json", &[Profile, Speedscope, Dhat, ReportJson]),
    (".md", &[ReportMarkdown]),
    (".xml", &[ReportJunit]),
    (".txt", &[ReportText, PerfScript, Folded, Callgrind]),
];

impl FileKind {
    /// The name of the kind, with an article.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Profile => "a profile",
            FlameGraph => "a flame graph",
            Page => "a page of the viewer",
            Folded => "folded stacks",
            Pprof => "a pprof profile",
            Speedscope => "a file of speedscope",
            Callgrind => "a callgrind file",
            Dhat => "a file of DHAT",
            PerfScript => "the text of perf script",
            Otlp => "a profile of OpenTelemetry",
            Parquet => "a Parquet file",
            ReportText => "a report",
            ReportMarkdown => "a report in Markdown",
            ReportJson => "a report in JSON",
            ReportJunit => "a report in JUnit's XML",
        }
    }

    /// The ending of names that promises this kind alone.
    pub(crate) fn ending(self) -> Option<&'static str> {
        ENDS.iter().find(|(_, kinds)| *kinds == [self]).map(|(end, _)| *end)
    }

    /// The kinds that a file of this name may have, the likeliest first; empty if its name allows every kind.
    pub(crate) fn promised(path: &Path) -> &'static [FileKind] {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_ascii_lowercase();
        let found = ENDS.iter().find(|(end, _)| name.ends_with(end));
        found.map_or(&[], |(_, kinds)| kinds)
    }

    /// True for a file that begins like this kind, and for an empty file, which has nothing to lose.
    pub(crate) fn is_of(self, path: &Path) -> bool {
        let Ok(file) = regular_file::open(path) else {
            return false;
        };
        let mut start = Vec::new();
        if file.take(SNIFFED_BYTES).read_to_end(&mut start).is_err() {
            return false;
        }
        if start.is_empty() {
            return true;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Profile => {
                let json = inflated(&start).map_or_else(|| text(&start), |json| text(&json));
                let keys = ["\"meta\"", "\"preprocessedProfileVersion\"", "\"libs\"", "\"threads\""];
                json.trim_start().starts_with('{') && keys.iter().any(|key| json.contains(key))
            }
            FlameGraph => text(&start).contains("<svg"),
            Page => text(&start).contains("content=\"sprof-viewer\""),
            Folded => read::kind(path) == Some(read::ForeignFormat::Folded),
            Pprof => read::kind(path) == Some(read::ForeignFormat::Pprof),
            Callgrind => read::kind(path) == Some(read::ForeignFormat::Callgrind),
            Dhat => read::kind(path) == Some(read::ForeignFormat::Dhat),
            Speedscope => text(&start).contains("www.speedscope.app/file-format-schema.json"),
            PerfScript => read::kind(path) == Some(read::ForeignFormat::PerfScript),
            // A protobuf message that begins with a message. The name of the instrumentation scope is near the start.
            Otlp => start[0] == 0x0a && start.windows(5).any(|bytes| bytes == b"sprof"),
            // The first bytes of every file of the format.
            Parquet => start.starts_with(b"PAR1"),
            // First words of report, diff, check, annotate and stat.
            ReportText => text(&start).lines().any(|line| {
                let starts = ["quality: ", " before: ", "       base: ", "  wall  "];
                starts.iter().any(|start| line.starts_with(start))
                    || line.starts_with("self ") && line.contains(" %, of ")
            }),
            ReportMarkdown => {
                let text = text(&start);
                text.starts_with("**") && text.lines().any(|line| line.starts_with("quality: "))
                    || text.starts_with("total: ")
                    || text.starts_with("| rule | | |")
                    || text.lines().any(|line| line.starts_with("| wall | "))
            }
            ReportJson => ["report", "diff", "check", "annotate", "stat"]
                .iter()
                .any(|command| text(&start).contains(&format!("\"schema\":\"sprof-{command}\""))),
            ReportJunit => text(&start).contains("<testsuite name=\"sprof check\""),
        }
    }
}

/// The first inflated bytes of a gzip stream that may be cut off; `None` for other data.
fn inflated(start: &[u8]) -> Option<Vec<u8>> {
    // RFC 1952, section 2.3.1.
    if !start.starts_with(&[0x1f, 0x8b]) {
        return None;
    }
    let mut json = Vec::new();
    // An error at the end of the cut stream is ignored: the bytes before it suffice.
    let _ = MultiGzDecoder::new(start).take(SNIFFED_BYTES).read_to_end(&mut json);
    Some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_what_their_end_says() {
        let promised = |name: &str| FileKind::promised(Path::new(name));
        assert_eq!(promised("a.svg"), [FlameGraph]);
        assert_eq!(promised("dir.svg/A.JSON.GZ"), [Profile]);
        assert_eq!(promised("a.speedscope.json"), [Speedscope]);
        assert_eq!(promised("a.json").first(), Some(&Profile));
        assert!(promised("profile").is_empty() && promised("svg").is_empty());
    }

    #[test]
    fn files_of_other_kinds_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut all = Vec::new();
        for kind in ENDS.iter().flat_map(|(_, kinds)| *kinds) {
            if !all.contains(kind) {
                all.push(*kind);
            }
        }
        for (text, kinds) in [
            ("", &all[..]),
            ("fn main() {\n    println!(\"meta\");\n}\n", &[]),
            ("{\"name\": \"package\", \"version\": 1}", &[]),
            ("{\"meta\":{\"version\":1}}", &[Profile]),
            ("<?xml version=\"1.0\"?><svg width=\"1\">", &[FlameGraph]),
            ("<!DOCTYPE html>\n<html><body>", &[]),
            (
                "<!DOCTYPE html>\n<meta name=\"generator\" content=\"sprof-viewer\">",
                &[Page],
            ),
            ("app;main;work 12\n", &[Folded]),
            ("\n\u{20}\n\u{0}\u{12}\u{1c}\n\u{5}sprof", &[Otlp]),
            ("PAR1\u{15}\u{4}", &[Parquet]),
            ("\u{1f}\u{8b} no gzip", &[]),
            ("{\"schema\":\"sprof-diff\",\"schema_version\":1", &[ReportJson]),
            (
                "app 1/2 0.001000:    1000 cpu-ns: \n\t     1f main (app)\n",
                &[PerfScript],
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let found: Vec<FileKind> = all.iter().copied().filter(|kind| kind.is_of(&path)).collect();
            assert_eq!(found, kinds, "{text}");
        }
    }
}
