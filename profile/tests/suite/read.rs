//! Saved profiles, sound and damaged.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use profile::read::{FilePosition, Form, ReadError, ReadLimits, SavedProfile, open};
use proptest::prelude::*;
use recording::module::{BuildId, Image, Module, ModuleKind};
use recording::quality::Quality;

fn read(bytes: &[u8]) -> Result<SavedProfile, ReadError> {
    read_within(bytes, ReadLimits::default())
}

fn read_within(bytes: &[u8], limits: ReadLimits) -> Result<SavedProfile, ReadError> {
    let mut file = tempfile::Builder::new().prefix("sprof-read-").tempfile().unwrap();
    file.write_all(bytes).unwrap();
    open(file.path(), limits)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn sample_profile() -> profile::Profile {
    let mut stream = Stream::with_app();
    for ms in 0..200 {
        stream.sample(1, 1, ms, &[ip(0x1020 + ms % 7 * 16), ret(0x10_0500)]);
    }
    stream.finish()
}

fn ours_gz() -> Vec<u8> {
    let mut gz = Vec::new();
    profile::export::firefox::write_gz(&sample_profile(), &mut gz).unwrap();
    gz
}

fn ours_json() -> Vec<u8> {
    let mut json = Vec::new();
    profile::export::firefox::write(&sample_profile(), &mut json).unwrap();
    json
}

#[test]
fn ours_is_read_back_compressed_and_plain_and_handed_out_untouched() {
    for (bytes, is_gzip) in [(ours_gz(), true), (ours_json(), false)] {
        let saved = read(&bytes).unwrap();
        assert_eq!(saved.form, Form::Processed { version: 70 });
        assert_eq!(saved.product.as_deref(), Some("app"));
        assert_eq!(saved.symbolicated, Some(false));
        assert_eq!((saved.threads, saved.is_gzip), (1, is_gzip));
        assert_eq!(saved.file_bytes, bytes.len() as u64);
        assert_eq!(saved.json_bytes, ours_json().len() as u64);
        let names: Vec<_> = saved.libs.iter().map(|lib| lib.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["app", "libc.so.6"]);
        assert_eq!(saved.libs[0].path.as_deref(), Some("/opt/app"));
        assert_eq!(saved.libs[0].code_id.as_ref().unwrap().len(), 40);
        let mut served = Vec::new();
        std::io::Read::read_to_end(&mut saved.into_file().unwrap(), &mut served).unwrap();
        assert_eq!(served, bytes);
    }
}

#[test]
fn libraries_of_macos_have_their_uuid_as_code_id() {
    let uuid: [u8; 16] = std::array::from_fn(|index| index as u8);
    let module = Arc::new(Module {
        build_id: Some(BuildId::of_uuid(uuid)),
        ..(*module("/opt/tool", ModuleKind::File)).clone()
    });
    let tool = Image {
        module,
        ..image("/opt/tool", 0x20_0000, 0x1000)
    };
    let mut stream = Stream::with_app();
    stream.map(1, tool, 1);
    stream.sample(1, 1, 2, &[ip(0x20_0020)]);
    let mut info = info();
    info.host.os = Some("macOS 15.1 aarch64, Darwin 24.1.0".into());
    let mut json = Vec::new();
    profile::export::firefox::write(&stream.0.finish(info, Quality::default()), &mut json).unwrap();
    let saved = read(&json).unwrap();
    let lib = saved
        .libs
        .iter()
        .find(|lib| lib.name.as_deref() == Some("tool"))
        .unwrap();
    let digits = "000102030405060708090A0B0C0D0E0F";
    assert_eq!(lib.code_id.as_deref(), Some(digits));
    assert_eq!(lib.breakpad_id.as_deref(), Some(format!("{digits}0").as_str()));
}

#[test]
fn a_profile_as_firefox_hands_it_out_has_libraries_in_subprocesses() {
    let json = br#"{"meta":{"version":31,"product":"Firefox"},"libs":[{"name":"xul","start":4096}],"threads":[{"samples":{}}],
        "processes":[{"meta":{"version":1},"libs":[{"name":"libc"},{"name":"xul"}],"threads":[{},{}],"processes":[]}]}"#;
    let saved = read(json).unwrap();
    assert_eq!(saved.form, Form::Gecko { version: 31 });
    assert_eq!(saved.threads, 3);
    assert_eq!(saved.libs.len(), 2, "each once");
}

#[test]
fn an_old_processed_profile_has_libraries_in_threads() {
    let json = br#"{"threads":[{"libs":[{"debugName":"a","breakpadId":"0"}],"samples":[1,2]}],
        "meta":{"preprocessedProfileVersion":20,"version":10}}"#;
    let saved = read(json).unwrap();
    assert_eq!(saved.form, Form::Processed { version: 20 });
    assert_eq!(saved.libs[0].debug_name.as_deref(), Some("a"));
}

