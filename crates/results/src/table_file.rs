//! A table as a file that has its name only when it is whole.

use crate::error::Error;
use crate::table::Table;
use crate::writer::{Format, TableWriter};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file that is being written. Until [`TableFile::finish`] it has another name, and goes if it is dropped: half a table would
/// be taken for the whole.
pub struct TableFile {
    path: PathBuf,
    partial: TempPath,
    writer: TableWriter<BufWriter<File>>,
}

impl TableFile {
    /// A file that will be `path`.
    ///
    /// # Errors
    /// If the directory takes no file.
    pub fn create(path: &Path, format: Format) -> Result<Self, Error> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (file, partial) = tempfile::Builder::new()
            .prefix(".bentpipe-")
            .suffix(".part")
            // As for any new file; the umask takes away from it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(|source| failed(path, source))?
            .into_parts();
        let writer = TableWriter::new(BufWriter::new(file), format, path.display().to_string());
        Ok(Self { path: path.to_owned(), partial, writer })
    }

    /// Appends the rows of `table`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&mut self, table: &Table) -> Result<(), Error> {
        self.writer.append(table)
    }

    /// Completes the file and gives it its name. A file of that name is replaced.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        let written = self.writer.finish()?.into_inner();
        written.map_err(|error| failed(&self.path, error.into_error()))?;
        self.partial.persist(&self.path).map_err(|error| failed(&self.path, error.error))
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File { file: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Values};
    use std::fs;

    fn table() -> Table {
        Table { columns: vec![Column { name: "time_s".into(), values: Values::Number(vec![Some(1.5), None]) }] }
    }

    #[test]
    fn a_table_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<_> { fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
        let path = folder.path().join("flows.csv");
        fs::write(&path, "an earlier command's").unwrap();

        let mut dropped = TableFile::create(&path, Format::Csv).unwrap();
        dropped.append(&table()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "an earlier command's");
        drop(dropped);
        assert_eq!(names(), ["flows.csv"]);

        let mut whole = TableFile::create(&path, Format::Csv).unwrap();
        whole.append(&table()).unwrap();
        whole.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "time_s\n1.5\n\"\"\n");
        assert_eq!(names(), ["flows.csv"]);
    }

    #[test]
    fn others_may_read_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.jsonl");
        TableFile::create(&path, Format::JsonLines).unwrap().finish().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }
}
