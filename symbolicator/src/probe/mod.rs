//! Places in a file where a tracer can put a probe: where functions begin, and what the authors of a program marked for it (USDT).
//!
//! Give: a file, and a name as its author wrote it. Get: file offsets, and what is known to escape such probes. Names come from the
//! symbol tables of the file and of its separate debug file; only the file itself knows the offsets.
//!
//! `names` (is this symbol meant?) -> `functions` (where it begins); `notes` (USDT).

mod functions;
mod names;
mod notes;

use std::path::Path;

use object::{Object, ObjectSegment};
use recording::module::{Module, ModuleKind};

use crate::SymbolOptions;
use crate::elf::ElfModule;
use crate::elf::file::ElfFile;
use crate::error::SymbolError;

pub use self::functions::{Function, Functions, find_functions};
pub use self::notes::{StaticProbe, static_probes};

/// What is known of a place that was given by its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An instruction begins there; `function+0x12`, where that is known.
    Instruction(Option<String>),
    /// An instruction that begins before it goes on there. A probe would damage the program.
    InsideInstruction {
        /// Where the instruction begins in the file.
        begins_at: u64,
        /// `function+0x12`.
        name: String,
    },
    /// No code of the file is there.
    NoCode,
    /// The file does not say of which function it is a part, so it can't be checked.
    Unknown,
}

/// What is at an offset in a file.
pub fn place_at(path: &Path, file_offset: u64, options: &SymbolOptions) -> Result<Place, SymbolError> {
    let (mut elf, code) = open(path, options)?;
    let Some(address) = code.address(file_offset) else {
        return Ok(Place::NoCode);
    };
    Ok(functions::place(&mut elf, &code, address))
}

/// A file with its symbols, and where its code is.
fn open(path: &Path, options: &SymbolOptions) -> Result<(ElfModule, Code), SymbolError> {
    let file = ElfFile::open(path)?;
    let module = Module {
        kind: ModuleKind::File,
        path: path.to_owned(),
        readable_path: None,
        build_id: file.build_id().cloned(),
        arch: None,
    };
    Ok((ElfModule::open(&module, None, options)?, Code::of(&file)?))
}

/// Which part of a file is mapped where, of what is executable.
#[derive(Clone, Debug)]
struct Code {
    /// Relative address, offset in the file, bytes.
    segments: Vec<(u64, u64, u64)>,
}

impl Code {
    fn of(file: &ElfFile) -> Result<Code, SymbolError> {
        let object = file.object()?;
        let executable = object.segments().filter(|segment| segment.permissions().executable());
        let segments = executable.map(|segment| {
            let (offset, bytes) = segment.file_range();
            (segment.address().wrapping_sub(file.base_svma()), offset, bytes)
        });
        Ok(Code {
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
