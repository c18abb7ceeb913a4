//! Call frame information of one module: finds the row for an address, and evaluates rows that are expressions.

use std::ops::Range;
use std::sync::Arc;

use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, Encoding, EndianSlice, Evaluation, EvaluationResult, Expression,
    LittleEndian, Location, Operation, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
    UnwindTableRow, Value, Vendor,
};

use crate::files::cfi_entries::signal_frame_entries;
use crate::files::huge_pages::TableBytes;
use recording::little_endian::u32_at;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Limit against endless loops. Real expressions have fewer than 20 operations.
const MAX_OPERATIONS: u32 = 1000;

/// The rules of one row, for the three registers that matter.
#[derive(Clone, Debug)]
pub(crate) struct CfiRow {
    pub(crate) cfa: CfaRule<usize>,
    pub(crate) fp: Option<RegisterRule<usize>>,
    pub(crate) ra: Option<RegisterRule<usize>>,
    encoding: Encoding,
}

impl CfiRow {
    fn new(row: &UnwindTableRow<usize>, columns: DwarfColumns, encoding: Encoding) -> CfiRow {
        CfiRow {
            cfa: row.cfa().clone(),
            fp: row.register(columns.fp),
            ra: row.register(columns.ra),
            encoding,
        }
    }
}

/// The registers of a machine in DWARF numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DwarfColumns {
    pub(crate) vendor: Vendor,
    pub(crate) fp: Register,
    pub(crate) ra: Register,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CfiKind {
    EhFrame,
    DebugFrame,
}

/// The tables of one module.
pub(crate) struct Cfi {
    kind: CfiKind,
    section: Arc<TableBytes>,
    /// An `.eh_frame_hdr`: the file's own, or one made here if the file's is missing or unusual.
    index: Arc<TableBytes>,
    index_svma: u64,
    /// The start of each [`COARSE`]th function, as the index states it.
    coarse: Box<[i32]>,
    bases: BaseAddresses,
    columns: DwarfColumns,
    context: Box<UnwindContext<usize>>,
}

/// librustc_driver has 300,000 functions. A binary search over all of them touches one uncached line after the other. A
/// search over every 16th stays in 80 KB, and leaves two lines.
const COARSE: usize = 16;

fn coarse_starts(index: &[u8]) -> Box<[i32]> {
    let table = index.get(INDEX_HEADER..).unwrap_or_default();
    let starts = table.chunks_exact(8).step_by(COARSE);
    starts
        .map(|entry| u32_at(entry, 0).unwrap_or_default() as i32)
        .collect()
}

/// Sections and their addresses, as read from the file.
#[derive(Clone)]
pub(crate) struct CfiSections {
    pub(crate) eh_frame: Option<(u64, Arc<TableBytes>)>,
    pub(crate) eh_frame_hdr: Option<(u64, Arc<TableBytes>)>,
    pub(crate) debug_frame: Option<Arc<TableBytes>>,
    pub(crate) text_svma: u64,
    pub(crate) got_svma: u64,
}

impl CfiSections {
    /// `.eh_frame` and `.debug_frame` on their own: a file may have different functions in each.
    pub(crate) fn split(self) -> (CfiSections, CfiSections) {
        let debug_frame = CfiSections {
            eh_frame: None,
            eh_frame_hdr: None,
            ..self.clone()
        };
        let eh_frame = CfiSections {
            debug_frame: None,
            ..self
        };
        (eh_frame, debug_frame)
    }
}

impl Cfi {
    /// Heap bytes of its sections.
    pub(crate) fn held_bytes(&self) -> usize {
        self.section.len() + self.index.len()
    }

    /// The tables of a module. `None` if the file has no usable table.
    pub(crate) fn new(sections: CfiSections, columns: DwarfColumns) -> Option<Cfi> {
        let (kind, section_svma, section) = match (sections.eh_frame, sections.debug_frame) {
            (Some((svma, bytes)), _) => (CfiKind::EhFrame, svma, bytes),
            (None, Some(bytes)) => (CfiKind::DebugFrame, 0, bytes),
            (None, None) => return None,
        };
        let mut bases = BaseAddresses::default()
            .set_eh_frame(section_svma)
            .set_text(sections.text_svma)
            .set_got(sections.got_svma);
        let own = sections.eh_frame_hdr.filter(|(svma, bytes)| {
            kind == CfiKind::EhFrame && index_is_usual(bytes, *svma, section_svma, section.len())
        });
        let (index_svma, index) = match own {
            Some(own) => own,
            None => (
                section_svma,
                make_index(kind, &section, section_svma, &bases, columns.vendor)?,
            ),
        };
        bases = bases.set_eh_frame_hdr(index_svma);
        Some(Cfi {
            kind,
            section,
            coarse: coarse_starts(&index),
            index,
            index_svma,
            bases,
            columns,
            context: Box::new(UnwindContext::new()),
        })
    }

