//! What packets of one direction go through: a link, or a carrier that the terminals behind the interface share.

use crate::apart::Apart;
use crate::headers;
use crate::report::TerminalReport;
use crate::terminal::{PathError, SharedCarrier, Terminal};
use link::dama::{Backlog, Burst, Carrier, Member, Sample, Terminals};
use link::{Acks, Counters, Link, LinkConfig, Outcome, Packet};
use serde::Serialize;
use units::{Bytes, Duration, Instant, Rate};

/// What one direction does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PathModel {
    /// All packets share a link.
    Link(Box<LinkConfig>),
    /// Terminals share a carrier.
    Carrier(SharedCarrier),
    /// Each terminal has a link of its own, for packets that go to its networks.
    Apart(Vec<Terminal>),
}

impl PathModel {
    /// Checks what types cannot.
    ///
    /// # Errors
    /// Names the first value that is wrong.
    pub fn validate(&self) -> Result<(), PathError> {
        Path::<Unmoved>::new(Instant::ZERO, self).map(drop)
    }

    /// Its terminals; none where all packets share a link.
    pub fn terminals(&self) -> &[Terminal] {
        match self {
            Self::Link(_) => &[],
            Self::Carrier(SharedCarrier { terminals, .. }) | Self::Apart(terminals) => terminals,
        }
    }
}

/// Whose packets go each way: where all share a link, the terminals of the other way.
pub(crate) fn terminals([up, down]: &[PathModel; 2]) -> [&[Terminal]; 2] {
    [(up, down), (down, up)].map(|(own, other)| match own.terminals() {
        [] => other.terminals(),
        own => own,
    })
}

/// A packet that nobody sends.
#[derive(Clone)]
struct Unmoved;

impl Packet for Unmoved {
    fn size(&self) -> Bytes {
        Bytes::ZERO
    }
}

impl From<LinkConfig> for PathModel {
    fn from(link: LinkConfig) -> Self {
        Self::Link(Box::new(link))
    }
}

/// One direction at work.
pub(crate) struct Path<P> {
    links: Vec<Link<P>>,
    /// Whose packets go by which link, unless all go by one.
    apart: Option<Apart>,
    carrier: Option<Carrier>,
}

impl<P: Packet> Path<P> {
    /// Samples that are kept until they are taken: an hour of ten terminals.
    const MAX_SAMPLES: usize = 1 << 19;
    /// How long a carrier goes on for what is still in it.
    const LONGEST_DRAIN: Duration = Duration::from_secs(60);

    pub(crate) fn new(start: Instant, config: &PathModel) -> Result<Self, PathError> {
        match config {
            PathModel::Link(link) if link.dama.is_some() => Err(PathError::NoCarrier),
            PathModel::Link(link) => {
                let links = vec![emulated(start, link)?];
                Ok(Self { links, apart: None, carrier: None })
            }
            PathModel::Carrier(shared) => Self::shared(start, shared),
            PathModel::Apart(terminals) if terminals.iter().any(|terminal| terminal.link.dama.is_some()) => {
                Err(PathError::NoCarrier)
            }
            PathModel::Apart(terminals) => {
                let apart = Apart::new(terminals, headers::destination)?;
                Ok(Self { links: links(start, terminals)?, apart: Some(apart), carrier: None })
            }
        }
    }

    fn shared(start: Instant, config: &SharedCarrier) -> Result<Self, PathError> {
        let apart = Apart::new(&config.terminals, headers::source)?;
        let mut members = Vec::new();
        for Terminal { name, link, .. } in &config.terminals {
            let dama = link.dama.clone().ok_or_else(|| PathError::NoShare(name.clone()))?;
            members.push(Member { config: dama, to_ncc: link.nominal_delay(), from_ncc: config.from_ncc });
        }
        let links = links(start, &config.terminals)?;
        let carrier = Carrier::new(start, config.config.clone(), members)?;
        Ok(Self { links, apart: Some(apart), carrier: Some(carrier) })
    }

    /// From now on, [`Path::take_samples`] has some.
    pub(crate) fn record_capacity(&mut self) {
        if let Some(carrier) = &mut self.carrier {
            carrier.record();
        }
    }

