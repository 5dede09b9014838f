//! Help texts that fill the terminal's width: their paragraphs are broken in the source for its reader, and by clap for the user.

use clap::Command;

/// The command with its subcommands, each text of which has one line for each paragraph.
pub fn flowing(command: Command) -> Command {
    let texts = [command.get_long_about(), command.get_after_help(), command.get_after_long_help()];
    let [long_about, after_help, after_long_help] = texts.map(|text| text.map(|text| unbroken(&text.to_string())));
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
    command.mut_subcommands(flowing)
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
    fn no_paragraph_of_any_command_is_broken_in_its_text() {
        use clap::CommandFactory as _;
        fn check(command: &Command) {
            let texts = [command.get_long_about(), command.get_after_help(), command.get_after_long_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                assert_eq!(unbroken(&text), text, "{}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&flowing(crate::Cli::command()));
    }
}
