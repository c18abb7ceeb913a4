//! Signatures of programs and libraries that are on npm, and of these with other bytes.
//!
//! The files are megabytes long, and a signature has a hash of each page. So the fixtures have only those ranges of a
//! file that the reader asks for; `tests/fixtures/signatures/README.md` has where they come from. The expected answers
//! are those of a script that shares no code with the reader.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use recorder_macos::codesign::{Cpu, Signature, SignatureError, Slice, read};
use recording::sink::{InMemory, ReadAt};

const JIT: &str = "com.apple.security.cs.allow-jit";
const MEMORY: &str = "com.apple.security.cs.allow-unsigned-executable-memory";
const PAGES: &str = "com.apple.security.cs.disable-executable-page-protection";
const DYLD: &str = "com.apple.security.cs.allow-dyld-environment-variables";
const LIBRARIES: &str = "com.apple.security.cs.disable-library-validation";
const TASK: &str = "com.apple.security.get-task-allow";

/// A file of which only some ranges are known. Reading any other is an error.
#[derive(Clone, Debug)]
struct Ranges {
    len: u64,
    ranges: Vec<(u64, Vec<u8>)>,
}

impl ReadAt for Ranges {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let found = self.ranges.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(at..)?.get(..buffer.len())
        });
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Ranges {
    /// A line with the length of the file, and one for each range: its offset and its bytes, all in hex.
    fn parse(text: &str) -> Ranges {
        let mut lines = text.lines();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let len = number(lines.next().unwrap());
        let ranges = lines.map(|line| {
            let (start, bytes) = line.split_once(' ').unwrap();
            let bytes = bytes
                .as_bytes()
                .chunks(2)
                .map(|digits| number(std::str::from_utf8(digits).unwrap()) as u8);
            (number(start), bytes.collect())
        });
        Ranges {
            len,
            ranges: ranges.collect(),
        }
    }

    /// Writes the file, with holes between its ranges.
    fn write(&self, path: &Path) {
        let file = File::create(path).unwrap();
        file.set_len(self.len).unwrap();
        self.ranges
            .iter()
            .for_each(|(start, bytes)| file.write_all_at(bytes, *start).unwrap());
    }

    /// The same file with other bytes in place of all that are these.
    fn replace(&self, from: &[u8], to: &[u8]) -> Ranges {
        assert_eq!(from.len(), to.len());
        let mut changed = self.clone();
        let mut count = 0;
        for (_, bytes) in &mut changed.ranges {
            for at in 0..=bytes.len().saturating_sub(from.len()) {
                if bytes.get(at..at + from.len()) == Some(from) {
                    bytes[at..at + from.len()].copy_from_slice(to);
                    count += 1;
                }
            }
        }
        assert!(count > 0, "the bytes are there");
        changed
    }

    /// The same file with an entitlement that is false.
    fn without(&self, entitlement: &str) -> Ranges {
        let (yes, no) = (
            [entitlement.as_bytes(), b"\x01\x01\xff"].concat(),
            [entitlement.as_bytes(), b"\x01\x01\x00"].concat(),
        );
        self.replace(&yes, &no)
    }

    /// The same file with entitlements in a property list alone: the entry of those in DER becomes one of a kind that
    /// nobody reads.
    fn without_der(&self) -> Ranges {
        let mut changed = self.clone();
        let mut entries = changed.ranges.iter_mut().map(|(_, bytes)| bytes);
        entries.find(|bytes| is_entry_of_der(bytes)).unwrap()[3] = 0x99;
        changed
    }

    /// The same file with other bytes in its code directory, from this offset on.
    fn with_directory(&self, at: usize, to: &[u8]) -> Ranges {
        let mut changed = self.clone();
        let of_directory = changed.ranges.iter_mut().find_map(|(_, bytes)| {
            let start = bytes.windows(4).position(|word| word == [0xfa, 0xde, 0x0c, 0x02])?;
            bytes.get_mut(start + at..start + at + to.len())
        });
        of_directory.unwrap().copy_from_slice(to);
        changed
    }
}

