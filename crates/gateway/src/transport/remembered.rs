//! The capacity as it was measured before, in a file: the next run of the gateway begins with it.

use satpep::{Estimate, EstimateSource, EstimatorState, Prior};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use units::{Duration, Instant, Rate};

/// How often the file is written, at most; and a last time at the end.
const WRITE_PERIOD: Duration = Duration::from_secs(600);
/// Peers that are remembered: the latest.
const MOST_PEERS: usize = 1024;
/// What a file of so many peers does not exceed.
const MOST_BYTES: u64 = 1 << 20;

/// What a link may carry: what is beyond is no measurement. Where a rate is configured, these multiples of it are the bounds.
const PLAUSIBLE: [Rate; 2] = [Rate::from_bps(1000), Rate::from_bps(100_000_000_000)];
const PLAUSIBLE_MULTIPLES: [f64; 2] = [0.01, 16.0];

/// What is known of the link from before, and what is to be known afterwards.
#[derive(Debug)]
pub(super) struct Remembered {
    file: PathBuf,
    /// The rate that is configured now: what was measured under another is another link's.
    configured: Option<Rate>,
    peers: BTreeMap<String, Measured>,
    is_changed: bool,
    next_write: Option<Instant>,
    /// Writing has failed, which has been said.
    has_failed: bool,
    /// The file is another process's now.
    is_left: bool,
}

/// The link as it was measured on the way to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Measured {
    rate_bps: u64,
    rtt_us: u64,
    /// Seconds since 1970.
    at_unix_s: u64,
    configured_bps: Option<u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// By public key.
    peers: BTreeMap<String, Measured>,
}

