//! The loop that moves packets when their time has come.

use crate::Report;
use crate::apart::Apart;
use crate::arrival_log::LogWriter;
use crate::direction::Direction;
use crate::frame::Pool;
use crate::headers;
use crate::monitor::{Monitor, Snapshot};
use crate::path::{PathModel, terminals};
use crate::rest::Rest;
use crate::terminal::PathError;
use kernel::packet::{BATCH, OffloadHeader, PacketSocket, ReceiveBatch};
use kernel::poll::{self, Interest};
use kernel::{clock, priority, timer};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Duration, Instant};

/// What each direction does, and what the emulator may use for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// From the first interface to the second.
    pub up: PathModel,
    /// From the second interface to the first.
    pub down: PathModel,
    /// How long before a departure the thread stops sleeping and watches the clock instead: less lateness for more
    /// processor time. Zero never spins; 80 µs covers most late wake-ups. At high rates it takes four fifths of a processor:
    /// if it did not sleep for the rest, the kernel would stop it for longer.
    pub spin: Duration,
    /// How many bytes of memory the packets of each direction may take up, in its queue and on the way; what comes on top is
    /// dropped.
    pub memory: Bytes,
}

impl Config {
    /// `up` and `down` (links, or carriers that terminals share) without spinning, and 512 MB for each.
    pub fn new(up: impl Into<PathModel>, down: impl Into<PathModel>) -> Self {
        Self { up: up.into(), down: down.into(), spin: Duration::ZERO, memory: Bytes::new(512_000_000) }
    }
}

/// Why an emulation did not start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A direction's settings make no link and no carrier.
    #[error("{direction}: {error}")]
    Config {
        /// `up` or `down`.
        direction: &'static str,
        /// Which value, and why.
        error: PathError,
    },
    /// An interface was removed while the emulation ran, or can no longer be read.
    #[error("interface {interface}: {error}")]
    Interface {
        /// The interface.
        interface: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The log of arrivals is not complete.
    #[error("arrival log: {0}")]
    Log(io::Error),
    /// The thread cannot wait precisely.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
}

/// Packets that are due within this time leave together, when the last of them is due: to wake up for each would cost more
/// processor time than to send it, from some 200 Mbit/s on.
const GATHER: Duration = Duration::from_micros(50);
/// The same for a thread that spins, where lateness counts for more.
const GATHER_SPINNING: Duration = Duration::from_micros(20);

/// A thread that wakes up so late receives the frames that have come meanwhile before it sends what is due.
const LATE: Duration = Duration::from_micros(200);
/// So does one that takes so long from then until it sends: it was held up.
const HELD_UP: Duration = Duration::from_millis(1);

/// How often the monitor follows changes of rates, at most.
const CHANGE_INTERVAL: Duration = Duration::from_millis(1);

/// How often the loop looks at its stop flag, whether it is to restart, and brings the monitor up to date, at least.
const HOUSEKEEPING: Duration = Duration::from_millis(50);

/// Opens an interface of the calling thread's network namespace for an emulator, which may then run in any namespace.
///
/// # Errors
/// As [`PacketSocket::open`].
pub fn open(interface: &str) -> io::Result<PacketSocket> {
    // A thousand super-packets: some 20 ms of a host that sends as fast as it can.
    PacketSocket::open(interface, Bytes::new(64 * 1024 * 1024))
}

/// A link in real time between two interfaces.
///
/// ```no_run
/// use emulator::{Config, Emulator, open};
/// use std::sync::atomic::AtomicBool;
///
/// let geo: link::Preset = "geo".parse().expect("a preset");
/// let config = Config::new(geo.return_link(), geo.forward());
/// let emulator = Emulator::new(config, open("terminal0")?, open("hub0")?)?;
/// let stop = AtomicBool::new(false); // another thread, or a signal handler, sets it
/// let report = emulator.run(&stop)?;
/// println!("{} packets went up", report.up.delivered.packets);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Emulator {
    ports: [PacketSocket; 2],
    /// Index 0 takes packets from port 0 to port 1, index 1 the other way.
    directions: [Direction; 2],
    paths: [PathModel; 2],
    /// When everything begins again.
    restart: Instant,
    log: Option<LogWriter>,
    spin: Duration,
    rest: Rest,
    pool: Pool,
    batch: ReceiveBatch,
    monitor: Monitor,
}

impl Emulator {
    /// An emulator between `first` and `second`; frames that arrive from now on wait until it runs.
    ///
    /// # Errors
    /// If the settings of a direction make no link.
    pub fn new(config: Config, first: PacketSocket, second: PacketSocket) -> Result<Self, Error> {
        let start = clock::now();
        let direction = |path: &PathModel, direction| {
            Direction::new(start, path, config.memory).map_err(|error| Error::Config { direction, error })
        };
        let mut directions = [direction(&config.up, "up")?, direction(&config.down, "down")?];
        let names = [first.interface().to_owned(), second.interface().to_owned()];
        let ports = [first, second];
        follow_mtus(&ports, &mut directions);
        let snapshot = Snapshot::take(&directions, false, Duration::ZERO, Duration::ZERO);
        Ok(Self {
            ports,
            directions,
            paths: [config.up, config.down],
            restart: Instant::FAR_FUTURE,
            log: None,
            spin: config.spin,
            rest: Rest::new(start),
            pool: Pool::default(),
            batch: ReceiveBatch::new(),
            monitor: Monitor::new(start, names, snapshot),
        })
    }