/// True for the entry of a signature that leads to entitlements in DER (slot 7).
fn is_entry_of_der(entry: &[u8]) -> bool {
    entry.len() == 8 && entry.starts_with(&[0, 0, 0, 7])
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/signatures")
}

/// Writes a signed file, and the same without one of its entitlements.
pub(crate) fn write_signed(name: &str, without: Option<&str>, path: &Path) {
    let fixture = fixture(name);
    without
        .map_or(fixture.clone(), |entitlement| fixture.without(entitlement))
        .write(path);
}

fn fixture(name: &str) -> Ranges {
    Ranges::parse(&std::fs::read_to_string(folder().join(name).with_extension("hex")).unwrap())
}

/// The signature of a file with one slice, for arm64.
fn signature(file: &Ranges) -> Signature {
    let mut slices = read(file).unwrap();
    assert_eq!(slices.len(), 1);
    let slice = slices.remove(0);
    assert_eq!(slice.cpu, Cpu::Arm64);
    slice.signature.unwrap()
}

fn expected(identifier: &str, entitlements: &[&str]) -> Signature {
    Signature {
        identifier: identifier.to_owned(),
        entitlements: entitlements.iter().map(|key| (*key).to_owned()).collect(),
        ..Signature::default()
    }
}

/// What is permitted: reading the process, libraries of any signer, variables of dyld.
fn permits(signature: &Signature) -> [bool; 3] {
    [
        signature.permits_reading(),
        signature.permits_any_library(),
        signature.permits_dyld_variables(),
    ]
}

#[test]
fn hardened_with_entitlements() {
    let node = signature(&fixture("node"));
    let hardened = |identifier, entitlements| Signature {
        is_hardened: true,
        ..expected(identifier, entitlements)
    };
    assert_eq!(node, hardened("node", &[JIT, MEMORY, PAGES, DYLD, LIBRARIES, TASK]));
    assert_eq!(permits(&node), [true; 3]);
    // Deno has no `get-task-allow`.
    let deno = signature(&fixture("deno"));
    assert_eq!(deno, hardened("deno", &[JIT, MEMORY, PAGES, DYLD, LIBRARIES]));
    assert_eq!(permits(&deno), [false, true, true]);
}

#[test]
fn hardened_without_an_entitlement() {
    let node = fixture("node");
    assert_eq!(permits(&signature(&node.without(TASK))), [false, true, true]);
    assert_eq!(permits(&signature(&node.without(LIBRARIES))), [true, false, true]);
    assert_eq!(permits(&signature(&node.without(DYLD))), [true, true, false]);
    let none = node.without(TASK).without(LIBRARIES).without(DYLD);
    assert_eq!(permits(&signature(&none)), [false; 3]);
}

#[test]
fn entitlements_of_old_signatures_are_a_property_list() {
    for name in ["node", "deno"] {
        let file = fixture(name);
        assert_eq!(signature(&file.without_der()), signature(&file));
    }
    // Where both are there, DER counts.
    let changed = fixture("node").replace(b"<true/>", b"<fals/>");
    assert_eq!(signature(&changed), signature(&fixture("node")));
    assert!(signature(&changed.without_der()).entitlements.is_empty());
}

#[test]
fn ad_hoc() {
    let pnpm = signature(&fixture("pnpm"));
    let ad_hoc = |identifier, is_linker_signed| Signature {
        is_ad_hoc: true,
        is_linker_signed,
        ..expected(identifier, &[])
    };
    // With two code directories.
    assert_eq!(pnpm, ad_hoc("pnpm", false));
    let rollup = signature(&fixture("rollup"));
    assert_eq!(rollup, ad_hoc("libbindings_napi.dylib", true));
    assert_eq!(permits(&rollup), [true; 3]);
}