    /// Whether [`Path::record_capacity`] was called, which has no effect without a carrier.
    pub(crate) fn is_recording(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::is_recording)
    }

    /// Moves the samples of superframes that are over to `all`, which is bounded: what does not fit is forgotten.
    pub(crate) fn take_samples(&mut self, all: &mut Vec<Sample>) {
        if let Some(carrier) = &mut self.carrier {
            all.extend(carrier.take_samples());
            all.truncate(Self::MAX_SAMPLES);
        }
    }

    /// By which link `frame` goes; by none if its address belongs to no terminal.
    pub(crate) fn link_of(&self, frame: &[u8]) -> Option<usize> {
        self.apart.as_ref().map_or(Some(0), |apart| apart.terminal_of(frame))
    }

    /// Whether each terminal has a link of its own.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.is_some()
    }

    /// Gives the packet to the link with this number: if terminals are distinguished, that of the terminal.
    pub(crate) fn enqueue(&mut self, now: Instant, link: usize, packet: P) {
        self.wake(now);
        self.links[link].enqueue(now, packet);
    }

    /// What has left or was lost by `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outcome<P>> {
        self.wake(now);
        self.links.iter_mut().find_map(|link| link.poll(now))
    }

    /// When there will be something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let carrier = self.carrier.as_ref().map(Carrier::next_timeout);
        self.links.iter().filter_map(Link::next_timeout).chain(carrier).min()
    }

    /// When the last packet leaves of those on their way that do by `end`; `None` if none does.
    pub(crate) fn last_timeout_by(&self, end: Instant) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.last_timeout_by(end)).max()
    }

    /// What would come next if nothing more were enqueued after `end`; `None` once it is empty. What a carrier has given no
    /// slots a minute after the end leaves then.
    pub(crate) fn drain(&mut self, end: Instant) -> Option<Outcome<P>> {
        let latest = end + Self::LONGEST_DRAIN;
        while self.counters().in_transit().packets > 0 {
            let next = self.next_timeout()?;
            if next > latest && self.carrier.take().is_some() {
                self.links.iter_mut().for_each(|link| link.assign(latest, Self::all_at(latest)));
                continue;
            }
            if let Some(outcome) = self.poll(next) {
                return Some(outcome);
            }
        }
        None
    }

    /// Slots for everything at once.
    fn all_at(start: Instant) -> Burst {
        let (slot, count) = (Bytes::new(1 << 16), 1 << 32);
        Burst { superframe: u64::MAX, start, length: Duration::ZERO, slots: 1, first: 0, count, slot }
    }

    /// The carrier does what is due by `now`.
    fn wake(&mut self, now: Instant) {
        if let Some(carrier) = &mut self.carrier {
            carrier.handle_timeout(now, &mut Queues(&mut self.links));
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.links.iter().for_each(|link| sum += *link.counters());
        sum
    }

    /// The rate of the link or the carrier at `now`, and until when it holds; `None` if it has none, or it depends on the
    /// terminal.
    pub(crate) fn rate(&self, now: Instant) -> Option<(Rate, Instant)> {
        match &self.carrier {
            Some(carrier) => Some(carrier.rate(now)),
            None if self.apart.is_some() => None,
            None => self.links[0].rate(now),
        }
    }

    /// How long each link's way is for what is sent at `now`: one, or as many as there are terminals.
    pub(crate) fn delays(&self, now: Instant) -> Vec<Duration> {
        self.links.iter().map(|link| link.delay(now)).collect()
    }

    /// What each terminal was given and used; none where there is no carrier.
    pub(crate) fn terminals(&self) -> Vec<TerminalReport> {
        let (Some(apart), Some(carrier)) = (&self.apart, &self.carrier) else { return Vec::new() };
        let terminal = |(number, name): (usize, &String)| TerminalReport {
            name: name.clone(),
            allocated: carrier.allocated(number),
            totals: *carrier.totals(number),
        };
        apart.names().iter().enumerate().map(terminal).collect()
    }
}

fn links<P: Packet>(start: Instant, terminals: &[Terminal]) -> Result<Vec<Link<P>>, PathError> {
    terminals.iter().map(|terminal| emulated(start, &terminal.link)).collect()
}

/// A link of real packets. What it would do with their acknowledgements a log of arrivals could not say.
fn emulated<P: Packet>(start: Instant, config: &LinkConfig) -> Result<Link<P>, PathError> {
    if config.acks != Acks::Keep {
        return Err(PathError::Acks);
    }
    Ok(Link::starting_at(start, config.clone())?)
}

/// The queues of a carrier's terminals.
struct Queues<'a, P>(&'a mut [Link<P>]);

