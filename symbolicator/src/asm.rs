//! Machine code as text.

mod aarch64;
mod x86_64;

use object::{Architecture, Object, ObjectSection, ObjectSegment};

use crate::elf::ElfModule;
use crate::elf::file::{ElfFile, is_code};
use crate::error::SymbolError;
use crate::symbolicator::Engine;
use crate::{ModuleKey, Symbolicator};

/// At most so many bytes are disassembled at once. The largest functions seen (interpreters, generated parsers) have 1 MB.
const MAX_BYTES: u64 = 4 << 20;

/// Instructions of an address range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// Relative address of the first instruction.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// `x86_64` or `aarch64`.
    pub arch: &'static str,
    /// Syntax of the text: `Intel` or `ARM`.
    pub syntax: &'static str,
    /// In address order.
    pub instructions: Vec<Instruction>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes from [`Assembly::start`].
    pub offset: u64,
    /// The text. Addresses in it are relative addresses of the module, with the name of the function if that is another function.
    pub text: String,
}

/// A decoded instruction.
struct Decoded {
    /// Length in bytes, at least 1.
    len: usize,
    text: String,
    /// The relative address that the instruction branches to or accesses.
    target: Option<u64>,
}

/// Why there is no assembly.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AsmError {
    /// The module has no file.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// The file does not have these bytes.
    #[error("{module} has no machine code at {address:#x}")]
    NoCode {
        /// Debug name of the module.
        module: String,
        /// Relative address.
        address: u64,
    },
    /// The machine code is not on disk.
    #[error("no file has the machine code of {0}: only its symbols are known")]
    NotOnDisk(String),
    /// No disassembler for this processor.
    #[error("{0} is for a processor whose machine code sprof can't show; x86_64 and aarch64 are supported")]
    Architecture(String),
}

impl Symbolicator {
    /// The instructions from relative address `start` on, over `size` bytes. With `to_function_end`, on to the end of the
    /// function that holds `start`, if that is further.
    pub fn assembly(
        &self,
        key: &ModuleKey,
        start: u64,
        size: u64,
        to_function_end: bool,
    ) -> Result<Assembly, AsmError> {
        let entry = self.find(key)?;
        let name = entry.module.name();
        self.with_engine(&entry, |engine| {
            Ok(match engine {
                Engine::Elf(elf) => assemble(elf, &name, start, size, to_function_end),
                Engine::Kernel(_) | Engine::Jit(_) | Engine::Recorded(_) => Err(AsmError::NotOnDisk(name)),
            })
        })?
    }
}

fn assemble(elf: &mut ElfModule, name: &str, start: u64, size: u64, to_end: bool) -> Result<Assembly, AsmError> {
    let no_code = || AsmError::NoCode {
        module: name.to_owned(),
        address: start,
    };
    let function_end = elf.function_end(start);
    let size = match function_end {
        Some(end) if to_end => size.max(end - start),
        _ => size,
    };
    let file = elf.binary().ok_or_else(|| AsmError::NotOnDisk(name.to_owned()))?;
    let object = file.object()?;
    let bytes = code_at(&file, &object, start, size.clamp(1, MAX_BYTES)).ok_or_else(no_code)?;
    let (arch, syntax, decode): (_, _, fn(&[u8], u64) -> Decoded) = match object.architecture() {
        Architecture::X86_64 => ("x86_64", "Intel", x86_64::decode),
        Architecture::Aarch64 => ("aarch64", "ARM", aarch64::decode),
        _ => return Err(AsmError::Architecture(name.to_owned())),
    };
    let asked = (size.clamp(1, MAX_BYTES) as usize).min(bytes.len());
    let mut instructions = Vec::new();
    let mut at = 0usize;
    while at < asked {
        let address = start.wrapping_add(at as u64);
        let decoded = decode(&bytes[at..], address);
        let mut text = decoded.text;
        if let Some(target) = decoded.target
            && !(start..function_end.unwrap_or(start + asked as u64)).contains(&target)
            && let Some(function) = elf.function(target)
        {
            let label = match target - function.start {
                0 => format!(" <{}>", function.name),
                offset => format!(" <{}+{offset:#x}>", function.name),
            };
            text.push_str(&label);
        }
        instructions.push(Instruction {
            offset: at as u64,
            text,
        });
        at += decoded.len.max(1);
    }
    Ok(Assembly {
        start,
        size: at.min(bytes.len()) as u64,
        arch,
        syntax,
        instructions,
    })
}

/// The start of the instruction that holds a relative address, found by decoding from the start of its function. `None` if the decoder
/// meets bytes that are no instruction.
pub(crate) fn instruction_at(elf: &mut ElfModule, function_start: u64, address: u64) -> Option<u64> {
    let size = address.checked_sub(function_start).filter(|size| *size < MAX_BYTES)? + 1;
    let assembly = assemble(elf, "", function_start, size, false).ok()?;
    let all_known = !assembly.instructions.iter().any(|one| one.text.starts_with(".byte"));
    let last = assembly.instructions.last().filter(|_| all_known)?;
    // An address behind the end of the code is in no instruction.
    (address < function_start + assembly.size).then_some(function_start + last.offset)
}

/// Longest instruction (Intel SDM volume 2, 2.3.11): the last instruction of a range may reach this far beyond it.
const MAX_INSTRUCTION_BYTES: u64 = 15;

/// The bytes at a relative address: `size` and enough for the last instruction, or fewer if the code ends there.
fn code_at<'a>(file: &'a ElfFile, object: &object::File<'a>, start: u64, size: u64) -> Option<&'a [u8]> {
    let svma = start.checked_add(file.base_svma())?;
    let wanted = size + MAX_INSTRUCTION_BYTES;
    let section = object.sections().filter(is_code).find_map(|section| {
        let offset = svma.checked_sub(section.address())?;
        section.data().ok()?.get(usize::try_from(offset).ok()?..)
    });
    // A file without section headers still has its segments.
    let bytes = section.filter(|bytes| !bytes.is_empty()).or_else(|| {
        object.segments().find_map(|segment| {
            let executable = segment.permissions().executable();
            let offset = svma.checked_sub(segment.address()).filter(|_| executable)?;
            segment.data().ok()?.get(usize::try_from(offset).ok()?..)
        })
    })?;
    let len = bytes.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
    (len > 0).then(|| &bytes[..len])
}
