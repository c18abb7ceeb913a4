//! USDT probes, which a program's author defines with `DTRACE_PROBE` and similar macros, from `.note.stapsdt`.
//!
//! The layout is in systemtap's sys/sdt.h: addresses from link time, in words of the file, then three strings.
//!
//! ```text
//! location   .stapsdt.base   semaphore or 0   provider\0   name\0   arguments\0
//! ```

use std::path::Path;

use object::{Object, ObjectSection};

use super::segments::Segments;
use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;

/// Type of the note (NT_STAPSDT) and its owner.
const NOTE_TYPE: u32 = 3;
const NOTE_NAME: &[u8] = b"stapsdt\0";
/// Probes of one file at most; libc has 150, a JVM 600.
const MAX_PROBES: usize = 100_000;

/// One location of a USDT probe; inlined code has several with the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// The provider: usually the name of the program or library.
    pub provider: String,
    /// The name.
    pub name: String,
    /// File offset.
    pub file_offset: u64,
    /// File offset of the 16-bit counter, if there is one: the program prepares the arguments only while the counter is
    /// not 0.
    pub semaphore: Option<u64>,
    /// The arguments, as the compiler wrote them: `-4@%eax 8@-16(%rbp)`.
    pub arguments: String,
}

/// All USDT probes of a file.
///
/// # Errors
///
/// The file can't be read, or is not an ELF or Mach-O file.
pub fn static_probes(path: &Path) -> Result<Vec<StaticProbe>, SymbolError> {
    let file = ObjectFile::open(path)?;
    let notes = file.section(".note.stapsdt")?;
    let object = file.object()?;
    let form = NoteFormat {
        little_endian: object.is_little_endian(),
        word_bytes: if object.is_64() { 8 } else { 4 },
    };
    let base = object.section_by_name(".stapsdt.base").map(|section| section.address());
    let code = Segments::code(&file)?;
    let data = Segments::matching(&file, |_| true)?;
    let mut probes = Vec::new();
    for note in parse(&notes, form) {
        // Prelinking moves the code and not the notes. The base moves with the code.
        let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
        let relative = |address: u64| address.wrapping_add(moved).wrapping_sub(file.base_svma());
        let semaphore = match note.semaphore {
            0 => None,
            // A counter that is not in the file: nothing could increase it, and the program would skip the probe.
            address => match data.offset(relative(address)) {
                Some(offset) => Some(offset),
                None => continue,
            },
        };
        let Some(file_offset) = code.offset(relative(note.location)) else {
            continue;
        };
        probes.push(StaticProbe {
            provider: note.provider,
            name: note.name,
            file_offset,
            semaphore,
            arguments: note.arguments,
        });
    }
    Ok(probes)
}

#[derive(Clone, Copy)]
struct NoteFormat {
    little_endian: bool,
    word_bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct UsdtNote {
    location: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
    arguments: String,
}

impl NoteFormat {
    fn number(self, bytes: &[u8]) -> u64 {
        let shift_in = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.little_endian {
            bytes.iter().rev().fold(0, shift_in)
        } else {
            bytes.iter().fold(0, shift_in)
        }
    }
}

/// The notes of a section up to where it is damaged. Each is `namesz descsz type name desc`, name and desc padded to 4
/// bytes.
fn parse(section: &[u8], form: NoteFormat) -> Vec<UsdtNote> {
    let mut notes = Vec::new();
    let mut rest = section;
    while notes.len() < MAX_PROBES {
        let Some((header, body)) = rest.split_at_checked(12) else {
            break;
        };
        let [name_bytes, desc_bytes, kind] =
            [0, 4, 8].map(|at| header.get(at..at + 4).map_or(0, |bytes| form.number(bytes)) as usize);
        let padded = |bytes: usize| bytes.checked_next_multiple_of(4);
        let Some((name, body)) = padded(name_bytes).and_then(|bytes| body.split_at_checked(bytes)) else {
            break;
        };
        let Some(desc) = body.get(..desc_bytes) else { break };
        // The last one may lack its padding.
        rest = padded(desc_bytes)
            .and_then(|bytes| body.get(bytes..))
            .unwrap_or_default();
        if kind == NOTE_TYPE as usize && name.starts_with(NOTE_NAME) {
            notes.extend(parse_one(desc, form));
        }
    }
    notes
}

fn parse_one(desc: &[u8], form: NoteFormat) -> Option<UsdtNote> {
    let (words, strings) = desc.split_at_checked(3 * form.word_bytes)?;
    let mut words = words.chunks(form.word_bytes).map(|word| form.number(word));
    let mut strings = strings.split(|byte| *byte == 0);
    let mut string = || strings.next().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    Some(UsdtNote {
        location: words.next()?,
        base: words.next()?,
        semaphore: words.next()?,
        provider: string()?,
        name: string()?,
        arguments: string().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORM: NoteFormat = NoteFormat {
        little_endian: true,
        word_bytes: 8,
    };

    fn note(words: [u64; 3], strings: &[u8]) -> Vec<u8> {
        let mut desc: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        desc.extend_from_slice(strings);
        let mut note: Vec<u8> = [8, desc.len() as u32, NOTE_TYPE]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        note.extend_from_slice(NOTE_NAME);
        note.extend_from_slice(&desc);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn notes_of_others_are_passed_over() {
        let mut section = note([0x1160, 0x2000, 0x4010], b"app\0request\0-4@%eax 8@%rdi\0");
        section.extend_from_slice(&[4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, b'G', b'N', b'U', 0, 1, 2, 3, 4]);
        section.extend_from_slice(&note([0x1170, 0x2000, 0], b"app\0done\0\0"));
        let notes = parse(&section, FORM);
        assert_eq!(notes.len(), 2);
        let first = UsdtNote {
            location: 0x1160,
            base: 0x2000,
            semaphore: 0x4010,
            provider: "app".into(),
            name: "request".into(),
            arguments: "-4@%eax 8@%rdi".into(),
        };
        assert_eq!(notes[0], first);
        assert_eq!((notes[1].name.as_str(), notes[1].arguments.as_str()), ("done", ""));
        // Cut in the middle: what is before it is kept.
        for len in 0..section.len() {
            assert!(parse(&section[..len], FORM).len() <= 2);
        }
        assert_eq!(parse(&section[..section.len() - 20], FORM).len(), 1);
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..80, byte in any::<u8>()) {
            parse(&bytes, FORM);
            parse(&bytes, NoteFormat { little_endian: false, word_bytes: 4 });
            let mut section = note([1, 2, 3], b"app\0request\0-4@%eax\0");
            if let Some(damaged) = section.get_mut(at) {
                *damaged = byte;
            }
            parse(&section, FORM);
        }
    }
}
