//! The modems of an emulated link: they report its capacity to routers by DLEP (RFC 8175).

use crate::output::Failure;
use dlep::{Mac, Metrics, Settings};
use dlep_io::{LinkReport, Modem, ModemSettings};
use emulator::Monitor;
use kernel::Namespace;
use std::io;
use std::thread::{self, JoinHandle};
use std::time;
use tokio::sync::watch;
use units::{Duration, Rate};

/// How often the link's rates are looked at; the emulator keeps them current to the change.
const PERIOD: time::Duration = time::Duration::from_millis(5);

/// Modems whose sockets are open.
pub(super) struct Modems {
    heartbeat: Duration,
    waiting: Vec<Waiting>,
}

struct Waiting {
    modem: Modem,
    /// The namespace of the emulator without.
    namespace: Option<Namespace>,
    link: Site,
}

/// An end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The terminal's, which transmits up.
    Near,
    /// That of the terminal with this number on a carrier, which transmits up what it is given.
    Terminal(usize),
    /// The hub's, which transmits down.
    Far,
}

/// The link as the modem of one site knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    /// Whose modem it is.
    pub(super) end: End,
    /// The highest rates up and down, of recorded opportunities their mean; `None` where there is none.
    pub(super) highest: [Option<Rate>; 2],
}

/// Modems that report; dropped, they end their sessions in order.
pub(super) struct Running {
    /// Dropped first: that ends the threads.
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        for thread in self.threads.drain(..) {
            // A modem that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Modems {
    /// None yet; they will send a heartbeat every `heartbeat`.
    pub(super) fn new(heartbeat: Duration) -> Self {
        Self { heartbeat, waiting: Vec::new() }
    }

    /// A modem of `link` at `interface` of `namespace`, or of the one of this thread; `option` asked for it.
    pub(super) fn add(
        &mut self,
        option: &str,
        namespace: Option<&str>,
        interface: &str,
        link: Site,
    ) -> Result<(), Failure> {
        let failure = |error: io::Error| {
            let text = format!("{option} {interface}: {error}");
            match error.kind() {
                io::ErrorKind::PermissionDenied => Failure::missing(text),
                io::ErrorKind::NotFound => Failure::usage(text),
                _ => Failure::failed(text),
            }
        };
        let namespace = namespace
            .map(|name| {
                Namespace::named(name)
                    .map_err(|error| Failure::usage(format!("{option}: network namespace {name}: {error}")))
            })
            .transpose()?;
        let settings = ModemSettings {
            interface: interface.to_owned(),
            port: dlep::PORT,
            // The other end of the link: a locally administered address that is the same in each run.
            destination: Mac::Eui48([2, 0, 0x5e, 0, 0, if link.end == End::Far { 1 } else { 2 }]),
            session: Settings { heartbeat: self.heartbeat, name: "bentpipe emulate".into() },
        };
        let open = || -> io::Result<Modem> {
            kernel::gtsm::index(interface)?;
            Modem::open(settings)
        };
        let modem = match &namespace {
            None => open(),
            Some(namespace) => namespace.run(open).map_err(|error| Failure::failed(format!("{option}: {error}")))?,
        };
        self.waiting.push(Waiting { modem: modem.map_err(failure)?, namespace, link });
        Ok(())
    }

    /// Reports the link as `monitor` shows it.
    pub(super) fn start(self, monitor: Monitor) -> Result<Running, Failure> {
        let (stop, stopped) = watch::channel(());
        let mut running = Running { stop: Some(stop), threads: Vec::new() };
        for Waiting { modem, namespace, link } in self.waiting {
            let (monitor, stopped) = (monitor.clone(), stopped.clone());
            let run = move || {
                let inside = || serve(modem, &monitor, link, stopped);
                let outcome = match namespace {
                    None => inside(),
                    Some(namespace) => namespace.run(inside).unwrap_or_else(|error| Err(io::Error::other(error))),
                };
                outcome.unwrap_or_else(|error| tracing::error!(%error, "the modem has ended"));
            };
            let thread = thread::Builder::new().name("modem".to_owned()).spawn(run);
            running.threads.push(thread.map_err(Failure::failed)?);
        }
        Ok(running)
    }
}

/// Runs a modem until the sender of `stopped` is gone.
fn serve(modem: Modem, monitor: &Monitor, site: Site, mut stopped: watch::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (sender, reports) = watch::channel(site.report(monitor));
        let follow = async {
            while tokio::time::timeout(PERIOD, stopped.changed()).await.is_err() {
                let now = site.report(monitor);
                sender.send_if_modified(|before| std::mem::replace(before, now) != now);
            }
            drop(sender);
        };
        tokio::join!(modem.run(reports), follow).0
    })
}

