//! Machine code with the samples of each instruction.

use std::collections::BTreeMap;

use profile::view::annotate::{addresses_of, inlined_into};
use profile::view::cost::Cost;
use recording::module::Module;
use symbolicator::{Assembly, FunctionSymbol};

use super::interleaved::Interleaved;
use super::{Annotation, around};
use crate::symbols::library::module;

/// Machine code, or why there is none.
pub(super) enum Code {
    /// The function has no machine code with samples.
    None(String),
    /// The machine code could not be read.
    Unread(String),
    Function(FunctionCode),
}

/// The machine code of a function, or of a part of it. Addresses are relative to the library.
pub(super) struct FunctionCode {
    /// The symbol, if it is a name.
    pub(super) name: Option<String>,
    pub(super) library: String,
    pub(super) arch: &'static str,
    pub(super) start: u64,
    /// Bytes that were disassembled.
    pub(super) size: u64,
    /// The symbol's size.
    pub(super) whole_size: Option<u64>,
    /// Cost of all instructions of the function.
    pub(super) cost: Cost,
    /// Cost of the instructions behind the disassembled ones.
    pub(super) behind: Cost,
    /// Parts of the function at other addresses, a sentence each.
    pub(super) other_parts: Vec<String>,
    /// Instructions without gaps.
    pub(super) runs: Vec<Vec<Instruction>>,
    /// Why sources are missing between the instructions.
    pub(super) unread: Option<String>,
}

pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) text: String,
    /// `None` without samples.
    pub(super) cost: Option<Cost>,
    /// The source that begins with this instruction.
    pub(super) lines: Vec<String>,
}

/// For each start of a function, the cost of its addresses.
type ByStart = BTreeMap<u64, BTreeMap<u64, Cost>>;

impl Annotation<'_> {
    pub(super) fn code(&self, funcs: &[u32]) -> Vec<Code> {
        let data = self.selection.data;
        let found = addresses_of(self.selection, funcs);
        if found.is_empty() {
            let into = inlined_into(self.selection, funcs);
            return vec![Code::None(match into.first() {
                None => "no samples in its own machine code".to_owned(),
                Some((into, _)) => format!(
                    "it has no samples in machine code of its own: it is inlined, most of it into {}",
                    self.selection.name(*into)
                ),
            })];
        }
        let mut code = Vec::new();
        for (lib, addresses) in found {
            let lib = &data.libs[lib as usize];
            let Some(module) = module(lib) else { continue };
            let asked: Vec<u64> = addresses.keys().copied().collect();
            let infos = match self.symbolicator.lookup(&module, &asked) {
                Ok(infos) => infos,
                Err(error) => {
                    code.push(Code::Unread(format!("no assembly of {}: {error}", module.name())));
                    continue;
                }
            };
            // Grouped by the start of the function, which the symbols give for each address.
            let mut by_start = ByStart::new();
            for ((address, cost), info) in addresses.into_iter().zip(infos) {
                let start = info.function.map_or(address, |function| function.start);
                by_start.entry(start).or_default().insert(address, cost);
            }
            code.extend(
                by_start
                    .keys()
                    .map(|start| self.function_code(&module, *start, &by_start)),
            );
        }
        code
    }

    fn function_code(&self, module: &Module, start: u64, by_start: &ByStart) -> Code {
        let costs = &by_start[&start];
        let last = costs.keys().next_back().copied().unwrap_or(start);
        let size = last.saturating_sub(start) + 1;
        let assembly = match (self.symbolicator).assembly(module, start, size, true) {
            Ok(assembly) => assembly,
            Err(error) => return Code::Unread(format!("no assembly at {start:#x}: {error}")),
        };
        let other_parts = assembly
            .other_parts
            .iter()
            .map(|FunctionSymbol { name, start, size, .. }| {
                let size = size.map_or(String::new(), |size| format!(", {size} bytes"));
                let shown = match by_start.contains_key(start) {
                    true => "also shown",
                    false => "no samples",
                };
                format!("the function has another part, {name} at {start:#x}{size}: {shown}")
            });
        let (runs, behind, unread) = self.instructions(module, &assembly, costs);
        let symbol = assembly.function.as_ref();
        Code::Function(FunctionCode {
            name: symbol
                .filter(|symbol| symbol.is_named)
                .map(|symbol| symbol.name.clone()),
            library: module.name(),
            arch: assembly.arch,
            start,
            size: assembly.size,
            whole_size: symbol.and_then(|symbol| symbol.size),
            cost: costs.values().copied().sum(),
            behind,
            other_parts: other_parts.collect(),
            runs,
            unread,
        })
    }

    /// Instructions with samples and their neighbours; the cost behind the disassembled code; why sources are missing.
    fn instructions(
        &self,
        module: &Module,
        assembly: &Assembly,
        costs: &BTreeMap<u64, Cost>,
    ) -> (Vec<Vec<Instruction>>, Cost, Option<String>) {
        let instructions = &assembly.instructions;
        let mut cost_of: BTreeMap<usize, Cost> = BTreeMap::new();
        let mut behind = Cost::default();
        for (address, cost) in costs {
            let offset = address.saturating_sub(assembly.start);
            let next = instructions.partition_point(|instruction| instruction.offset <= offset);
            match offset < assembly.size {
                true => *cost_of.entry(next.saturating_sub(1)).or_default() += *cost,
                false => behind += *cost,
            }
        }
        let last = instructions.len().saturating_sub(1);
        let runs = around(cost_of.keys().copied(), 0, last, self.args.context);
        let address_of = |at: usize| Some(assembly.start + instructions.get(at)?.offset);
        let addresses: Vec<u64> = runs.iter().cloned().flatten().filter_map(address_of).collect();
        let mut interleaved = match self.args.no_lines {
            true => Interleaved::default(),
            false => Interleaved::new(self.symbolicator, self.selection.data, module, &addresses),
        };
        let runs = runs.into_iter().map(|run| {
            interleaved.repeat_line();
            let shown = run.clone().zip(instructions.get(run).unwrap_or_default());
            let shown = shown.map(|(at, instruction)| {
                let address = assembly.start + instruction.offset;
                Instruction {
                    address,
                    text: assembly.line(instruction),
                    cost: cost_of.get(&at).copied(),
                    lines: interleaved.lines_before(address),
                }
            });
            shown.collect()
        });
        let runs = runs.collect();
        (runs, behind, interleaved.unread())
    }
}
