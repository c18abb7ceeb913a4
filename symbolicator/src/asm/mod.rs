//! Machine code as text.

mod aarch64;
mod decoded;
mod x86_64;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use names::symbol::FunctionSymbol;
use object::{Architecture, Object};

pub(crate) use self::decoded::CodeFlow;
use self::decoded::{AddressUse, DecodedInstruction};
use crate::error::SymbolError;
use crate::jit::JitSymbols;
use crate::objects::ObjectModule;

/// Maximum number of bytes that are disassembled at once. The largest functions seen (interpreters, generated parsers)
/// have 1 MB.
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
    /// The function that holds the first instruction.
    pub function: Option<FunctionSymbol>,
    /// Parts of that function at other addresses. Compilers move code that seldom runs (`.cold`).
    pub other_parts: Vec<FunctionSymbol>,
    /// In address order.
    pub instructions: Vec<Instruction>,
    label_width: usize,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes from [`Assembly::start`].
    pub offset: u64,
    /// Mnemonic and operands. Addresses in it are relative addresses of the module.
    pub text: String,
    /// The number of its label, counted from 1 in address order, if a direct jump of the same range goes to this
    /// instruction.
    pub label: Option<u32>,
    /// Where a direct branch goes, or what the accessed address is.
    pub target: Option<InstructionTarget>,
}

/// The meaning of an address that an instruction contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstructionTarget {
    /// A jump to an instruction of the same range.
    Inside {
        /// The offset of that instruction.
        offset: u64,
        /// The label of that instruction.
        label: u32,
    },
    /// A place in a function: of a call, a jump out of the range, or an access.
    Function {
        /// Name of the function.
        name: String,
        /// Bytes from its start.
        offset: u64,
    },
    /// The slot of the global offset table with the address of the function of this name, which is in another module.
    Slot(String),
}

impl Display for InstructionTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InstructionTarget::Inside { label, .. } => write!(f, "-> L{label}"),
            InstructionTarget::Function { name, offset: 0 } => write!(f, "<{name}>"),
            InstructionTarget::Function { name, offset } => write!(f, "<{name}+{offset:#x}>"),
            InstructionTarget::Slot(name) => write!(f, "<{name}@got>"),
        }
    }
}

impl Assembly {
    /// An instruction as a line of text: `L2: jne 0x1140 -> L1`. The labels of all lines have the same width, 0 if
    /// there are none.
    pub fn line(&self, instruction: &Instruction) -> String {
        let label = instruction.label.map_or(String::new(), |label| format!("L{label}:"));
        let width = self.label_width;
        let target = instruction
            .target
            .as_ref()
            .map_or(String::new(), |target| format!(" {target}"));
        format!("{label:<width$}{}{target}", instruction.text)
    }
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
    /// A perf map has names alone.
    #[error("{0} has only names; a jitdump file (`node --perf-prof`, `python -X perf_jit`) also has the machine code")]
    NamesAlone(String),
    /// No disassembler for this processor.
    #[error("{0} is for a processor whose machine code sprof can't show; x86_64 and aarch64 are supported")]
    Architecture(String),
}

pub(crate) fn assemble(
    file: &mut ObjectModule,
    name: &str,
    start: u64,
    size: u64,
    to_end: bool,
) -> Result<Assembly, AsmError> {
    let size = match file.function_end(start) {
        Some(end) if to_end => size.max(end.saturating_sub(start)),
        _ => size,
    };
    let code = decode(file, name, start, size)?;
    let end = start.saturating_add(code.size);
    let assembly = labelled(code, start, |reference| match reference {
        AddressUse::Jump(target) | AddressUse::Call(target) => in_function(file, target),
        AddressUse::Data(target) => match file.slot(target) {
            Some(name) => Some(InstructionTarget::Slot(name)),
            None if (start..end).contains(&target) => None,
            None => in_function(file, target),
        },
    });
    Ok(Assembly {
        function: file.function(start),
        other_parts: file.other_parts(start),
        ..assembly
    })
}

/// The code of a JIT compiler in its dump. What it calls lies elsewhere in memory, and has no names here.
pub(crate) fn assemble_jit(jit: &JitSymbols, start: u64, size: u64, to_end: bool) -> Result<Assembly, AsmError> {
    let name = jit.name();
    let function = jit.lookup(&[start]).remove(0).function;
    let end = function
        .as_ref()
        .and_then(|function| function.start.checked_add(function.size?));
    let whole = end.map_or(0, |end| end.saturating_sub(start));
    let size = if to_end { whole } else { size.min(whole) }.min(MAX_BYTES);
    let bytes = jit.machine_code(start, size)?.ok_or_else(|| match jit.arch() {
        Some(_) => AsmError::NoCode {
            module: name.clone(),
            address: start,
        },
        None => AsmError::NamesAlone(name.clone()),
    })?;
    let processor = jit
        .arch()
        .and_then(Processor::of_name)
        .ok_or(AsmError::Architecture(name))?;
    let code = decode_bytes(&processor, &bytes, bytes.len(), start);
    Ok(Assembly {
        function,
        ..labelled(code, start, |_| None)
    })
}

