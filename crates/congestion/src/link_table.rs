//! The capacities of links for the cross-layer control: a map in the kernel, written here and read at each acknowledgement.

use crate::Control;
use crate::ebpf::{self, Map};
use crate::filesystem::Pins;
use kernel::Error;
use std::thread;
use units::{Duration, Rate};

/// The maps' names in the kernel: the links, and the connections that are counted for each.
pub(crate) const NAMES: [&str; 2] = ["bp_cross_links", "bp_cross_accounts"];

/// The table of a loaded cross-layer control. The mark of a connection's socket (`SO_MARK`) selects its entry;
/// sockets whose mark has no entry use the entry for mark 0.
#[derive(Debug)]
pub struct LinkTable {
    links: Map,
    accounts: Map,
}

/// An entry as it is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkInForce {
    /// The mark of the sockets (`SO_MARK`); 0 also stands for all marks without an entry.
    pub mark: u32,
    /// Allocated capacity, headers included: the entry's, or its fallback.
    pub capacity: Rate,
    /// Whether the validity has ended, so that the fallback holds.
    pub has_expired: bool,
    /// The rest of the validity, and the capacity afterwards; `None`: until the next entry, or the validity has ended.
    pub expiry: Option<(Duration, Rate)>,
    /// Bytes of headers for each byte of payload: K.
    pub header_share: f64,
    /// Active connections that share it, if the entry says so.
    pub configured_connections: Option<u32>,
    /// Active connections that the kernel counts; connections of several entries that share one capacity are counted together.
    pub counted_connections: u64,
    /// Target queue, added to the smallest round-trip time.
    pub target_queue: Duration,
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
        let payload = |capacity| model::cross_layer::bytes_per_second_each(capacity, self.header_share, 1) as u64;
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
        // The programs do not read the last one: it serves those who list the entries.
        let header_share = (self.header_share * HEADER_SHARE_UNIT).round() as u32;
        for (place, number) in
            short.chunks_exact_mut(4).zip([self.connections.unwrap_or(0), queue, account, header_share])
        {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

/// The account in which the connections of `entry` are counted.
fn account_of(entry: &[u8]) -> Option<u32> {
    entry.get(32..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// An entry has K in this fraction.
const HEADER_SHARE_UNIT: f64 = 1e8;
/// Numbers of connections that the kernel counts, at the start of what it counts for a link: one for each use of the window.
const COUNTS: usize = 4;

impl LinkInForce {
    /// The entry for `mark` as the program reads it, at `now` of the monotonic clock.
    fn new(mark: u32, entry: &[u8], accounts: &Map, now: Duration) -> Option<Self> {
        let long = |k: usize| entry.get(k * 8..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        let short = |k: usize| entry.get(24 + k * 4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let header_share = f64::from(short(3)?) / HEADER_SHARE_UNIT;
        let capacity = |payload: u64| Rate::from_bps((payload as f64 * 8.0 * (1.0 + header_share)).round() as u64);
        let (rate, fallback, until) = (capacity(long(0)?), capacity(long(1)?), Duration::from_nanos(long(2)?));
        let has_expired = until != Duration::ZERO && until <= now;
        let account = accounts.value(&account_of(entry)?.to_ne_bytes()).unwrap_or_default();
        let counts =
            account.chunks_exact(8).take(COUNTS).filter_map(|count| count.try_into().ok().map(i64::from_ne_bytes));
        Some(Self {
            mark,
            capacity: if has_expired { fallback } else { rate },
            has_expired,
            expiry: (now < until).then(|| (until.saturating_sub(now), fallback)),
            header_share,
            configured_connections: short(0).filter(|connections| *connections > 0),
            counted_connections: counts.sum::<i64>().max(0) as u64,
            target_queue: Duration::from_micros(u64::from(short(1)?)),
        })
    }
}

impl LinkTable {
    /// How often, and after what time each, it is looked again whether the tables of several processes are still there.
    const PATIENCE: usize = 20;
    const MOMENT: Duration = Duration::from_millis(50);

    pub(crate) fn new([links, accounts]: [Map; 2]) -> Self {
        Self { links, accounts }
    }

    /// The table that is pinned, as [`LinkTable::find`] needs it.
    fn pinned(pins: &Pins) -> Result<Self, Error> {
        Ok(Self { links: Map::pinned(&pins.links())?, accounts: Map::pinned(&pins.accounts())? })
    }

    /// The table of the control that is pinned, or else of the one that some process holds.
    ///
    /// # Errors
    /// If there is none, there are several, or the process may not open it.
    pub fn find(control: &Control) -> Result<Self, Error> {
        let pins = Pins::of(control);
        if pins.links().exists() {
            return Self::pinned(&pins);
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
        let mut found = ebpf::held_maps(control, NAMES);
        for _ in 0..Self::PATIENCE {
            if found.len() <= 1 {
                break;
            }
            thread::sleep(Self::MOMENT.into());
            found = ebpf::held_maps(control, NAMES);
        }
        match found[..] {
            [[links, accounts]] => Ok(Self { links: Map::of_id(links)?, accounts: Map::of_id(accounts)? }),
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
        if self.links.value(&mark.to_ne_bytes()).is_none() {
            self.forget_accounts();
        }
        let now = kernel::clock::now().since(units::Instant::ZERO);
        self.links.update(&mark.to_ne_bytes(), &entry.to_bytes(now, account))
    }

    /// Removes the entry for this mark; its connections use the entry for mark 0 again.
    ///
    /// # Errors
    /// If there is none.
    pub fn remove(&self, mark: u32) -> Result<(), Error> {
        self.links
            .delete(&mark.to_ne_bytes())
            .map_err(|source| Error::Failed { doing: format!("no entry has the mark {mark:#x}"), source })?;
        self.forget_accounts();
        Ok(())
    }

    /// Forgets the counts of links without an entry that have no connection any more: connections of later links need the room.
    fn forget_accounts(&self) {
        let named: Vec<_> = self.links.entries().iter().filter_map(|(_, entry)| account_of(entry)).collect();
        for (key, counts) in self.accounts.entries() {
            let is_named = key.first_chunk().is_some_and(|key| named.contains(&u32::from_ne_bytes(*key)));
            if !is_named && counts.iter().all(|byte| *byte == 0) {
                // Another process may have been faster.
                let _ = self.accounts.delete(&key);
            }
        }
    }

    /// All entries as they are in force, by mark.
    pub fn entries(&self) -> Vec<LinkInForce> {
        let now = kernel::clock::now().since(units::Instant::ZERO);
        let mut found: Vec<_> = self
            .links
            .entries()
            .into_iter()
            .filter_map(|(mark, entry)| {
                LinkInForce::new(u32::from_ne_bytes(mark.try_into().ok()?), &entry, &self.accounts, now)
            })
            .collect();
        found.sort_unstable_by_key(|link| link.mark);
        found
    }

    pub(crate) fn pin(&mut self, control: &Control, pins: &Pins) -> Result<(), Error> {
        self.links.pin(control, &pins.links())?;
        self.accounts.pin(control, &pins.accounts())
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
        assert_eq!(numbers(entry), ([951_927, 0, 0], [0, 0, 7, 5_050_000]));
        let expiry = Some((Duration::from_secs(2), Rate::from_bps(84_040)));
        let entry = LinkEntry { connections: Some(3), target_queue: Duration::from_millis(20), expiry, ..entry };
        assert_eq!(numbers(entry), ([951_927, 10_000, 7_000_000_000], [3, 20_000, 7, 5_050_000]));
    }
}
