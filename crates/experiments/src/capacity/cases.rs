//! The cases: what the operator believed of the link, what the link does, and what is claimed.

use super::targets::Targets;
use link::Policer;
use units::{Bytes, Duration, Instant, Rate};

/// When simulated transfers begin.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// How long after that what is to happen to the link happens.
const SETTLED: Duration = Duration::from_secs(4);
/// Payload of a full packet over its length.
pub(super) const PAYLOAD: f64 = 1448.0 / 1500.0;
/// The rate of requests and UDP beside a transfer is that of the link, divided by this.
pub(super) const UDP_PART: u64 = 3;

/// Transfers over a link.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) targets: Targets,
    /// Each flow's.
    pub(super) size: u64,
    pub(super) flows: usize,
    /// The link's, at first.
    pub(super) rate: Rate,
    pub(super) rtt: Duration,
    pub(super) queue: Queue,
    pub(super) loss: f64,
    pub(super) prior: Prior,
    pub(super) link: Nature,
    pub(super) beside: Beside,
    /// Whether modems report each change of the link's rate.
    pub(super) modems: bool,
    /// Whether both gateways stall for up to 10 ms at random.
    pub(super) stalls: bool,
    /// When the transfers begin.
    pub(super) begin: Instant,
    /// The most seeds that are simulated: runs of hours are few.
    pub(super) most_seeds: u16,
}

/// What waits before the link.
#[derive(Clone, Copy)]
pub(super) enum Queue {
    /// So many bandwidth-delay products.
    Products(f64),
    Packets(u64),
}

/// The prior of the sending gateway for the rate of the link.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Prior {
    /// So many times the rate that it has at first.
    Times(f64),
    Nothing,
}

impl Prior {
    /// What is configured of a link of this rate.
    pub(super) fn of(self, rate: Rate) -> Option<Rate> {
        match self {
            Self::Times(times) => Some(rate.mul_f64(times)),
            Self::Nothing => None,
        }
    }
}

/// What is particular about a link.
#[derive(Clone, Copy)]
pub(super) enum Nature {
    Plain,
    /// It has its rate and a share of it in turns.
    Turns {
        share: f64,
        each: Duration,
    },
    /// It has a share of its rate for a while.
    Fade {
        share: f64,
        lasts: Duration,
    },
    /// It loses everything for a while, both ways.
    Outage {
        lasts: Duration,
    },
    /// Its round trip changes.
    Detour {
        rtt: Duration,
    },
    /// Some packets are late.
    Reordering {
        probability: f64,
        late: Duration,
    },
    Policed(Policer),
    /// The data arrive in frames of the air interface.
    Frames {
        each: Duration,
    },
    /// What comes back comes in bunches.
    Bunches {
        each: Duration,
    },
    /// As recorded of Starlink.
    Starlink,
}

/// What else is on the link.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Beside {
    Nothing,
    /// Requests of 20 kB through the gateways, one after the other.
    Requests,
    /// A TCP that does not pass the gateways, without end; it has begun before, and is to have its fair share.
    Tcp(&'static str),
    /// UDP that does not pass the gateways, at a third of the rate.
    Udp,
}

/// All cases, in the order in which they are measured.
pub(super) fn all() -> Vec<Case> {
    [priors(), short(), many(), changes(), paths(), hosts(), neighbours(), recorded()].concat()
}

const MB: u64 = 1_000_000;

/// 10 MB over 6 Mbit/s and 550 ms with one packet in a thousand lost, a queue of one BDP, and the right rate configured.
fn case(name: impl Into<String>, targets: Targets) -> Case {
    Case {
        name: name.into(),
        targets,
        size: 10 * MB,
        flows: 1,
        rate: Rate::from_bps(6_000_000),
        rtt: Duration::from_millis(550),
        queue: Queue::Products(1.0),
        loss: 1e-3,
        prior: Prior::Times(1.0),
        link: Nature::Plain,
        beside: Beside::Nothing,
        modems: false,
        stalls: false,
        begin: BEGIN,
        most_seeds: u16::MAX,
    }
}

fn priors() -> Vec<Case> {
    let prior = |name: &str, prior, targets| Case { prior, ..case(name, targets) };
    vec![
        case("prior right", Targets::share(0.982).overhead(5.0).queue(20.0)),
        prior("prior x 2", Prior::Times(2.0), Targets::share(0.97).overhead(6.0)),
        prior("prior x 10", Prior::Times(10.0), Targets::share(0.90).overhead(10.0)),
        prior("prior x 0.5", Prior::Times(0.5), Targets::share(0.96)),
        prior("prior x 0.1", Prior::Times(0.1), Targets::share(0.88)),
        prior("no prior", Prior::Nothing, Targets::share(0.90)),
        Case {
            size: 300_000,
            queue: Queue::Packets(50),
            ..case("64 kbit/s, 600 ms", Targets::share(0.98).overhead(6.0))
        }
        .over_rate(Rate::from_bps(64_000), 600),
        fast("200 Mbit/s, 600 ms, prior x 2", Prior::Times(2.0), 0.95),
        fast("200 Mbit/s, 600 ms, prior x 0.1", Prior::Times(0.1), 0.88),
        fast("200 Mbit/s, 600 ms, no prior", Prior::Nothing, 0.88),
    ]
}

