//! What packets of one direction go through: a link, or a carrier that the terminals behind the interface share.

use crate::frame::Frame;
use crate::headers;
use crate::report::TerminalReport;
use ipnet::IpNet;
use link::dama::{Backlog, Burst, Carrier, CarrierConfig, Member, Sample, Terminals};
use link::{ConfigError, Counters, Link, LinkConfig, Outcome};
use std::cmp::Reverse;
use std::net::IpAddr;
use units::{Bytes, Duration, Instant, Rate};

/// What one direction does.
#[derive(Debug, Clone, PartialEq)]
pub enum WayConfig {
    /// All packets share a link.
    Link(Box<LinkConfig>),
    /// Terminals share a carrier.
    Carrier(SharedCarrier),
    /// Each terminal has a link of its own, for packets that go to its networks.
    Apart(Vec<Terminal>),
}

/// A carrier that terminals share on demand, each with a queue of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedCarrier {
    /// The carrier.
    pub config: CarrierConfig,
    /// Its terminals.
    pub terminals: Vec<Terminal>,
    /// How long the controller's plans are on their way to them.
    pub from_controller: Duration,
}

/// A terminal of a carrier, or with a link of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Terminal {
    /// What it is called.
    pub name: String,
    /// Whose packets are its own: those from (on a carrier) or to (over its own link) addresses in these networks. Of several
    /// that contain an address, the longest counts.
    pub networks: Vec<IpNet>,
    /// Its queue, its losses and its delay, and its part of the carrier ([`LinkConfig::dama`]) or its rate.
    pub link: LinkConfig,
}

impl WayConfig {
    /// Checks what types cannot.
    ///
    /// # Errors
    /// Names the first value that is wrong.
    pub fn validate(&self) -> Result<(), WayError> {
        Way::new(Instant::ZERO, self).map(drop)
    }
}

impl From<LinkConfig> for WayConfig {
    fn from(link: LinkConfig) -> Self {
        Self::Link(Box::new(link))
    }
}

/// Why settings make no way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WayError {
    /// A value makes no link or no carrier.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A link is a terminal of a carrier that is not there.
    #[error("dama: the carrier and its other terminals are missing")]
    NoCarrier,
    /// A carrier, or links, of no terminals.
    #[error("a carrier needs at least one terminal")]
    NoTerminal,
    /// A terminal does not say what it has of the carrier.
    #[error("terminal {0}: dama is missing: say what it has of the carrier")]
    NoShare(String),
    /// No packet would be a terminal's.
    #[error("terminal {0}: networks: give at least one")]
    NoNetwork(String),
    /// Packets from there would be two terminals'.
    #[error("networks: {0} belongs to two terminals")]
    Ambiguous(IpNet),
}

/// A packet came from, or goes to, an address that belongs to no terminal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stranger;

/// One direction at work.
pub(crate) struct Way {
    links: Vec<Link<Frame>>,
    /// Whose packets go by which link, unless all go by one.
    apart: Option<Apart>,
    carrier: Option<Carrier>,
}

/// Tells terminals apart.
struct Apart {
    names: Vec<String>,
    /// The networks of all terminals, the longest prefixes first.
    networks: Vec<(IpNet, usize)>,
    /// The address of a packet that counts.
    address: fn(&[u8]) -> Option<IpAddr>,
}

impl Way {
    /// Samples that are kept until somebody takes them: an hour of ten terminals.
    const MAX_SAMPLES: usize = 1 << 19;

    pub(crate) fn new(start: Instant, config: &WayConfig) -> Result<Self, WayError> {
        match config {
            WayConfig::Link(link) if link.dama.is_some() => Err(WayError::NoCarrier),
            WayConfig::Link(link) => {
                let links = vec![Link::starting_at(start, LinkConfig::clone(link))?];
                Ok(Self { links, apart: None, carrier: None })
            }
            WayConfig::Carrier(shared) => Self::shared(start, shared),
            WayConfig::Apart(terminals) if terminals.iter().any(|terminal| terminal.link.dama.is_some()) => {
                Err(WayError::NoCarrier)
            }
            WayConfig::Apart(terminals) => {
                let apart = Apart::new(terminals, headers::destination)?;
                Ok(Self { links: links(start, terminals)?, apart: Some(apart), carrier: None })
            }
        }
    }

    fn shared(start: Instant, config: &SharedCarrier) -> Result<Self, WayError> {
        let apart = Apart::new(&config.terminals, headers::source)?;
        let mut members = Vec::new();
        for Terminal { name, link, .. } in &config.terminals {
            let dama = link.dama.clone().ok_or_else(|| WayError::NoShare(name.clone()))?;
            members.push(Member { config: dama, to_controller: link.delay, from_controller: config.from_controller });
        }
        let links = links(start, &config.terminals)?;
        let carrier = Carrier::new(start, config.config.clone(), members)?;
        Ok(Self { links, apart: Some(apart), carrier: Some(carrier) })
    }

    /// From now on, [`Way::take_samples`] has some.
    pub(crate) fn record_capacity(&mut self) {
        if let Some(carrier) = &mut self.carrier {
            carrier.record();
        }
    }

    /// Moves the samples of superframes that are over to `all`, which is bounded: what does not fit is forgotten.
    pub(crate) fn take_samples(&mut self, all: &mut Vec<Sample>) {
        if let Some(carrier) = &mut self.carrier {
            all.extend(carrier.take_samples());
            all.truncate(Self::MAX_SAMPLES);
        }
    }

