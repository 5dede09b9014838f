//! Test vectors of a wire format, for other implementations: a file of JSON, with bytes in hexadecimal.

use crate::made::{is_set, write_whole};
use serde_json::Value;
use std::path::Path;

/// Has tests rewrite the vectors.
const WRITE_VECTORS: &str = "BENTPIPE_WRITE_VECTORS";

/// A file of test vectors.
#[derive(Debug, Clone, Copy)]
pub struct Vectors(&'static str);

impl Vectors {
    /// Those in the file at `path`.
    pub const fn at(path: &'static str) -> Self {
        Self(path)
    }

    /// The vectors.
    ///
    /// # Panics
    /// If the file is not there or no JSON.
    pub fn read(self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.0).expect("the vectors are there")).expect("they are JSON")
    }

    /// Compares the vectors with those that the code makes, by the names of `made`, an object. With `BENTPIPE_WRITE_VECTORS` set, it
    /// writes them first.
    ///
    /// # Panics
    /// If they differ.
    pub fn check(self, made: &Value) {
        if is_set(WRITE_VECTORS) {
            let text = serde_json::to_string_pretty(made).expect("JSON") + "\n";
            write_whole(Path::new(self.0), &text);
        }
        let known = self.read();
        for (name, made) in made.as_object().expect("an object") {
            assert_eq!(&known[name], made, "{name}");
        }
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that a text in hexadecimal stands for.
///
/// # Panics
/// If it is none.
pub fn bytes(hex: &Value) -> Vec<u8> {
    let text = hex.as_str().expect("a text").as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
    assert!(text.len().is_multiple_of(2), "two digits for each byte");
    text.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tempfile::NamedTempFile;

    #[test]
    fn bytes_are_read_as_they_are_written() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes(&json!(hex(&all))), all);
        assert_eq!(hex(&[0, 0x0f, 0xa0]), "000fa0");
    }

    #[test]
    #[should_panic(expected = "two digits for each byte")]
    fn half_a_byte_is_none() {
        bytes(&json!("abc"));
    }

    /// Vectors in a file, which is removed even when its test panics.
    fn vectors(content: &Value) -> (Vectors, NamedTempFile) {
        let file = NamedTempFile::new().expect("a file");
        write_whole(file.path(), &content.to_string());
        (Vectors::at(file.path().to_str().expect("a name").to_owned().leak()), file)
    }

    #[test]
    fn vectors_that_are_what_the_code_makes_pass() {
        let content = json!({"one": hex(&[1]), "known to others": 2});
        let (vectors, _file) = vectors(&content);
        vectors.check(&json!({"one": "01"}));
        assert_eq!(vectors.read(), content);
    }

    #[test]
    #[should_panic(expected = "one")]
    fn vectors_that_differ_are_named() {
        let (vectors, _file) = vectors(&json!({"one": "01"}));
        vectors.check(&json!({"one": "02"}));
    }
}
