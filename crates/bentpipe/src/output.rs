//! How every command talks: results on stdout, errors on stderr, one JSON document with `--json`, colour and
//! progress only on a terminal, and exit codes by the kind of failure.

use crate::logging;
use clap::Args;
use clap::error::{ContextKind, ErrorKind as ClapErrorKind};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Options that every command takes.
#[derive(Args, Clone)]
pub struct Options {
    /// Print one JSON document on stdout instead of text
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    pub log: logging::LogOptions,
}

/// Where a command's results go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    /// The output that the user asked for.
    pub fn new(options: &Options) -> Self {
        Self { json: options.json }
    }

    /// Whether the result is to be one JSON document.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Columns and rows of the terminal that stdout is; `None` if it is none.
    pub fn size(&self) -> Option<(usize, usize)> {
        let (terminal_size::Width(columns), terminal_size::Height(rows)) =
            terminal_size::terminal_size_of(std::io::stdout())?;
        let is_seen = columns > 0 && rows > 0;
        is_seen.then(|| (columns.into(), rows.into()))
    }

    /// The width that text is to keep: the terminal's, else that of the environment variable `COLUMNS`; `None` if there is neither.
    pub fn columns(&self) -> Option<usize> {
        let of_environment = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
        self.size().map(|(columns, _)| columns).or_else(of_environment)
    }

    /// Whether a person watches stderr, so that progress may be drawn there.
    pub fn shows_progress(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }

    /// Prints on stderr why the command ended; the exit code says of which kind it is.
    pub fn failure(&self, failure: &Failure) -> ExitCode {
        print_failure(&failure.to_string(), failure.exit_code(), self.json);
        ExitCode::from(failure.exit_code())
    }

    /// Says on stderr which files were written, unless the result is one JSON document.
    pub fn wrote(&self, files: &[impl AsRef<Path>]) {
        if !self.json {
            let names: Vec<_> = files.iter().map(|file| file.as_ref().display().to_string()).collect();
            // Where stderr cannot be written, the files are there all the same.
            let _ = writeln!(std::io::stderr(), "bentpipe: wrote {}", names.join(", "));
        }
    }

    /// Prints the result on stdout: `document` with `--json`, else what `text` writes within the columns it is given.
    ///
    /// # Errors
    /// If stdout cannot be written (a closed pipe apart: the reader has seen enough).
    pub fn result<T: Display>(
        &self,
        document: &impl Serialize,
        text: impl FnOnce(Option<usize>) -> T,
    ) -> Result<(), Failure> {
        let mut written = if self.json {
            serde_json::to_string_pretty(document)
                .map_err(|error| Failure::failed(format!("cannot write the result as JSON: {error}")))?
        } else {
            text(self.columns()).to_string()
        };
        if !written.ends_with('\n') {
            written.push('\n');
        }
        unless_closed(std::io::stdout().lock().write_all(written.as_bytes()))
    }
}

/// The failure of a write to stdout, but for a closed pipe: its reader has seen enough.
fn unless_closed(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// What `--json` prints on stderr instead of a line of text.
#[derive(Serialize)]
struct FailureDocument<'a> {
    error: &'a str,
    exit_code: u8,
}

/// Prints why a run ended, as one line: text, or a JSON object.
fn print_failure(problem: &str, exit_code: u8, is_json: bool) {
    let document =
        is_json.then(|| serde_json::to_string(&FailureDocument { error: problem, exit_code }).ok()).flatten();
    // The exit code says it, too, where stderr cannot be written.
    let _ = match document {
        Some(document) => writeln!(std::io::stderr(), "{document}"),
        None => writeln!(std::io::stderr(), "bentpipe: {problem}"),
    };
}

/// Why a command did not do what it was asked to, in one line.
#[derive(Debug)]
pub enum Failure {
    /// It ran and failed: a transfer did not verify, a peer refused, a claim does not hold. Exit code 1.
    Failed(String),
    /// An argument, a file or a setting is wrong. Exit code 2.
    Usage(String),
    /// The machine lacks a privilege, a kernel feature or a program. Exit code 3.
    Missing(String),
}

impl Failure {
    /// It ran and failed (exit code 1).
    pub fn failed(problem: impl Display) -> Self {
        Self::Failed(problem.to_string())
    }

