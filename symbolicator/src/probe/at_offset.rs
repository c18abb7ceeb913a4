//! What a probe at a file offset would hit.

use std::path::Path;

use super::segments::{self, Segments};
use crate::asm;
use crate::error::SymbolError;
use crate::files::options::SymbolOptions;
use crate::objects::ObjectModule;

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

/// Finds what a probe at a file offset would hit.
///
/// # Errors
///
/// The file can't be read, or has no code that sprof can read.
pub fn place_at(path: &Path, file_offset: u64, options: &SymbolOptions) -> Result<AtOffset, SymbolError> {
    let (mut module, code) = segments::open(path, options)?;
    let Some(address) = code.address(file_offset) else {
        return Ok(AtOffset::NoCode);
    };
    Ok(place(&mut module, &code, address))
}

/// What a probe at a relative address would hit.
fn place(module: &mut ObjectModule, code: &Segments, address: u64) -> AtOffset {
    let Some(function) = module.function(address).filter(|function| function.start <= address) else {
        return AtOffset::Unknown;
    };
    let named = |offset: u64| match offset {
        0 => function.name.clone(),
        offset => format!("{}+{offset:#x}", function.name),
    };
    match asm::instruction_at(module, function.start, address) {
        Some(begin) if begin == address => AtOffset::Instruction(Some(named(address - function.start))),
        Some(begin) => match code.offset(begin) {
            Some(begins_at) => AtOffset::InsideInstruction {
                begins_at,
                name: named(begin.saturating_sub(function.start)),
            },
            None => AtOffset::Unknown,
        },
        None => AtOffset::Unknown,
    }
}
