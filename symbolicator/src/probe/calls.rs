//! Where calls of a function begin and end.
//!
//! A call begins at the first instruction, and ends at a `ret` or at a jump out of the function (a tail call). At all
//! of these instructions the stack pointer is the same. Whoever records them pairs by it, and needs no return address.

use std::ops::Range;
use std::path::Path;

use gimli::{BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, Register, UnwindContext, UnwindSection as _};
use object::{Architecture, Object, ObjectSection};

use super::functions::FunctionStart;
use super::segments::{self, Segments};
use crate::asm::{self, CodeFlow};
use crate::error::SymbolError;
use crate::files::options::SymbolOptions;
use crate::objects::ObjectModule;

/// File offsets of the instructions at which a call of a function begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlaces {
    /// The first instruction.
    pub entry: u64,
    /// Those that return.
    pub returns: Vec<u64>,
    /// Jumps to other functions, which return to the caller of this one.
    pub tail_calls: Vec<TailCall>,
}

/// A jump to another function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCall {
    /// File offset of the jump.
    pub file_offset: u64,
    /// The other function, if it is known.
    pub target: Option<String>,
}

/// Why the ends of calls can't be found.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallPlacesError {
    /// The file can't be read.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// The code leaves open where calls end.
    #[error("the ends of calls of {name} can't be found: {reason}")]
    Unclear {
        /// The function.
        name: String,
        /// The instruction that is in the way.
        reason: String,
    },
}

/// Finds the ends of calls of each of these functions of a file.
///
/// # Errors
///
/// The file can't be read, or the code of a function leaves open where its calls end.
pub fn call_places(
    path: &Path,
    functions: &[FunctionStart],
    options: &SymbolOptions,
) -> Result<Vec<CallPlaces>, CallPlacesError> {
    let (mut module, code) = segments::open(path, options)?;
    let places = functions.iter().map(|function| {
        let entry = code.address(function.file_offset).ok_or("it has no code".to_owned());
        let found = entry.and_then(|entry| find(&mut module, &code, entry));
        found.map_err(|reason| CallPlacesError::Unclear {
            name: function.name.clone(),
            reason,
        })
    });
    places.collect()
}

/// The ends of calls of the function at a relative address; else the reason why they are not known.
fn find(module: &mut ObjectModule, code: &Segments, entry: u64) -> Result<CallPlaces, String> {
    let file_offset = |address| code.offset(address).ok_or_else(|| "it has no code".to_owned());
    let end = module.function_end(entry).filter(|end| *end > entry);
    let whole = entry..end.ok_or("its size is not known")?;
    let others = module.other_parts(entry);
    let others = others
        .iter()
        .filter_map(|part| Some(part.start..part.start.checked_add(part.size?)?));
    let parts: Vec<Range<u64>> = std::iter::once(whole).chain(others).collect();
    let mut places = CallPlaces {
        entry: file_offset(entry)?,
        returns: Vec::new(),
        tail_calls: Vec::new(),
    };
    for part in &parts {
        let flows = asm::flows(module, part).ok_or("it has no machine code that sprof can read")?;
        for (at, flow) in flows {
            let place = || format!("at {at:#x}");
            match flow {
                CodeFlow::Next => {}
                CodeFlow::Return => places.returns.push(file_offset(at)?),
                CodeFlow::Unknown => return Err(format!("sprof does not know the instruction {}", place())),
                // An end would be taken for each round.
                CodeFlow::Jump(target) | CodeFlow::Branch(target) if target == entry => {
                    return Err(format!("it jumps to its own beginning {}, which is no call", place()));
                }
                CodeFlow::Jump(target) | CodeFlow::Branch(target)
                    if parts.iter().any(|part| part.contains(&target)) => {}
                // With a frame on the stack, it goes on elsewhere in the function.
                _ if has_frame(module, at) => {}
                CodeFlow::Jump(target) => places.tail_calls.push(TailCall {
                    file_offset: file_offset(at)?,
                    target: module.function(target).map(|function| function.name),
                }),
                CodeFlow::Branch(_) => return Err(format!("a jump out of it has a condition {}", place())),
                CodeFlow::IndirectJump => {
                    return Err(format!("a jump may stay in it or be a tail call {}", place()));
                }
            }
        }
    }
    let mut exits = { places.returns.iter() }.chain(places.tail_calls.iter().map(|call| &call.file_offset));
    match exits.clone().next() {
        None => Err("it never returns".to_owned()),
        Some(_) if exits.any(|exit| *exit == places.entry) => Err("its first instruction is its last".to_owned()),
        Some(_) => Ok(places),
    }
}

/// True if the stack pointer is certainly another one than at the function's first instruction.
fn has_frame(module: &ObjectModule, address: u64) -> bool {
    frame_rule(module, address).is_some_and(|(rule, at_entry)| rule != at_entry)
}

/// How the frame's address is computed, and how at a function's first instruction; `None` without unwind tables.
fn frame_rule(module: &ObjectModule, address: u64) -> Option<(CfaRule<usize>, CfaRule<usize>)> {
    let file = module.binary()?;
    let object = file.object().ok()?;
    // The number of the stack pointer, and the bytes that a call pushes.
    let (register, offset) = match object.architecture() {
        Architecture::X86_64 => (Register(7), 8),
        Architecture::Aarch64 => (Register(31), 0),
        _ => return None,
    };
    let section = object.section_by_name(".eh_frame")?;
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let text = object.section_by_name(".text").map(|text| text.address());
    let bases = text.map_or(bases.clone(), |text| bases.set_text(text));
    let frames = EhFrame::from(EndianSlice::new(section.data().ok()?, LittleEndian));
    let mut context = UnwindContext::new();
    let address = address.checked_add(file.base_svma())?;
    let row = frames.unwind_info_for_address(&bases, &mut context, address, EhFrame::cie_from_offset);
    Some((row.ok()?.cfa().clone(), CfaRule::RegisterAndOffset { register, offset }))
}
