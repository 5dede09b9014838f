//! Help texts that fill the terminal's width: their paragraphs are broken in the source for its reader, and by clap for the user.

use clap::Command;

/// What clap fills at most, and where it knows no width.
pub const MOST_COLUMNS: usize = 120;
const COLUMNS: usize = 100;
/// Of what an example does, below it.
const BELOW: &str = "      ";

/// The command with its subcommands, each text of which has one line for each paragraph; examples that do not fit the terminal have
/// what they do below them.
pub fn flowing(command: Command) -> Command {
    let columns = terminal_size::terminal_size().map(|(terminal_size::Width(columns), _)| columns.into());
    let of_environment = || std::env::var("COLUMNS").ok()?.parse().ok();
    within(command, columns.or_else(of_environment).unwrap_or(COLUMNS).min(MOST_COLUMNS))
}

fn within(command: Command, columns: usize) -> Command {
    let texts = [command.get_long_about(), command.get_after_help(), command.get_after_long_help()];
    let fitted = |text: &clap::builder::StyledStr| folded(&unbroken(&text.to_string()), columns);
    let [long_about, after_help, after_long_help] = texts.map(|text| text.map(fitted));
    let mut command = command;
    if let Some(text) = long_about {
        command = command.long_about(text);
    }
    if let Some(text) = after_help {
        command = command.after_help(text);
    }
    if let Some(text) = after_long_help {
        command = command.after_long_help(text);
    }
    command.mut_subcommands(|subcommand| within(subcommand, columns))
}

/// `text` with what an example does below the example, where both do not fit in one line.
fn folded(text: &str, columns: usize) -> String {
    let fold = |line: &str| {
        let shown = line.trim_start();
        let indent = line.len() - shown.len();
        if line.chars().count() <= columns || indent < 2 {
            return line.to_owned();
        }
        match shown.split_once("  ") {
            Some((example, does)) => format!("{}{example}\n{BELOW}{}", &line[..indent], does.trim_start()),
            // A line that only says what the example above it does.
            None if indent > BELOW.len() => format!("{BELOW}{shown}"),
            None => line.to_owned(),
        }
    };
    text.lines().map(fold).collect::<Vec<_>>().join("\n")
}

/// `text` with one line for each paragraph. A line that is indented, follows one that is, or follows a heading (a line that ends
/// in a colon) stands alone, as do empty lines.
fn unbroken(text: &str) -> String {
    let stands_alone = |line: &str| line.is_empty() || line.starts_with(' ');
    let mut out = String::new();
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        if at > 0 {
            let ends = stands_alone(line) || stands_alone(before) || before.ends_with(':');
            out.push(if ends { '\n' } else { ' ' });
        }
        out.push_str(line);
        before = line;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        let text = "One sentence that\ngoes on. Another.\n\nA new\nparagraph.\n\nExamples:\n  a  one\n  b  two\nand an end\nhere";
        let joined =
            "One sentence that goes on. Another.\n\nA new paragraph.\n\nExamples:\n  a  one\n  b  two\nand an end here";
        assert_eq!(unbroken(text), joined);
    }

    #[test]
    fn what_an_example_does_stands_below_it_in_narrow_terminals() {
        let text = "Examples:\n  bentpipe chaos      some transfers\n                      more of them\nan end";
        let narrow = "Examples:\n  bentpipe chaos\n      some transfers\n      more of them\nan end";
        assert_eq!(folded(text, 24), narrow);
        assert_eq!(folded(text, 80), text);
    }

    #[test]
    fn no_paragraph_of_any_command_is_broken_in_its_text() {
        use clap::CommandFactory as _;
        fn check(command: &Command) {
            let texts = [command.get_long_about(), command.get_after_help(), command.get_after_long_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                assert_eq!(unbroken(&text), text, "{}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&within(crate::Cli::command(), MOST_COLUMNS));
    }
}
