//! Source lines of the instructions of a unit.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use gimli::{Reader as _, UnitRef};
use names::symbol::SourceFrame;
use rustc_hash::FxHashMap;

use super::budget::{Budget, BudgetExhausted, Flaw};
use super::line_program::{LineProgram, LineRow, ProgramPosition, ProgramStep};
use super::ranges::{RangeMap, RangeOf};
use super::store::Slice;

/// The line table of a unit. Its rows are not kept: a look-up runs the program from the start of a sequence, or on from
/// the last look-up. The rows of a program of 182 MB take 40 MB, and most are never asked for.
#[derive(Debug)]
pub(super) struct LineTable {
    /// Runs of rows with ascending addresses: the offset of each in the program.
    sequences: RangeMap<usize>,
    /// Where to find further sequences; `None` at the end of the program or where it is damaged.
    unread: Option<usize>,
    last: Option<LineCursor>,
    /// Of the last first address.
    last_begin: Option<LineCursor>,
    /// Paths that look-ups used, by index.
    paths: FxHashMap<u64, Option<String>>,
}

/// Where the last look-up ended.
#[derive(Clone, Copy, Debug)]
struct LineCursor {
    /// The offset of the sequence.
    sequence: usize,
    row: LineRow,
    /// The row behind `row`; `None` at the end of the sequence.
    next: Option<LineRow>,
    /// Behind `next`.
    place: ProgramPosition,
}

impl LineTable {
    /// No sequence is found yet.
    pub(super) fn new() -> LineTable {
        LineTable {
            sequences: RangeMap::new(Vec::new()),
            unread: Some(0),
            last: None,
            last_begin: None,
            paths: FxHashMap::default(),
        }
    }

    /// The address ranges that the line program covers, for units without ranges. After a flaw, those before it are
    /// valid.
    pub(super) fn ranges(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        budget: &mut Budget,
    ) -> (impl Iterator<Item = (u64, u64)>, Option<Flaw>) {
        let flaw = LineProgram::new(unit).and_then(|program| self.read_on(&program, budget, |_, _| false).err());
        let ranges = self.sequences.all().map(|range| (range.begin, range.end));
        (ranges, flaw)
    }

    /// [`LineTable::find`] of the first address of a function or call, beside look-ups of other addresses: those go on
    /// where they were.
    pub(super) fn find_begin(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        address: u64,
        budget: &mut Budget,
    ) -> (Option<SourceFrame>, Option<Flaw>) {
        std::mem::swap(&mut self.last, &mut self.last_begin);
        let found = self.find(unit, address, budget);
        std::mem::swap(&mut self.last, &mut self.last_begin);
        found
    }

    /// The place in the source of an address: file, line, column. After a flaw, what is before it is still found.
    pub(super) fn find(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        address: u64,
        budget: &mut Budget,
    ) -> (Option<SourceFrame>, Option<Flaw>) {
        let Some(program) = LineProgram::new(unit) else {
            return (None, None);
        };
        let mut flaw = None;
        if self.sequence(address).is_none() {
            // Reads as many sequences again as are known: each `extend` sorts all of them.
            let at_least = self.sequences.len();
            let mut is_found = false;
            let is_enough = |range: &RangeOf<usize>, count| {
                is_found |= (range.begin..range.end).contains(&address);
                is_found && count >= at_least
            };
            flaw = self.read_on(&program, budget, is_enough).err();
        }
        let row = self.row(&program, address, budget).unwrap_or_else(|found| {
            flaw = Some(found);
            None
        });
        let place = row.map(|row| {
            let known = row.line != 0;
            SourceFrame {
                file: self.path(unit, row.file, budget),
                line: known.then_some(row.line),
                column: (known && row.column != 0).then_some(row.column),
                ..SourceFrame::default()
            }
        });
        (place, flaw)
    }

    /// The innermost sequence, of those that were read, that holds an address: of several for the same code the first.
    fn sequence(&self, address: u64) -> Option<usize> {
        let found = self.sequences.find(address);
        let innermost = found.min_by_key(|range| (Reverse(range.begin), range.end, range.what));
        innermost.map(|range| range.what)
    }

