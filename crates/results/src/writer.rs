//! Tables as files.

use crate::error::Error;
use crate::parquet::ParquetWriter;
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::table_file::TableFile;
use crate::tables::{TABLES, tables};
use std::io::{self, Write};
use std::path::Path;

/// How tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names (RFC 4180); what is missing is empty.
    Csv,
    /// One JSON object a line; what is missing is null.
    JsonLines,
    /// Apache Parquet, a row group for each run, not compressed.
    Parquet,
}

impl Format {
    /// How files of the format end.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
            Format::Parquet => "parquet",
        }
    }
}

/// The four tables of a set of runs as files of one directory, which have their names when they are whole.
pub struct Tables {
    files: Vec<TableFile>,
}

impl Tables {
    /// Will make `DIRECTORY/flows.csv` and so on. Files that are there are replaced.
    ///
    /// # Errors
    /// If the directory takes no files.
    pub fn create(directory: &Path, format: Format) -> Result<Self, Error> {
        let create = |name| TableFile::create(&directory.join(format!("{name}.{}", format.extension())), format);
        Ok(Self { files: TABLES.into_iter().map(create).collect::<Result<_, _>>()? })
    }

    /// Appends a run.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn append(&mut self, run: &Run) -> Result<(), Error> {
        self.files.iter_mut().zip(tables(run)).try_for_each(|(file, table)| file.append(&table))
    }

    /// Completes the files.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        self.files.into_iter().try_for_each(TableFile::finish)
    }
}

/// Writes tables of equal columns below one another.
pub struct TableWriter<W: Write + Send> {
    /// What errors call it.
    file: String,
    sink: Sink<W>,
}

enum Sink<W: Write + Send> {
    Csv(Box<csv::Writer<W>>, Header),
    JsonLines(W),
    Parquet(Box<ParquetWriter<W>>),
}

/// Whether the names of the columns stand in a CSV file already.
#[derive(PartialEq)]
enum Header {
    Due,
    Written,
}

impl<W: Write + Send> TableWriter<W> {
    /// Writes to `output`, which errors call `file`.
    pub fn new(output: W, format: Format, file: impl Into<String>) -> Self {
        let sink = match format {
            Format::Csv => Sink::Csv(Box::new(csv::Writer::from_writer(output)), Header::Due),
            Format::JsonLines => Sink::JsonLines(output),
            Format::Parquet => Sink::Parquet(Box::new(ParquetWriter::new(output))),
        };
        Self { file: file.into(), sink }
    }

    /// Appends the rows of `table`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn append(&mut self, table: &Table) -> Result<(), Error> {
        let file = self.file.clone();
        let failed = |source| Error::File { file: file.clone(), source };
        match &mut self.sink {
            Sink::Csv(writer, header) => write_csv(writer, header, table).map_err(failed),
            Sink::JsonLines(output) => write_json_lines(output, table).map_err(failed),
            Sink::Parquet(writer) => {
                writer.append(table).map_err(|source| Error::Parquet { file: file.clone(), source })
            }
        }
    }

    /// Completes the output and gives it back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<W, Error> {
        let file = self.file;
        let failed = |source| Error::File { file: file.clone(), source };
        match self.sink {
            Sink::Csv(writer, _) => writer.into_inner().map_err(|error| failed(error.into_error())),
            Sink::JsonLines(mut output) => {
                output.flush().map_err(failed)?;
                Ok(output)
            }
            Sink::Parquet(writer) => writer.finish().map_err(|source| Error::Parquet { file: file.clone(), source }),
        }
    }
}

fn write_csv<W: Write>(writer: &mut csv::Writer<W>, header: &mut Header, table: &Table) -> io::Result<()> {
    if *header == Header::Due {
        writer.write_record(table.columns.iter().map(|column| column.name.as_bytes()))?;
        *header = Header::Written;
    }
    let mut field = String::new();
    for row in 0..table.rows() {
        for cell in table.row(row) {
            use std::fmt::Write as _;
            field.clear();
            // A String takes whatever is written to it.
            let _ = match cell {
                Cell::Missing => Ok(()),
                Cell::Text(text) => write!(field, "{text}"),
                Cell::Integer(value) => write!(field, "{value}"),
                Cell::Number(value) => write!(field, "{value}"),
                Cell::Flag(value) => write!(field, "{value}"),
            };
            writer.write_field(&field)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(())
}

fn write_json_lines<W: Write>(output: &mut W, table: &Table) -> io::Result<()> {
    for row in 0..table.rows() {
        let mut separator = b"{";
        for (column, cell) in table.columns.iter().zip(table.row(row)) {
            output.write_all(separator)?;
            write!(output, "\"{}\":", column.name)?;
            serde_json::to_writer(&mut *output, &cell)?;
            separator = b",";
        }
        output.write_all(b"}\n")?;
    }
    Ok(())
}