    /// The section that the rules were read from, with its index.
    pub(crate) fn sections(&self) -> CfiSections {
        let addresses = &self.bases.eh_frame;
        let (eh_frame, eh_frame_hdr, debug_frame) = match self.kind {
            CfiKind::EhFrame => (
                addresses.section.map(|svma| (svma, self.section.clone())),
                Some((self.index_svma, self.index.clone())),
                None,
            ),
            CfiKind::DebugFrame => (None, None, Some(self.section.clone())),
        };
        CfiSections {
            eh_frame,
            eh_frame_hdr,
            debug_frame,
            text_svma: addresses.text.unwrap_or(0),
            got_svma: addresses.data.unwrap_or(0),
        }
    }

    /// A table without functions.
    pub(crate) fn empty(columns: DwarfColumns) -> Cfi {
        Cfi {
            kind: CfiKind::EhFrame,
            section: Arc::default(),
            index: Arc::default(),
            index_svma: 0,
            coarse: Box::default(),
            bases: BaseAddresses::default(),
            columns,
            context: Box::new(UnwindContext::new()),
        }
    }

    /// Number of functions with rules.
    pub(crate) fn function_count(&self) -> usize {
        self.index.len().saturating_sub(INDEX_HEADER) / 8
    }

    /// The stated address ranges of all functions with rules.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Range<u64>> {
        let table = self.index.get(INDEX_HEADER..).unwrap_or_default();
        let starts = table.chunks_exact(8).filter_map(|entry| u32_at(entry, 0));
        starts.filter_map(|start| self.function(self.index_svma.wrapping_add_signed(i64::from(start as i32))))
    }

    /// The stated address of the first function that starts above `svma`; `None` if there is none.
    pub(crate) fn next_start(&self, svma: u64) -> Option<u64> {
        self.start_of(self.count_until(svma)?)
    }

    /// The end, as a stated address, of the last function that starts at or below `svma`.
    pub(crate) fn end_until(&self, svma: u64) -> Option<u64> {
        let (entry, _) = self.entry(svma)?;
        Some(self.function(self.start_of(entry)?)?.end)
    }

    /// The stated start address of the function with this number.
    fn start_of(&self, entry: usize) -> Option<u64> {
        let start = u32_at(self.index.get(INDEX_HEADER..)?, entry * 8)?;
        Some(self.index_svma.wrapping_add_signed(i64::from(start as i32)))
    }

    /// The rule of one register. Outer `None`: no row. Inner `None`: a row without a rule for the register.
    pub(crate) fn rule(&mut self, svma: u64, register: Register) -> Option<Option<RegisterRule<usize>>> {
        let columns = self.columns;
        self.columns.fp = register;
        let row = self.row(svma);
        self.columns = columns;
        row.map(|row| row.fp)
    }

    /// The row that holds at an address; `None` if there is none, or if it can't be read.
    pub(crate) fn row(&mut self, svma: u64) -> Option<CfiRow> {
        let offset = self.fde_offset(svma)?;
        let (bases, context, columns) = (&self.bases, &mut self.context, self.columns);
        let vendor = columns.vendor;
        match self.kind {
            CfiKind::EhFrame => row_in(&eh_frame(&self.section, vendor), bases, context, offset, svma, columns),
            CfiKind::DebugFrame => row_in(
                &debug_frame(&self.section, vendor),
                bases,
                context,
                offset,
                svma,
                columns,
            ),
        }
    }

    /// The number of the last function that starts at or below `svma`, and the distance from its start in bytes.
    pub(crate) fn entry(&self, svma: u64) -> Option<(usize, u64)> {
        let entry = self.count_until(svma)?.checked_sub(1)?;
        Some((entry, svma.checked_sub(self.start_of(entry)?)?))
    }

    /// Calls `row` with all rows of a function, each with its end as an offset in the function. Returns the function's
    /// length. `None` if a row can't be read.
    pub(crate) fn each_row(&mut self, entry: usize, row: &mut dyn FnMut(u64, CfiRow)) -> Option<u64> {
        let offset = self.fde_offset_of(entry)?;
        let start = self.start_of(entry)?;
        let (bases, context, columns) = (&self.bases, &mut self.context, self.columns);
        let vendor = columns.vendor;
        let mut row = |end: u64, of: CfiRow| row(end.wrapping_sub(start), of);
        let function = match self.kind {
            CfiKind::EhFrame => rows_in(
                &eh_frame(&self.section, vendor),
                bases,
                context,
                offset,
                columns,
                &mut row,
            ),
            CfiKind::DebugFrame => rows_in(
                &debug_frame(&self.section, vendor),
                bases,
                context,
                offset,
                columns,
                &mut row,
            ),
        }?;
        (function.start == start).then(|| function.end - function.start)
    }

    /// The stated address range of the function that holds `svma`.
    pub(crate) fn function(&self, svma: u64) -> Option<Range<u64>> {
        let offset = self.fde_offset(svma)?;
        let vendor = self.columns.vendor;
        let range = match self.kind {
            CfiKind::EhFrame => range_in(&eh_frame(&self.section, vendor), &self.bases, offset),
            CfiKind::DebugFrame => range_in(&debug_frame(&self.section, vendor), &self.bases, offset),
        };
        range.filter(|range| range.contains(&svma))
    }

    /// True if both addresses are in one function.
    pub(crate) fn same_function(&mut self, a: u64, b: u64) -> bool {
        self.fde_offset(a).is_some_and(|fde| self.fde_offset(b) == Some(fde))
            && self.row(a).is_some()
            && self.row(b).is_some()
    }

    /// Number of functions that start at or below an address, by binary search in the index.
    fn count_until(&self, svma: u64) -> Option<usize> {
        let table = self.index.get(INDEX_HEADER..)?;
        let wanted = svma.wrapping_sub(self.index_svma) as i64;
        let start = |at: usize| u32_at(table, at * 8).map_or(i64::MAX, |start| i64::from(start as i32));
        // The wanted start lies behind the last coarse start that is not above the address.
        let coarse = self.coarse.partition_point(|start| i64::from(*start) <= wanted);
        let (mut low, mut high) = (
            coarse.saturating_sub(1) * COARSE,
            (coarse * COARSE).min(table.len() / 8),
        );
        while low < high {
            let middle = low + (high - low) / 2;
            if start(middle) <= wanted {
                low = middle + 1
            } else {
                high = middle
            }
        }
        Some(low)
    }

    /// Offset of the entry of the last function that starts at or below the address.
    fn fde_offset(&self, svma: u64) -> Option<usize> {
        self.fde_offset_of(self.count_until(svma)?.checked_sub(1)?)
    }

    fn fde_offset_of(&self, entry: usize) -> Option<usize> {
        let table = self.index.get(INDEX_HEADER..)?;
        let fde = u32_at(table, entry * 8 + 4)? as i32;
        let section_svma = self.bases.eh_frame.section.unwrap_or_default();
        let offset = self
            .index_svma
            .wrapping_add_signed(i64::from(fde))
            .checked_sub(section_svma)?;
        usize::try_from(offset)
            .ok()
            .filter(|offset| *offset < self.section.len())
    }

    /// Address ranges of signal frames: functions whose entry has the augmentation `S`.
    pub(crate) fn signal_frames(&self) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        if self.kind == CfiKind::EhFrame {
            let section = eh_frame(&self.section, self.columns.vendor);
            for offset in signal_frame_entries(&self.section) {
                let fde = section.fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset);
                if let Ok(fde) = fde
                    && ranges.len() < 64
                {
                    ranges.push(fde.initial_address()..fde.initial_address().saturating_add(fde.len()));
                }
            }
        }
        ranges
    }

    /// Follows a row: (cfa, fp, ra) of the caller. `register` knows the machine's registers by DWARF number.
    pub(crate) fn step<E>(
        &self,
        row: &CfiRow,
        register: impl Fn(Register) -> Option<u64>,
        mut read: impl FnMut(u64) -> Result<u64, E>,
    ) -> Result<Option<(u64, u64, u64)>, E> {
        let cfa = match &row.cfa {
            CfaRule::RegisterAndOffset { register: base, offset } => {
                register(*base).map(|base| base.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(row, expression, None, &register, &mut read)?,
        };
        let Some(cfa) = cfa else { return Ok(None) };
        let mut restore = |rule: &Option<RegisterRule<usize>>, column: Register| {
            Ok(match rule {
                None | Some(RegisterRule::SameValue) => register(column),
                Some(RegisterRule::Offset(offset)) => Some(read(cfa.wrapping_add_signed(*offset))?),
                Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(*offset)),
                Some(RegisterRule::Register(other)) => register(*other),
                Some(RegisterRule::Expression(expression)) => {
                    match self.evaluate(row, expression, Some(cfa), &register, &mut read)? {
                        Some(address) => Some(read(address)?),
                        None => None,
                    }
                }
                Some(RegisterRule::ValExpression(expression)) => {
                    self.evaluate(row, expression, Some(cfa), &register, &mut read)?
                }
                _ => None,
            })
        };
        // A lost frame pointer keeps its last value: no later rule needs it.
        let fp = restore(&row.fp, self.columns.fp)?.or_else(|| register(self.columns.fp));
        let ra = restore(&row.ra, self.columns.ra)?;
        Ok(fp.zip(ra).map(|(fp, ra)| (cfa, fp, ra)))
    }

    /// True if an expression of a row jumps, or can't be read. A jump backwards may never end.
    pub(crate) fn jumps(&self, row: &CfiRow) -> bool {
        let cfa = match &row.cfa {
            CfaRule::Expression(expression) => Some(expression),
            CfaRule::RegisterAndOffset { .. } => None,
        };
        let registers = [&row.fp, &row.ra].into_iter().filter_map(|rule| match rule {
            Some(RegisterRule::Expression(expression) | RegisterRule::ValExpression(expression)) => Some(expression),
            _ => None,
        });
        cfa.into_iter().chain(registers).any(|expression| {
            let end = expression.offset.saturating_add(expression.length);
            let Some(bytes) = self.section.get(expression.offset..end) else {
                return true;
            };
            let mut operations = Expression(Reader::new(bytes, LittleEndian)).operations(row.encoding);
            loop {
                match operations.next() {
                    Ok(None) => return false,
                    Ok(Some(Operation::Skip { .. } | Operation::Bra { .. })) | Err(_) => return true,
                    Ok(Some(_)) => {}
                }
            }
        })
    }

    fn evaluate<E>(
        &self,
        row: &CfiRow,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
        register: impl Fn(Register) -> Option<u64>,
        mut read: impl FnMut(u64) -> Result<u64, E>,
    ) -> Result<Option<u64>, E> {
        let end = expression.offset.saturating_add(expression.length);
        let Some(bytes) = self.section.get(expression.offset..end) else {
            return Ok(None);
        };
        let mut evaluation = Evaluation::new(Reader::new(bytes, LittleEndian), row.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate();
        loop {
            state = match state {
                Ok(EvaluationResult::Complete) => break,
                Ok(EvaluationResult::RequiresRegister { register: wanted, .. }) => match register(wanted) {
                    Some(value) => evaluation.resume_with_register(Value::Generic(value)),
                    None => return Ok(None),
                },
                Ok(EvaluationResult::RequiresMemory { address, size: 8, .. }) => {
                    evaluation.resume_with_memory(Value::Generic(read(address)?))
                }
                _ => return Ok(None),
            };
        }
        Ok(match evaluation.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Some(*address),
            _ => None,
        })
    }
}

