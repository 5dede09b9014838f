//! The cross-layer congestion control: its table of links, kept current with what the link carries and how many
//! connections have data to send.
//!
//! The control gives each connection its share of the allocation (J. Kim et al., "Cross-layer TCP over DVB-RCS"; see
//! `congestion`). It knows connections by the mark of their socket.

use crate::config::CROSS_LAYER as NAME;
use crate::snapshot;
use congestion::{Control, Held, LinkTable, LinkWord};
use kernel::Error;
use units::{Duration, Instant, Rate};

/// Headers of IPv4 and TCP with timestamps, for each byte of a full packet's payload.
const HEADER_SHARE: f64 = 52.0 / 1448.0;
/// How long what the table says holds: a gateway that is killed leaves the configured capacity behind.
const EXPIRY: Duration = Duration::from_secs(10);
/// How often it is said again though nothing has changed.
const REFRESH: Duration = Duration::from_secs(2);

/// The table of links, and what it says of ours.
#[derive(Debug)]
pub(super) struct CrossLayer {
    source: Source,
    /// The marks of our sockets.
    marks: [u32; 2],
    configured: Rate,
    /// What may wait at the link.
    queue: Duration,
    said: Option<(Rate, u32)>,
    said_at: Instant,
    /// Connections with data to send, as they were counted last.
    counted: u32,
    /// There are more of them, and those that were there have not been slowed down.
    has_grown: bool,
}

/// Who holds the control in the kernel.
#[derive(Debug)]
enum Source {
    /// This process: it goes with it.
    Own(Held),
    /// A pin.
    Pinned(LinkTable),
}

impl CrossLayer {
    /// The table of the control that is pinned, or else of one that this process loads and holds: that of another process would
    /// go with it. Its own has a name with `number`, so that others keep theirs.
    ///
    /// # Errors
    /// If the kernel or the process lacks something.
    pub(super) fn new(marks: [u32; 2], configured: Rate, queue: Duration, number: u32) -> Result<Self, Error> {
        let source = Source::new(number).map_err(|error| match error {
            Error::Missing(what) => Error::Missing(format!(
                "[tcp] congestion_control \"{NAME}\": {what}; another congestion control, and leg = \"satpep\", do without"
            )),
            failed => failed,
        })?;
        Ok(Self { source, marks, configured, queue, said: None, said_at: Instant::ZERO, counted: 0, has_grown: false })
    }

    /// The control's name for `TCP_CONGESTION`.
    pub(super) fn name(&self) -> &str {
        match &self.source {
            Source::Own(held) => held.name(),
            Source::Pinned(_) => NAME,
        }
    }

    /// What the control was told last.
    pub(super) fn report(&self) -> Option<snapshot::CrossLayer> {
        let (capacity, sessions) = self.said?;
        let (control, capacity_bps) = (self.name().to_owned(), capacity.as_bps());
        Some(snapshot::CrossLayer { control, capacity_bps, sessions })
    }

    /// Says that the link carries `capacity`; who has data to send is as it was.
    pub(super) fn say_capacity(&mut self, now: Instant, capacity: Rate) {
        self.say(now, capacity, self.counted);
    }

    /// Says that one more connection is about to have data to send, before its first bytes leave with the window of fewer.
    pub(super) fn say_one_more(&mut self, now: Instant, capacity: Rate) {
        self.say(now, capacity, self.counted.saturating_add(1));
    }

    /// Where connections have become more, each one's share, in bytes of payload a second: without an acknowledgement the control
    /// does not look at its table, and those that began alone would send what one may for a whole round trip.
    pub(super) fn take_reduced_share(&mut self) -> Option<u64> {
        let (capacity, sessions) = self.said.filter(|_| std::mem::take(&mut self.has_grown))?;
        Some((capacity.as_bps() as f64 / 8.0 / (1.0 + HEADER_SHARE) / f64::from(sessions)) as u64)
    }

    /// Says that the link carries `capacity` and that so many connections have data to send.
    pub(super) fn say(&mut self, now: Instant, capacity: Rate, sessions: u32) {
        self.has_grown |= sessions > self.counted.max(1);
        self.counted = sessions;
        // To the control, none means that it counts for itself.
        let sessions = sessions.max(1);
        if self.said == Some((capacity, sessions)) && now.since(self.said_at) < REFRESH {
            return;
        }
        let table = match &self.source {
            Source::Own(held) => held.links(),
            Source::Pinned(table) => Some(table),
        };
        let expiry = Some((EXPIRY, self.configured));
        let word =
            LinkWord { capacity, header_share: HEADER_SHARE, sessions: Some(sessions), queue: self.queue, expiry };
        for mark in self.marks {
            if let Some(Err(error)) = table.map(|table| table.set(mark, word)) {
                tracing::warn!(%error, "the cross-layer control could not be told of the link");
            }
        }
        (self.said, self.said_at) = (Some((capacity, sessions)), now);
    }
}

impl Source {
    fn new(number: u32) -> Result<Self, Error> {
        let control = Control::by_name(NAME).ok_or_else(|| Error::Missing(format!("there is no control {NAME}")))?;
        // Who may not look may not load either, and is told that.
        if congestion::is_pinned(control).unwrap_or(false) {
            return Ok(Self::Pinned(LinkTable::find(control)?));
        }
        Ok(Self::Own(Held::load_as(control, &format!("bp_x{number:08x}"))?))
    }
}

impl Drop for CrossLayer {
    fn drop(&mut self) {
        if let Source::Pinned(table) = &self.source {
            for mark in self.marks {
                // It may have been taken away meanwhile.
                let _ = table.remove(mark);
            }
        }
    }
}
