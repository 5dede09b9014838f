//! The capacities of links for the cross-layer control: a map in the kernel, written here and read at each acknowledgement.

use crate::Control;
use crate::ebpf::{self, Map};
use crate::filesystem::Pins;
use kernel::Error;
use std::path::Path;
use std::thread;
use units::{Duration, Rate};

/// The map's name in the kernel.
pub(crate) const NAME: &str = "bp_cross_links";

/// The table of a loaded cross-layer control. The mark of a connection's socket (`SO_MARK`) selects its entry;
/// sockets whose mark has no entry use the entry for mark 0.
#[derive(Debug)]
pub struct LinkTable {
    map: Map,
}

/// The capacity of a link, and how it is shared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEntry {
    /// Allocated capacity, headers included.
    pub capacity: Rate,
    /// Bytes of headers for each byte of payload: K.
    pub header_share: f64,
    /// Active connections that share it; `None`: counted in the kernel, those below their share by what they use.
    pub connections: Option<u32>,
    /// Target queue, added to the smallest round-trip time. With zero, the window is that of the equation, and the link idles whenever segments come closer together or later than they left.
    pub target_queue: Duration,
    /// Validity, and the capacity afterwards; `None`: until the next entry.
    pub expiry: Option<(Duration, Rate)>,
}

impl LinkEntry {
    /// Bytes of an entry.
    const SIZE: usize = 40;

    /// As the program reads it (`struct link`), at `now` of the monotonic clock, for connections that are counted in `account`.
    fn to_bytes(self, now: Duration, account: u32) -> [u8; Self::SIZE] {
        let payload = |capacity| model::cross_layer::share(capacity, self.header_share, 1) as u64;
        let (until, fallback) = match self.expiry {
            Some((time, capacity)) => ((now + time).as_nanos(), payload(capacity)),
            None => (0, 0),
        };
        let queue = u32::try_from(self.target_queue.as_nanos() / 1000).unwrap_or(u32::MAX);
        let mut bytes = [0; Self::SIZE];
        let (long, short) = bytes.split_at_mut(24);
        for (place, number) in long.chunks_exact_mut(8).zip([payload(self.capacity), fallback, until]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        for (place, number) in short.chunks_exact_mut(4).zip([self.connections.unwrap_or(0), queue, account, 0]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

impl LinkTable {
    /// How often, and after what time each, it is looked again whether the tables of several processes are still there.
    const PATIENCE: usize = 20;
    const MOMENT: Duration = Duration::from_millis(50);

    pub(crate) fn new(map: Map) -> Self {
        Self { map }
    }

    /// The table of the control that is pinned, or else of the one that some process holds.
    ///
    /// # Errors
    /// If there is none, there are several, or the process may not open it.
    pub fn find(control: &Control) -> Result<Self, Error> {
        let pin = Pins::of(control).links();
        if pin.exists() {
            return Map::pinned(&pin).map(Self::new);
        }
        let not_loaded = || {
            Error::Missing(format!(
                "{} is not loaded, or this process may not see it (root of this machine may)",
                control.name
            ))
        };
        // A table alone says nothing: gateways hold the same control under names of their own.
        if !kernel::sysctl::congestion_controls()?.iter().any(|name| name == control.name) {
            return Err(not_loaded());
        }
        // That of a process that has just ended is there for a moment more.
        let mut found = ebpf::held_maps(control, NAME);
        for _ in 0..Self::PATIENCE {
            if found.len() <= 1 {
                break;
            }
            thread::sleep(Self::MOMENT.into());
            found = ebpf::held_maps(control, NAME);
        }
        match found[..] {
            [table] => Map::of_id(table).map(Self::new),
            [] => Err(not_loaded()),
            _ => Err(Error::Missing(format!(
                "several processes hold a {}, and none is pinned: which is meant is not known",
                control.name
            ))),
        }
    }

    /// Sets the entry for this mark.
    ///
    /// # Errors
    /// If the table is full.
    pub fn set(&self, mark: u32, entry: LinkEntry) -> Result<(), Error> {
        self.set_part(mark, mark, entry)
    }

    /// The same of a link whose connections have one of several marks, and share it. Connections of `mark` are counted with those
    /// of the mark `account`.
    ///
    /// # Errors
    /// If the table is full.
    pub fn set_part(&self, mark: u32, account: u32, entry: LinkEntry) -> Result<(), Error> {
        let now = kernel::clock::now().since(units::Instant::ZERO);
        self.map.update(&mark.to_ne_bytes(), &entry.to_bytes(now, account))
    }

    /// Removes the entry for this mark; its connections use the entry for mark 0 again.
    ///
    /// # Errors
    /// If there is none.
    pub fn remove(&self, mark: u32) -> Result<(), Error> {
        self.map
            .delete(&mark.to_ne_bytes())
            .map_err(|error| Error::Missing(format!("no link has the mark {mark} ({error})")))
    }

    pub(crate) fn pin(&mut self, control: &Control, path: &Path) -> Result<(), Error> {
        self.map.pin(control, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(entry: LinkEntry) -> ([u64; 3], [u32; 4]) {
        let bytes = entry.to_bytes(Duration::from_secs(5), 7);
        let long = |k| u64::from_ne_bytes(bytes[k * 8..][..8].try_into().expect("eight bytes"));
        let short = |k| u32::from_ne_bytes(bytes[24 + k * 4..][..4].try_into().expect("four bytes"));
        (std::array::from_fn(long), std::array::from_fn(short))
    }

    #[test]
    fn an_entry_holds_payload_bytes_per_second_and_when_they_expire() {
        let capacity = Rate::from_bps(8_000_000);
        let entry =
            LinkEntry { capacity, header_share: 0.0505, connections: None, target_queue: Duration::ZERO, expiry: None };
        assert_eq!(numbers(entry), ([951_927, 0, 0], [0, 0, 7, 0]));
        let expiry = Some((Duration::from_secs(2), Rate::from_bps(84_040)));
        let entry = LinkEntry { connections: Some(3), target_queue: Duration::from_millis(20), expiry, ..entry };
        assert_eq!(numbers(entry), ([951_927, 10_000, 7_000_000_000], [3, 20_000, 7, 0]));
    }
}