fn eh_frame(bytes: &[u8], vendor: Vendor) -> EhFrame<Reader<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor);
    section
}

fn debug_frame(bytes: &[u8], vendor: Vendor) -> DebugFrame<Reader<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor);
    section
}

fn row_in<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    offset: usize,
    svma: u64,
    columns: DwarfColumns,
) -> Option<CfiRow>
where
    S: UnwindSection<Reader<'a>>,
    S::Offset: From<usize>,
{
    let fde = section
        .fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset)
        .ok()?;
    let encoding = fde.cie().encoding();
    let row = fde.unwind_info_for_address(section, bases, context, svma).ok()?;
    Some(CfiRow::new(row, columns, encoding))
}

fn rows_in<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    offset: usize,
    columns: DwarfColumns,
    each: &mut dyn FnMut(u64, CfiRow),
) -> Option<Range<u64>>
where
    S: UnwindSection<Reader<'a>>,
    S::Offset: From<usize>,
{
    let fde = section
        .fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset)
        .ok()?;
    let encoding = fde.cie().encoding();
    let mut table = fde.rows(section, bases, context).ok()?;
    while let Some(row) = table.next_row().ok()? {
        each(row.end_address(), CfiRow::new(row, columns, encoding));
    }
    Some(fde.initial_address()..fde.initial_address().checked_add(fde.len())?)
}

