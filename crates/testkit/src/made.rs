//! Files of the repository that code makes. Tests compare them, or rewrite them if the environment says so.

use std::path::Path;

/// Has tests rewrite what code makes of the documentation.
const WRITE_DOCS: &str = "BENTPIPE_WRITE_DOCS";

/// Whether the environment has `variable`.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Writes a file in one step: a reader meanwhile finds the old text or the new one.
pub(crate) fn write_whole(path: &Path, text: &str) {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares a whole file with what code makes of it. With `BENTPIPE_WRITE_DOCS` set, it writes the file first. Returns the file's text.
///
/// # Panics
/// If there is no such file.
pub fn whole_file(path: &Path, made: &str) -> String {
    if is_set(WRITE_DOCS) {
        write_whole(path, made);
    }
    read(path)
}

/// Compares what stands between `<!-- NAME -->` and `<!-- end of the NAME -->` of a page with what code makes of it. With
/// `BENTPIPE_WRITE_DOCS` set, it writes that instead; `package` is named as the one whose tests do so.
///
/// # Panics
/// If they differ, or the page has no such place.
pub fn section(page: &Path, name: &str, made: &str, package: &str) {
    let text = read(page);
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of the {name} -->"));
    let (before, rest) = text.split_once(&begin).expect("the page has a place for it");
    let (written, after) = rest.split_once(&end).expect("the place ends");
    if is_set(WRITE_DOCS) {
        write_whole(page, &format!("{before}{begin}{made}{end}{after}"));
    } else {
        assert_eq!(written, made, "{WRITE_DOCS}=1 cargo test -p {package} writes it");
    }
}

/// The rows of a table of two columns stand in `page`, one after another.
///
/// # Panics
/// If they do not.
pub fn table(page: &str, rows: &[(&str, String)]) {
    let table: String = rows.iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect();
    assert!(page.contains(&table), "the table should be\n{table}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::NamedTempFile;

    /// A file with this text, which is removed even when its test panics.
    fn file(text: &str) -> NamedTempFile {
        let file = NamedTempFile::new().expect("a file");
        write_whole(file.path(), text);
        file
    }

    const PAGE: &str = "before\n<!-- list -->\none\n<!-- end of the list -->\nafter\n";

    #[test]
    fn a_section_that_is_what_code_makes_is_left_as_it_is() {
        let page = file(PAGE);
        section(page.path(), "list", "one\n", "this");
        assert_eq!(whole_file(page.path(), PAGE), PAGE);
    }

    #[test]
    #[should_panic(expected = "cargo test -p this writes it")]
    fn a_section_that_differs_is_told_with_the_command_that_writes_it() {
        section(file(PAGE).path(), "list", "two\n", "this");
    }

    #[test]
    #[should_panic(expected = "the page has a place for it")]
    fn a_page_without_the_place_is_told() {
        section(file(PAGE).path(), "table", "one\n", "this");
    }

    #[test]
    #[should_panic(expected = "the table should be")]
    fn rows_apart_from_one_another_are_no_table() {
        table("| a | 1 |\n| b | 2 |\n", &[("a", "1".to_owned()), ("b", "2".to_owned())]);
        table("| a | 1 |\n\n| b | 2 |\n", &[("a", "1".to_owned()), ("b", "2".to_owned())]);
    }
}