    pub(crate) fn enqueue(&mut self, now: Instant, frame: Frame) -> Result<(), (Stranger, Frame)> {
        self.wake(now);
        let Some(apart) = &self.apart else {
            self.links[0].enqueue(now, frame);
            return Ok(());
        };
        let terminal = (apart.address)(&frame.bytes).and_then(|address| apart.terminal_of(address));
        let Some(terminal) = terminal else { return Err((Stranger, frame)) };
        self.links[terminal].enqueue(now, frame);
        Ok(())
    }

    /// What has left or was lost by `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outcome<Frame>> {
        self.wake(now);
        self.links.iter_mut().find_map(|link| link.poll(now))
    }

    /// When there will be something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let carrier = self.carrier.as_ref().map(Carrier::next_timeout);
        self.links.iter().filter_map(Link::next_timeout).chain(carrier).min()
    }

    /// When the last of what is in it would leave, or [`None`] if it is empty; a carrier gives nothing after its end.
    pub(crate) fn next_departure(&self) -> Option<Instant> {
        self.links.iter().filter_map(Link::next_timeout).min()
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

    /// The link's rate at `now`, and until when it holds; `None` if it has none, or it depends on the terminal.
    pub(crate) fn rate(&self, now: Instant) -> Option<(Rate, Instant)> {
        if self.apart.is_some() { None } else { self.links[0].rate(now) }
    }

    /// What each terminal was given and used; none where there is no carrier.
    pub(crate) fn terminals(&self) -> Vec<TerminalReport> {
        let (Some(apart), Some(carrier)) = (&self.apart, &self.carrier) else { return Vec::new() };
        let terminal = |(number, name): (usize, &String)| TerminalReport {
            name: name.clone(),
            allocated: carrier.allocated(number),
            totals: *carrier.totals(number),
        };
        apart.names.iter().enumerate().map(terminal).collect()
    }
}

fn links(start: Instant, terminals: &[Terminal]) -> Result<Vec<Link<Frame>>, WayError> {
    terminals.iter().map(|terminal| Ok(Link::starting_at(start, terminal.link.clone())?)).collect()
}

impl Apart {
    fn new(terminals: &[Terminal], address: fn(&[u8]) -> Option<IpAddr>) -> Result<Self, WayError> {
        if terminals.is_empty() {
            return Err(WayError::NoTerminal);
        }
        let (mut names, mut networks) = (Vec::new(), Vec::new());
        for (number, Terminal { name, networks: own, .. }) in terminals.iter().enumerate() {
            if own.is_empty() {
                return Err(WayError::NoNetwork(name.clone()));
            }
            names.push(name.clone());
            networks.extend(own.iter().map(|network| (network.trunc(), number)));
        }
        networks.sort_by_key(|(network, _)| (Reverse(network.prefix_len()), *network));
        if let Some(pair) = networks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(WayError::Ambiguous(pair[0].0));
        }
        Ok(Self { names, networks, address })
    }

    fn terminal_of(&self, address: IpAddr) -> Option<usize> {
        self.networks.iter().find(|(network, _)| network.contains(&address)).map(|(_, terminal)| *terminal)
    }
}

/// The queues of a carrier's terminals.
struct Queues<'a>(&'a mut [Link<Frame>]);

impl Terminals for Queues<'_> {
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
            from_controller: Duration::from_millis(40),
        }
    }

    #[test]
    fn the_longest_network_says_whose_a_packet_is() {
        let way = Way::new(Instant::ZERO, &WayConfig::Carrier(carrier())).expect("a carrier");
        let terminal = |address: &str| way.apart.as_ref()?.terminal_of(address.parse().expect("an address"));
        assert_eq!(terminal("198.18.1.1"), Some(0));
        assert_eq!(terminal("198.18.2.1"), Some(1));
        assert_eq!(terminal("198.19.0.1"), None);
    }

    #[test]
    fn links_of_terminals_take_what_goes_to_them() {
        let mut terminals = carrier().terminals;
        terminals.iter_mut().for_each(|terminal| terminal.link.dama = None);
        terminals[1].link.delay = Duration::from_millis(7);
        let mut way = Way::new(Instant::ZERO, &WayConfig::Apart(terminals)).expect("links");
        let mut packet = [0; 14 + 20];
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[30..34].copy_from_slice(&[198, 18, 2, 1]);
        let frame = |bytes: &[u8]| {
            let layer = headers::network_layer(bytes).expect("long enough");
            Frame::new(kernel::packet::OffloadHeader::default(), bytes.to_vec(), layer)
        };
        assert!(way.enqueue(Instant::ZERO, frame(&packet)).is_ok());
        assert_eq!(way.next_departure(), Some(Instant::ZERO + Duration::from_millis(7)));
        packet[30] = 10;
        assert!(way.enqueue(Instant::ZERO, frame(&packet)).is_err(), "to nobody");
        assert!(Way::new(Instant::ZERO, &WayConfig::Apart(carrier().terminals)).is_err(), "there is no carrier");
    }

    #[test]
    fn a_carrier_that_makes_no_sense_is_refused_by_name() {
        type Change = fn(&mut SharedCarrier);
        let changes: [(Change, &str); 6] = [
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
            let error = Way::new(Instant::ZERO, &WayConfig::Carrier(carrier)).err().expect("refused").to_string();
            assert!(error.contains(hint), "{error} for {hint}");
        }
    }
}