impl Remembered {
    /// What the gateway `name` has left in `directory`. A file that cannot be read is as good as none.
    pub(super) fn read(directory: &Path, name: &str, configured: Option<Rate>) -> Self {
        let file = directory.join(format!("{name}.capacity.json"));
        let peers = match read(&file) {
            Ok(content) if content.version == 1 => plausible(content.peers, &file),
            Ok(_) => BTreeMap::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the remembered capacity cannot be read: it is measured again");
                BTreeMap::new()
            }
        };
        Self { file, configured, peers, is_changed: false, next_write: None, has_failed: false, is_left: false }
    }

    /// What was measured last on the way to one of the peers with these keys, at `unix_s` seconds since 1970.
    pub(super) fn prior<'k>(&self, keys: impl Iterator<Item = &'k str>, unix_s: u64) -> Option<Prior> {
        let configured = self.configured.map(Rate::as_bps);
        let measured = keys.filter_map(|key| self.peers.get(key));
        let latest = measured.filter(|one| one.configured_bps == configured).max_by_key(|one| one.at_unix_s)?;
        // A clock that was set back tells no age.
        let age = unix_s.checked_sub(latest.at_unix_s).filter(|_| latest.at_unix_s > 0);
        Some(Prior::Remembered {
            rate: Rate::from_bps(latest.rate_bps),
            rtt: Duration::from_micros(latest.rtt_us),
            age: age.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.min(1 << 32))),
        })
    }

    /// Another rate is configured: what is measured from now on is measured under that.
    pub(super) fn configure(&mut self, rate: Option<Rate>) {
        self.configured = rate;
    }

    /// Leaves the file to another process.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Takes note of what is believed now, with the round-trip times of the peers that are up.
    pub(super) fn note<'k>(
        &mut self,
        now: Instant,
        unix_s: u64,
        estimate: &Estimate,
        peers: impl Iterator<Item = (&'k str, Duration)>,
    ) {
        let is_measured = !matches!(estimate.state, EstimatorState::Guess | EstimatorState::Silent)
            && !matches!(estimate.why, EstimateSource::Prior | EstimateSource::Reported | EstimateSource::Fixed);
        if !is_measured {
            return;
        }
        let configured_bps = self.configured.map(Rate::as_bps);
        let mut others = Vec::new();
        for (key, rtt) in peers {
            let rtt_us = rtt.as_nanos() / 1000;
            let measured = Measured { rate_bps: estimate.rate.as_bps(), rtt_us, at_unix_s: unix_s, configured_bps };
            self.is_changed = true;
            match self.peers.get_mut(key) {
                Some(known) => *known = measured,
                None if others.len() < MOST_PEERS => others.push((key, measured)),
                None => {}
            }
        }
        self.make_room(others.len(), unix_s);
        let room = MOST_PEERS.saturating_sub(self.peers.len());
        self.peers.extend(others.into_iter().take(room).map(|(key, measured)| (key.to_owned(), measured)));
        if *self.next_write.get_or_insert(now + WRITE_PERIOD) <= now {
            self.next_write = Some(now + WRITE_PERIOD);
            self.write();
        }
    }

    /// Forgets peers for `wanted` others: those measured longest ago, and none that was measured at `unix_s`. Of more peers than are
    /// remembered, the same ones stay as long as they are up.
    fn make_room(&mut self, wanted: usize, unix_s: u64) {
        let excess = (self.peers.len() + wanted).saturating_sub(MOST_PEERS);
        if excess == 0 {
            return;
        }
        let earlier = self.peers.iter().filter(|(_, one)| one.at_unix_s != unix_s);
        let mut earlier: Vec<_> = earlier.map(|(key, one)| (one.at_unix_s, key.clone())).collect();
        earlier.sort_unstable();
        for (_, key) in earlier.iter().take(excess) {
            self.peers.remove(key);
        }
    }

    /// Writes the file, whole or not at all.
    pub(super) fn write(&mut self) {
        if self.is_left || !std::mem::take(&mut self.is_changed) {
            return;
        }
        let content = Content { version: 1, peers: self.peers.clone() };
        let beside = self.file.with_extension("json.new");
        let text = serde_json::to_vec(&content).map_err(io::Error::other);
        let write = |text: Vec<u8>| {
            write_new(&beside, &text)?;
            fs::rename(&beside, &self.file)
        };
        let written = text.and_then(write).inspect_err(|_| {
            // Nothing would take it away before the next write.
            let _ = fs::remove_file(&beside);
        });
        match written {
            Ok(()) => self.has_failed = false,
            // Without the directory nothing is to be remembered.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if !std::mem::replace(&mut self.has_failed, true) => {
                tracing::warn!(file = %self.file.display(), %error, "the capacity cannot be remembered");
            }
            Err(_) => {}
        }
    }
}

/// Writes `text` to a file of its own at `path`. What is there is removed, and neither followed nor written to: who owns the directory may not be
/// who starts the gateway, and a run that was killed leaves its file.
fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)?.write_all(text)
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.write();
    }
}

/// What may have been measured.
fn plausible(mut peers: BTreeMap<String, Measured>, file: &Path) -> BTreeMap<String, Measured> {
    peers.retain(|peer, measured| {
        let rate = Rate::from_bps(measured.rate_bps);
        let is_plausible = measured.is_plausible();
        if !is_plausible {
            tracing::warn!(file = %file.display(), peer, %rate, "a remembered capacity is not plausible: it is measured again");
        }
        is_plausible
    });
    peers
}

impl Measured {
    fn is_plausible(&self) -> bool {
        let [least, most] = match self.configured_bps.map(Rate::from_bps) {
            Some(configured) => PLAUSIBLE_MULTIPLES.map(|multiple| configured.mul_f64(multiple)),
            None => PLAUSIBLE,
        };
        (least..=most).contains(&Rate::from_bps(self.rate_bps)) && self.rate_bps > 0
    }
}

