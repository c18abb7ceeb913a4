//! Source lines of the instructions of a unit.

use gimli::{ColumnType, UnitRef};
use recording::symbol::SourceFrame;
use rustc_hash::FxHashMap;

use super::budget::{Budget, Flaw};
use super::ranges::{RangeMap, RangeOf};
use super::store::Slice;

/// A row of the table. It covers the addresses up to the next row.
#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    file: u64,
    /// 0: the instruction is the compiler's and has no line.
    line: u32,
    column: u32,
}

/// The line table of a unit.
#[derive(Debug)]
pub(super) struct Lines {
    /// All rows, sequence after sequence.
    rows: Vec<Row>,
    /// Runs of rows with ascending addresses: (first row, one past the last).
    sequences: RangeMap<(usize, usize)>,
    /// Paths that look-ups used, by index.
    paths: FxHashMap<u64, Option<String>>,
}

impl Lines {
    /// Runs the line program of a unit. After a flaw, the sequences before it are still valid.
    pub(super) fn parse(unit: UnitRef<'_, Slice<'_>>, budget: &mut Budget) -> (Lines, Option<Flaw>) {
        let mut rows = Vec::new();
        let mut sequences = Vec::new();
        let flaw = collect(unit, budget, &mut rows, &mut sequences).err();
        let lines = Lines {
            rows,
            sequences: RangeMap::new(sequences),
            paths: FxHashMap::default(),
        };
        (lines, flaw)
    }

    /// The address ranges that the line program covers, for units without ranges.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sequences.all().map(|range| (range.begin, range.end))
    }

    /// The place in the source of an address: file, line, column.
    pub(super) fn find(&mut self, unit: UnitRef<'_, Slice<'_>>, address: u64) -> Option<SourceFrame> {
        let (first, end) = self.sequences.find(address).next()?.what;
        let rows = self.rows.get(first..end)?;
        let after = rows.partition_point(|row| row.address <= address);
        let row = *rows.get(after.checked_sub(1)?)?;
        let known = row.line != 0;
        Some(SourceFrame {
            function: None,
            file: self.path(unit, row.file),
            line: known.then_some(row.line),
            column: (known && row.column != 0).then_some(row.column),
        })
    }

    /// The path of a file of the table, absolute if the debug info has the folder.
    pub(super) fn path(&mut self, unit: UnitRef<'_, Slice<'_>>, index: u64) -> Option<String> {
        self.paths.entry(index).or_insert_with(|| render(unit, index)).clone()
    }
}

fn collect(
    unit: UnitRef<'_, Slice<'_>>,
    budget: &mut Budget,
    rows: &mut Vec<Row>,
    sequences: &mut Vec<RangeOf<(usize, usize)>>,
) -> Result<(), Flaw> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(());
    };
    let mut first = rows.len();
    let mut program = program.rows();
    while let Some((_, row)) = program.next_row()? {
        budget.keep(1)?;
        if row.end_sequence() {
            let begin = rows.get(first).map_or(0, |row: &Row| row.address);
            // Sequences of functions that the linker dropped start at 0.
            if begin != 0 && begin < row.address() {
                sequences.push(RangeOf {
                    begin,
                    end: row.address(),
                    what: (first, rows.len()),
                });
            } else {
                rows.truncate(first);
            }
            first = rows.len();
            continue;
        }
        let row = Row {
            address: row.address(),
            file: row.file_index(),
            line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
            column: match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
            },
        };
        // Of several rows for one address the last one counts: DWARF 5, 6.2.5 describes the state after all of them.
        match rows[first..].last_mut() {
            Some(last) if last.address == row.address => *last = row,
            _ => rows.push(row),
        }
    }
    rows.truncate(first);
    Ok(())
}

fn render(unit: UnitRef<'_, Slice<'_>>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let text = |slice: Slice<'_>| slice.to_string_lossy().into_owned();
    let mut path = unit.comp_dir.map(text).unwrap_or_default();
    // Folder 0 is the compilation directory itself.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        push(&mut path, &text(unit.attr_string(folder).ok()?));
    }
    push(&mut path, &text(unit.attr_string(file.path_name()).ok()?));
    (!path.is_empty()).then_some(path)
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
