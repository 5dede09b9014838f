//! The cross-layer congestion control: its table of links, kept current with the link state.
//!
//! The control gives each connection its share of the allocation (J. Kim et al., "Cross-layer TCP over DVB-RCS"; see
//! `congestion`), and what others leave of theirs. It knows connections by the mark of their socket, and sees itself what they use.

use crate::config::CROSS_LAYER as NAME;
use congestion::{Control, LinkEntry, LinkTable, LoadedControl};
use kernel::Error;
use units::{Duration, Instant, Rate};

/// Headers of IPv4 and TCP with timestamps, for each byte of a full packet's payload.
const HEADER_SHARE: f64 = 52.0 / 1448.0;
/// Validity of the entry: a gateway that is killed leaves the configured capacity behind.
const EXPIRY: Duration = Duration::from_secs(10);
/// How often an unchanged entry is repeated.
const REFRESH: Duration = Duration::from_secs(2);

/// The table of links, and its entry for ours.
#[derive(Debug)]
pub(super) struct CrossLayer {
    source: Source,
    /// The fwmarks of our sockets.
    marks: [u32; 2],
    configured: Rate,
    /// Intended queueing delay.
    target_queue: Duration,
    said: Option<Rate>,
    said_at: Instant,
    /// Active connections, as they were counted last.
    counted: u32,
    /// Whether another process updates the entry, if both use one table.
    is_disowned: bool,
}

/// Who holds the control in the kernel.
#[derive(Debug)]
enum Source {
    /// This process: it goes with it.
    Own(LoadedControl),
    /// A pin.
    Pinned(LinkTable),
}

impl CrossLayer {
    /// The table of the control that is pinned, or else of one that this process loads and holds: that of another process would
    /// go with it. Its own has a name with `number`, so that others keep theirs.
    ///
    /// # Errors
    /// If the kernel or the process lacks something.
    pub(super) fn new(marks: [u32; 2], configured: Rate, target_queue: Duration, number: u32) -> Result<Self, Error> {
        let source = Source::new(number).map_err(|error| match error {
            Error::Missing(what) => Error::Missing(format!(
                "[tcp] congestion_control \"{NAME}\": {what}; another congestion control, and transport = \"satpep\", do without"
            )),
            failed => failed,
        })?;
        Ok(Self {
            source,
            marks,
            configured,
            target_queue,
            said: None,
            said_at: Instant::ZERO,
            counted: 0,
            is_disowned: false,
        })
    }

    /// The control's name for `TCP_CONGESTION`.
    pub(super) fn name(&self) -> &str {
        match &self.source {
            Source::Own(held) => held.name(),
            Source::Pinned(_) => NAME,
        }
    }

    /// The entry's capacity, and how many connections share it.
    pub(super) fn report(&self) -> Option<status::CrossLayer> {
        let (control, capacity_bps) = (self.name().to_owned(), self.said?.as_bps());
        Some(status::CrossLayer { control, capacity_bps, connections: self.counted.max(1) })
    }

    /// Another process of the same gateway updates the entry from now on. A control that only this process holds keeps the
    /// entry it has.
    pub(super) fn disown(&mut self) {
        self.is_disowned = matches!(self.source, Source::Pinned(_));
    }

    /// Takes the number of active connections.
    pub(super) fn count(&mut self, connections: u32) {
        self.counted = connections;
    }

    /// Writes `capacity` into the entry.
    pub(super) fn say(&mut self, now: Instant, capacity: Rate) {
        if self.is_disowned || (self.said == Some(capacity) && now.since(self.said_at) < REFRESH) {
            return;
        }
        let table = match &self.source {
            Source::Own(held) => held.links(),
            Source::Pinned(table) => Some(table),
        };
        let expiry = Some((EXPIRY, self.configured));
        let entry = LinkEntry {
            capacity,
            header_share: HEADER_SHARE,
            connections: None,
            target_queue: self.target_queue,
            expiry,
        };
        for mark in self.marks {
            if let Some(Err(error)) = table.map(|table| table.set_part(mark, self.marks[0], entry)) {
                tracing::warn!(%error, "cannot update the cross-layer control's capacity");
            }
        }
        (self.said, self.said_at) = (Some(capacity), now);
    }
}

impl Source {
    fn new(number: u32) -> Result<Self, Error> {
        let control = Control::by_name(NAME).ok_or_else(|| Error::Missing(format!("there is no control {NAME}")))?;
        match congestion::is_pinned(control) {
            Ok(true) => return Ok(Self::Pinned(LinkTable::find(control)?)),
            Ok(false) => {}
            // If it may not load either, that failure is reported.
            Err(error) => {
                tracing::info!(%error, "{NAME} may be pinned, but this process may not look: it loads its own")
            }
        }
        Ok(Self::Own(LoadedControl::load_as(control, &format!("bp_x{number:08x}"))?))
    }
}

impl Drop for CrossLayer {
    fn drop(&mut self) {
        if let (Source::Pinned(table), false) = (&self.source, self.is_disowned) {
            for mark in self.marks {
                // It may have been taken away meanwhile.
                let _ = table.remove(mark);
            }
        }
    }
}
