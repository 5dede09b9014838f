//! Results as text: sentences and tables within the terminal's width.

use results::listing::{Listing, wrapped};
use std::fmt::{self, Display};

/// Text in the making.
#[derive(Debug)]
pub struct Text {
    columns: Option<usize>,
    text: String,
}

impl Text {
    /// Empty text, whose lines are at most so many columns wide; `None` if there is no terminal.
    pub fn new(columns: Option<usize>) -> Self {
        Self { columns, text: String::new() }
    }

    /// A sentence or several, each line of which is broken where it must be.
    pub fn lines(&mut self, text: impl Display) -> &mut Self {
        self.indented(text, "")
    }

    /// Like [`Text::lines`], where what a line does not hold goes on behind `indent`.
    pub fn indented(&mut self, text: impl Display, indent: &str) -> &mut Self {
        let text = text.to_string();
        text.lines().for_each(|line| self.text += &wrapped(line, self.columns, indent));
        self
    }

    /// Each on a line of its own.
    pub fn each(&mut self, items: impl IntoIterator<Item: Display>) -> &mut Self {
        for item in items {
            self.lines(item);
        }
        self
    }

    /// An empty line.
    pub fn blank(&mut self) -> &mut Self {
        self.text.push('\n');
        self
    }

    /// A table, or records.
    pub fn listing(&mut self, listing: &Listing) -> &mut Self {
        self.text += &listing.render(self.columns);
        self
    }

    /// What must not be broken: a script, a drawing.
    pub fn verbatim(&mut self, text: impl Display) -> &mut Self {
        let text = text.to_string();
        self.text += &text;
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
        self
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_and_scripts_are_not() {
        let mut text = Text::new(Some(12));
        text.lines("one two three four").blank().indented("Note: a b c d e", "  ").verbatim("ip route add default");
        assert_eq!(text.to_string(), "one two\nthree four\n\nNote: a b c\n  d e\nip route add default\n");
        assert_eq!(Text::new(None).lines("one two three four").to_string(), "one two three four\n");
    }
}
