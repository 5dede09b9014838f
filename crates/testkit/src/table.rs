//! Recorded results: CSV with a header, beside tests that compare with them.

use std::collections::HashMap;
use std::path::Path;

/// A row: its fields by the names of their columns.
pub type Row = HashMap<String, String>;

/// The rows of a file.
///
/// # Panics
/// If it is not there or has no header.
pub fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines().map(fields);
    let header = lines.next().expect("a header");
    lines.map(|fields| header.iter().cloned().zip(fields).collect()).collect()
}

/// The fields of a line, some of them in quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => fields.last_mut().expect("there is one").push(letter),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_in_quotes_keep_their_commas() {
        assert_eq!(fields("reno,\"1,2,3\",,4.5"), ["reno", "1,2,3", "", "4.5"]);
    }

    #[test]
    fn rows_have_their_fields_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        crate::made::write_whole(file.path(), "name,at\none,1\ntwo,\"2,3\"\n");
        let rows = rows(file.path());
        assert_eq!(
            rows.iter().map(|row| (&*row["name"], &*row["at"])).collect::<Vec<_>>(),
            [("one", "1"), ("two", "2,3")]
        );
    }
}
