//! Runs line programs: DWARF 5, 6.2.
//!
//! gimli reads the header. Its rows have twelve columns; here are the four that look-ups need, in less than half of the
//! time, and a program can be run from any sequence on.

use std::ops::ControlFlow;

use gimli::{Reader, UnitRef};

use super::store::Slice;

/// A row of the line table. It covers the addresses up to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRow {
    pub(super) address: u64,
    pub(super) file: u64,
    /// 0: the instruction is the compiler's and has no line.
    pub(super) line: u32,
    /// 0: the line as a whole.
    pub(super) column: u32,
}

/// What a program says next.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProgramStep {
    Row(LineRow),
    /// The sequence ends before this address; 0 if the linker dropped its code.
    End(u64),
}

/// The program of a unit.
pub(super) struct LineProgram<'a> {
    instructions: Slice<'a>,
    /// How many operands each standard instruction has.
    operands: Slice<'a>,
    first_special: u8,
    line_base: i64,
    line_range: u32,
    /// 2^16 / `line_range`, rounded up. `adjusted * this >> 16` is exactly `adjusted / line_range`, because both are
    /// below 256: a division for each row takes longer than all else of it.
    line_range_inverse: u32,
    instruction_bytes: u64,
    operations: u64,
    address_bytes: u8,
    /// Linkers set the addresses of dropped functions to this or higher.
    dropped: u64,
}

/// The registers of the machine that the program is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRegisters {
    address: u64,
    operation: u64,
    file: u64,
    line: u64,
    column: u64,
    /// The linker dropped the code.
    is_dropped: bool,
}

impl LineRegisters {
    const INITIAL: LineRegisters = LineRegisters {
        address: 0,
        operation: 0,
        file: 1,
        line: 1,
        column: 0,
        is_dropped: false,
    };

    fn row(&self) -> LineRow {
        LineRow {
            address: self.address,
            file: self.file,
            line: u32::try_from(self.line).unwrap_or(0),
            column: u32::try_from(self.column).unwrap_or(0),
        }
    }

    fn advance_line(&mut self, by: i64) {
        self.line = if by < 0 {
            self.line.saturating_sub(by.unsigned_abs())
        } else {
            self.line.wrapping_add(by.unsigned_abs())
        };
    }
}

/// A place in a program: how many of its bytes were read, and the registers there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramPosition {
    pub(super) offset: usize,
    registers: LineRegisters,
}

impl ProgramPosition {
    /// The start of a sequence.
    pub(super) fn start(offset: usize) -> ProgramPosition {
        ProgramPosition {
            offset,
            registers: LineRegisters::INITIAL,
        }
    }
}