    /// Wrong usage or input (exit code 2).
    pub fn usage(problem: impl Display) -> Self {
        Self::Usage(problem.to_string())
    }

    /// A file, which errors call `name`, cannot be written: wrong usage (exit code 2) if its path does not allow it, a failure (exit
    /// code 1) if the disk is full or broken.
    pub fn unwritable(name: impl Display, error: &std::io::Error) -> Self {
        let problem = format!("{name}: {error}");
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput => Self::Usage(problem),
            _ => Self::Failed(problem),
        }
    }

    /// The machine lacks something (exit code 3).
    pub fn missing(problem: impl Display) -> Self {
        Self::Missing(problem.to_string())
    }

    /// The same, with `text` before it.
    pub fn preceded_by(self, text: impl Display) -> Self {
        self.map(|problem| format!("{text}: {problem}"))
    }

    /// The same, with `text` after it.
    pub fn followed_by(self, text: impl Display) -> Self {
        self.map(|problem| format!("{problem}; {text}"))
    }

    fn map(self, f: impl FnOnce(String) -> String) -> Self {
        match self {
            Failure::Failed(problem) => Self::Failed(f(problem)),
            Failure::Usage(problem) => Self::Usage(f(problem)),
            Failure::Missing(problem) => Self::Missing(f(problem)),
        }
    }

    /// The exit code of its kind.
    fn exit_code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Missing(_) => 3,
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Failed(problem) | Failure::Usage(problem) | Failure::Missing(problem) => f.write_str(problem),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

impl From<replicas::Error> for Failure {
    fn from(error: replicas::Error) -> Self {
        match error {
            replicas::Error::Scenario(_) => Self::usage(error),
            replicas::Error::Failed(_) => Self::failed(error),
        }
    }
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Self {
        match error {
            lab::Error::Missing(_) => Failure::missing(error),
            lab::Error::Input(_) => Failure::usage(error),
            lab::Error::Failed(_) => Failure::failed(error),
        }
    }
}

impl From<kernel::Error> for Failure {
    fn from(error: kernel::Error) -> Self {
        lab::Error::from(error).into()
    }
}

/// Ends a run whose arguments clap did not accept: help and version are printed in full, an error as one line.
pub fn exit_with_usage(error: &clap::Error) -> ExitCode {
    // What clap has read is lost with the error.
    let json = std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json");
    let output = Output { json };
    if matches!(
        error.kind(),
        ClapErrorKind::DisplayHelp
            | ClapErrorKind::DisplayVersion
            | ClapErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return match unless_closed(error.print()) {
            // If stderr is what cannot be written, the exit code says it.
            _ if error.use_stderr() => ExitCode::from(2),
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => output.failure(&failure),
        };
    }
    output.failure(&Failure::usage(one_line(error)))
}

/// clap's message without its usage block, and what it suggests instead.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or(&text);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let mut line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue] {
        if let Some(suggestion) = error.get(kind) {
            line.push_str(&format!("; did you mean '{suggestion}'?"));
        }
    }
    if let (ClapErrorKind::InvalidSubcommand, Some(command)) = (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        line.push_str(command_meant(&command.to_string()));
    }
    if let (ClapErrorKind::UnknownArgument, Some(argument)) = (error.kind(), error.get(ContextKind::InvalidArg))
        && argument
            .to_string()
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit() || first == '.'))
    {
        line.push_str("; a value that begins with - is written --option=-VALUE");
    }
    line
}

/// Where the command is that was looked for as `written`.
fn command_meant(written: &str) -> &'static str {
    match written {
        "status" => "; it is a command of the gateway: bentpipe gateway status",
        "doctor" => "; it is a command of the gateway: bentpipe gateway doctor --config FILE",
        "reload" => "; it is a command of the gateway: bentpipe gateway reload",
        "drain" => "; it is a command of the gateway: bentpipe gateway drain",
        "start" | "run" => "; bentpipe gateway --config FILE runs a gateway",
        "check" => "; bentpipe gateway --config FILE --check checks a file",
        _ => "",
    }
}

/// Whether the user wants no colours anywhere (no-color.org).
pub fn is_colour_unwanted() -> bool {
    is_terminal_dumb() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Whether the terminal shows escape sequences instead of following them.
pub fn is_terminal_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}