fn short() -> Vec<Case> {
    let short = |name: &str, prior, share| Case { size: MB, prior, ..case(name, Targets::share(share)) };
    vec![
        short("1 MB, prior right", Prior::Times(1.0), 0.985),
        short("1 MB, prior x 2", Prior::Times(2.0), 0.93),
        short("1 MB, no prior", Prior::Nothing, 0.70),
    ]
}

fn many() -> Vec<Case> {
    let fair = Targets { jain_index: Some(0.995), ..Targets::share(0.98) };
    vec![
        Case { size: 2 * MB, flows: 20, ..case("20 x 2 MB", fair) },
        Case { size: 50_000, flows: 200, loss: 1e-2, ..case("200 x 50 kB, 1e-2", Targets::share(0.97)) },
        Case { size: 200 * MB, ..case("250 Mbit/s, 600 ms, 200 MB", Targets::share(0.96)) }.over(250, 600),
    ]
}

fn changes() -> Vec<Case> {
    let turns = Nature::Turns { share: 0.3, each: Duration::from_secs(15) };
    let fade = |share| Nature::Fade { share, lasts: Duration::from_secs(10) };
    let back = |targets, rtt| Targets { back_rtt: Some(rtt), ..targets };
    let outage = |seconds| {
        let targets = Targets { sent_into_outage: Some(0.03), ..back(Targets::share(0.98), 1.5) };
        let link = Nature::Outage { lasts: Duration::from_secs(seconds) };
        Case { link, ..case(format!("outage of {seconds} s"), targets) }
    };
    let detour = |name: &str, millis, share| Case {
        link: Nature::Detour { rtt: Duration::from_millis(millis) },
        ..case(name, Targets::share(share))
    };
    vec![
        Case {
            link: turns,
            size: 230 * MB,
            loss: 5e-3,
            ..case("50 Mbit/s, 40 ms, 100 and 30 % in turns", Targets::share(0.95).queue(30.0))
        }
        .over(50, 40),
        Case { link: fade(0.3), ..case("30 % for 10 s", back(Targets::share(0.94).overhead(10.0), 3.0)) },
        Case {
            link: fade(0.3),
            modems: true,
            ..case("30 % for 10 s, reported", back(Targets::share(0.94).overhead(10.0), 1.0))
        },
        Case {
            link: Nature::Turns { share: 0.25, each: Duration::from_secs(5) },
            size: 30 * MB,
            modems: true,
            ..case("8 Mbit/s, 100 and 25 % in turns, reported", Targets::share(0.95)).over(8, 550)
        },
        Case { link: fade(0.02), size: 20 * MB, ..case("2 % for 10 s", back(Targets::share(0.94), 5.0)) },
        outage(5),
        outage(60),
        detour("RTT 40 to 550 ms", 550, 0.96).over(6, 40),
        detour("RTT 550 to 40 ms", 40, 0.98),
    ]
}