fn range_in<'a, S>(section: &S, bases: &BaseAddresses, offset: usize) -> Option<Range<u64>>
where
    S: UnwindSection<Reader<'a>>,
    S::Offset: From<usize>,
{
    let fde = section
        .fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset)
        .ok()?;
    Some(fde.initial_address()..fde.initial_address().checked_add(fde.len())?)
}

/// version, encodings, pointer to `.eh_frame`, count: then the table. See the LSB, "The .eh_frame_hdr section".
const INDEX_HEADER: usize = 12;
/// Version 1; `.eh_frame` pointer pc-relative sdata4; count udata4; table relative to the section, sdata4.
/// Every linker writes this; gimli's lookup overflows on tables that point below `.eh_frame`, so they are checked.
const INDEX_ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

fn index_is_usual(index: &[u8], index_svma: u64, section_svma: u64, section_len: usize) -> bool {
    let points_into_section = |entry: &[u8]| {
        let fde = u32_at(entry, 4).unwrap_or_default() as i32;
        let offset = index_svma
            .wrapping_add_signed(i64::from(fde))
            .wrapping_sub(section_svma);
        offset < section_len as u64
    };
    let pointer = u32_at(index, 4).map(|pointer| {
        index_svma
            .wrapping_add(4)
            .wrapping_add_signed(i64::from(pointer as i32))
    });
    let Some(table) = index.get(INDEX_HEADER..) else {
        return false;
    };
    index.starts_with(&INDEX_ENCODINGS)
        && pointer == Some(section_svma)
        && u32_at(index, 8).is_some_and(|count| count > 0 && count as usize == table.len() / 8)
        && table.chunks_exact(8).all(points_into_section)
        && table
            .chunks_exact(8)
            .is_sorted_by_key(|entry| u32_at(entry, 0).unwrap_or_default() as i32)
}

