//! Text files of a user, read within a limit: a device such as `/dev/zero` or a pipe may have no end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;
use units::Bytes;

/// Limit for files that a person writes: scenarios, link files, records of settings.
pub const WRITTEN: Bytes = Bytes::new(16_000_000);

/// Limit for files that a program writes: traces.
pub const RECORDED: Bytes = Bytes::new(256_000_000);

/// The text in `path`, without the byte-order mark that some editors put before it. Pipes are read, too.
///
/// # Errors
/// If the file cannot be read, is larger than `most`, or is not UTF-8.
pub fn read(path: &Path, most: Bytes) -> Result<String> {
    read_from(File::open(path)?, most)
}

/// The rest of the text in `source`, as [`read`] does.
///
/// # Errors
/// As [`read`].
pub fn read_from(source: impl Read, most: Bytes) -> Result<String> {
    let mut bytes = Vec::new();
    source.take(most.as_u64().saturating_add(1)).read_to_end(&mut bytes)?;
    if Bytes::from(bytes.len()) > most {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("it is larger than {most}, the limit for such a file"),
        ));
    }
    let mut text =
        String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))?;
    const BYTE_ORDER_MARK: char = '\u{feff}';
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_up_to_the_limit() {
        let refused = |path: &str| read(Path::new(path), WRITTEN).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero"), "it is larger than 16MB, the limit for such a file");
        assert_eq!(read(Path::new("/dev/null"), Bytes::ZERO).unwrap(), "");
        assert!(refused("/").contains("directory"));
    }

    #[test]
    fn a_text_is_read_up_to_the_limit_without_its_byte_order_mark() {
        let path = std::env::temp_dir().join(format!("bentpipe-text-{}", std::process::id()));
        std::fs::write(&path, "\u{feff}12.5s").unwrap();
        assert_eq!(read(&path, Bytes::new(8)).unwrap(), "12.5s");
        assert_eq!(read(&path, Bytes::new(7)).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read(&path, WRITTEN).unwrap_err().to_string(), "it is not text in UTF-8");
        std::fs::remove_file(&path).unwrap();
    }
}