    /// Finds further sequences, until `is_enough` is true of one and the count of new ones.
    fn read_on(
        &mut self,
        program: &LineProgram<'_>,
        budget: &mut Budget,
        mut is_enough: impl FnMut(&RangeOf<usize>, usize) -> bool,
    ) -> Result<(), Flaw> {
        let Some(from) = self.unread else {
            return Ok(());
        };
        // Before it runs: many units may share one long program, which may end in an error.
        budget.take(1)?;
        self.unread = None;
        let mut new: Vec<RangeOf<usize>> = Vec::new();
        let (mut what, mut begin) = (from, None);
        let lowest_code = budget.lowest_code();
        let mut exhausted = Ok(());
        let ran = program.run(ProgramPosition::start(from), |step, behind| {
            match step {
                ProgramStep::Row(row) => begin = begin.or(Some(row.address)),
                ProgramStep::End(end) => {
                    // Sequences of functions that the linker dropped start at 0.
                    if let Some(begin) = begin.take().filter(|begin| (lowest_code..end).contains(begin)) {
                        exhausted = budget.keep(1);
                        let range = RangeOf { begin, end, what };
                        new.push(range);
                        if exhausted.is_err() || is_enough(&range, new.len()) {
                            return ControlFlow::Break(());
                        }
                    }
                    what = behind;
                }
            }
            ControlFlow::Continue(())
        });
        self.sequences.extend(new);
        let end = ran.as_ref().map_or(program.len(), |place| place.offset);
        let charged = budget.take((end - from) as u64);
        ran?;
        self.unread = (end < program.len()).then_some(end);
        Ok(exhausted.and(charged)?)
    }

    /// The last row at or before an address. Of several rows for one address the last one counts: DWARF 5, 6.2.5
    /// describes the state after all of them.
    fn row(&mut self, program: &LineProgram<'_>, address: u64, budget: &mut Budget) -> Result<Option<LineRow>, Flaw> {
        let Some(sequence) = self.sequence(address) else {
            return Ok(None);
        };
        let is_before = |last: &LineCursor| last.sequence == sequence && last.row.address <= address;
        let (mut row, mut next, from) = match self.last.filter(is_before) {
            Some(last) => (Some(last.row), last.next, last.place),
            None => (None, None, ProgramPosition::start(sequence)),
        };
        let mut place = from;
        if row.is_none() || next.is_some_and(|next| next.address <= address) {
            budget.take(1)?;
            row = next.or(row);
            next = None;
            let ran = program.run(from, |step, _| match step {
                ProgramStep::Row(found) if found.address > address && row.is_some() => {
                    next = Some(found);
                    ControlFlow::Break(())
                }
                ProgramStep::Row(found) => {
                    row = Some(found);
                    ControlFlow::Continue(())
                }
                ProgramStep::End(_) => ControlFlow::Break(()),
            });
            let end = ran.as_ref().map_or(program.len(), |place| place.offset);
            let charged = budget.take((end - from.offset) as u64);
            place = ran?;
            charged?;
        }
        self.last = row.map(|row| LineCursor {
            sequence,
            row,
            next,
            place,
        });
        Ok(row)
    }

    /// The path of a file of the table, absolute if the debug info has the folder.
    pub(super) fn path(&mut self, unit: UnitRef<'_, Slice<'_>>, index: u64, budget: &mut Budget) -> Option<String> {
        let read = || path_in(unit, index, budget).unwrap_or_default();
        self.paths.entry(index).or_insert_with(read).clone()
    }
}

/// The path of a file of a unit's line table.
pub(super) fn path_in(
    unit: UnitRef<'_, Slice<'_>>,
    index: u64,
    budget: &mut Budget,
) -> Result<Option<String>, BudgetExhausted> {
    let header = unit.line_program.as_ref().map(|program| program.header());
    let Some((header, file)) = header.and_then(|header| Some((header, header.file(index)?))) else {
        return Ok(None);
    };
    // No part of a path is longer.
    let text = |slice: Slice<'_>| (slice.len() <= MAX_PATH_BYTES).then(|| slice.to_string_lossy().into_owned());
    let mut path = unit.comp_dir.and_then(text).unwrap_or_default();
    // Folder 0 is the compilation directory itself.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        let Some(folder) = budget.text(unit, folder)?.and_then(text) else {
            return Ok(None);
        };
        push(&mut path, &folder);
    }
    let Some(name) = budget.text(unit, file.path_name())?.and_then(text) else {
        return Ok(None);
    };
    push(&mut path, &name);
    Ok((!path.is_empty()).then_some(path))
}

/// Longest path kept: PATH_MAX of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Appends a part; an absolute part replaces the path. `PathBuf::push` would follow the rules of this machine's system.
fn push(path: &mut String, part: &str) {
    let windows_root = part.get(1..3).is_some_and(|root| root == ":\\" || root == ":/");
    if part.starts_with(['/', '\\']) || windows_root {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    if path.len() + part.len() <= MAX_PATH_BYTES {
        path.push_str(part);
    }
}
