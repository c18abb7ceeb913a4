//! Files that sprof does not read: what they are, and how to get something that it reads.

use std::path::Path;

use super::{heaptrack, json};
use crate::read::error::OtherKind;

const fn kind(name: &'static str, way: &'static str) -> OtherKind {
    OtherKind { name, way }
}

const PPROF_TEXT: OtherKind = kind(
    "pprof's legacy format",
    "`go tool pprof -proto -output=profile.pb.gz FILE` converts it, and sprof reads that",
);
const CHROME_TRACE: OtherKind = kind(
    "a Chrome trace",
    "it has spans of time and no sampled stacks: open it in https://ui.perfetto.dev; for samples of JavaScript save a .cpuprofile \
     (DevTools, or `node --cpu-prof`)",
);
const PERFETTO: OtherKind = kind(
    "a Perfetto trace",
    "`traceconv profile --perf FILE` writes the CPU samples in it as pprof, and sprof reads that",
);
const HEAP_SNAPSHOT: OtherKind = kind(
    "a heap snapshot of V8",
    "it has objects and no stacks: open it in Chrome's DevTools (Memory)",
);
const HEAP_PROFILE: OtherKind = kind(
    "a sampled heap profile of V8",
    "open it in Chrome's DevTools (Memory), or convert it with speedscope",
);
const OLD_CPU_PROFILE: OtherKind = kind(
    "a .cpuprofile of V8 before Node.js 8",
    "open it in Chrome's DevTools and save it from there, or record with a newer Node.js (`node --cpu-prof`)",
);
const PYINSTRUMENT: OtherKind = kind(
    "a session of pyinstrument",
    "`pyinstrument --load FILE -r speedscope -o out.speedscope.json`, and sprof reads that",
);
const RAW_HEAPTRACK: OtherKind = kind(
    "a raw recording of heaptrack",
    "`zstd -dc FILE | heaptrack_interpret > out.heaptrack` (in heaptrack's folder libexec), and sprof reads that",
);
const INSTRUMENTS: OtherKind = kind(
    "a trace of Instruments",
    "open it in Instruments; `sprof record`, or samply on a Mac, record what sprof shows",
);
const VTUNE: OtherKind = kind(
    "a result of VTune",
    "`vtune -report hotspots -result-dir FOLDER` shows it; sprof reads what `perf record -g` records",
);
const JFR: OtherKind = kind(
    "a recording of JDK Flight Recorder",
    "`jfrconv -o collapsed FILE out.collapsed` (async-profiler) writes folded stacks, and sprof reads that",
);
const NETTRACE: OtherKind = kind(
    "a .nettrace of .NET",
    "`dotnet-trace convert --format speedscope FILE`, and sprof reads that",
);
const ETL: OtherKind = kind(
    "a trace of Windows (ETL)",
    "`samply import FILE` on Windows converts it, and sprof reads what the Firefox Profiler saves of that",
);
const PSTATS: OtherKind = kind(
    "a file of Python's cProfile",
    "it has no call paths: `python -m pstats FILE` shows it; `py-spy record -f speedscope -o out.json` records what sprof reads",
);
const XDEBUG_TRACE: OtherKind = kind(
    "a trace of Xdebug",
    "`xdebug.mode=profile` writes callgrind's format, and sprof reads that",
);
const RBSPY: OtherKind = kind(
    "a raw recording of rbspy",
    "`rbspy report -f speedscope -i FILE -o out.json`, and sprof reads that",
);
const GMON: OtherKind = kind(
    "a gmon.out of gprof",
    "`gprof PROGRAM FILE` shows it: it has no call paths",
);
const SYSPROF: OtherKind = kind(
    "a capture of sysprof",
    "open it in sysprof; `sprof record -a` records the same",
);
const TRACE_DAT: OtherKind = kind(
    "a trace of trace-cmd",
    "`trace-cmd report FILE` shows it; `sprof record -e EVENT` records tracepoints with their stacks",
);
const BPFTRACE: OtherKind = kind(
    "output of bpftrace",
    "`stackcollapse-bpftrace.pl FILE` (FlameGraph) writes folded stacks, and sprof reads that",
);
const DTRACE: OtherKind = kind(
    "output of DTrace",
    "`stackcollapse.pl FILE` (FlameGraph) writes folded stacks, and sprof reads that",
);
const SAMPLE_OF_MACOS: OtherKind = kind(
    "output of macOS's sample",
    "`stackcollapse-sample.awk FILE` (FlameGraph) writes folded stacks, and sprof reads that",
);
const PERF_REPORT: OtherKind = kind(
    "text of perf report",
    "sprof reads the perf.data file itself, and the text of `perf script`",
);
const SVG: OtherKind = kind(
    "a picture",
    "sprof reads the recording or the folded stacks that it was drawn from",
);
const HTML: OtherKind = kind("a page of HTML", "sprof reads the recording that it was made from");
const XZ: OtherKind = kind("compressed with xz", "unpack it first: `xz -dk FILE`");
pub(super) const ZSTD: OtherKind = kind(
    "zstd of an unknown or damaged content",
    "unpack it first: `zstd -d FILE`",
);
const BZIP2: OtherKind = kind("compressed with bzip2", "unpack it first: `bzip2 -dk FILE`");
const LZ4: OtherKind = kind("compressed with lz4", "unpack it first: `lz4 -d FILE`");
const ZIP: OtherKind = kind("a zip archive", "unpack it first: `unzip FILE`");
const SEVEN_ZIP: OtherKind = kind("a 7-Zip archive", "unpack it first: `7z x FILE`");
const TAR: OtherKind = kind("a tar archive", "unpack it first: `tar xf FILE`");
const PARQUET: OtherKind = kind(
    "a Parquet file",
    "a database reads it; sprof reads the profile that it was exported from",
);

