//! A table as a file that has its name only when it is whole.

use crate::error::Error;
use crate::partial_file::PartialFile;
use crate::table::Table;
use crate::writer::{Format, TableWriter};
use std::path::Path;

/// A table that is being written to a [`PartialFile`].
pub struct TableFile {
    writer: TableWriter<PartialFile>,
}

impl TableFile {
    /// A file that will be `path`.
    ///
    /// # Errors
    /// If the directory takes no file.
    pub fn create(path: &Path, format: Format) -> Result<Self, Error> {
        Ok(Self { writer: TableWriter::new(PartialFile::create(path)?, format, path.display().to_string()) })
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
        self.writer.finish()?.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Values};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

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
