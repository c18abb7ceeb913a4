//! File offsets for probes: the starts of functions, and the probes that a program's author defined (USDT).
//!
//! The caller gives a file and a name as in the source, and gets file offsets, and the calls that such probes miss.
//! Names are in the symbol tables of the file and of its separate debug file; offsets are in the file alone.
//!
//! `names` (does the name mean this symbol?) -> `functions` (where it begins); `notes` (USDT).

mod functions;
mod names;
mod notes;

use std::path::Path;

use object::{Object, ObjectSegment};
use recording::module::{Module, ModuleKind};

use crate::error::SymbolError;
use crate::locate::SymbolOptions;
use crate::objects::ObjectModule;
use crate::objects::file::ObjectFile;

pub use self::functions::{Function, Functions, find_functions};
pub use self::notes::{StaticProbe, static_probes};

/// What is at a file offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtOffset {
    /// An instruction begins there; `function+0x12`, if the function is known.
    Instruction(Option<String>),
    /// The middle of an instruction. A probe would damage the program.
    InsideInstruction {
        /// File offset of the instruction.
        begins_at: u64,
        /// `function+0x12`.
        name: String,
    },
    /// No code.
    NoCode,
    /// Code of an unknown function: it cannot be checked.
    Unknown,
}

/// Looks at a file offset.
pub fn place_at(path: &Path, file_offset: u64, options: &SymbolOptions) -> Result<AtOffset, SymbolError> {
    let (mut module, code) = open(path, options)?;
    let Some(address) = code.address(file_offset) else {
        return Ok(AtOffset::NoCode);
    };
    Ok(functions::place(&mut module, &code, address))
}

/// A file with its symbols, and where its code is.
fn open(path: &Path, options: &SymbolOptions) -> Result<(ObjectModule, Segments), SymbolError> {
    let file = ObjectFile::open(path)?;
    let module = Module {
        kind: ModuleKind::File,
        path: path.to_owned(),
        readable_path: None,
        build_id: file.build_id().cloned(),
        arch: None,
    };
    Ok((ObjectModule::open(&module, None, options)?, Segments::code(&file)?))
}

/// Segments of a file: addresses and file offsets.
#[derive(Clone, Debug)]
struct Segments {
    /// Relative address, offset in the file, bytes.
    segments: Vec<(u64, u64, u64)>,
}

impl Segments {
    /// The executable segments.
    fn code(file: &ObjectFile) -> Result<Segments, SymbolError> {
        Segments::of(file, |segment| segment.permissions().executable())
    }

    /// The segments that `is_wanted` accepts.
    fn of(file: &ObjectFile, is_wanted: impl Fn(&object::Segment<'_, '_>) -> bool) -> Result<Segments, SymbolError> {
        let object = file.object()?;
        let segments = object.segments().filter(is_wanted).map(|segment| {
            let (offset, bytes) = segment.file_range();
            (segment.address().wrapping_sub(file.base_svma()), offset, bytes)
        });
        Ok(Segments {
            segments: segments.collect(),
        })
    }

    /// The file offset of a relative address.
    fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, offset, bytes)| {
            let within = address.checked_sub(*start).filter(|within| within < bytes)?;
            offset.checked_add(within)
        })
    }

    /// The relative address of a file offset.
    fn address(&self, file_offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, offset, bytes)| {
            let within = file_offset.checked_sub(*offset).filter(|within| within < bytes)?;
            start.checked_add(within)
        })
    }
}
