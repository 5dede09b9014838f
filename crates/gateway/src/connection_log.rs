//! The connection log (`[connection_log]`): a line of JSON for each connection that has ended (docs/monitoring.md).
//!
//! | file | idea |
//! | --- | --- |
//! | `connection_log.rs` | the log, as the event loop sees it: never waits, bounded memory |
//! | `entry.rs` | what the lines say |
//! | `bypassed.rs` | when there is a line for connections past the gateway |
//! | `writer.rs` | the thread that writes them, and what it does while it cannot |
//! | `rotating_file.rs` | a file that is renamed when it is full |

mod bypassed;
mod entry;
mod rotating_file;
mod writer;

pub(crate) use bypassed::PERIOD as BYPASSED_PERIOD;
pub use entry::{BypassedEntry, ConnectionEntry, DroppedEntry, Entry, json_schema};
pub(crate) use entry::{Names, timestamp};
pub use rotating_file::Rotation;

use crate::error::{StartError, while_doing};
use bypassed::Bypassed;
use status::LogCounts;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};
use units::Instant;

/// Entries that may wait to be written: some 16 MB. More are dropped. All connections of two peers may end at one moment, as with the gateway,
/// and where there is one processor, nothing is written before all of them have.
const QUEUE: u64 = 32_768;
/// How long a gateway that stops waits for the last lines to be written.
const FAREWELL: Duration = Duration::from_secs(1);

/// [`LogCounts`] that two threads count.
#[derive(Debug, Default)]
struct Counts {
    /// Entries that wait to be written.
    waiting: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
}

/// The log, as long as it is there.
#[derive(Debug)]
pub(crate) struct ConnectionLog {
    entries: Option<mpsc::Sender<Entry>>,
    ended: mpsc::Receiver<()>,
    counts: Arc<Counts>,
    bypassed: Bypassed,
}

impl ConnectionLog {
    /// Opens the file `path` to append to it, and starts the thread that does.
    pub(crate) fn open(path: &Path, rotation: Rotation) -> Result<Self, StartError> {
        let doing = || format!("[connection_log] file {}", path.display());
        let file = rotating_file::RotatingFile::open(path, rotation).map_err(while_doing(doing()))?;
        let files = file.beyond_last();
        if files > 0 {
            tracing::warn!(
                file = %path.display(),
                max_files = rotation.max_files,
                files,
                "the connection log has files beyond max_files: the gateway does not remove them"
            );
        }
        let (entries, queue) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let counts = Arc::new(Counts::default());
        let of_writer = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("connection log".into())
            .spawn(move || {
                writer::run(file, &queue, &of_writer);
                // Who waited may have given up.
                let _ = end.send(());
            })
            .map_err(while_doing(doing()))?;
        Ok(Self { entries: Some(entries), ended, counts, bypassed: Bypassed::default() })
    }

    /// Checks that a process that may do no less could open the file `path`, and leaves none behind: its owner would be the user who checks.
    pub(crate) fn check(path: &Path) -> Result<(), StartError> {
        let doing = || format!("[connection_log] file {}", path.display());
        rotating_file::check(path).map_err(while_doing(doing()))
    }