    /// Writes to `out` the outcome of every packet that the links take, as [`crate::ArrivalLog`] reads it. Where terminals
    /// are distinguished in one direction, the terminal of a packet in the other is that of the address which it comes from or
    /// goes to.
    ///
    /// # Errors
    /// If no thread can be started for it.
    pub fn log_arrivals(&mut self, out: impl Write + Send + 'static) -> Result<(), Error> {
        self.log = Some(LogWriter::start(out, &self.paths).map_err(Error::Log)?);
        let addresses = [headers::source, headers::destination];
        for ((direction, terminals), address) in self.directions.iter_mut().zip(terminals(&self.paths)).zip(addresses) {
            // Settings that were refused are not here.
            direction.keep_records(Apart::new(terminals, address).ok());
        }
        Ok(())
    }

    /// Keeps what the terminals of carriers are given, superframe by superframe, for [`Monitor::take_samples`].
    pub fn record_capacity(&mut self) {
        self.directions.iter_mut().for_each(Direction::record_capacity);
    }

    /// A view of the counters that other threads may keep while the emulator runs.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Moves packets until `stop` is set (which it notices within 50 ms). Packets still on the way are then dropped
    /// with the emulator, and reported as in transit. Gives the calling thread no timer slack and, where the host allows
    /// it, a real-time priority.
    ///
    /// # Errors
    /// If an interface is removed, or the log of arrivals could not be written: what happened until then is in the log, and
    /// a [`Monitor`] has the report. An interface that is only down loses packets, and carries them again once it is up.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Report, Error> {
        timer::set_slack(Duration::from_nanos(1)).map_err(Error::Wait)?;
        let end = self.move_packets(stop);
        let logged = self.finish_log();
        end.and(logged).map(|()| self.monitor.report())
    }

    /// Moves packets until `stop` is set.
    fn move_packets(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        // Without the privilege the emulation is as good as the host is idle; its lateness says how good that is.
        let has_priority = priority::run_first().is_ok();
        let (start, cpu_start) = (clock::now(), clock::thread_cpu_time());
        let (mut next_housekeeping, mut next_change, mut is_readable) = (start, start, [true; 2]);
        let (mut now, mut looks_again) = (start, false);
        loop {
            if now >= self.restart {
                self.restart()?;
                next_housekeeping = now;
            }
            if now >= next_housekeeping {
                self.restart = self.monitor.take_restart().unwrap_or(self.restart);
                (next_housekeeping, next_change) = (now + HOUSEKEEPING, self.next_change(now));
                let ports = self.inspect_ports();
                self.publish(has_priority, now.since(start), clock::thread_cpu_time() - cpu_start);
                ports?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            } else if now >= next_change {
                // A modem must report a change when it happens; the counters, which are many, need not follow.
                next_change = self.next_change(now);
                self.monitor.follow(&self.directions);
            }
            for (index, is_readable) in is_readable.into_iter().enumerate() {
                if is_readable {
                    self.receive(index);
                }
            }
            let looked = std::mem::replace(&mut now, clock::now());
            // Of frames that came while the process was held up, the links have to know before time gets on.
            looks_again = !looks_again && now.since(looked) > HELD_UP;
            if looks_again {
                is_readable = [true; 2];
                continue;
            }
            depart(now, &mut self.directions, &self.ports, &mut self.pool);
            self.write_log();
            (now, is_readable) = self.wait(next_housekeeping.min(next_change).min(self.restart))?;
        }
    }

    /// Has both directions begin again at the time that was asked for.
    fn restart(&mut self) -> Result<(), Error> {
        let start = std::mem::replace(&mut self.restart, Instant::FAR_FUTURE);
        for ((direction, path), name) in self.directions.iter_mut().zip(&self.paths).zip(["up", "down"]) {
            direction.restart(start, path).map_err(|error| Error::Config { direction: name, error })?;
        }
        self.monitor.take_samples();
        Ok(())
    }

    /// Receives one batch from port `index`; what is still waiting then has its turn in the next round.
    fn receive(&mut self, index: usize) {
        let Self { ports, directions, pool, batch, .. } = self;
        let before = clock::now();
        let received = ports[index].receive(batch);
        let left = match &received {
            Ok(1..BATCH) => ports[index].take_error().ok().flatten(),
            _ => None,
        };
        // All that had arrived before is in the batch.
        let is_empty_after = left.is_none() && received.as_ref().is_ok_and(|received| *received < BATCH);
        // Otherwise the interface went down; it may come up again. Whether it is gone for good is seen when inspecting it.
        if received.err().or(left).is_some_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            directions[index].count_unsupported();
        }
        // Not the time now: the process may have been held up since, and frames have come meanwhile.
        let now = batch.received_at();
        for received in batch.iter() {
            let is_long =
                received.as_ref().is_some_and(|received| received.offload.gso_type != OffloadHeader::GSO_NONE);
            directions[index].accept(now, received, pool);
            // Cutting a batch of super-packets takes milliseconds: what becomes due meanwhile does not wait for it.
            if is_long {
                depart(clock::now(), directions, ports, pool);
            }
        }
        if is_empty_after {
            directions[index].on_emptied(before);
        }
    }

    /// Waits for the next frame or departure, or until `at_latest`; says when that was, and which ports may have frames.
    fn wait(&mut self, at_latest: Instant) -> Result<(Instant, [bool; 2]), Error> {
        let gather = if self.spin.is_zero() { GATHER } else { GATHER_SPINNING };
        let wake = self.next_departures(gather).map_or(at_latest, |at| at.min(at_latest));
        let start = clock::now();
        let timeout = wake.since(start);
        let spin = if self.rest.is_overdue() { Duration::ZERO } else { self.spin.min(timeout) };
        // When frames came is known afterwards, too: to be woken by each would delay no packet less, only cost more.
        let listens = timeout > gather * 2;
        let mut is_readable = [!listens; 2];
        if listens {
            is_readable = self.poll(timeout - spin)?;
        } else if timeout > spin {
            timer::sleep_until(wake.before(spin));
        }
        let woken = clock::now();
        self.rest.slept(start, woken);
        if woken.since(wake) > LATE {
            // Frames may have come since they were asked for.
            return Ok((woken, [true; 2]));
        }
        let mut now = woken;
        while !spin.is_zero() && now < wake && !(listens && is_readable.contains(&true)) {
            if listens {
                is_readable = self.poll(Duration::ZERO)?;
            }
            now = clock::now();
        }
        Ok((now, is_readable))
    }

    /// When the last packet is due of those that are within `gather` of the first, in both directions.
    fn next_departures(&self, gather: Duration) -> Option<Instant> {
        let first = self.directions.iter().filter_map(Direction::next_timeout).min()?;
        let last = self.directions.iter().filter_map(|direction| direction.last_timeout_by(first + gather)).max();
        Some(last.unwrap_or(first))
    }

    fn poll(&self, timeout: Duration) -> Result<[bool; 2], Error> {
        let mut interests = self.ports.each_ref().map(|port| Interest::readable(port.as_fd()));
        poll::wait(&mut interests, Some(timeout)).map_err(Error::Wait)?;
        Ok(interests.map(|interest| interest.is_ready()))
    }

    fn write_log(&mut self) {
        let Some(log) = &mut self.log else { return };
        let now = clock::now();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            direction.records().into_iter().for_each(|records| log.take(now, index, records));
        }
    }

    fn finish_log(&mut self) -> Result<(), Error> {
        self.directions.iter_mut().for_each(Direction::record_in_transit);
        self.write_log();
        self.log.take().map_or(Ok(()), |log| log.finish().map_err(Error::Log))
    }

    fn inspect_ports(&mut self) -> Result<(), Error> {
        for (port, direction) in self.ports.iter().zip(&mut self.directions) {
            let failed = |error| Error::Interface { interface: port.interface().to_owned(), error };
            direction.count_overruns(port.take_overruns().map_err(failed)?);
            if port.is_interface_gone().map_err(failed)? {
                return Err(failed(io::Error::other("it was removed")));
            }
        }
        follow_mtus(&self.ports, &mut self.directions);
        Ok(())
    }

    /// When a rate changes next, or somewhat later: modems look every few milliseconds, and to follow each change of a rate that changes
    /// all the time would take a whole processor.
    fn next_change(&self, now: Instant) -> Instant {
        let changes = self.directions.iter().filter_map(|direction| Some(direction.rate(now)?.1));
        let next = changes.filter(|change| *change > now).min().unwrap_or(Instant::FAR_FUTURE);
        next.max(now + CHANGE_INTERVAL)
    }

    fn publish(&mut self, has_priority: bool, wall: Duration, cpu: Duration) {
        self.monitor.collect_samples(&mut self.directions);
        self.monitor.publish(Snapshot::take(&self.directions, has_priority, wall, cpu));
    }
}

/// Has both directions know the MTU of the interface that they send to.
fn follow_mtus(ports: &[PacketSocket; 2], directions: &mut [Direction; 2]) {
    for (port, direction) in ports.iter().rev().zip(directions) {
        direction.set_mtu(port.mtu().unwrap_or(0));
    }
}

/// Sends what is due in both directions.
fn depart(now: Instant, directions: &mut [Direction; 2], ports: &[PacketSocket; 2], pool: &mut Pool) {
    for (direction, to) in directions.iter_mut().zip(ports.iter().rev()) {
        direction.depart(now, to, pool);
    }
}
