//! Rows for databases, as Parquet: <https://parquet.apache.org/docs/file-format/>. docs/parquet.md describes the
//! columns.
//!
//! A row is a call path of a thread with the sum of its samples. Functions have the names of `sprof report`, so that
//! both have the same sums.

mod rows;

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use self::rows::{CallPathRow, FunctionColumns, ParquetRows};
use super::Picked;
use super::pick::ExportUnit;
use crate::data::{Data, NONE, Thread};

/// Version of the columns, in the file's metadata under [`SCHEMA_KEY`]. A removed or changed column increases it, a new
/// one does not.
const SCHEMA_VERSION: &str = "1";
const SCHEMA_KEY: &str = "sprof.schema_version";

/// All columns, in their order.
const SCHEMA: &str = "message sprof {
    REQUIRED BYTE_ARRAY profile_id (STRING);
    OPTIONAL INT64 recorded_at (TIMESTAMP(MICROS,true));
    REQUIRED BYTE_ARRAY program (STRING);
    OPTIONAL BYTE_ARRAY service (STRING);
    OPTIONAL BYTE_ARRAY version (STRING);
    OPTIONAL BYTE_ARRAY commit (STRING);
    OPTIONAL BYTE_ARRAY host (STRING);
    REQUIRED group labels (MAP) {
        REPEATED group key_value {
            REQUIRED BYTE_ARRAY key (STRING);
            REQUIRED BYTE_ARRAY value (STRING);
        }
    }
    REQUIRED BYTE_ARRAY process (STRING);
    REQUIRED BYTE_ARRAY pid (STRING);
    REQUIRED BYTE_ARRAY thread (STRING);
    REQUIRED BYTE_ARRAY tid (STRING);
    REQUIRED BYTE_ARRAY measure (STRING);
    REQUIRED BYTE_ARRAY unit (STRING);
    REQUIRED INT64 value;
    OPTIONAL INT64 samples;
    REQUIRED BYTE_ARRAY function (STRING);
    REQUIRED BYTE_ARRAY library (STRING);
    REQUIRED BYTE_ARRAY file (STRING);
    REQUIRED group stack (LIST) {
        REPEATED group list {
            REQUIRED group element {
                REQUIRED BYTE_ARRAY function (STRING);
                REQUIRED BYTE_ARRAY library (STRING);
                REQUIRED BYTE_ARRAY file (STRING);
            }
        }
    }
}";

/// Frames and rows of a row group at most, which bounds the memory of the writer. One stack may be longer.
const GROUP_FRAMES: usize = 1 << 20;
/// Frames of a file at most: a short file may have a deep chain of calls in which each call has samples.
const MAX_FRAMES: usize = 1 << 28;

/// What ran, in columns of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RanColumns {
    /// The service.
    pub service: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The commit it was built from.
    pub commit: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// Other labels, by name.
    pub labels: Vec<(String, String)>,
}

/// Writes one row for each thread, kind of measure and call path. With [`PickedTime::All`](super::PickedTime::All) CPU
/// time and waits are different rows.
///
/// # Errors
///
/// `out` fails, or the stacks have too many frames.
pub fn write(picked: &Picked<'_>, ran: &RanColumns, out: impl Write) -> io::Result<()> {
    write_groups(picked, ran, out, GROUP_FRAMES, MAX_FRAMES)
}

fn write_groups(
    picked: &Picked<'_>,
    ran: &RanColumns,
    mut out: impl Write,
    group_frames: usize,
    max_frames: usize,
) -> io::Result<()> {
    let rows = ParquetRows::new(picked, max_frames)?;
    let file = file(picked, ran, &rows, group_frames).map_err(io::Error::other)?;
    out.write_all(&file)?;
    out.flush()
}

fn file(
    picked: &Picked<'_>,
    ran: &RanColumns,
    rows: &ParquetRows,
    group_frames: usize,
) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder()
        // Every reader has gzip.
        .set_compression(Compression::GZIP(Default::default()))
        // Statistics of pages are larger than the pages of most columns.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(format!("sprof version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(
            SCHEMA_KEY.to_owned(),
            SCHEMA_VERSION.to_owned(),
        )]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let columns = ColumnSources {
        picked,
        ran,
        id: rows::id(picked.data),
    };
    let mut rest = &rows.rows[..];
    while !rest.is_empty() {
        let mut frames = 0;
        let fits = rest.iter().take_while(|row| {
            frames += 1 + rows.depth(row);
            frames <= group_frames
        });
        let (group, others) = rest.split_at(fits.count().max(1));
        let mut writer = writer.next_row_group()?;
        columns.write(&mut RowGroupColumns(&mut writer), rows, group)?;
        writer.close()?;
        rest = others;
    }
    writer.into_inner()
}

/// What the columns are made of.
struct ColumnSources<'a> {
    picked: &'a Picked<'a>,
    ran: &'a RanColumns,
    id: String,
}

