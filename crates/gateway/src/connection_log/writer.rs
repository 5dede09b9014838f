//! The thread that writes the connection log.

use super::Counts;
use super::entry::{DroppedEntry, Entry};
use super::rotating_file::{Incomplete, RotatingFile};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::SystemTime;

/// Bytes that are written at once.
const BATCH: usize = 64 << 10;

/// Writes what comes until nobody sends any more.
pub(super) fn run(file: RotatingFile, queue: &Receiver<Entry>, counts: &Counts) {
    let mut writer = Writer { file, counts, noted: 0, has_warned: false };
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(entry) = queue.recv() {
        batch.clear();
        let mut lines = 1;
        append(&mut batch, &entry);
        while batch.len() < BATCH
            && let Ok(entry) = queue.try_recv()
        {
            append(&mut batch, &entry);
            lines += 1;
        }
        counts.waiting.fetch_sub(lines, Ordering::Relaxed);
        writer.write(&batch, lines);
    }
}

struct Writer<'a> {
    file: RotatingFile,
    counts: &'a Counts,
    /// Dropped lines that the log itself speaks of.
    noted: u64,
    has_warned: bool,
}

impl Writer<'_> {
    /// Writes `batch`, which has so many lines. Those of which the file does not take the whole are dropped.
    fn write(&mut self, batch: &[u8], lines: u64) {
        let written = self.note_dropped().map_err(Incomplete::from).and_then(|()| self.file.append(batch));
        match written {
            Ok(()) => {
                self.counts.written.fetch_add(lines, Ordering::Relaxed);
                if std::mem::take(&mut self.has_warned) {
                    tracing::info!("[connection_log]: lines are written again");
                }
            }
            Err(Incomplete { bytes, error }) => {
                let whole = batch[..bytes].iter().filter(|byte| **byte == b'\n').count() as u64;
                self.counts.written.fetch_add(whole, Ordering::Relaxed);
                self.counts.dropped.fetch_add(lines - whole, Ordering::Relaxed);
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(%error, "[connection_log]: lines are dropped");
                }
            }
        }
    }

    /// Writes how many lines are missing before the next one.
    fn note_dropped(&mut self) -> io::Result<()> {
        let dropped = self.counts.dropped.load(Ordering::Relaxed);
        if dropped == self.noted {
            return Ok(());
        }
        let mut line = Vec::new();
        append(&mut line, &Entry::Dropped(DroppedEntry::new(SystemTime::now(), dropped - self.noted)));
        self.file.append(&line).map_err(|incomplete| incomplete.error)?;
        self.noted = dropped;
        Ok(())
    }
}

fn append(batch: &mut Vec<u8>, entry: &Entry) {
    serde_json::to_writer(&mut *batch, entry).expect("an entry is JSON, and memory takes it");
    batch.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::super::entry::BypassedEntry;
    use super::super::rotating_file::Rotation;
    use super::*;
    use std::path::Path;

    fn line(reason: &str) -> Vec<u8> {
        let mut line = Vec::new();
        append(&mut line, &Entry::Bypassed(BypassedEntry::new(SystemTime::UNIX_EPOCH, reason, 1)));
        line
    }

    /// `/dev/full` (full(4)) fails each write as a full disk does.
    #[test]
    fn a_full_disk_costs_lines_which_are_counted() {
        let counts = Counts::default();
        let file = RotatingFile::open(Path::new("/dev/full"), Rotation::default()).unwrap();
        let mut writer = Writer { file, counts: &counts, noted: 0, has_warned: false };
        writer.write(&line("a"), 1);
        writer.write(&line("b"), 2);
        assert_eq!((counts.dropped.load(Ordering::Relaxed), counts.written.load(Ordering::Relaxed)), (3, 0));
        assert!(writer.has_warned);
    }

    #[test]
    fn once_there_is_room_the_log_says_how_many_lines_are_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let counts = Counts::default();
        counts.dropped.store(7, Ordering::Relaxed);
        let file = RotatingFile::open(&path, Rotation::default()).unwrap();
        let mut writer = Writer { file, counts: &counts, noted: 0, has_warned: true };
        writer.write(&line("a"), 1);
        writer.write(&line("b"), 1);
        assert!(!writer.has_warned);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!((&lines[0]["event"], &lines[0]["lines"]), (&"dropped".into(), &7.into()));
        assert_eq!((&lines[1]["reason"], &lines[2]["reason"]), (&"a".into(), &"b".into()));
        assert_eq!(counts.written.load(Ordering::Relaxed), 2);
    }
}