/// Makes an `.eh_frame_hdr` at the address of the section by walking all entries, as far as they can be read.
fn make_index(
    kind: CfiKind,
    section: &[u8],
    svma: u64,
    bases: &BaseAddresses,
    vendor: Vendor,
) -> Option<Arc<TableBytes>> {
    let mut functions = match kind {
        CfiKind::EhFrame => {
            let mut section = EhFrame::new(section, LittleEndian);
            section.set_address_size(8);
            section.set_vendor(vendor);
            functions(&section, bases)
        }
        CfiKind::DebugFrame => {
            let mut section = DebugFrame::new(section, LittleEndian);
            section.set_address_size(8);
            section.set_vendor(vendor);
            let mut functions = functions(&section, bases);
            // Linkers leave entries of functions that they dropped, at address 0 (bfd, gold) or at the end (lld).
            functions.retain(|(start, _)| *start != 0 && *start < u64::MAX - 1);
            functions
        }
    };
    functions.sort_unstable();
    let mut index = INDEX_ENCODINGS.to_vec();
    index.extend(0i32.wrapping_sub(4).to_le_bytes());
    index.extend([0; 4]);
    for (start, offset) in functions {
        let start = i32::try_from(start.wrapping_sub(svma) as i64).ok();
        if let (Some(start), Ok(offset)) = (start, i32::try_from(offset)) {
            index.extend(start.to_le_bytes());
            index.extend(offset.to_le_bytes());
        }
    }
    let count = u32::try_from((index.len() - INDEX_HEADER) / 8)
        .ok()
        .filter(|count| *count > 0)?;
    index[8..12].copy_from_slice(&count.to_le_bytes());
    Some(Arc::new(index.into()))
}

/// (first address, offset of the entry) of every function.
fn functions<'a, S: UnwindSection<Reader<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(S::cie_from_offset)
        {
            found.push((fde.initial_address(), fde.offset()));
        }
    }
    found
}
