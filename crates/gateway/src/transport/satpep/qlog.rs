//! Traces of sessions as qlog files (`[debug] qlog`), written by a thread of their own: the event loop never waits for the disk.

use super::Satpep;
use crate::config::QlogSettings;
use crate::log_file;
use satpep::{TraceEvent, TracedSession, qlog};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use units::Instant;

/// Batches of events that may wait to be written, and how many events are one: some 50 MB at most.
const QUEUE: usize = 256;
const BATCH: usize = 1024;
/// How long a gateway that stops waits for the last events to be written.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(1);

/// What is to be written.
#[derive(Debug)]
enum Message {
    /// A session began, or is seen for the first time.
    Session(TracedSession, Beginning),
    /// What has happened in sessions.
    Events(Vec<TraceEvent>),
}

/// When a session was first seen.
#[derive(Debug)]
struct Beginning {
    peer: String,
    at: Instant,
    /// Nanoseconds since 1970.
    unix_time: u64,
}

/// The traces, as long as they can be written.
#[derive(Debug)]
pub(super) struct Traces {
    gateway: String,
    settings: QlogSettings,
    messages: Option<SyncSender<Message>>,
    ended: Option<Receiver<()>>,
    sessions: BTreeSet<TracedSession>,
    has_warned: bool,
    is_over: bool,
}

impl Traces {
    /// Traces of the gateway called `gateway`. The thread that writes them starts with the first event, when the process has given up
    /// its privileges.
    ///
    /// # Errors
    /// If the directory is not there.
    pub(super) fn new(gateway: &str, settings: &QlogSettings) -> io::Result<Self> {
        std::fs::read_dir(&settings.directory)?;
        Ok(Self {
            gateway: gateway.to_owned(),
            settings: settings.clone(),
            messages: None,
            ended: None,
            sessions: BTreeSet::new(),
            has_warned: false,
            is_over: false,
        })
    }

    /// Has the session of `event`, with the peer called `name`, begin before its first event is written. Where there is no room for that
    /// now, its next event tries again.
    fn begin(&mut self, event: &TraceEvent, name: &str) {
        if self.is_over || self.sessions.contains(&event.session) {
            return;
        }
        let beginning = Beginning { peer: name.to_owned(), at: event.at, unix_time: kernel::clock::unix_time() };
        if self.send(Message::Session(event.session, beginning)) {
            self.sessions.insert(event.session);
        }
    }

    /// Whether `message` will be written, as far as is known.
    fn send(&mut self, message: Message) -> bool {
        if self.messages.is_none() && !self.is_over {
            let (messages, queue) = mpsc::sync_channel(QUEUE);
            let mut writer = Writer::new(&self.gateway, &self.settings);
            let (end, ended) = mpsc::channel();
            let started = std::thread::Builder::new().name("qlog".into()).spawn(move || {
                writer.run(&queue);
                // Who waited may have given up.
                let _ = end.send(());
            });
            match started {
                Ok(_) => (self.messages, self.ended) = (Some(messages), Some(ended)),
                Err(error) => tracing::warn!(%error, "[debug] qlog: nothing is written"),
            }
            self.is_over = self.messages.is_none();
        }
        let Some(messages) = &self.messages else { return false };
        match messages.try_send(message) {
            Ok(()) => return true,
            Err(mpsc::TrySendError::Full(_)) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!("[debug] qlog: events are left out, for the disk is too slow");
                }
            }
            // The writer has said why.
            Err(mpsc::TrySendError::Disconnected(_)) => (self.messages, self.is_over) = (None, true),
        }
        false
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.messages = None;
        let _ = self.ended.take().map(|ended| ended.recv_timeout(FAREWELL));
    }
}

impl Satpep {
    /// Has what happened to packets since the last time written.
    pub(super) fn write_traces(&mut self) {
        let Some(mut traces) = self.traces.take() else { return };
        let mut events = Vec::new();
        while let Some(event) = self.streams.endpoint.poll_trace() {
            traces.begin(&event, self.name(event.session.peer));
            events.push(event);
            if events.len() == BATCH {
                traces.send(Message::Events(std::mem::take(&mut events)));
            }
        }
        if !events.is_empty() {
            traces.send(Message::Events(events));
        }
        self.traces = Some(traces);
    }
}

struct Writer {
    gateway: String,
    directory: PathBuf,
    /// Bytes that may yet be written.
    left: u64,
    files: BTreeMap<TracedSession, (File, Instant)>,
}

