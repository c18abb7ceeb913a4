//! The content decides the kind of a file, whatever its encoding; what is not read is named.

use super::*;

fn number(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below as u64) as usize
}

/// Letters are fields of protobuf, keys of callgrind and numbers of threads, so each kind is tried against all others:
/// whole, and a hundred beginnings of each. A beginning that tells nothing yet is refused, but never taken for another
/// kind.
#[test]
fn no_kind_of_file_is_taken_for_another_nor_is_its_beginning() {
    let mut folded = String::new();
    for (at, name) in [
        "main", "app", "python", "hello", "query", "h", "zsh", "2;x", "rustc", "java", "events", "fn=x",
    ]
    .into_iter()
    .enumerate()
    {
        for line in [format!("{name};work;leaf {at}\n"), format!("{name} 12\n")] {
            assert_eq!(taken_for(line.as_bytes()), "Folded", "{line}");
            folded.push_str(&line);
        }
    }
    let mut json = Vec::new();
    serde_json::to_writer(
        &mut json,
        &serde_json::json!({"meta": {"interval": 1, "version": 30}, "threads": []}),
    )
    .unwrap();
    let mut perf_data = b"PERFILE2".to_vec();
    perf_data.extend([0x68, 0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0, 0].repeat(20));
    let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap()[..8192].to_vec();
    let files = [
        ("Pprof", good(0)),
        ("Callgrind", good(1)),
        ("Cachegrind", good(2)),
        ("Dhat", good(3)),
        ("Folded", folded.into_bytes()),
        ("PerfScript", good(4)),
        ("Speedscope", good(6)),
        ("CpuProfile", good(7)),
        ("Gperftools", good(8)),
        ("Gperftools", gperftools(4, true)),
        ("Massif", good(9)),
        ("Heaptrack", good(10)),
        ("None", json),
        ("None", perf_data),
        ("None", elf),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for (kind, bytes) in &files {
        assert_eq!(taken_for(bytes), *kind);
        assert_eq!(taken_for(&gzip(bytes)), *kind);
        for _ in 0..100 {
            let len = number(&mut state, bytes.len());
            let found = taken_for(&bytes[..len]);
            assert!(
                found == *kind || found == "None",
                "{len} bytes of {kind} are taken for {found}"
            );
        }
    }
}

#[test]
fn kinds_are_told_by_content() {
    let of = |bytes: &[u8]| {
        let (_dir, path) = file(bytes);
        read::kind(&path)
    };
    for (which, kind) in GOOD.into_iter().enumerate() {
        assert_eq!(of(&good(which)), Some(kind));
        assert_eq!(of(&gzip(&good(which))), Some(kind));
    }
    for other in [
        &b""[..],
        b"{\"meta\":{}}",
        b"\x7fELF\x02\x01\x01",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"events",
        b"hello: world\n",
        b"{\"meta\": 1}",
        b"hello world",
        b"a;b\0 12",
        b"\x1f\x8b\x08",
        b"\n\n\n",
        &[0; 5000],
        &[0x0a; 5000],
    ] {
        assert_eq!(of(other), None, "{other:?}");
    }
    assert_eq!(read::kind(Path::new("/dev/zero")), None);
    assert_eq!(read::kind(Path::new("/nonexistent")), None);
}

/// UTF-8, UTF-16 and UTF-32 of both byte orders, with and without a mark, and Latin-1.
fn encoded(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let marked = format!("\u{feff}{text}");
    let pairs = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let quads =
        |text: &str, bytes: fn(u32) -> [u8; 4]| text.chars().map(u32::from).flat_map(bytes).collect::<Vec<u8>>();
    vec![
        ("UTF-8", text.into()),
        ("UTF-8 with a mark", marked.clone().into()),
        (
            "Latin-1",
            text.chars().map(|character| u8::try_from(character).unwrap()).collect(),
        ),
        ("UTF-16 LE", pairs(text, u16::to_le_bytes)),
        ("UTF-16 LE with a mark", pairs(&marked, u16::to_le_bytes)),
        ("UTF-16 BE", pairs(text, u16::to_be_bytes)),
        ("UTF-16 BE with a mark", pairs(&marked, u16::to_be_bytes)),
        ("UTF-32 LE", quads(text, u32::to_le_bytes)),
        ("UTF-32 BE with a mark", quads(&marked, u32::to_be_bytes)),
    ]
}

#[test]
fn texts_of_any_kind_encoding_and_line_end_are_read() {
    for (which, kind) in GOOD.iter().enumerate() {
        if matches!(kind, ForeignFormat::Pprof | ForeignFormat::Gperftools) {
            continue;
        }
        let text = String::from_utf8(good(which)).unwrap();
        let text = text.replace("main", "größe").replace("leaf", "größe");
        let expected = costs(&read(text.as_bytes(), None).data);
        assert!(expected.total.contains_key("größe"), "{kind:?}: {text}");
        // A line that is longer than what shows the encoding.
        let long = match kind {
            ForeignFormat::Folded => Some(format!("{} 1\n{text}", "größe;".repeat(2000))),
            _ => None,
        };
        for text in [Some(text), long].into_iter().flatten() {
            let expected = costs(&read(text.as_bytes(), None).data);
            for end in ["\n", "\r\n", "\r"] {
                for (encoding, bytes) in encoded(&text.replace('\n', end)) {
                    for bytes in [gzip(&bytes), bytes] {
                        let (_dir, path) = file(&bytes);
                        assert_eq!(read::kind(&path), Some(*kind), "{encoding}, {end:?}");
                        let found = read::foreign(&path, *kind, None, ReadLimits::default()).unwrap();
                        assert!(costs(&found.data) == expected, "{kind:?}, {encoding}, {end:?}");
                    }
                }
            }
        }
    }
}

/// Each with a way to something that is read; and none of them is taken for a file that is.
#[test]
fn files_that_are_not_read_are_named() {
    let mut tar = vec![b'x'; 257];
    tar.extend(b"ustar\0");
    let files: &[(&str, &[u8], &str)] = &[
        (
            "a.json",
            b"{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\"}]}",
            "a Chrome trace",
        ),
        ("a.json", b"[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1}]", "a Chrome trace"),
        (
            "a.heapsnapshot",
            b"{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\"]}}}",
            "a heap snapshot of V8",
        ),
        (
            "a.cpuprofile",
            b"{\"head\":{\"functionName\":\"(root)\",\"hitCount\":0}}",
            "before Node.js 8",
        ),
        ("a.json", b"{\"start_time\": 1, \"root_frame\": {}}", "pyinstrument"),
        ("a.heap", b"heap profile:  1: 2 [ 3: 4] @ heapprofile\n", "pprof -proto"),
        ("goroutine", b"goroutine profile: total 7\n", "pprof's legacy format"),
        ("a", b"--- contentionz 1 ---\n", "pprof's legacy format"),
        ("heaptrack.a.7.raw.gz", b"v 10400 3\nx 4 /a\n", "heaptrack_interpret"),
        ("a.jfr", b"FLR\0\0\x02", "Flight Recorder"),
        (
            "a.nettrace",
            b"Nettrace\x14\0\0\0!FastSerialization.1",
            "dotnet-trace convert",
        ),
        ("a.etl", b"\0\0\x01\0\x48", "ETL"),
        ("a.prof", b"{(\x03\0\0\0s", "cProfile"),
        ("a.xz", b"\xfd7zXZ\0\0\x04", "xz -dk"),
        ("a.zst", b"\x28\xb5\x2f\xfd\x04", "zstd -d"),
        ("a.bz2", b"BZh91AY", "bzip2 -dk"),
        ("a.zip", b"PK\x03\x04", "unzip"),
        ("a.tar", &tar, "tar xf"),
        ("gmon.out", b"gmon\x01\0\0\0", "gprof"),
        ("a.svg", b"<?xml version=\"1.0\"?>\n<svg width=\"1\">", "a picture"),
        (
            "a.txt",
            b"# To display the perf.data header info, please use --header\n",
            "perf report",
        ),
        ("a.txt", b"@[\n    leaf+1\n]: 7\n", "stackcollapse-bpftrace.pl"),
    ];
    for (name, bytes, expected) in files {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join(name);
        for bytes in [bytes.to_vec(), gzip(bytes)] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read::kind(&path), None, "{name}");
            let text = read::whole(&path, ReadLimits::default()).unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains(name), "{name}: {text}");
        }
    }
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("run.trace");
    std::fs::create_dir(&path).unwrap();
    let text = read::whole(&path, ReadLimits::default()).unwrap_err().to_string();
    assert!(text.contains("Instruments"), "{text}");
}
