//! Text from the other side, as it may be shown: to a terminal, in a log, as a label.

/// `text` with everything escaped that could do something else than appear: control characters (C0, C1, so that no terminal's
/// escape sequence is left), line and paragraph separators, and what turns the direction of writing or hides.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let hides = matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        );
        if character.is_control() || hides {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("Módem 7 \u{1f6f0} \"x\""), "Módem 7 \u{1f6f0} \"x\"");
        assert_eq!(printable("a\u{1b}[2Jb\r\nc\u{9b}d\u{7f}"), "a\\u{1b}[2Jb\\r\\nc\\u{9b}d\\u{7f}");
        assert_eq!(printable("\u{202e}evil\u{200b}"), "\\u{202e}evil\\u{200b}");
    }
}
