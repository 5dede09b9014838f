//! The control socket: what a running gateway is asked, one question a connection, and its answers as JSON.
//!
//! A question is a line: `status`, `reload`, `survey` and the name of a peer, `drain` and perhaps the nanoseconds within which to end, or that of
//! [`crate::takeover`]. An empty request is answered with the gateway's state.

use crate::error::{StartError, while_doing};
use crate::handle::Handle;
use crate::privileges::Plan;
use crate::reload::ReloadError;
use crate::takeover;
use crate::turns::Turn;
use crate::unix::{self, SocketFile};
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockAddr, Type};
use status::Snapshot;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long an answer may take: a client that has not read it by then is given up, and so is a gateway that has not answered.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client that has begun and says no more for this long has said all.
const SILENCE: Duration = Duration::from_millis(200);
/// How long a question may take as a whole, byte by byte; who has not begun by then asks nothing.
const QUESTION: Duration = Duration::from_secs(1);
/// How often a question that came too late is asked. A gateway that does not know it says its state each time.
pub(crate) const ATTEMPTS: u32 = 5;
/// Clients that are served at a time; others wait to be accepted.
const CLIENTS: usize = 16;
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

/// Checks that [`listen`] could take the place of the gateway that serves `path`: that one goes on.
pub(crate) fn check(path: &Path, plan: &Plan) -> Result<(), StartError> {
    unix::listen(&path.with_extension("check"), Some(plan), "control socket").map(drop)
}

/// Serves `handle`'s gateway at `socket`, on a thread of its own and one for each client.
pub(crate) fn serve(socket: Socket, handle: Handle) -> Result<Control, StartError> {
    let Socket { listener, file } = socket;
    let doing = while_doing(format!("control socket {}", file.path().display()));
    let control = Control { file, stopped: Arc::new(AtomicBool::new(false)) };
    let stopped = Arc::clone(&control.stopped);
    let gateway = Arc::new(Asked { handle });
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            let (place, places) = mpsc::channel();
            (0..CLIENTS).for_each(|_| drop(Place(place.clone())));
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let started = stream.and_then(|stream| {
                    let _ = places.recv();
                    serve_client(stream, Arc::clone(&gateway), Place(place.clone()))
                });
                if let Err(error) = started {
                    tracing::debug!(%error, "control socket");
                    std::thread::sleep(RESPITE);
                }
            }
        })
        .map_err(doing)?;
    Ok(control)
}

/// A client's place among [`CLIENTS`]; free again when this is dropped.
struct Place(mpsc::Sender<()>);

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody takes it once the socket is no longer served.
        let _ = self.0.send(());
    }
}

/// Answers one client on a thread of its own, which ends with the client.
fn serve_client(stream: UnixStream, gateway: Arc<Asked>, place: Place) -> std::io::Result<()> {
    let serve = move || {
        if let Err(error) = gateway.answer(stream) {
            tracing::debug!(%error, "control socket");
        }
        drop(place);
    };
    std::thread::Builder::new().name("control-client".into()).spawn(serve).map(drop)
}

/// The gateway that is asked.
struct Asked {
    handle: Handle,
}

impl Asked {
    fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let question = match question(&mut stream)? {
            Ok(question) => question,
            Err(reason) => return say(&mut stream, serde_json::to_vec(&Answer::refused(reason))),
        };
        let handle = &self.handle;
        let mut words = question.split_whitespace();
        // A client that has given up has been shown that the command failed: it must not take effect later.
        if !matches!(question.trim(), "" | "status") && unix::is_hung_up(&stream)? {
            return Err(std::io::Error::other(format!("not done, for the client has hung up: {question}")));
        }
        let document = match (words.next(), words.next(), words.next()) {
            (None | Some("status"), None, None) => {
                let Some(snapshot) = handle.snapshot() else { return Ok(()) };
                serde_json::to_vec(&snapshot)
            }
            (Some(takeover::QUESTION), None, None) => match self.turn_to_take_over(&stream)? {
                Ok(turn) => {
                    let _turn = turn;
                    return takeover::serve(stream, handle);
                }
                Err(reason) => serde_json::to_vec(&takeover::Reply::Refused(reason)),
            },
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

    /// A turn for the client behind `stream`, who may not be the one to take over.
    fn turn_to_take_over(&self, stream: &UnixStream) -> std::io::Result<Result<Turn<'_>, String>> {
        Ok(takeover::permit(stream)?.and_then(|()| self.handle.source.turns.take().map_err(str::to_owned)))
    }
}

/// Sends `document` as a line.
fn say(stream: &mut UnixStream, document: serde_json::Result<Vec<u8>>) -> std::io::Result<()> {
    let mut document = document.map_err(std::io::Error::other)?;
    document.push(b'\n');
    unix::write_until(Instant::now() + PATIENCE, stream, &document)
}

