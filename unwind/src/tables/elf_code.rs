//! Functions of an ELF file that have no unwind rules: their code gives the rules, as in Mach-O files.
//!
//! musl and much assembly have none. Where a function begins, symbols say, the functions with rules around, calls to
//! it, and the end of the one before: musl's shared library has no symbols of functions that it does not export, such
//! as the parts of `qsort`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gimli::Register;

use crate::arch::Arch;
use crate::arch::rule::Rule;
use crate::files::elf::Elf;
use crate::files::file_slice::{FileSlice, read_slice};
use crate::tables::code_rules::CodeRules;
use recording::sink::KeptFile;

/// musl's `vfork` has 8 bytes up to its system call.
const MAX_WITHOUT_STACK: u64 = 64;
/// In a larger piece of code, functions begin where symbols say. musl has 400 KiB.
const MAX_PIECE: u64 = 8 << 20;

/// The code of one file. All addresses are stated ones.
pub(crate) struct ElfCode {
    elf: Elf,
    file: KeptFile,
    /// Where functions begin by symbols, in order; read when the first is looked for.
    symbols: Option<Vec<u64>>,
    /// By their first addresses: code from the start of a function with rules to the start of the next one.
    pieces: BTreeMap<u64, CodePiece>,
    rules: CodeRules,
}

struct CodePiece {
    end: u64,
    /// Where functions begin, in order.
    starts: Vec<u64>,
}

impl ElfCode {
    pub(crate) fn new(elf: &Elf, file: &KeptFile) -> ElfCode {
        ElfCode {
            elf: elf.clone(),
            file: file.clone(),
            symbols: None,
            pieces: BTreeMap::new(),
            rules: CodeRules::default(),
        }
    }

    /// The rule at an address that no table covers. `around`: from the start of the last function that has rules to
    /// the start of the next one.
    pub(crate) fn rule<A: Arch>(&mut self, svma: u64, around: Range<u64>) -> Option<Rule> {
        let function = self.function::<A>(svma, around)?;
        let (elf, file) = (&self.elf, &self.file);
        self.rules
            .at::<A>(svma, function, |function| code_of(elf, file, function))
    }

    /// The register that has the return address of the function at an address, if that was popped from the stack.
    pub(crate) fn return_register<A: Arch>(&mut self, svma: u64, around: Range<u64>) -> Option<Register> {
        let start = self.function::<A>(svma, around)?.start;
        let size = svma.checked_sub(start).filter(|size| *size <= MAX_WITHOUT_STACK)?;
        A::return_register(&code_of(&self.elf, &self.file, start..start + size)?)
    }

    fn function<A: Arch>(&mut self, svma: u64, around: Range<u64>) -> Option<Range<u64>> {
        let last = self.pieces.range(..=svma).next_back();
        if last.is_none_or(|(_, piece)| piece.end <= svma) {
            let code = self.elf.code_around(svma)?;
            let piece = code.start.max(around.start)..code.end.min(around.end);
            // Tables of a damaged file may say anything.
            piece.contains(&svma).then_some(())?;
            let starts = self.starts::<A>(&piece);
            let end = piece.end;
            self.pieces.insert(piece.start, CodePiece { end, starts });
        }
        let (_, piece) = self.pieces.range(..=svma).next_back()?;
        let next = piece.starts.partition_point(|start| *start <= svma);
        let start = *piece.starts.get(next.checked_sub(1)?)?;
        Some(start..piece.starts.get(next).copied().unwrap_or(piece.end))
    }

    fn starts<A: Arch>(&mut self, piece: &Range<u64>) -> Vec<u64> {
        let symbols = { &mut self.symbols }.get_or_insert_with(|| self.elf.function_symbols(&*self.file));
        let known = symbols.iter().copied().filter(|start| piece.contains(start));
        let mut starts: BTreeSet<u64> = known.chain([piece.start]).collect();
        if piece.end - piece.start <= MAX_PIECE
            && let Some(code) = code_of(&self.elf, &self.file, piece.clone())
        {
            A::function_starts(&code, piece.start, &mut starts);
        }
        starts.into_iter().collect()
    }
}

fn code_of(elf: &Elf, file: &KeptFile, svmas: Range<u64>) -> Option<Vec<u8>> {
    let size = svmas.end.checked_sub(svmas.start)?;
    let rest = elf.rest_from(svmas.start)?;
    read_slice(
        &**file,
        FileSlice {
            size: size.min(rest.size),
            ..rest
        },
    )
}
