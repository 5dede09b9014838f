//! Tables as Parquet.

use crate::table::{Table, Values};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::Write;
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
            Values::Integer(_) => (Physical::INT64, None),
            Values::Number(_) => (Physical::DOUBLE, None),
            Values::Flag(_) => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(column.name, physical)
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