/// Whether a socket has waited for as long as it may.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
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
    let deadline = Instant::now() + QUESTION;
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        if line.len() == LONGEST {
            return Ok(Err(UNKNOWN));
        }
        // A client that has connected may not have run since.
        let silence = if line.is_empty() { QUESTION } else { SILENCE };
        match unix::read_until(deadline.min(Instant::now() + silence), stream, &mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if is_timeout(&error) => {
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

/// What the gateway behind the control socket `path` answers within [`PATIENCE`].
fn ask(path: &Path, question: &str) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut outcome = answered(path, question, deadline);
    for _ in 1..ATTEMPTS {
        match &outcome {
            Ok(document) if question != "status" && is_state(document) => outcome = answered(path, question, deadline),
            _ => break,
        }
    }
    outcome.map_err(|error| if is_timeout(&error) { unanswered() } else { error })
}

/// Whether a gateway has answered with its state. To any question but `status`, it says so that the question came too late, and that
/// nothing was done: it is to be asked again.
pub(crate) fn is_state(document: &[u8]) -> bool {
    let document: serde_json::Value = serde_json::from_slice(document).unwrap_or_default();
    document["peers"].is_array() && document["done"].is_null()
}

/// Whether the other end has closed the connection without reading what was said to it.
pub(crate) fn is_hangup(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn answered(path: &Path, question: &str, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // To connect waits, too, if the gateway accepts nobody.
    socket.set_write_timeout(Some(unix::left_until(deadline)?))?;
    socket.connect(&SockAddr::unix(path)?)?;
    let mut stream = UnixStream::from(OwnedFd::from(socket));
    let mut failed = stream.write_all(format!("{question}\n").as_bytes()).err();
    let mut document = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    // What the gateway has sent before it closed the connection can still be read.
    while failed.as_ref().is_none_or(is_hangup) {
        match unix::read_until(deadline, &mut stream, &mut buffer) {
            Ok(0) => break,
            Ok(count) => document.extend_from_slice(&buffer[..count]),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    match failed {
        Some(error) if document.is_empty() || !is_hangup(&error) => Err(error),
        None if document.is_empty() => Err(std::io::Error::new(
            ErrorKind::UnexpectedEof,
            "the gateway closed the connection without an answer, as one does that ends",
        )),
        _ => Ok(document),
    }
}

fn unanswered() -> std::io::Error {
    let text = format!(
        "the gateway did not answer within {} s: look at its log and at its process (`ps -o stat,wchan:20,cmd -C bentpipe`), \
         which may be stopped, starved of processor time or waiting for a file",
        PATIENCE.as_secs()
    );
    std::io::Error::new(ErrorKind::TimedOut, text)
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
    use crate::handle::Request;
    use std::io::Read;
    use std::net::Shutdown;

    /// Answers the client behind `stream` for `handle`'s gateway.
    fn answer(stream: UnixStream, handle: Handle) -> std::io::Result<()> {
        Asked { handle }.answer(stream)
    }

    /// What a gateway answers to `said`, and what its loop is asked meanwhile. The loop answers nothing else.
    fn answer_to(said: &[u8], hangs_up: bool) -> (serde_json::Value, Vec<String>) {
        let (handle, asked) = Handle::of_no_gateway();
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(said).unwrap();
        if hangs_up {
            near.shutdown(Shutdown::Write).unwrap();
        }
        let serving = std::thread::spawn(move || answer(far, handle));
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
    fn a_gateway_that_ends_before_it_answers_is_reported_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let ending = std::thread::spawn(move || {
            let mut asked = [0; "status\n".len()];
            listener.accept().unwrap().0.read_exact(&mut asked).unwrap();
        });
        let error = status(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("closed the connection without an answer"), "{error}");
        ending.join().unwrap();
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
    fn another_user_of_the_socket_is_offered_nothing() {
        const NOBODY: u32 = 65_534;
        let Some((mut near, far)) = kernel::testing::pair_of_user(NOBODY) else { return };
        let (handle, asked) = Handle::of_no_gateway();
        near.write_all(b"take-over\n").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let serving = std::thread::spawn(move || answer(far, handle));
        assert_eq!(asked.into_iter().count(), 0, "the loop duplicates no listener");
        serving.join().unwrap().unwrap();
        let (reply, sockets) = takeover::receive(&mut near).unwrap();
        let reply: serde_json::Value = serde_json::from_slice(&reply).unwrap();
        let reason = reply["refused"].as_str().unwrap();
        assert!(
            reason.starts_with("user 65534 may not take over: start the new process as root or as user"),
            "{reason}"
        );
        assert!(sockets.is_empty());
    }

    #[test]
    fn what_a_client_asked_that_has_hung_up_is_not_done() {
        for said in ["drain\n", "drain 5\n", "survey a\n", "reload\n"] {
            let directory = tempfile::tempdir().unwrap();
            let (mut handle, asked) = Handle::of_no_gateway();
            let file = directory.path().join("gateway.toml");
            std::fs::write(&file, "").unwrap();
            Arc::get_mut(&mut handle.source).unwrap().file = Some(file);
            let (mut near, far) = UnixStream::pair().unwrap();
            near.write_all(said.as_bytes()).unwrap();
            drop(near);
            let serving = std::thread::spawn(move || answer(far, handle));
            assert_eq!(asked.into_iter().count(), 0, "{said:?}");
            let error = serving.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("hung up"), "{said:?}: {error}");
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

    #[test]
    fn a_question_that_comes_byte_by_byte_is_not_waited_for() {
        let (handle, _asked) = Handle::of_no_gateway();
        let (mut near, far) = UnixStream::pair().unwrap();
        let asked = Instant::now();
        let serving = std::thread::spawn(move || answer(far, handle));
        while near.write_all(b"x").is_ok() && asked.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(SILENCE / 2);
        }
        assert!(serving.is_finished(), "it has had {:?}", asked.elapsed());
        // What was not read of the question may have reset the connection.
        let _ = serving.join().unwrap();
    }

    #[test]
    fn an_answer_that_is_read_byte_by_byte_is_given_up() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let began = Instant::now();
        let serving = std::thread::spawn(move || say(&mut far, Ok(vec![b' '; 4 << 20])));
        while !serving.is_finished() && began.elapsed() < PATIENCE * 2 {
            near.read_exact(&mut [0; 4096]).unwrap();
            std::thread::sleep(SILENCE / 2);
        }
        assert!(serving.is_finished(), "it has had {:?}", began.elapsed());
        assert!(serving.join().unwrap().is_err());
    }

    /// A socket in `directory` that is served, for a gateway that does what is asked without an answer.
    fn served(directory: &Path) -> (Control, mpsc::Receiver<Request>) {
        let path = directory.join("a.sock");
        let (listener, file) = unix::listen(&path, None, "control socket").unwrap();
        let (handle, asked) = Handle::of_no_gateway();
        (serve(Socket { listener, file }, handle).unwrap(), asked)
    }

    #[test]
    fn silent_clients_hold_nobody_up() {
        let directory = tempfile::tempdir().unwrap();
        let (control, _asked) = served(directory.path());
        let path = control.file.path();
        // Half a question: it is waited for its rest.
        let silent = || {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(b"drain 2").unwrap();
            stream
        };
        let silent: Vec<UnixStream> = (0..12).map(|_| silent()).collect();
        let asked = Instant::now();
        assert!(drain(path, None).unwrap().done);
        // One after the other they would take 2.4 s.
        assert!(asked.elapsed() < Duration::from_millis(1500), "{:?}", asked.elapsed());
        drop(silent);
    }

    #[test]
    fn more_clients_than_are_served_at_a_time_are_all_answered() {
        let directory = tempfile::tempdir().unwrap();
        let (control, _asked) = served(directory.path());
        let path = control.file.path();
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..100).map(|_| scope.spawn(|| drain(path, None).unwrap().done)).collect();
            assert!(clients.into_iter().all(|client| client.join().unwrap()));
        });
    }

    #[test]
    fn a_question_that_is_answered_with_the_state_is_asked_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let gateway = std::thread::spawn(move || {
            // It has waited for the question, and hangs up before and after it has come.
            for waits in [false, true] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"{\"peers\":[]}\n").unwrap();
                if waits {
                    std::thread::sleep(SILENCE);
                }
            }
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(question(&mut stream).unwrap(), Ok("drain".into()));
            say(&mut stream, serde_json::to_vec(&Answer::done(Vec::new()))).unwrap();
        });
        assert!(drain(&path, None).unwrap().done);
        gateway.join().unwrap();
    }

    #[test]
    fn a_client_that_begins_late_is_waited_for() {
        let (handle, _asked) = Handle::of_no_gateway();
        let (mut near, far) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || answer(far, handle));
        std::thread::sleep(SILENCE * 2);
        near.write_all(b"drain\n").unwrap();
        serving.join().unwrap().unwrap();
        let answer: Answer = serde_json::from_reader(near).unwrap();
        assert!(answer.done);
    }

    #[test]
    fn a_gateway_that_does_not_answer_is_named_as_such_with_what_to_look_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let error = status(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let text = error.to_string();
        assert!(text.starts_with("the gateway did not answer within 5 s: look at"), "{text}");
    }
}