impl Site {
    /// The rates up and down now, of recorded opportunities their mean; `None` where there is none.
    fn rates(&self, monitor: &Monitor) -> [Option<Rate>; 2] {
        let [up, down] = monitor.rates();
        let [highest_up, highest_down] = self.highest;
        let up = match self.end {
            End::Terminal(number) => monitor.allocated(number),
            End::Near | End::Far => up,
        };
        [up.or(highest_up), down.or(highest_down)]
    }

    /// How long what this modem transmits takes now; all its destinations are behind the same satellite.
    fn delay(&self, monitor: &Monitor) -> Duration {
        let [up, down] = monitor.delays();
        let (delays, number) = match self.end {
            End::Near => (up, 0),
            End::Terminal(number) => (up, number),
            End::Far => (down, 0),
        };
        delays.get(number).copied().unwrap_or_default()
    }

    /// The modem's report now: for the session the highest rates, and that the link is down in an outage.
    fn report(&self, monitor: &Monitor) -> LinkReport {
        let (rates, delay, mtu) = (self.rates(monitor), self.delay(monitor), monitor.mtu());
        let is_down = self.of_transmitter(rates)[0] == Some(Rate::ZERO);
        LinkReport {
            session: self.metrics(self.highest, delay, mtu),
            link: (!is_down).then(|| self.metrics(rates, delay, mtu)),
        }
    }

    /// Values up and down as those of what this modem transmits and receives.
    fn of_transmitter<T>(&self, [up, down]: [T; 2]) -> [T; 2] {
        if self.end == End::Far { [down, up] } else { [up, down] }
    }

    /// A link with these rates up and down, this delay, and this MTU unless it is zero.
    fn metrics(&self, rates: [Option<Rate>; 2], delay: Duration, mtu: usize) -> Metrics {
        // A session has all four rates (RFC 8175, section 12.6): zero is that of a link which has none.
        let own = |rates| self.of_transmitter(rates).map(Option::unwrap_or_default);
        let ([transmit, receive], [max_transmit, max_receive]) = (own(rates), own(self.highest));
        Metrics {
            // The current rate must not exceed the maximum (section 13.14).
            max_receive: Some(max_receive.max(receive)),
            max_transmit: Some(max_transmit.max(transmit)),
            receive: Some(receive),
            transmit: Some(transmit),
            latency: Some(delay),
            // It never runs out of power or memory, and what is lost on the way is the link's affair.
            resources: Some(100),
            quality_receive: Some(100),
            quality_transmit: Some(100),
            mtu: (mtu > 0).then(|| u16::try_from(mtu).unwrap_or(u16::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_modem_transmits_its_own_way() {
        let rates = [2, 8].map(|mbit| Some(Rate::from_bps(mbit * 1_000_000)));
        let of = |end| {
            let site = Site { end, highest: [None, Some(Rate::from_bps(9_000_000))] };
            site.metrics(rates, Duration::from_millis(275), 1400)
        };
        let [terminal, hub] = [End::Near, End::Far].map(of);
        assert_eq!((terminal.transmit, terminal.receive), (rates[0], rates[1]));
        assert_eq!((hub.transmit, hub.receive), (rates[1], rates[0]));
        let highest = [2, 9].map(|mbit| Some(Rate::from_bps(mbit * 1_000_000)));
        assert_eq!([terminal.max_transmit, terminal.max_receive], highest, "not below the current rate");
        assert_eq!((terminal.latency, terminal.mtu), (Some(Duration::from_millis(275)), Some(1400)));
    }

    #[test]
    fn a_link_without_a_rate_reports_zero_as_no_rate() {
        let site = Site { end: End::Far, highest: [Some(Rate::from_bps(9)), None] };
        let hub = site.metrics([Some(Rate::from_bps(8)), None], Duration::ZERO, 65_536);
        assert_eq!(hub.mtu, Some(u16::MAX), "the MTU of loopback");
        assert_eq!((hub.transmit, hub.max_transmit), (Some(Rate::ZERO), Some(Rate::ZERO)));
        assert_eq!((hub.receive, hub.max_receive), (Some(Rate::from_bps(8)), Some(Rate::from_bps(9))));
    }
}