#[test]
fn what_is_no_profile_is_named() {
    for (bytes, expected) in [
        (&b""[..], "empty"),
        (b"PERFILE2........", "perf.data"),
        (b"PK\x03\x04....", "zip"),
        (b"main;f 10\nmain;g 20\n", "neither gzip nor a JSON object"),
        (b"[1,2]", "neither gzip nor a JSON object"),
        (b"{}", "expected an object `meta`"),
        (b"{\"meta\":{\"version\":3}}", "expected a list `threads`"),
        (
            b"{\"meta\":{},\"threads\":[]}",
            "expected a number `meta.preprocessedProfileVersion`",
        ),
        (
            b"{\"meta\":{\"version\":\"3\"},\"threads\":[]}",
            "expected u32 at line 1",
        ),
        (
            b"{\"meta\":[],\"threads\":{}}",
            "expected a list of threads at line 1, byte 22",
        ),
        (
            b"{\"meta\":{\"version\":1},\"threads\":[]} x",
            "trailing characters at line 1, byte 37",
        ),
    ] {
        let message = read(bytes).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected:?} in {message:?}");
        assert!(message.contains("sprof-read-"), "names the file: {message}");
    }
    assert!(matches!(read(&gzip(b"hello")).unwrap_err(), ReadError::Damaged { .. }));
    assert!(matches!(read(&gzip(b"")).unwrap_err(), ReadError::Truncated { .. }));
    let missing = open(&PathBuf::from("/nonexistent/profile.json"), ReadLimits::default());
    assert!(matches!(missing.unwrap_err(), ReadError::Open { .. }));
    let folder = open(&std::env::temp_dir(), ReadLimits::default());
    assert!(matches!(folder.unwrap_err(), ReadError::NotAProfile { .. }));
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_says_where() {
    let json = ours_json();
    for len in (1..json.len()).step_by(97) {
        match read(&json[..len]).unwrap_err() {
            ReadError::Truncated {
                at: FilePosition::Json { line: 1, column },
                ..
            } => assert_eq!(column, len),
            error => panic!("cut at {len}: {error}"),
        }
    }
    let gz = ours_gz();
    for len in (2..gz.len()).step_by(31) {
        let error = read(&gz[..len]).unwrap_err();
        assert!(
            matches!(error, ReadError::Truncated { .. }),
            "cut at {len} of {}: {error}",
            gz.len()
        );
    }
}

#[test]
fn a_flipped_bit_in_a_compressed_file_is_found() {
    let gz = ours_gz();
    let inflated = |gz: &[u8]| {
        let mut json = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(gz), &mut json).map(|_| json)
    };
    let json = inflated(&gz).unwrap();
    // Not in the header's time and system fields (RFC 1952, 2.3), which nothing checks.
    for at in (10..gz.len()).step_by(53) {
        let mut broken = gz.clone();
        broken[at] ^= 0x10;
        // A copy of `null,null,` from another place of the same is the same.
        let is_same = inflated(&broken).is_ok_and(|broken| broken == json);
        assert!(read(&broken).is_err() || is_same, "bit flipped at {at} of {}", gz.len());
    }
}

#[test]
fn memory_is_bounded_whatever_the_file_inflates_to() {
    let limits = ReadLimits {
        memory_bytes: 1 << 20,
        json_bytes: 64 << 20,
        ..ReadLimits::default()
    };
    let long = 8 << 20;
    let huge_key = format!("{{\"{}\":1}}", "k".repeat(long));
    let huge_name = format!("{{\"libs\":[{{\"name\":\"{}\"}}]}}", "n".repeat(long));
    let deep = format!("{{\"x\":{}", "[".repeat(long));
    let many = format!("{{\"libs\":[{}{{}}]}}", "{},".repeat(long / 3));
    let large = format!("{{\"x\":[{}0]}}", "0,".repeat(40 << 20));
    for (json, expected) in [
        (huge_key, "one string of it"),
        (huge_name, "one string of it"),
        (deep, "nesting"),
        (many, "list of libraries takes more than"),
        (large, "its JSON exceeds the limit"),
    ] {
        let message = read_within(&gzip(json.as_bytes()), limits).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected:?} in {message:?}");
    }
}

proptest! {
    #![proptest_config(crate::damage::cases(200))]

    #[test]
    fn no_mutation_of_a_profile_makes_the_reader_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        compressed in any::<bool>(),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = if compressed { ours_gz() } else { ours_json() };
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = read(&bytes).map_err(|error| error.to_string());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), as_json in any::<bool>()) {
        if as_json {
            bytes.insert(0, b'{');
        }
        let _ = read(&bytes);
        let _ = read(&gzip(&bytes));
    }
}