impl ColumnSources<'_> {
    /// In the order of [`SCHEMA`].
    fn write(
        &self,
        group: &mut RowGroupColumns<'_, '_>,
        rows: &ParquetRows,
        of: &[CallPathRow],
    ) -> Result<(), ParquetError> {
        let ColumnSources { picked, ran, id } = self;
        let data = picked.data;
        let same = |text: &str| vec![ByteArray::from(text); of.len()];
        let same_or_none = |text: &Option<String>| vec![text.as_deref().map(ByteArray::from); of.len()];
        let recorded_at = (data.start_ms > 0.0).then_some((data.start_ms * 1e3).round() as i64);
        group.texts(&same(id))?;
        group.numbers_or_none(&vec![recorded_at; of.len()])?;
        group.texts(&same(&data.product))?;
        for text in [&ran.service, &ran.version, &ran.commit, &ran.host] {
            group.texts_or_none(&same_or_none(text))?;
        }
        let (keys, values): (Vec<_>, Vec<_>) = (ran.labels.iter())
            .map(|(key, value)| (ByteArray::from(key.as_str()), ByteArray::from(value.as_str())))
            .unzip();
        group.lists(of.iter().map(|_| keys.iter().cloned()))?;
        group.lists(of.iter().map(|_| values.iter().cloned()))?;
        let of_thread: [fn(&Thread) -> &str; 4] = [|of| &of.process_name, |of| &of.pid, |of| &of.name, |of| &of.tid];
        for text in of_thread {
            let texts: Vec<ByteArray> = data.threads.iter().map(|thread| text(thread).into()).collect();
            group.texts_of(of, |row| texts[row.thread as usize].clone())?;
        }
        let (cpu, wait) = (measure(picked, false), measure(picked, true));
        for [cpu, wait] in [[cpu.0, wait.0], [cpu.1, wait.1]] {
            let (cpu, wait) = (ByteArray::from(cpu.as_str()), ByteArray::from(wait.as_str()));
            group.texts_of(of, |row| if row.is_wait { &wait } else { &cpu }.clone())?;
        }
        group.numbers(&of.iter().map(|row| whole(row.value)).collect::<Vec<_>>())?;
        let has_samples = data.has_samples();
        group.numbers_or_none(
            &of.iter()
                .map(|row| has_samples.then(|| whole(row.samples)))
                .collect::<Vec<_>>(),
        )?;
        let parts: [fn(&FunctionColumns) -> &ByteArray; 3] = [|of| &of.name, |of| &of.library, |of| &of.file];
        for part in parts {
            group.texts_of(of, |row| part(rows.leaf(row)).clone())?;
        }
        for part in parts {
            group.lists(
                of.iter()
                    .map(|row| rows.path(row).into_iter().map(|function| part(function).clone())),
            )?;
        }
        Ok(())
    }
}

/// The name and unit of what a row counts.
fn measure(picked: &Picked<'_>, is_wait: bool) -> (String, String) {
    if !picked.has_weights() {
        return ("samples".to_owned(), "count".to_owned());
    }
    let (name, unit) = picked.value_type();
    let is_time = matches!(picked.counted(), ExportUnit::Samples | ExportUnit::Nanoseconds) && picked.named().is_none();
    match (is_time, is_wait) {
        (true, true) => ("wait".to_owned(), unit),
        (true, false) => ("cpu".to_owned(), unit),
        (false, _) => (name, unit),
    }
}

/// The format's numbers are signed.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes the columns of a row group, one after another.
struct RowGroupColumns<'a, 'b>(&'a mut SerializedRowGroupWriter<'b, Vec<u8>>);

impl RowGroupColumns<'_, '_> {
    fn texts(&mut self, values: &[ByteArray]) -> Result<(), ParquetError> {
        self.column::<ByteArrayType>(values, None, None)
    }

    fn texts_of(&mut self, rows: &[CallPathRow], text: impl Fn(&CallPathRow) -> ByteArray) -> Result<(), ParquetError> {
        self.texts(&rows.iter().map(text).collect::<Vec<_>>())
    }

    fn texts_or_none(&mut self, values: &[Option<ByteArray>]) -> Result<(), ParquetError> {
        let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
        let values: Vec<ByteArray> = values.iter().flatten().cloned().collect();
        self.column::<ByteArrayType>(&values, Some(&levels), None)
    }

    fn numbers(&mut self, values: &[i64]) -> Result<(), ParquetError> {
        self.column::<Int64Type>(values, None, None)
    }

    fn numbers_or_none(&mut self, values: &[Option<i64>]) -> Result<(), ParquetError> {
        let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
        let values: Vec<i64> = values.iter().flatten().copied().collect();
        self.column::<Int64Type>(&values, Some(&levels), None)
    }

    /// Lists of required texts: the definition level is 0 for an empty list, and the repetition level is 0 where a row
    /// begins.
    fn lists<L: Iterator<Item = ByteArray>>(&mut self, rows: impl Iterator<Item = L>) -> Result<(), ParquetError> {
        let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let before = values.len();
            values.extend(row);
            let len = values.len() - before;
            defined.resize(defined.len() + len.max(1), i16::from(len > 0));
            repeated.push(0);
            repeated.resize(defined.len(), 1);
        }
        self.column::<ByteArrayType>(&values, Some(&defined), Some(&repeated))
    }

    fn column<T: parquet::data_type::DataType>(
        &mut self,
        values: &[T::T],
        defined: Option<&[i16]>,
        repeated: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = self.0.next_column()? else {
            return Err(ParquetError::General("the schema has fewer columns".to_owned()));
        };
        column.typed::<T>().write_batch(values, defined, repeated)?;
        column.close()
    }
}