impl<P: Packet> Terminals for Queues<'_, P> {
    fn backlog(&mut self, terminal: usize, now: Instant) -> Backlog {
        self.0[terminal].backlog(now)
    }

    fn assign(&mut self, terminal: usize, now: Instant, burst: Burst) {
        self.0[terminal].assign(now, burst);
    }

    fn used(&mut self, terminal: usize, now: Instant, superframe: u64) -> (Bytes, Bytes) {
        let link = &mut self.0[terminal];
        (link.take_used(now, superframe), link.queued_bytes(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use kernel::packet::OffloadHeader;
    use link::dama::CarrierConfig;
    use link::dama::TerminalConfig;

    fn carrier() -> SharedCarrier {
        let rate = Rate::from_bps(4_000_000);
        let terminal = |name: &str, network: &str| {
            let dama = Some(TerminalConfig { rbdc: rate, ..TerminalConfig::new("return") });
            let link = LinkConfig { rate: None, dama, ..LinkConfig::new(rate, Duration::from_millis(40)) };
            Terminal { name: name.to_owned(), networks: vec![network.parse().expect("a network")], link }
        };
        SharedCarrier {
            config: CarrierConfig::new(rate),
            terminals: vec![terminal("one", "198.18.1.7/24"), terminal("two", "198.18.0.0/16")],
            from_ncc: Duration::from_millis(40),
        }
    }

    #[test]
    fn links_of_terminals_take_what_goes_to_them() {
        let mut terminals = carrier().terminals;
        terminals.iter_mut().for_each(|terminal| terminal.link.dama = None);
        terminals[1].link.delay = Duration::from_millis(7);
        let mut path = Path::new(Instant::ZERO, &PathModel::Apart(terminals)).expect("links");
        let mut packet = [0; 14 + 20];
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[30..34].copy_from_slice(&[198, 18, 2, 1]);
        let frame = |bytes: &[u8]| {
            let layer = headers::network_layer(bytes).expect("long enough");
            Frame::new(OffloadHeader::default(), bytes.to_vec(), layer)
        };
        assert_eq!(path.link_of(&packet), Some(1));
        path.enqueue(Instant::ZERO, 1, frame(&packet));
        assert_eq!(path.next_timeout(), Some(Instant::ZERO + Duration::from_millis(7)));
        packet[30] = 10;
        assert_eq!(path.link_of(&packet), None, "to nobody");
        assert!(PathModel::Apart(carrier().terminals).validate().is_err(), "there is no carrier");
    }

    /// Packets that come faster than the carrier takes them, and some of a terminal that is given nothing.
    #[test]
    fn what_is_left_in_a_carrier_comes_out_at_its_end() {
        let mut config = carrier();
        config.terminals[1].link.dama = Some(TerminalConfig::new("return"));
        let mut path = Path::new(Instant::ZERO, &PathModel::Carrier(config)).expect("a carrier");
        let bytes = vec![0; 14 + 20];
        let layer = headers::network_layer(&bytes).expect("long enough");
        let frame = Frame::new(OffloadHeader::default(), bytes, layer);
        for number in 0..100 {
            path.enqueue(Instant::ZERO, number % 2, frame.clone());
        }
        let end = Instant::ZERO + Duration::from_millis(100);
        assert!(path.poll(end).is_none());
        let left: Vec<_> = std::iter::from_fn(|| path.drain(end)).map(|outcome| outcome.at()).collect();
        assert_eq!(left.len(), 100);
        let minute = end + Duration::from_secs(60);
        assert_eq!(left.iter().filter(|at| **at < minute).count(), 50, "{left:?}");
        assert!(left.iter().all(|at| *at <= minute + Duration::from_millis(40)), "{left:?}");
    }

    #[test]
    fn a_carrier_that_makes_no_sense_is_refused_by_name() {
        type Change = fn(&mut SharedCarrier);
        let changes: [(Change, &str); 8] = [
            (|carrier| carrier.terminals[1].name = "one".into(), "terminal \"one\": names must differ"),
            (|carrier| carrier.terminals[1].name = "one,two".into(), "commas"),
            (|carrier| carrier.terminals.clear(), "at least one terminal"),
            (|carrier| carrier.terminals[1].networks.clear(), "two: networks"),
            (|carrier| carrier.terminals[1].networks = carrier.terminals[0].networks.clone(), "198.18.1.0/24 belongs"),
            (|carrier| carrier.terminals[0].link.dama = None, "one: dama is missing"),
            (|carrier| carrier.terminals[0].link.rate = Some(Rate::from_bps(1)), "dama"),
            (|carrier| carrier.config.slot = Bytes::new(1), "slot"),
        ];
        for (change, hint) in changes {
            let mut carrier = carrier();
            change(&mut carrier);
            let error = PathModel::Carrier(carrier).validate().expect_err("refused").to_string();
            assert!(error.contains(hint), "{error} for {hint}");
        }
    }
}