/// The limit is reached, or the disk fails.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("qlog_size is reached")]
    Limit,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Writer {
    fn new(gateway: &str, settings: &QlogSettings) -> Self {
        Self {
            gateway: gateway.to_owned(),
            directory: settings.directory.clone(),
            left: settings.max_size.as_u64(),
            files: BTreeMap::new(),
        }
    }

    /// Writes until nobody sends any more, or no more may be written.
    fn run(&mut self, queue: &Receiver<Message>) {
        while let Ok(message) = queue.recv() {
            let written = match message {
                Message::Session(session, beginning) => self.begin(session, &beginning),
                Message::Events(events) => self.append(&events),
            };
            if let Err(reason) = written {
                tracing::warn!(%reason, "[debug] qlog: no more is written");
                return;
            }
        }
    }

    fn begin(&mut self, session: TracedSession, beginning: &Beginning) -> Result<(), Stop> {
        let Beginning { peer, at, unix_time } = beginning;
        // While a peer is upgraded, it has two sessions; those before are over.
        let of_peer: Vec<_> = self.files.keys().filter(|known| known.peer == session.peer).copied().collect();
        for old in of_peer.iter().rev().skip(1) {
            self.files.remove(old);
        }
        let name = format!("{peer}-{}-{}.sqlog", unix_time / 1_000_000_000, session.number);
        let file = open(&self.directory.join(name))?;
        self.files.insert(session, (file, *at));
        let title = format!("{} and {peer}", self.gateway);
        let header = qlog::Header::new(title, self.gateway.clone(), session.initiates, *unix_time as f64 / 1e6);
        let mut text = Vec::new();
        record(&mut text, &header);
        self.write(session, &text)
    }

    fn append(&mut self, events: &[TraceEvent]) -> Result<(), Stop> {
        let mut text = Vec::new();
        for run in events.chunk_by(|one, other| one.session == other.session) {
            let session = run[0].session;
            let Some((_, reference)) = self.files.get(&session) else { continue };
            text.clear();
            run.iter().for_each(|event| record(&mut text, &qlog::Event::new(event, *reference)));
            self.write(session, &text)?;
        }
        Ok(())
    }

    fn write(&mut self, session: TracedSession, text: &[u8]) -> Result<(), Stop> {
        let Some((file, _)) = self.files.get_mut(&session) else { return Ok(()) };
        self.left = self.left.checked_sub(text.len() as u64).ok_or(Stop::Limit)?;
        Ok(file.write_all(text)?)
    }
}

fn open(path: &Path) -> io::Result<File> {
    log_file::open(OpenOptions::new().write(true).truncate(true), path)
}

fn record(text: &mut Vec<u8>, record: &impl serde::Serialize) {
    text.push(qlog::RECORD_SEPARATOR);
    serde_json::to_writer(&mut *text, record).expect("a record is JSON, and memory takes it");
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use satpep::{Endpoint, EndpointConfig, PeerConfig, PrivateKey, TraceKind};
    use units::{Bytes, Duration, Rate};

    /// A session of an endpoint that never began.
    fn session(number: u32) -> TracedSession {
        let rate = Rate::from_bps(1_000_000);
        let key = |number| PrivateKey::from_random([number; 32]);
        let config = EndpointConfig::new(key(1), rate, rate, Duration::from_millis(50));
        let mut endpoint: Endpoint = Endpoint::new(config, Instant::ZERO, 1, [0; 32]);
        let peer = endpoint.add_peer(Instant::ZERO, PeerConfig::new(key(2).public_key(), None)).unwrap();
        TracedSession { peer, number, initiates: false }
    }

    fn writer(directory: &Path, max_size: u64) -> Writer {
        Writer::new("here", &QlogSettings { directory: directory.to_owned(), max_size: Bytes::new(max_size) })
    }

    fn beginning() -> Beginning {
        Beginning { peer: "there".into(), at: Instant::from_nanos(1_000_000), unix_time: 1_700_000_000_000_000_000 }
    }

    fn lost(session: TracedSession, number: u64) -> TraceEvent {
        TraceEvent { at: Instant::from_nanos(3_000_000), session, kind: TraceKind::PacketLost(number) }
    }

    #[test]
    fn each_session_has_a_file_of_records() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer(directory.path(), 1 << 20);
        for number in [1, 2] {
            writer.begin(session(number), &beginning()).unwrap();
        }
        writer.append(&[lost(session(1), 7), lost(session(1), 8), lost(session(2), 9)]).unwrap();
        let text = std::fs::read_to_string(directory.path().join("there-1700000000-1.sqlog")).unwrap();
        let records: Vec<serde_json::Value> =
            text.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
        assert_eq!((records.len(), &records[0]["title"]), (3, &"here and there".into()));
        let expected = serde_json::json!({
            "time": 2.0, "name": "recovery:packet_lost", "data": {"header": {"packet_type": "1RTT", "packet_number": 8}},
        });
        assert_eq!(records[2], expected);
        writer.begin(session(3), &beginning()).unwrap();
        assert_eq!(writer.files.keys().map(|session| session.number).collect::<Vec<_>>(), [2, 3], "the oldest is over");
    }

    #[test]
    fn a_session_that_begins_while_the_queue_is_full_has_its_file_later() {
        let directory = tempfile::tempdir().unwrap();
        let settings = QlogSettings { directory: directory.path().to_owned(), max_size: Bytes::new(1 << 20) };
        let mut traces = Traces::new("here", &settings).unwrap();
        let (messages, queue) = mpsc::sync_channel(1);
        traces.messages = Some(messages);
        traces.send(Message::Events(Vec::new()));
        let first = lost(session(1), 7);
        traces.begin(&first, "there");
        assert!(matches!(queue.try_recv(), Ok(Message::Events(_))));
        assert!(queue.try_recv().is_err(), "there was no room");
        for _ in 0..2 {
            traces.begin(&first, "there");
        }
        assert!(matches!(queue.try_recv(), Ok(Message::Session(begun, _)) if begun == first.session));
        assert!(queue.try_recv().is_err(), "it begins once");
    }

    #[test]
    fn no_more_is_written_than_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer(directory.path(), 1000);
        writer.begin(session(1), &beginning()).unwrap();
        let stopped = (0..100).find_map(|number| writer.append(&[lost(session(1), number)]).err());
        assert!(matches!(stopped, Some(Stop::Limit)), "{stopped:?}");
        let size = std::fs::metadata(directory.path().join("there-1700000000-1.sqlog")).unwrap().len();
        assert!((900..=1000).contains(&size), "{size}");
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_fault_of_the_start() {
        let settings = QlogSettings { directory: "/nonexistent".into(), max_size: Bytes::new(1) };
        assert!(Traces::new("here", &settings).is_err());
    }
}
