//! The control socket: what a running gateway is asked, one question a connection, and its answers as JSON.
//!
//! A question is a line: `status`, `reload`, `survey` and the name of a peer, `drain` and perhaps the nanoseconds within which to end, or that of
//! [`crate::takeover`]. An empty request is answered with the gateway's state.

use crate::error::{StartError, while_doing};
use crate::handle::Handle;
use crate::privileges::Plan;
use crate::reload::ReloadError;
use crate::takeover;
use crate::unix::{self, SocketFile};
use serde::{Deserialize, Serialize};
use status::Snapshot;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A client that does not read for this long is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client that says nothing for this long asks nothing.
const SILENCE: Duration = Duration::from_millis(200);
/// How long to leave a listener alone that cannot accept, for want of descriptors.
const RESPITE: Duration = Duration::from_millis(100);
/// Every question is shorter.
const LONGEST: usize = 64;
const UNKNOWN: &str = "the question is none of: status, reload, survey, drain";

/// Serves until it is dropped; then the socket file is removed, too.
#[derive(Debug)]
pub(crate) struct Control {
    file: SocketFile,
    stopped: Arc<AtomicBool>,
}

impl Control {
    /// Another process has the socket file from now on.
    pub(crate) fn disown(&mut self) {
        self.file.disown();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread. If the file was removed, the thread stays asleep and the process ends without it.
        let _ = UnixStream::connect(self.file.path());
    }
}

/// What a gateway answers to a wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it does what was asked.
    pub done: bool,
    /// What it has changed.
    #[serde(default)]
    pub changes: Vec<String>,
    /// Faults of the file.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Why it does not.
    #[serde(default)]
    pub refused: Vec<String>,
}

impl Answer {
    fn done(changes: Vec<String>) -> Self {
        Self { done: true, changes, faults: Vec::new(), refused: Vec::new() }
    }

    fn refused(reason: impl Into<String>) -> Self {
        Self { done: false, changes: Vec::new(), faults: Vec::new(), refused: vec![reason.into()] }
    }
}

impl From<Result<Vec<String>, ReloadError>> for Answer {
    fn from(outcome: Result<Vec<String>, ReloadError>) -> Self {
        match outcome {
            Ok(changes) => Self::done(changes),
            Err(ReloadError::Faults(faults)) => Self { faults, ..Self::refused("the file has faults") },
            Err(ReloadError::Refused(refused)) => Self { refused, ..Self::refused("") },
            Err(ReloadError::Unavailable(reason)) => Self::refused(reason),
        }
    }
}

/// The socket, before anybody serves it.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

/// Listens at `path`, for those whom `plan` lets ask; `takes_over` from a gateway that serves it still.
pub(crate) fn listen(path: &Path, plan: &Plan, takes_over: bool) -> Result<Socket, StartError> {
    let listen = if takes_over { unix::replace } else { unix::listen };
    let (listener, file) = listen(path, Some(plan), "control socket")?;
    Ok(Socket { listener, file })
}

/// Serves `handle`'s gateway at `socket` on a thread of its own.
pub(crate) fn serve(socket: Socket, handle: Handle) -> Result<Control, StartError> {
    let Socket { listener, file } = socket;
    let doing = while_doing(format!("control socket {}", file.path().display()));
    let control = Control { file, stopped: Arc::new(AtomicBool::new(false)) };
    let stopped = Arc::clone(&control.stopped);
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let answered = stream.inspect_err(|_| std::thread::sleep(RESPITE)).and_then(|s| answer(s, &handle));
                if let Err(error) = answered {
                    tracing::debug!(%error, "control socket");
                }
            }
        })
        .map_err(doing)?;
    Ok(control)
}

fn answer(mut stream: UnixStream, handle: &Handle) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let question = match question(&mut stream)? {
        Ok(question) => question,
        Err(reason) => return say(&mut stream, serde_json::to_vec(&Answer::refused(reason))),
    };
    let mut words = question.split_whitespace();
    let document = match (words.next(), words.next(), words.next()) {
        (None | Some("status"), None, None) => {
            let Some(snapshot) = handle.snapshot() else { return Ok(()) };
            serde_json::to_vec(&snapshot)
        }
        (Some(takeover::QUESTION), None, None) => return takeover::serve(stream, handle),
        (Some("reload"), None, None) => serde_json::to_vec(&Answer::from(handle.reload())),
        (Some("survey"), Some(peer), None) => {
            let outcome = handle.survey(peer.to_owned());
            serde_json::to_vec(&outcome.map_or_else(Answer::refused, |()| Answer::done(Vec::new())))
        }
        (Some("drain"), within, None) => serde_json::to_vec(&drain_answer(handle, within)),
        _ => serde_json::to_vec(&Answer::refused(UNKNOWN)),
    };
    say(&mut stream, document)
}

/// Sends `document` as a line.
fn say(stream: &mut UnixStream, document: serde_json::Result<Vec<u8>>) -> std::io::Result<()> {
    let mut document = document.map_err(std::io::Error::other)?;
    document.push(b'\n');
    stream.write_all(&document)
}

fn drain_answer(handle: &Handle, within: Option<&str>) -> Answer {
    match within.map(str::parse).transpose() {
        Ok(within) => {
            handle.drain(within.map(units::Duration::from_nanos));
            Answer::done(Vec::new())
        }
        Err(_) => Answer::refused("the limit of drain is not a number of nanoseconds"),
    }
}