#[test]
fn a_fat_file_has_an_answer_for_each_processor() {
    let arm64 = Signature {
        is_ad_hoc: true,
        is_linker_signed: true,
        ..expected("fsevents.node", &[])
    };
    let slices = [(Cpu::X86_64, None), (Cpu::Arm64, Some(arm64))];
    let found = read(&fixture("fsevents")).unwrap();
    assert!(found.iter().all(|slice| slice.build_id.is_some()));
    let found = found.into_iter().map(|Slice { cpu, signature, .. }| (cpu, signature));
    assert_eq!(found.collect::<Vec<_>>(), slices);
}

/// No program of macOS may be kept here. So the flags are written into the signature of another program.
#[test]
fn what_is_of_macos_or_restricted_permits_nothing() {
    let node = fixture("node");
    let platform = signature(&node.with_directory(38, &[15]));
    assert!(platform.is_platform);
    assert_eq!(permits(&platform), [false, true, false]);
    let flags = |flags: u32| signature(&fixture("rollup").with_directory(12, &flags.to_be_bytes()));
    let restricted = flags(0x802);
    assert!(restricted.is_restricted && restricted.is_ad_hoc && !restricted.is_linker_signed);
    assert_eq!(permits(&restricted), [true, true, false]);
    assert_eq!(permits(&flags(0x2000)), [true, false, true]);
    assert_eq!(permits(&flags(0x10000)), [false; 3]);
}

#[test]
fn what_is_no_macho_file_is_none() {
    let texts: [&[u8]; 6] = [
        b"",
        b"#!/bin/sh\n",
        b"\x7fELF\x02\x01\x01\x00",
        // A class file of Java 8.
        b"\xca\xfe\xba\xbe\x00\x00\x00\x34\x00\x00",
        b"\xcf\xfa\xed",
        b"MZ\x90\x00\x03\x00\x00\x00",
    ];
    for text in texts {
        let result = read(&InMemory(text));
        assert!(matches!(result, Err(SignatureError::NotMachO)), "{text:?}: {result:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(14), failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes in a file are an answer or an error.
    #[test]
    fn any_change_is_an_answer_or_an_error(
        name in prop_oneof![Just("node"), Just("pnpm"), Just("fsevents")],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut file = fixture(name);
        for (range, at, byte) in changes {
            let (_, bytes) = range.get_mut(&mut file.ranges);
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(&file);
    }
}

/// A file that keeps which ranges are read.
struct Kept {
    file: InMemory<Vec<u8>>,
    hides_der: Cell<bool>,
    ranges: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl ReadAt for Kept {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)?;
        self.ranges.borrow_mut().push((offset, buffer.to_vec()));
        if self.hides_der.get() && is_entry_of_der(buffer) {
            buffer[3] = 0x99;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

/// Not a test: makes the fixture `SPROF_FIXTURE` of the file `SPROF_MACHO`.
#[test]
#[ignore = "it makes a fixture"]
fn make() {
    let [Some(file), Some(fixture)] = ["SPROF_MACHO", "SPROF_FIXTURE"].map(std::env::var_os) else {
        return;
    };
    let kept = Kept {
        file: InMemory(std::fs::read(file).unwrap()),
        hides_der: Cell::new(false),
        ranges: RefCell::default(),
    };
    println!("{:#?}", read(&kept).unwrap());
    kept.hides_der.set(true);
    read(&kept).unwrap();
    let mut ranges = kept.ranges.into_inner();
    ranges.sort_by_key(|(start, bytes)| (*start, std::cmp::Reverse(bytes.len())));
    let mut text = format!("{:x}\n", kept.file.len());
    let mut end = 0;
    for (start, bytes) in ranges {
        // What lies in an earlier range is there.
        if start + bytes.len() as u64 > end {
            end = start + bytes.len() as u64;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("{start:x} {hex}\n"));
        }
    }
    std::fs::write(folder().join(fixture).with_extension("hex"), text).unwrap();
}
