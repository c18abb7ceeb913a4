//! Machine code with the samples of each instruction.

use std::collections::BTreeMap;
use std::io::{self, Write};

use profile::text::one_line;
use profile::view::annotate::{addresses_of, inlined_into};
use profile::view::cost::Cost;
use recording::module::Module;
use symbolicator::{Assembly, FunctionSymbol};

use super::interleaved::Interleaved;
use super::{Annotation, around};
use crate::library::module;
use crate::style::Style;

impl Annotation<'_> {
    pub(super) fn write_assembly(&self, funcs: &[u32], out: &mut dyn Write) -> io::Result<()> {
        let data = self.selection.data;
        let found = addresses_of(self.selection, funcs);
        if found.is_empty() {
            let into = inlined_into(self.selection, funcs);
            return match into.first() {
                None => writeln!(out, "\nno samples in its own machine code"),
                Some((into, _)) => writeln!(
                    out,
                    "\nit has no samples in machine code of its own: it is inlined, most of it into {}",
                    self.selection.name(*into)
                ),
            };
        }
        for (lib, addresses) in found {
            let lib = &data.libs[lib as usize];
            let Some(module) = module(lib) else { continue };
            let asked: Vec<u64> = addresses.keys().copied().collect();
            let infos = self.symbolicator.lookup(&module, &asked);
            let infos = match infos {
                Ok(infos) => infos,
                Err(error) => {
                    let text = format!("no assembly of {}: {error}", module.name());
                    writeln!(out, "\n{}", self.style(Style::Warning, one_line(&text)))?;
                    continue;
                }
            };
            // By the start of the function, which the symbols give for each address.
            let mut by_start: BTreeMap<u64, BTreeMap<u64, Cost>> = BTreeMap::new();
            for ((address, cost), info) in addresses.into_iter().zip(infos) {
                let start = info.function.map_or(address, |function| function.start);
                by_start.entry(start).or_default().insert(address, cost);
            }
            for (start, costs) in &by_start {
                let last = costs.keys().next_back().copied().unwrap_or(*start);
                let size = last.saturating_sub(*start) + 1;
                match (self.symbolicator).assembly(&module, *start, size, true) {
                    Ok(assembly) => {
                        self.write_title(&module, &assembly, *start, &by_start, out)?;
                        self.write_instructions(&module, &assembly, costs, out)?;
                    }
                    Err(error) => {
                        let text = format!("no assembly at {start:#x}: {error}");
                        writeln!(out, "\n{}", self.style(Style::Warning, one_line(&text)))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// `sampled` has the start of each part that is shown, with the cost of its addresses.
    fn write_title(
        &self,
        module: &Module,
        assembly: &Assembly,
        start: u64,
        sampled: &BTreeMap<u64, BTreeMap<u64, Cost>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let costs = sampled.get(&start).map(BTreeMap::values);
        let cost: Cost = costs.into_iter().flatten().copied().sum();
        let whole = assembly.function.as_ref().and_then(|function| function.size);
        let size = match whole.filter(|whole| *whole > assembly.size) {
            Some(whole) => format!("the first {} of {whole} bytes", assembly.size),
            None => format!("{} bytes", assembly.size),
        };
        let place = format!(
            "{start:#x} in {}, {size} of {}: {:.1} % ({}) with inlined functions",
            module.name(),
            assembly.arch,
            self.percent(cost),
            self.amount(cost)
        );
        let title = match assembly.function.as_ref().filter(|function| function.is_named) {
            Some(function) => format!("{} at {place}", function.name),
            None => place,
        };
        writeln!(out, "\n{}", self.style(Style::Link, one_line(&title)))?;
        for FunctionSymbol { name, start, size, .. } in &assembly.other_parts {
            let size = size.map_or(String::new(), |size| format!(", {size} bytes"));
            let shown = match sampled.contains_key(start) {
                true => "shown, too",
                false => "no samples",
            };
            let text = format!("the function has another part, {name} at {start:#x}{size}: {shown}");
            writeln!(out, "{}", self.style(Style::Dim, one_line(&text)))?;
        }
        Ok(())
    }

    fn write_instructions(
        &self,
        module: &Module,
        assembly: &Assembly,
        costs: &BTreeMap<u64, Cost>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out, "{}", self.style(Style::Dim, "   self  address"))?;
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
        for (index, run) in runs.into_iter().enumerate() {
            self.write_gap(index, out)?;
            interleaved.repeat_line();
            for (at, instruction) in run.clone().zip(instructions.get(run).unwrap_or_default()) {
                let address = assembly.start + instruction.offset;
                for line in interleaved.lines_before(address) {
                    let line = self.fit(&format!("{:19}{line}", ""));
                    writeln!(out, "{}", self.style(Style::Dim, line.trim_end()))?;
                }
                let text = format!("{address:>8x}  {}", assembly.line(instruction));
                self.write_line(cost_of.get(&at).copied(), None, &text, out)?;
            }
        }
        if !behind.is_zero() {
            let (start, end) = (assembly.start, assembly.start.saturating_add(assembly.size));
            let text = format!(
                "{:.1} % ({}) behind {end:#x} are not shown: the function at {start:#x} is too large",
                self.percent(behind),
                self.amount(behind)
            );
            writeln!(out, "{}", self.style(Style::Warning, text))?;
        }
        if let Some(reason) = interleaved.unread() {
            writeln!(out, "{}", self.style(Style::Warning, one_line(&reason)))?;
        }
        Ok(())
    }
}