fn read(file: &Path) -> io::Result<Content> {
    if !fs::metadata(file)?.is_file() {
        // A pipe would be waited for.
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(file)?.take(MOST_BYTES).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIX: Rate = Rate::from_bps(6_000_000);
    const RTT: Duration = Duration::from_millis(550);

    fn estimate(why: EstimateSource) -> Estimate {
        Estimate { rate: SIX, why, confidence: 1.0, state: EstimatorState::Track, is_policed: false }
    }

    fn remember(directory: &Path, unix_s: u64) {
        let mut memory = Remembered::read(directory, "gw", None);
        let now = Instant::ZERO + Duration::from_secs(1);
        memory.note(now, unix_s, &estimate(EstimateSource::Queue), [("hub", RTT)].into_iter());
    }

    #[test]
    fn what_was_measured_is_known_to_the_next_run_with_its_age() {
        let directory = tempfile::tempdir().unwrap();
        remember(directory.path(), 1000);
        let memory = Remembered::read(directory.path(), "gw", None);
        let known = |unix_s| memory.prior(["other", "hub"].into_iter(), unix_s);
        let of = |age| Some(Prior::Remembered { rate: SIX, rtt: RTT, age });
        assert_eq!(known(1060), of(Duration::from_secs(60)));
        assert_eq!(known(999), of(Duration::MAX), "the clock was set back");
        assert_eq!(memory.prior(["other"].into_iter(), 1060), None);
        let configured = Remembered::read(directory.path(), "gw", Some(SIX));
        assert_eq!(configured.prior(["hub"].into_iter(), 1060), None, "it was measured under another configuration");
    }

    #[test]
    fn a_clock_before_1970_tells_no_age() {
        let directory = tempfile::tempdir().unwrap();
        remember(directory.path(), 0);
        let memory = Remembered::read(directory.path(), "gw", None);
        let prior = memory.prior(["hub"].into_iter(), 5);
        assert_eq!(prior, Some(Prior::Remembered { rate: SIX, rtt: RTT, age: Duration::MAX }));
    }

    #[test]
    fn a_file_that_is_no_good_is_as_good_as_none_and_is_mended() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gw.capacity.json");
        for text in ["", "{", "{\"version\":1,\"peers\":{\"hub\":{\"rate_bps\":-1}}}", "{\"version\":9,\"peers\":{}}"] {
            fs::write(&file, text).unwrap();
            assert_eq!(Remembered::read(directory.path(), "gw", None).prior(["hub"].into_iter(), 1), None, "{text}");
        }
        remember(directory.path(), 1000);
        assert!(Remembered::read(directory.path(), "gw", None).prior(["hub"].into_iter(), 1000).is_some());
        remember(&directory.path().join("missing"), 1000);
    }

    #[test]
    fn what_no_link_carries_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gw.capacity.json");
        let prior = |configured: Option<Rate>, rate_bps: u64| {
            let configured_bps = configured.map(Rate::as_bps);
            let measured = Measured { rate_bps, rtt_us: 1, at_unix_s: 1, configured_bps };
            let content = Content { version: 1, peers: BTreeMap::from([("hub".to_owned(), measured)]) };
            fs::write(&file, serde_json::to_vec(&content).unwrap()).unwrap();
            Remembered::read(directory.path(), "gw", configured).prior(["hub"].into_iter(), 2)
        };
        for rate_bps in [0, 1, 59_999, 96_000_001, u64::MAX] {
            assert_eq!(prior(Some(SIX), rate_bps), None, "{rate_bps}");
        }
        for rate_bps in [0, 1, 999, u64::MAX] {
            assert_eq!(prior(None, rate_bps), None, "{rate_bps}");
        }
        assert!(prior(Some(SIX), 60_000).is_some() && prior(Some(SIX), 96_000_000).is_some());
        assert!(prior(None, 2400).is_some() && prior(None, 10_000_000_000).is_some());
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(directory.path().join("gw.capacity.json")).status();
        assert!(made.unwrap().success());
        assert_eq!(Remembered::read(directory.path(), "gw", None).prior(["hub"].into_iter(), 1), None);
    }

    #[test]
    fn what_nobody_measured_is_not_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = Remembered::read(directory.path(), "gw", None);
        for why in [EstimateSource::Prior, EstimateSource::Reported, EstimateSource::Fixed] {
            memory.note(Instant::ZERO, 1000, &estimate(why), [("hub", RTT)].into_iter());
        }
        let guess = Estimate { state: EstimatorState::Guess, ..estimate(EstimateSource::Queue) };
        memory.note(Instant::ZERO, 1000, &guess, [("hub", RTT)].into_iter());
        drop(memory);
        assert!(!directory.path().join("gw.capacity.json").exists());
    }

    #[test]
    fn a_write_that_fails_leaves_no_file_beside() {
        let directory = tempfile::tempdir().unwrap();
        // A directory that is not empty cannot be replaced by a file.
        fs::create_dir_all(directory.path().join("gw.capacity.json/occupied")).unwrap();
        remember(directory.path(), 1000);
        assert!(!directory.path().join("gw.capacity.json.new").exists());
    }

    #[test]
    fn neither_a_link_nor_a_file_of_an_earlier_run_is_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let [beside, elsewhere] = ["gw.capacity.json.new", "elsewhere"].map(|name| directory.path().join(name));
        fs::write(&elsewhere, "another's").unwrap();
        for link in [std::os::unix::fs::symlink::<&Path, &Path>, fs::hard_link] {
            link(&elsewhere, &beside).unwrap();
            remember(directory.path(), 1000);
            assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "another's");
            assert!(Remembered::read(directory.path(), "gw", None).prior(["hub"].into_iter(), 1000).is_some());
            fs::remove_file(directory.path().join("gw.capacity.json")).unwrap();
        }
    }

    #[test]
    fn what_was_left_to_another_process_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = Remembered::read(directory.path(), "gw", None);
        let note = |memory: &mut Remembered, unix_s| {
            memory.note(Instant::ZERO, unix_s, &estimate(EstimateSource::Queue), [("hub", RTT)].into_iter());
        };
        note(&mut memory, 1000);
        memory.write();
        memory.leave();
        note(&mut memory, 2000);
        drop(memory);
        let prior = Remembered::read(directory.path(), "gw", None).prior(["hub"].into_iter(), 2000);
        assert_eq!(prior, Some(Prior::Remembered { rate: SIX, rtt: RTT, age: Duration::from_secs(1000) }));
    }

    /// Evicted one by one, as many would take seconds of each second.
    #[test]
    fn of_more_peers_than_are_remembered_the_same_stay_while_they_are_up() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = Remembered::read(directory.path(), "gw", None);
        let keys =
            |range: std::ops::Range<u32>| -> Vec<String> { range.map(|number| format!("{number:05}")).collect() };
        let note = |memory: &mut Remembered, unix_s, keys: &[String]| {
            let up = keys.iter().map(|key| (key.as_str(), RTT));
            memory.note(Instant::ZERO, unix_s, &estimate(EstimateSource::Queue), up);
            memory.peers.keys().cloned().collect::<Vec<_>>()
        };
        let many = keys(10_000..30_000);
        assert_eq!(note(&mut memory, 1000, &keys(50_000..50_003)).len(), 3);
        let kept = note(&mut memory, 1001, &many);
        assert_eq!(kept, many[..MOST_PEERS], "the three have gone");
        let more = keys(0..30_000);
        assert_eq!(note(&mut memory, 1002, &more), kept);
        let left = note(&mut memory, 1003, &more[..10]);
        assert_eq!((left.len(), &left[..10]), (MOST_PEERS, &more[..10]));
    }

    #[test]
    fn it_is_written_seldom() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = Remembered::read(directory.path(), "gw", None);
        let file = directory.path().join("gw.capacity.json");
        for second in 0..=600 {
            assert!(!file.exists(), "{second}");
            let now = Instant::ZERO + Duration::from_secs(second);
            memory.note(now, 1000 + second, &estimate(EstimateSource::Trains), [("hub", RTT)].into_iter());
        }
        assert!(file.exists());
    }
}