/// The instructions with labels where others jump to. `elsewhere` finds other targets.
fn labelled(
    code: DecodedCode,
    start: u64,
    mut elsewhere: impl FnMut(AddressUse) -> Option<InstructionTarget>,
) -> Assembly {
    let holds = |offset: &u64| code.instructions.binary_search_by_key(offset, |(at, _)| *at).is_ok();
    // A jump between the bytes of an instruction, over a `lock` prefix for example, has no label.
    let inside = |target: u64| target.checked_sub(start).filter(holds);
    let mut labels: BTreeMap<u64, u32> = BTreeMap::new();
    for (_, decoded) in &code.instructions {
        if let Some(AddressUse::Jump(target)) = decoded.reference {
            labels.extend(inside(target).map(|offset| (offset, 0)));
        }
    }
    for (label, number) in labels.values_mut().zip(1..) {
        *label = number;
    }
    let mut instructions = Vec::with_capacity(code.instructions.len());
    for (offset, decoded) in code.instructions {
        let label_of = |target: u64| labels.get_key_value(&target.checked_sub(start)?);
        let inside = match decoded.reference {
            Some(AddressUse::Jump(target)) => label_of(target),
            _ => None,
        };
        let target = match inside {
            Some((offset, label)) => Some(InstructionTarget::Inside {
                offset: *offset,
                label: *label,
            }),
            None => decoded.reference.and_then(&mut elsewhere),
        };
        instructions.push(Instruction {
            offset,
            text: decoded.text,
            label: labels.get(&offset).copied(),
            target,
        });
    }
    Assembly {
        start,
        size: code.size,
        arch: code.processor.arch,
        syntax: code.processor.syntax,
        function: None,
        other_parts: Vec::new(),
        label_width: labels
            .len()
            .checked_ilog10()
            .map_or(0, |digits| digits as usize + "L1: ".len()),
        instructions,
    }
}

fn in_function(file: &mut ObjectModule, address: u64) -> Option<InstructionTarget> {
    let function = file.function(address)?;
    Some(InstructionTarget::Function {
        offset: address.checked_sub(function.start)?,
        name: function.name,
    })
}

/// A disassembler.
#[derive(Clone, Copy)]
struct Processor {
    arch: &'static str,
    syntax: &'static str,
    decode: fn(&[u8], u64) -> DecodedInstruction,
}

const X86_64: Processor = Processor {
    arch: "x86_64",
    syntax: "Intel",
    decode: x86_64::decode,
};

const AARCH64: Processor = Processor {
    arch: "aarch64",
    syntax: "ARM",
    decode: aarch64::decode,
};

impl Processor {
    /// In the words of [`Module::arch`](recording::module::Module::arch).
    fn of_name(arch: &str) -> Option<Processor> {
        [X86_64, AARCH64].into_iter().find(|processor| processor.arch == arch)
    }
}

/// Decoded bytes.
struct DecodedCode {
    processor: Processor,
    size: u64,
    /// (offset, instruction), by offset.
    instructions: Vec<(u64, DecodedInstruction)>,
}

fn decode(file: &ObjectModule, name: &str, start: u64, size: u64) -> Result<DecodedCode, AsmError> {
    let file = file.binary().ok_or_else(|| AsmError::NotOnDisk(name.to_owned()))?;
    let object = file.object()?;
    let size = size.clamp(1, MAX_BYTES);
    let bytes = file.code_at(&object, start, size).ok_or_else(|| AsmError::NoCode {
        module: name.to_owned(),
        address: start,
    })?;
    let processor = match object.architecture() {
        Architecture::X86_64 => X86_64,
        Architecture::Aarch64 => AARCH64,
        _ => return Err(AsmError::Architecture(name.to_owned())),
    };
    let asked = (size as usize).min(bytes.len());
    Ok(decode_bytes(&processor, bytes, asked, start))
}

/// Decodes the first `asked` bytes, which stand at a relative address, and the rest of the last instruction.
fn decode_bytes(processor: &Processor, bytes: &[u8], asked: usize, start: u64) -> DecodedCode {
    let mut instructions = Vec::new();
    let mut at = 0usize;
    while at < asked {
        let decoded = (processor.decode)(&bytes[at..], start.wrapping_add(at as u64));
        let len = decoded.len.max(1);
        instructions.push((at as u64, decoded));
        at += len;
    }
    DecodedCode {
        processor: *processor,
        size: at.min(bytes.len()) as u64,
        instructions,
    }
}

/// Relative addresses of the instructions in a range, and where each leads. `None`: the code is not there.
pub(crate) fn flows(file: &ObjectModule, range: &Range<u64>) -> Option<Vec<(u64, CodeFlow)>> {
    let size = range
        .end
        .checked_sub(range.start)
        .filter(|size| (1..=MAX_BYTES).contains(size))?;
    let code = decode(file, "", range.start, size).ok()?;
    let flows = code.instructions.into_iter();
    Some(flows.map(|(offset, one)| (range.start + offset, one.flow)).collect())
}

/// The start of the instruction that holds a relative address, found by decoding from the start of its function. `None`
/// if the decoder meets bytes that it does not know.
pub(crate) fn instruction_at(file: &ObjectModule, function_start: u64, address: u64) -> Option<u64> {
    let size = address.checked_sub(function_start).filter(|size| *size < MAX_BYTES)? + 1;
    let code = decode(file, "", function_start, size).ok()?;
    let all_known = !code.instructions.iter().any(|(_, one)| one.text.starts_with(".byte"));
    let (offset, _) = code.instructions.last().filter(|_| all_known)?;
    // An address behind the end of the code is in no instruction.
    (address < function_start + code.size).then_some(function_start + offset)
}