    /// Has `entry` written, or drops it if too many wait.
    pub(crate) fn record(&self, entry: Entry) {
        let Counts { waiting, dropped, .. } = &*self.counts;
        let has_room = waiting.fetch_add(1, Ordering::Relaxed) < QUEUE;
        let is_taken = has_room && self.entries.as_ref().is_some_and(|entries| entries.send(entry).is_ok());
        if !is_taken {
            waiting.fetch_sub(1, Ordering::Relaxed);
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes over the firewall's counters of connections past the gateway, by reason.
    pub(crate) fn count_bypassed(&mut self, counts: &BTreeMap<String, u64>) {
        self.bypassed.take(counts);
    }

    /// Has a line written for each reason for which there were more connections past the gateway, if one is due.
    pub(crate) fn record_bypassed(&mut self, now: Instant, at: SystemTime) {
        let due = self.bypassed.due(now);
        self.record_all(at, due);
    }

    fn record_all(&self, at: SystemTime, bypassed: BTreeMap<String, u64>) {
        for (reason, count) in bypassed {
            self.record(Entry::Bypassed(BypassedEntry::new(at, &reason, count)));
        }
    }

    /// What has become of the lines so far.
    pub(crate) fn counts(&self) -> LogCounts {
        LogCounts {
            written: self.counts.written.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }
}

impl Drop for ConnectionLog {
    fn drop(&mut self) {
        let rest = self.bypassed.rest();
        self.record_all(SystemTime::now(), rest);
        self.entries = None;
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn bypassed(reason: &str) -> Entry {
        Entry::Bypassed(BypassedEntry::new(SystemTime::UNIX_EPOCH, reason, 1))
    }

    #[test]
    fn what_was_recorded_is_in_the_file_when_the_log_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connections");
        let log = ConnectionLog::open(&path, Rotation::default()).unwrap();
        for number in 0..1000 {
            log.record(bypassed(&number.to_string()));
        }
        drop(log);
        let reasons: Vec<_> = lines(&path).iter().map(|line| line["reason"].as_str().unwrap().to_owned()).collect();
        assert_eq!(reasons, (0..1000).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn connections_past_the_gateway_are_logged_as_their_counters_grow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connections");
        let mut log = ConnectionLog::open(&path, Rotation::default()).unwrap();
        let counts =
            |unserved: u64, voice: u64| [("unserved".to_owned(), unserved), ("rule voice".to_owned(), voice)].into();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (minute, (unserved, voice)) in [(0, 2), (3, 2), (3, 2), (1, 2)].into_iter().enumerate() {
            log.count_bypassed(&counts(unserved, voice));
            log.record_bypassed(Instant::ZERO + bypassed::PERIOD * minute as u64, at);
        }
        drop(log);
        let found: Vec<_> =
            lines(&path).iter().map(|line| (line["reason"].clone(), line["connections"].clone())).collect();
        let expected =
            [("rule voice", 2), ("unserved", 3), ("unserved", 1)].map(|(reason, count)| (reason.into(), count.into()));
        assert_eq!(found, expected);
        assert_eq!(lines(&path)[0]["at"], "2023-11-14T22:13:20.000Z");
    }

    #[test]
    fn counters_that_are_read_each_second_make_a_line_a_minute_and_one_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connections");
        let mut log = ConnectionLog::open(&path, Rotation::default()).unwrap();
        for second in 0..=150 {
            log.count_bypassed(&[("rule voice".to_owned(), second)].into());
            log.record_bypassed(Instant::ZERO + units::Duration::from_secs(second), SystemTime::UNIX_EPOCH);
        }
        drop(log);
        let counts: Vec<_> = lines(&path).iter().map(|line| line["connections"].as_u64().unwrap()).collect();
        assert_eq!(counts, [1, 60, 60, 29]);
    }

    #[test]
    fn a_full_queue_drops_entries_and_counts_them_without_waiting() {
        let (log, queue) = unwritten();
        for _ in 0..QUEUE + 4 {
            log.record(bypassed("unserved"));
        }
        assert_eq!(log.counts(), LogCounts { written: 0, dropped: 4 });
        drop(queue);
    }

    /// A log whose lines nobody writes yet.
    fn unwritten() -> (ConnectionLog, mpsc::Receiver<Entry>) {
        let ((entries, queue), (_, ended)) = (mpsc::channel(), mpsc::channel());
        (ConnectionLog { entries: Some(entries), ended, counts: Arc::default(), bypassed: Bypassed::default() }, queue)
    }

    /// As on one processor, on which the event loop ends all connections before the writer runs.
    #[test]
    fn the_end_of_all_connections_at_one_moment_is_logged_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connections");
        let (mut log, queue) = unwritten();
        for number in 0..16_384 {
            log.record(bypassed(&number.to_string()));
        }
        log.entries = None;
        let file = rotating_file::RotatingFile::open(&path, Rotation::default()).unwrap();
        writer::run(file, &queue, &log.counts);
        assert_eq!(log.counts(), LogCounts { written: 16_384, dropped: 0 });
        assert_eq!(lines(&path).len(), 16_384);
    }

    #[test]
    fn a_file_that_cannot_be_had_is_named() {
        let error = ConnectionLog::open(Path::new("/nonexistent/log"), Rotation::default()).unwrap_err().to_string();
        assert!(error.starts_with("[connection_log] file /nonexistent/log: "), "{error}");
    }
}