impl<'a> LineProgram<'a> {
    /// `None` if the unit has no line table.
    pub(super) fn new(unit: UnitRef<'_, Slice<'a>>) -> Option<LineProgram<'a>> {
        let header = unit.line_program.as_ref()?.header();
        let line_range = u32::from(header.line_range()).max(1);
        Some(LineProgram {
            instructions: header.raw_program_buf(),
            operands: *header.standard_opcode_lengths(),
            first_special: header.opcode_base(),
            line_base: i64::from(header.line_base()),
            line_range,
            line_range_inverse: (1u32 << 16).div_ceil(line_range),
            instruction_bytes: u64::from(header.minimum_instruction_length()),
            operations: u64::from(header.maximum_operations_per_instruction()).max(1),
            address_bytes: header.address_size(),
            dropped: match header.address_size() {
                8 => u64::MAX - 1,
                bytes => (1u64 << (u32::from(bytes) * 8).min(63)).saturating_sub(2),
            },
        })
    }

    /// The length of the program in bytes.
    pub(super) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Runs from a place, until `each` breaks or the program ends. Returns the place behind the last step. `each` gets
    /// the step and the offset behind it.
    #[inline(always)]
    pub(super) fn run(
        &self,
        from: ProgramPosition,
        mut each: impl FnMut(ProgramStep, usize) -> ControlFlow<()>,
    ) -> gimli::Result<ProgramPosition> {
        let mut rest = self.instructions;
        rest.skip(from.offset)?;
        let mut registers = from.registers;
        while !rest.is_empty() {
            if let Some(step) = self.step(&mut rest, &mut registers)?
                && each(step, self.instructions.len() - rest.len()).is_break()
            {
                break;
            }
        }
        Ok(ProgramPosition {
            offset: self.instructions.len() - rest.len(),
            registers,
        })
    }

    /// One instruction.
    #[inline(always)]
    fn step(&self, rest: &mut Slice<'a>, registers: &mut LineRegisters) -> gimli::Result<Option<ProgramStep>> {
        let row = |registers: &LineRegisters| (!registers.is_dropped).then(|| ProgramStep::Row(registers.row()));
        let opcode = rest.read_u8()?;
        if opcode >= self.first_special {
            let adjusted = u32::from(opcode - self.first_special);
            let operations = (adjusted * self.line_range_inverse) >> 16;
            registers.advance_line(self.line_base + i64::from(adjusted - operations * self.line_range));
            self.advance(registers, u64::from(operations))?;
            return Ok(row(registers));
        }
        if opcode == 0 {
            return self.extended(rest, registers);
        }
        match gimli::DwLns(opcode) {
            gimli::DW_LNS_copy => return Ok(row(registers)),
            gimli::DW_LNS_advance_pc => {
                let operations = rest.read_uleb128()?;
                self.advance(registers, operations)?;
            }
            gimli::DW_LNS_advance_line => registers.advance_line(rest.read_sleb128()?),
            gimli::DW_LNS_set_file => registers.file = rest.read_uleb128()?,
            gimli::DW_LNS_set_column => registers.column = rest.read_uleb128()?,
            gimli::DW_LNS_negate_stmt
            | gimli::DW_LNS_set_basic_block
            | gimli::DW_LNS_set_prologue_end
            | gimli::DW_LNS_set_epilogue_begin => {}
            gimli::DW_LNS_const_add_pc => {
                let adjusted = u32::from(u8::MAX - self.first_special);
                self.advance(registers, u64::from((adjusted * self.line_range_inverse) >> 16))?;
            }
            gimli::DW_LNS_fixed_advance_pc => {
                let bytes = rest.read_u16()?;
                self.advance_bytes(registers, u64::from(bytes))?;
                registers.operation = 0;
            }
            gimli::DW_LNS_set_isa => {
                rest.read_uleb128()?;
            }
            _ => {
                let mut operands = self.operands;
                operands.skip(usize::from(opcode) - 1)?;
                for _ in 0..operands.read_u8()? {
                    rest.read_uleb128()?;
                }
            }
        }
        Ok(None)
    }

    fn extended(&self, rest: &mut Slice<'a>, registers: &mut LineRegisters) -> gimli::Result<Option<ProgramStep>> {
        let length = rest.read_uleb128()?;
        let length = usize::try_from(length).map_err(|_| gimli::Error::UnsupportedOffset)?;
        let mut operands = rest.split(length)?;
        match gimli::DwLne(operands.read_u8()?) {
            gimli::DW_LNE_end_sequence => {
                let ended = std::mem::replace(registers, LineRegisters::INITIAL);
                return Ok(Some(ProgramStep::End(if ended.is_dropped { 0 } else { ended.address })));
            }
            gimli::DW_LNE_set_address => {
                let address = operands.read_address(self.address_bytes)?;
                // Addresses ascend within a sequence. Old linkers set the addresses of dropped functions to 0, and gold
                // to the addend.
                registers.is_dropped = address < registers.address || address >= self.dropped;
                if !registers.is_dropped {
                    registers.address = address;
                    registers.operation = 0;
                }
            }
            // Discriminators, files that the program defines, and what no standard has.
            _ => {}
        }
        Ok(None)
    }

    /// Advances by operations. A VLIW machine has several in one instruction.
    #[inline(always)]
    fn advance(&self, registers: &mut LineRegisters, operations: u64) -> gimli::Result<()> {
        let instructions = match self.operations {
            1 => operations,
            in_one => {
                let operations = registers.operation.wrapping_add(operations);
                registers.operation = operations % in_one;
                operations / in_one
            }
        };
        self.advance_bytes(registers, instructions.wrapping_mul(self.instruction_bytes))
    }

    #[inline(always)]
    fn advance_bytes(&self, registers: &mut LineRegisters, bytes: u64) -> gimli::Result<()> {
        if !registers.is_dropped {
            let address = registers.address.checked_add(bytes);
            registers.address = address.ok_or(gimli::Error::AddressOverflow)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::ops::ControlFlow;

    use gimli::{ColumnType, EndianSlice, LittleEndian, UnitRef};
    use object::{Object, ObjectSection};

    use super::{LineProgram, LineRow, ProgramPosition, ProgramStep};

    /// The rows of a unit by gimli, and 0 columns for the end of a sequence.
    fn by_gimli(unit: UnitRef<'_, EndianSlice<'_, LittleEndian>>) -> Vec<(LineRow, bool)> {
        let mut found = Vec::new();
        let mut rows = unit.line_program.clone().unwrap().rows();
        while let Some((_, row)) = rows.next_row().unwrap() {
            let column = match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => column.get() as u32,
            };
            let place = LineRow {
                address: row.address(),
                file: row.file_index(),
                line: row.line().map_or(0, |line| line.get() as u32),
                column,
            };
            found.push((place, row.end_sequence()));
        }
        found
    }

    #[test]
    fn lines_are_divided_without_a_division() {
        for range in 1..=255u32 {
            let inverse = (1u32 << 16).div_ceil(range);
            assert!((0..=255).all(|adjusted| (adjusted * inverse) >> 16 == adjusted / range));
        }
    }

    #[test]
    fn rows_are_those_of_gimli() {
        // This test's own line tables: Rust with and without optimisation, and the C of its libraries.
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let sections = gimli::DwarfSections::load(|id| {
            let section = object.section_by_name(id.name()).map(|section| section.data().unwrap());
            Ok::<_, gimli::Error>(Cow::Borrowed(section.unwrap_or_default()))
        });
        let sections = sections.unwrap();
        let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        let (mut rows, mut units) = (0, dwarf.units());
        while let Some(header) = units.next().unwrap() {
            let unit = dwarf.unit(header).unwrap();
            let unit = UnitRef::new(&dwarf, &unit);
            let Some(program) = LineProgram::new(unit) else {
                continue;
            };
            let expected = by_gimli(unit);
            let mut found = Vec::new();
            let mut starts = vec![(0, 0)];
            let all = program.run(ProgramPosition::start(0), |step, behind| {
                match step {
                    ProgramStep::Row(row) => found.push((row, false)),
                    // gimli leaves out all of it.
                    ProgramStep::End(0) => starts.push((behind, found.len())),
                    ProgramStep::End(address) => {
                        found.push((
                            LineRow {
                                address,
                                ..expected[found.len()].0
                            },
                            true,
                        ));
                        starts.push((behind, found.len()));
                    }
                }
                ControlFlow::Continue(())
            });
            assert_eq!(all.unwrap().offset, program.len());
            assert!(found == expected);
            rows += found.len();
            // From any sequence the rest is the same.
            let (offset, first) = starts[starts.len() / 2];
            let mut rest = expected[first..].iter();
            let ran = program.run(ProgramPosition::start(offset), |step, _| {
                if let ProgramStep::Row(row) = step {
                    assert_eq!(Some(&(row, false)), rest.next());
                } else {
                    rest.next();
                }
                ControlFlow::Continue(())
            });
            ran.unwrap();
            assert_eq!(rest.next(), None);
        }
        assert!(rows > 10_000, "{rows}");
    }
}