fn paths() -> Vec<Case> {
    let late = |name: &str, probability, millis, share| {
        let link = Nature::Reordering { probability, late: Duration::from_millis(millis) };
        Case { link, ..case(name, Targets::share(share)) }
    };
    let frames = |name: &str, millis| {
        let link = Nature::Frames { each: Duration::from_millis(millis) };
        Case { link, ..case(name, Targets::share(0.95)) }
    };
    let queue = |name: &str, products, targets| Case { queue: Queue::Products(products), ..case(name, targets) };
    let mut all = vec![
        late("5 % late by 100 ms", 0.05, 100, 0.97),
        late("1 % late by 20 ms", 0.01, 20, 0.98),
        // More than an acknowledgement names.
        Case { size: 60 * MB, ..late("50 Mbit/s, 30 % late by 140 ms", 0.3, 140, 0.85) }.over(50, 550),
        // Later than what the first losses are judged by.
        Case { size: 100 * MB, ..late("200 Mbit/s, 25 % late by 6 ms", 0.25, 6, 0.9) }.over(200, 550),
        queue("queue of 0.1 BDP", 0.1, Targets::share(0.96)),
        queue("queue of 5 BDP", 5.0, Targets::share(0.98).queue(50.0)),
        Case { loss: 0.05, ..case("losses of 5 %", Targets::share(0.94)) },
        frames("frames of 20 ms", 20),
        Case { size: 60 * MB, ..frames("20 Mbit/s, 600 ms, frames of 50 ms", 50) }.over(20, 600),
        frames("frames of 100 ms", 100),
    ];
    for (known, prior, share) in [
        ("prior x 2", Prior::Times(2.0), 0.9),
        ("prior x 10", Prior::Times(10.0), 0.88),
        ("prior x 0.5", Prior::Times(0.5), 0.9),
        ("prior x 0.1", Prior::Times(0.1), 0.7),
    ] {
        let name = format!("frames of 50 ms, {known}");
        all.push(Case { prior, targets: Targets::share(share), ..frames(&name, 50) });
    }
    for burst in [30_000, 64_000] {
        // Right is the policer's rate.
        let times = |times: f64| Prior::Times(times * 4.0 / 6.0);
        let priors = [
            ("prior right", times(1.0)),
            ("prior x 2", times(2.0)),
            ("prior x 0.5", times(0.5)),
            ("no prior", Prior::Nothing),
        ];
        for (name, prior) in priors {
            let link = Nature::Policed(Policer { rate: Rate::from_bps(4_000_000), burst: Bytes::new(burst) });
            let name = format!("policer, {} kB, {name}", burst / 1000);
            let targets = Targets { policed: Some(0.05), ..Targets::share(0.94) };
            all.push(Case { link, prior, ..case(name, targets) });
        }
    }
    // What a contract allows of a fast link.
    for (burst, known, prior) in [
        (30_000, "prior right", Prior::Times(0.1)),
        (30_000, "no prior", Prior::Nothing),
        (250_000, "prior right", Prior::Times(0.1)),
        (250_000, "no prior", Prior::Nothing),
    ] {
        let link = Nature::Policed(Policer { rate: Rate::from_bps(20_000_000), burst: Bytes::new(burst) });
        let name = format!("200 Mbit/s, 600 ms, policer at 20, {} kB, {known}", burst / 1000);
        all.push(Case { link, size: 30 * MB, ..fast(&name, prior, 0.85) });
    }
    all
}

fn hosts() -> Vec<Case> {
    let bunches = Nature::Bunches { each: Duration::from_millis(30) };
    vec![
        Case { stalls: true, ..case("ends stall for up to 10 ms", Targets::share(0.975)) },
        Case { stalls: true, ..fast("200 Mbit/s, 600 ms, ends stall", Prior::Times(1.0), 0.9) },
        Case { link: bunches, ..case("ACKs in bunches of 30 ms", Targets::share(0.975)) },
        Case {
            beside: Beside::Requests,
            ..case("beside requests of 20 kB", Targets { requests_s: Some(0.04), ..Targets::share(0.95) })
        },
    ]
}

/// Of a fast link memory has to be found out, too, and a train passes in less time than a stall takes.
fn fast(name: &str, prior: Prior, share: f64) -> Case {
    Case { prior, size: 200 * MB, ..case(name, Targets::share(share)) }.over(200, 600)
}

fn neighbours() -> Vec<Case> {
    let beside = |name: &str, beside| Case { beside, size: 20 * MB, ..case(name, Targets::share(0.46)) };
    vec![
        beside("fair beside CUBIC", Beside::Tcp("cubic")),
        beside("fair beside BBR", Beside::Tcp("bbr1")),
        Case { targets: Targets::share(0.83), ..beside("fair beside UDP at a third", Beside::Udp) },
    ]
}

fn recorded() -> Vec<Case> {
    // What the authors of the trace use.
    let starlink = |name: &str, size| Case {
        link: Nature::Starlink,
        size,
        queue: Queue::Packets(500),
        loss: 2e-3,
        ..case(name, Targets::share(0.93).queue(30.0)).over_rate(Rate::from_bps(48_740_000), 24)
    };
    vec![starlink("Starlink, 2 min", 650 * MB), Case { most_seeds: 1, ..starlink("Starlink, 1 h", 21_000 * MB) }]
}

impl Case {
    fn over(self, mbit: u64, rtt_ms: u64) -> Self {
        self.over_rate(Rate::from_bps(mbit * 1_000_000), rtt_ms)
    }

    fn over_rate(self, rate: Rate, rtt_ms: u64) -> Self {
        Self { rate, rtt: Duration::from_millis(rtt_ms), ..self }
    }

    /// When the link begins and ceases to be worse, if it does both.
    pub(super) fn bad_times(&self) -> Option<[Instant; 2]> {
        match self.link {
            Nature::Fade { lasts, .. } | Nature::Outage { lasts } => Some([self.changes(), self.changes() + lasts]),
            _ => None,
        }
    }

    /// When what happens to the link happens.
    pub(super) fn changes(&self) -> Instant {
        self.begin + SETTLED
    }

    pub(super) fn payload(&self) -> u64 {
        self.size * self.flows as u64
    }

    /// The rate that is configured at the gateway, if any.
    pub(super) fn configured(&self) -> Option<Rate> {
        self.prior.of(self.rate)
    }
}
