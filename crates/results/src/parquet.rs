//! Tables as Parquet.

use crate::error::Error;
use crate::table::{Column, Table, Values};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Writes tables as row groups of one file.
pub(crate) struct ParquetWriter<W: Write + Send> {
    state: State<W>,
}

/// A file begins with the first table, which knows the columns.
enum State<W: Write + Send> {
    Empty(W),
    Begun(SerializedFileWriter<W>),
    Failed,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { state: State::Empty(output) }
    }

    pub(crate) fn append(&mut self, table: &Table) -> Result<()> {
        let writer = match std::mem::replace(&mut self.state, State::Failed) {
            State::Empty(output) => SerializedFileWriter::new(output, schema(table)?, properties())?,
            State::Begun(writer) => writer,
            State::Failed => return Err(ParquetError::General("an earlier write failed".to_owned())),
        };
        let State::Begun(writer) = self.begun(writer) else { return Ok(()) };
        if table.rows() == 0 {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        for column in &table.columns {
            let Some(output) = group.next_column()? else { break };
            write_column(output, &column.values)?;
        }
        group.close().map(|_| ())
    }

    fn begun(&mut self, writer: SerializedFileWriter<W>) -> &mut State<W> {
        self.state = State::Begun(writer);
        &mut self.state
    }

    pub(crate) fn finish(self) -> Result<W> {
        match self.state {
            State::Empty(output) => Ok(output),
            State::Begun(writer) => writer.into_inner(),
            State::Failed => Err(ParquetError::General("an earlier write failed".to_owned())),
        }
    }
}

/// Without the version of the library, so that the bytes depend on the data alone.
fn properties() -> Arc<WriterProperties> {
    let properties = WriterProperties::builder().set_created_by("bentpipe".to_owned());
    Arc::new(properties.set_compression(Compression::UNCOMPRESSED).build())
}

fn schema(table: &Table) -> Result<Arc<Type>> {
    let field = |column: &crate::Column| {
        let (physical, logical) = match column.values {
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Integer(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Values::Number(_) => (Physical::DOUBLE, None),
            Values::Flag(_) => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    Type::group_type_builder("rows").with_fields(fields).build().map(Arc::new)
}

fn write_column(mut output: SerializedColumnWriter<'_>, values: &Values) -> Result<()> {
    match values {
        Values::Text(values) => {
            write::<ByteArrayType, _>(&mut output, values, |text| ByteArray::from(text.as_bytes().to_vec()))
        }
        Values::Integer(values) => write::<Int64Type, _>(&mut output, values, |value| *value as i64),
        Values::Number(values) => write::<DoubleType, _>(&mut output, values, |value| *value),
        Values::Flag(values) => write::<BoolType, _>(&mut output, values, |value| *value),
    }?;
    output.close()
}

/// Values that are there, and for each row whether one is (a definition level of 1).
fn write<D: DataType, T>(
    output: &mut SerializedColumnWriter<'_>,
    values: &[Option<T>],
    convert: impl Fn(&T) -> D::T,
) -> Result<()> {
    let present: Vec<D::T> = values.iter().flatten().map(convert).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    output.typed::<D>().write_batch(&present, Some(&levels), None).map(|_| ())
}

/// Reads the columns `names` of a file that [`crate::TableWriter`] wrote, or all of them.
///
/// # Errors
/// If the file cannot be read, is no such file, or lacks a column.
pub fn read_parquet(path: &Path, names: Option<&[&str]>) -> std::result::Result<Table, Error> {
    let file = path.display().to_string();
    let opened = File::open(path).map_err(|source| Error::File { file: file.clone(), source })?;
    read(opened, names).map_err(|source| Error::Parquet { file, source })
}

fn read(file: File, names: Option<&[&str]>) -> Result<Table> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut columns = Vec::new();
    let mut texts = Texts::default();
    for (at, column) in schema.columns().iter().enumerate() {
        if names.is_some_and(|names| !names.contains(&column.name())) {
            continue;
        }
        let mut values = None;
        for group in 0..reader.num_row_groups() {
            read_column(&*reader.get_row_group(group)?, at, &mut values, &mut texts)?;
        }
        columns.extend(values.map(|values| Column { name: column.name().to_owned().into(), values }));
    }
    match names.into_iter().flatten().find(|name| columns.iter().all(|column| column.name != **name)) {
        Some(name) if reader.num_row_groups() > 0 => Err(ParquetError::General(format!("there is no column {name}"))),
        _ => Ok(Table { columns }),
    }
}

/// Texts, of which most stand in many rows.
#[derive(Default)]
struct Texts(BTreeSet<Arc<str>>);

impl Texts {
    fn of(&mut self, bytes: &ByteArray) -> Arc<str> {
        let text = String::from_utf8_lossy(bytes.data());
        if let Some(known) = self.0.get(&*text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = Arc::from(&*text);
        self.0.insert(Arc::clone(&text));
        text
    }
}

/// Appends the column `at` of a row group to `values`.
fn read_column(group: &dyn RowGroupReader, at: usize, values: &mut Option<Values>, texts: &mut Texts) -> Result<()> {
    let rows = group.metadata().num_rows() as usize;
    match group.get_column_reader(at)? {
        ColumnReader::ByteArrayColumnReader(reader) => {
            let more = present(reader, rows, |bytes| texts.of(&bytes))?;
            extend(values, Values::Text(more));
        }
        ColumnReader::Int64ColumnReader(reader) => {
            extend(values, Values::Integer(present(reader, rows, |value| value as u64)?));
        }
        ColumnReader::DoubleColumnReader(reader) => {
            extend(values, Values::Number(present(reader, rows, |value| value)?))
        }
        ColumnReader::BoolColumnReader(reader) => extend(values, Values::Flag(present(reader, rows, |value| value)?)),
        _ => return Err(ParquetError::General("a column is of a type that no table has".to_owned())),
    }
    Ok(())
}

fn extend(values: &mut Option<Values>, more: Values) {
    match values {
        Some(values) => values.extend(more),
        None => *values = Some(more),
    }
}

/// The values of a column, with the places of those that are missing.
fn present<D: DataType, T>(
    mut reader: ColumnReaderImpl<D>,
    rows: usize,
    mut convert: impl FnMut(D::T) -> T,
) -> Result<Vec<Option<T>>> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut left = rows;
    while left > 0 {
        let (read, _, _) = reader.read_records(left, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General("a column ends early".to_owned()));
        }
        left -= read;
    }
    let mut values = values.into_iter();
    Ok(levels.iter().map(|level| if *level > 0 { values.next().map(&mut convert) } else { None }).collect())
}