/// Kinds by their first bytes.
const MAGICS: &[(&[u8], OtherKind)] = &[
    (b"\xfd7zXZ\0", XZ),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (b"BZh9", BZIP2),
    (b"\x04\x22\x4d\x18", LZ4),
    (b"PK\x03\x04", ZIP),
    (b"7z\xbc\xaf\x27\x1c", SEVEN_ZIP),
    (b"PAR1", PARQUET),
    // Chunks of JDK Flight Recorder.
    (b"FLR\0", JFR),
    (b"Nettrace\x14", NETTRACE),
    (b"gmon\x01\0\0\0", GMON),
    (b"\x17\x08\x44tracing", TRACE_DAT),
    // SYSPROF_CAPTURE_MAGIC, little endian.
    (b"\x5c\x4e\x67\x7e", SYSPROF),
    (b"\x67\x7e\x4e\x5c", SYSPROF),
    (b"rbspy0", RBSPY),
    // Python's marshal: a dictionary whose first key is a tuple.
    (b"{\xa9", PSTATS),
    (b"{(\x03", PSTATS),
    (b"heap profile:", PPROF_TEXT),
    (b"--- heap", PPROF_TEXT),
    (b"--- contention", PPROF_TEXT),
    (b"--- mutex", PPROF_TEXT),
    (b"--- thread", PPROF_TEXT),
    (b"--- growth", PPROF_TEXT),
    (b"--- fragmentation", PPROF_TEXT),
    (b"--- symbol", PPROF_TEXT),
    (b"--- profile", PPROF_TEXT),
    (b"goroutine profile: total", PPROF_TEXT),
    (b"threadcreate profile: total", PPROF_TEXT),
    (b"block profile:", PPROF_TEXT),
    (b"mutex profile:", PPROF_TEXT),
    (b"TRACE START", XDEBUG_TRACE),
    (b"Version: ", XDEBUG_TRACE),
    (b"<svg", SVG),
    (b"<!DOCTYPE html", HTML),
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"Analysis of sampling ", SAMPLE_OF_MACOS),
    (b"# To display the perf.data header info", PERF_REPORT),
    (b"CPU     ID                    FUNCTION:NAME", DTRACE),
    (b"dtrace: description", DTRACE),
    (b"Attaching ", BPFTRACE),
    (b"@[", BPFTRACE),
];

/// Kinds that only the name of a file shows.
const ENDINGS: &[(&str, OtherKind)] = &[
    (".etl", ETL),
    (".etl.zip", ETL),
    (".diagsession", ETL),
    (".perfetto-trace", PERFETTO),
    (".pftrace", PERFETTO),
    (".vtune", VTUNE),
    (".prof", PSTATS),
    (".pstats", PSTATS),
];

/// The kind of a file that no reader takes, by its first bytes, or by its name where these say nothing. Also of the
/// folders that some tools write.
pub(super) fn other_kind(path: &Path, start: &[u8]) -> Option<OtherKind> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    if path.is_dir() {
        return match name {
            name if name.ends_with(".trace") => Some(INSTRUMENTS),
            _ if path.join("sqlite-db").is_dir() || path.join("data.0").is_dir() => Some(VTUNE),
            _ => None,
        };
    }
    let is_json = start.trim_ascii_start().starts_with(b"{");
    let by_name = || ENDINGS.iter().find(|(end, _)| !is_json && name.ends_with(end));
    by_content(start).or_else(|| by_name().map(|(_, kind)| *kind))
}

/// The kind of a file that begins with these bytes.
pub(super) fn by_content(start: &[u8]) -> Option<OtherKind> {
    let found = MAGICS.iter().find(|(magic, _)| start.starts_with(magic));
    found
        .map(|(_, kind)| *kind)
        .or_else(|| of_bytes(start.trim_ascii_start()))
}

fn of_bytes(start: &[u8]) -> Option<OtherKind> {
    let contains = |text: &[u8]| start.windows(text.len()).any(|part| part == text);
    if start.get(257..262) == Some(b"ustar") {
        return Some(TAR);
    }
    match start.first()? {
        b'{' => of_object(&json::first_keys(start), &contains),
        // A trace may be the list alone.
        b'[' if contains(b"\"ph\"") => Some(CHROME_TRACE),
        b'<' if contains(b"<svg") => Some(SVG),
        b'v' if heaptrack::is_raw(start) => Some(RAW_HEAPTRACK),
        b'#' if contains(b"# Samples: ") && contains(b"# Overhead") => Some(PERF_REPORT),
        // TracePacket, the only field of a trace.
        b'\n' if contains(b"traced") || contains(b"perfetto") => Some(PERFETTO),
        _ => None,
    }
}

fn of_object(keys: &[String], contains: &impl Fn(&[u8]) -> bool) -> Option<OtherKind> {
    let has = |key: &str| keys.iter().any(|known| known == key);
    if has("traceEvents") {
        return Some(CHROME_TRACE);
    }
    if has("snapshot") && contains(b"\"node_fields\"") {
        return Some(HEAP_SNAPSHOT);
    }
    if has("root_frame") {
        return Some(PYINSTRUMENT);
    }
    if has("head") && contains(b"\"selfSize\"") {
        return Some(HEAP_PROFILE);
    }
    (has("head") && contains(b"\"hitCount\"")).then_some(OLD_CPU_PROFILE)
}