/// The line that the client sends, without its end; empty if it sends none. Or why it is not to be answered: its beginning may ask for
/// something else than the whole.
fn question(stream: &mut UnixStream) -> std::io::Result<Result<String, &'static str>> {
    stream.set_read_timeout(Some(SILENCE))?;
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        if line.len() == LONGEST {
            return Ok(Err(UNKNOWN));
        }
        match unix::uninterrupted(|| stream.read(&mut byte)) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // What changes nothing may be asked for without an end.
                if !matches!(line.trim_ascii(), b"" | b"status") {
                    return Ok(Err("the question has no end: a line was expected"));
                }
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(String::from_utf8_lossy(&line).into_owned()))
}

fn ask(path: &Path, question: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut document = Vec::new();
    stream.read_to_end(&mut document)?;
    Ok(document)
}

/// Asks the gateway behind the control socket `path` for its state, as the document that it answers.
///
/// # Errors
/// If no gateway serves it, or its answer cannot be read.
pub fn status(path: &Path) -> std::io::Result<serde_json::Value> {
    serde_json::from_slice(&ask(path, "status")?).map_err(std::io::Error::other)
}

/// Asks the gateway behind the control socket `path` for its state, typed. Fields that this version does not know are skipped.
///
/// # Errors
/// If no gateway serves it, or its answer cannot be read.
pub fn snapshot(path: &Path) -> std::io::Result<Snapshot> {
    serde_json::from_slice(&ask(path, "status")?).map_err(std::io::Error::other)
}

/// Has the gateway behind the control socket `path` read its file again.
///
/// # Errors
/// If no gateway serves it, or its answer cannot be read.
pub fn reload(path: &Path) -> std::io::Result<Answer> {
    serde_json::from_slice(&ask(path, "reload")?).map_err(std::io::Error::other)
}

/// Has the gateway behind the control socket `path` begin to measure the path to the peer `name`; its state has the result.
///
/// # Errors
/// If no gateway serves it, or its answer cannot be read.
pub(crate) fn survey(path: &Path, name: &str) -> std::io::Result<Answer> {
    serde_json::from_slice(&ask(path, &format!("survey {name}"))?).map_err(std::io::Error::other)
}

/// Has the gateway behind the control socket `path` take no more connections and end with the last, or `within` a time.
///
/// # Errors
/// If no gateway serves it, or its answer cannot be read.
pub fn drain(path: &Path, within: Option<units::Duration>) -> std::io::Result<Answer> {
    let question = within.map_or("drain".into(), |within| format!("drain {}", within.as_nanos()));
    serde_json::from_slice(&ask(path, &question)?).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{Request, Source};
    use mio::{Poll, Token, Waker};
    use std::net::Shutdown;
    use std::sync::mpsc;

    /// What a gateway answers that is told `said`, and what its loop is asked meanwhile. The loop answers nothing else.
    fn answer_to(said: &[u8], hangs_up: bool) -> (serde_json::Value, Vec<String>) {
        let (requests, asked) = mpsc::channel();
        let poll = Poll::new().unwrap();
        let source = Arc::new(Source { file: None, private_key: satpep::PrivateKey::from_random([1; 32]) });
        let handle = Handle { requests, waker: Arc::new(Waker::new(poll.registry(), Token(0)).unwrap()), source };
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(said).unwrap();
        if hangs_up {
            near.shutdown(Shutdown::Write).unwrap();
        }
        let serving = std::thread::spawn(move || answer(far, &handle));
        let asked = asked.into_iter().map(|request| match request {
            Request::Drain(within) => format!("drain {within:?}"),
            Request::Survey(peer, sender) => {
                sender.send(Err("it is not up".into())).unwrap();
                format!("survey {peer}")
            }
            _ => "another".into(),
        });
        let asked = asked.collect();
        serving.join().unwrap().unwrap();
        let mut document = Vec::new();
        // Where the gateway has not read all, its answer is followed by a reset.
        let _ = near.read_to_end(&mut document);
        (serde_json::from_slice(&document).unwrap(), asked)
    }

    #[test]
    fn questions_reach_the_gateway_as_they_were_asked() {
        let name = "n".repeat(32);
        for (said, expected) in [
            ("drain\n".to_owned(), "drain None".to_owned()),
            ("  drain   5 \r\n".into(), format!("drain {:?}", Some(units::Duration::from_nanos(5)))),
            ("drain".into(), "drain None".into()),
            (format!("survey {name}\n"), format!("survey {name}")),
        ] {
            let (answer, asked) = answer_to(said.as_bytes(), true);
            assert_eq!(asked, [expected], "{said:?}");
            assert_eq!(answer["done"], said.contains("drain"), "{said:?}");
        }
    }

    #[test]
    fn a_question_that_is_too_long_is_refused_and_its_beginning_not_carried_out() {
        let padding = " ".repeat(LONGEST);
        for said in
            [format!("drain{padding}1\n"), format!("reload{padding}twice\n"), format!("survey {}\n", "n".repeat(100))]
        {
            let (answer, asked) = answer_to(said.as_bytes(), true);
            assert_eq!(answer["done"], false, "{said}");
            assert!(asked.is_empty(), "{asked:?}");
            assert!(answer["refused"][0].as_str().unwrap().starts_with("the question is none of"), "{answer}");
        }
    }

    #[test]
    fn half_a_line_of_a_client_that_falls_silent_ends_nothing() {
        // Of "drain 20000000000", this much has come.
        let (answer, asked) = answer_to(b"drain 2", false);
        assert_eq!(answer["done"], false);
        assert!(asked.is_empty(), "{asked:?}");
        assert_eq!(answer["refused"][0], "the question has no end: a line was expected");
    }
}
