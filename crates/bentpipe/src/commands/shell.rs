//! Commands as a shell reads them, for people who give them again.

/// A quantity as its option reads it, to the last digit.
pub fn exact(quantity: &impl serde::Serialize) -> String {
    serde_json::to_value(quantity).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

/// A word, quoted where a shell needs it.
pub fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:,+%".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use units::{Bytes, Duration, Rate};

    /// The words that a shell makes of `command`.
    pub fn words(command: &str) -> Vec<String> {
        let script = format!("printf '%s\\0' {command}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let words = String::from_utf8(output.stdout).unwrap();
        words.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_shell_reads_words_as_they_were() {
        for word in ["plain.toml", "a b.toml", "flow.a.x='y'", "$HOME", "", "`id`", "*", "ü\n"] {
            assert_eq!(words(&quoted(word)), [word]);
        }
        assert_eq!(quoted("link.sat.loss=1e-3"), "link.sat.loss=1e-3");
    }

    #[test]
    fn quantities_keep_all_their_digits() {
        assert_eq!(exact(&Bytes::new(1_234_567)).parse(), Ok(Bytes::new(1_234_567)));
        assert_eq!(exact(&Rate::from_bps(20_480_004)).parse(), Ok(Rate::from_bps(20_480_004)));
        assert_eq!(exact(&Duration::from_nanos(550_123_401)).parse(), Ok(Duration::from_nanos(550_123_401)));
    }
}
