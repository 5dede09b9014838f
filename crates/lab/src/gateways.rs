//! A `bentpipe gateway` process in every gateway of a topology, with keys and settings made for the occasion.

use crate::reporter::Reporter;
use crate::topology::{LAN_INTERFACE, SATELLITE_INTERFACE};
use crate::{Error, Family, Site, Topology};
use document::{Interval, PositiveRate, Time};
use gateway::config::format::{
    self, Address, ControlName, Interface, Listen, Prefix, Private, Public, ShortName, SocketPath,
};
use ring::rand::{SecureRandom, SystemRandom};
use satpep::{CapacityMode, Mode, PrivateKey};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;
use units::{Duration, Rate};

/// UDP port of the satellite link.
const PORT: u16 = 4500;

/// What crosses the satellite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// The transport over UDP.
    #[default]
    Satpep,
    /// The kernel's own TCP.
    Tcp,
}

/// How the gateways are set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayOptions {
    /// Where keys, settings, logs and control sockets go: a directory that vanishes with the experiment.
    pub directory: PathBuf,
    /// Which Internet Protocol the satellite session uses.
    pub family: Family,
    /// What crosses the satellite.
    pub transport: Transport,
    /// Whether the payload is only authenticated, not encrypted; with the `tcp` transport, neither.
    pub clear: bool,
    /// Show the gateways' logs on stderr instead of keeping them in the directory.
    pub show_logs: bool,
    /// What they do with the link's rates, which the scenario names.
    pub capacity: CapacityMode,
    /// The rates that are configured instead of the link's, up and down, for what the sender knows; nothing of one is `None`.
    pub configured_rates: Option<[Option<Rate>; 2]>,
    /// Whether modems report each change of them.
    pub link_updates: bool,
    /// With the `tcp` transport, the congestion control of what goes to the satellite; `None` leaves the kernel's default.
    pub congestion_control: Option<String>,
    /// With the cross-layer one, what may wait at the link; `None` leaves it to the gateway.
    pub target_queue: Option<Duration>,
    /// How many connections there may be with each peer; `None` leaves it to the gateway.
    pub max_streams: Option<u32>,
    /// Whether they send repair, where the transport has it.
    pub repair: bool,
    /// The threads that carry their packets; `None` leaves it to the gateway.
    pub workers: Option<u8>,
}

/// Running gateways; they end when this is dropped.
pub struct Gateways {
    running: Vec<Gateway>,
    /// Their modems, if those report anything.
    modems: Option<Reporter>,
}

struct Gateway {
    name: String,
    child: Child,
    control: PathBuf,
    log: PathBuf,
}

impl Gateways {
    /// Starts `program` as a gateway in every site of `topology`, configured for a satellite that carries `rates` (up and
    /// down) at round-trip time `rtt`, and waits until every terminal has its session with the hub. Call it from the thread that
    /// lives as long as the gateways are to.
    ///
    /// # Errors
    /// If a gateway does not start or a session does not come up.
    pub fn start(
        program: &Path,
        topology: &Topology,
        [up, down]: [Rate; 2],
        rtt: Duration,
        options: &GatewayOptions,
    ) -> Result<Self, Error> {
        let [known_up, known_down] = options.configured_rates.unwrap_or([Some(up), Some(down)]);
        fs::create_dir_all(&options.directory).map_err(|error| file_error(&options.directory, &error))?;
        let hub_key = new_key()?;
        let mut hub = settings(hub_key.clone(), known_down, up, rtt, options);
        let mut terminals = Vec::new();
        for (index, terminal) in topology.terminals.iter().enumerate() {
            let (name, key) = (format!("terminal-{}", index + 1), new_key()?);
            hub.peer.push(peer_settings(&name, &key, None, Some(terminal), options));
            let reached_at = SocketAddr::new(topology.hub.satellite_address(options.family), PORT);
            let peer = vec![peer_settings("hub", &hub_key, Some(reached_at), None, options)];
            terminals.push((name, format::File { peer, ..settings(key, known_up, down, rtt, options) }, terminal));
        }
        let mut gateways = Self { running: Vec::new(), modems: None };
        gateways.start_one(program, "hub", hub, &topology.hub, options)?;
        let mut near = Vec::new();
        for (name, settings, site) in terminals {
            near.push(options.directory.join(format!("{name}.updates")));
            gateways.start_one(program, &name, settings, site, options)?;
        }
        gateways.wait_for_sessions(rtt, options.transport)?;
        if let Some(monitor) = topology.satellite_monitor().filter(|_| options.link_updates) {
            gateways.modems = Some(Reporter::start(monitor, &options.directory.join("hub.updates"), &near)?);
        }
        Ok(gateways)
    }

    fn start_one(
        &mut self,
        program: &Path,
        name: &str,
        mut settings: format::File,
        site: &Site,
        options: &GatewayOptions,
    ) -> Result<(), Error> {
        let file = |suffix: &str| options.directory.join(format!("{name}.{suffix}"));
        let (config, control, log) = (file("toml"), file("sock"), file("log"));
        let socket = |suffix: &str| Some(SocketPath(file(suffix).display().to_string()));
        settings.control.socket = socket("sock");
        if options.link_updates {
            settings.updates = Some(format::Updates { socket: socket("updates"), ..format::Updates::default() });
        }
        let text = document::to_toml(&settings).map_err(Error::failed)?;
        fs::write(&config, text).map_err(|error| file_error(&config, &error))?;
        let log_file = File::create(&log).map_err(|error| file_error(&log, &error))?;
        let child = site
            .gateway
            .command(program)
            .args(["gateway", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(if options.show_logs { Stdio::inherit() } else { log_file.into() })
            // Ctrl-C is for who measures: it ends the gateways when the measurement is over.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::failed(format!("cannot start {}: {error}", program.display())))?;
        self.running.push(Gateway { name: name.to_owned(), child, control, log });
        Ok(())
    }

    /// Waits until every session is up, and a while longer for it to learn the size of packets that the link takes: a
    /// measurement is of a session that has settled.
    fn wait_for_sessions(&mut self, rtt: Duration, transport: Transport) -> Result<(), Error> {
        let patience = Duration::from_secs(10) + rtt * 20;
        if let Some(late) = self.wait_for(patience, Gateway::is_up)? {
            return Err(Error::failed(format!("gateway {late}: no session after {patience}{}", self.tails())));
        }
        match transport {
            Transport::Satpep => {
                self.wait_for(rtt * 10, Gateway::knows_mtu)?;
            }
            // The connections that are kept open ahead of need take their handshake.
            Transport::Tcp => thread::sleep((rtt * 2).into()),
        }
        Ok(())
    }

    /// Waits until all gateways are `ready`, at most for `patience`; returns the name of one that is not by then.
    fn wait_for(&mut self, patience: Duration, ready: fn(&Gateway) -> bool) -> Result<Option<String>, Error> {
        let deadline = Instant::now() + std::time::Duration::from(patience);
        for index in 0..self.running.len() {
            while !ready(&self.running[index]) {
                self.fail_if_ended()?;
                if Instant::now() > deadline {
                    return Ok(Some(self.running[index].name.clone()));
                }
                thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        Ok(None)
    }

    fn fail_if_ended(&mut self) -> Result<(), Error> {
        for gateway in &mut self.running {
            if let Ok(Some(status)) = gateway.child.try_wait() {
                let message = format!("gateway {} ended ({status}){}", gateway.name, gateway.tail());
                // The gateway's own exit code says what kind of failure it is.
                return Err(if status.code() == Some(3) { Error::Missing(message) } else { Error::Failed(message) });
            }
        }
        Ok(())
    }

    /// Processor time, user and system, that all gateways have used so far.
    ///
    /// # Errors
    /// If one has ended.
    pub fn cpu_time(&self) -> Result<Duration, Error> {
        Ok(self.cpu_times()?.into_iter().fold(Duration::ZERO, |sum, of_one| sum + of_one))
    }

    /// The same of each gateway, the hub's first.
    ///
    /// # Errors
    /// If one has ended.
    pub fn cpu_times(&self) -> Result<Vec<Duration>, Error> {
        let of = |gateway: &Gateway| Ok(kernel::process::cpu_time(gateway.child.id())?.into());
        self.running.iter().map(of).collect()
    }

    /// Processor time that each thread of each gateway has used so far, the hub's first.
    ///
    /// # Errors
    /// If one has ended.
    pub fn thread_times(&self) -> Result<Vec<BTreeMap<u32, Duration>>, Error> {
        let of = |gateway: &Gateway| {
            let times = kernel::process::thread_times(gateway.child.id())?;
            Ok(times.into_iter().map(|(thread, time)| (thread, time.into())).collect())
        };
        self.running.iter().map(of).collect()
    }

    /// How often the threads of all gateways have waited for something so far.
    ///
    /// # Errors
    /// If one has ended.
    pub fn waits(&self) -> Result<u64, Error> {
        let of = |gateway: &Gateway| kernel::process::waits(gateway.child.id());
        self.running.iter().try_fold(0, |sum, gateway| Ok(sum + of(gateway)?))
    }

    /// Bytes of memory that each gateway keeps resident, the hub's first.
    ///
    /// # Errors
    /// If one has ended.
    pub fn resident_memory(&self) -> Result<Vec<u64>, Error> {
        let of = |gateway: &Gateway| Ok(kernel::process::resident_memory(gateway.child.id())?);
        self.running.iter().map(of).collect()
    }

    /// Descriptors that each gateway has open, the hub's first.
    ///
    /// # Errors
    /// If one has ended.
    pub fn descriptors(&self) -> Result<Vec<u64>, Error> {
        self.running.iter().map(|gateway| Ok(kernel::process::open_files(gateway.child.id())?)).collect()
    }

    /// What each gateway says about itself, the hub first.
    ///
    /// # Errors
    /// If one does not answer.
    pub fn status(&self) -> Result<Vec<Value>, Error> {
        let of = |gateway: &Gateway| {
            gateway.status().ok_or_else(|| Error::failed(format!("gateway {} does not answer", gateway.name)))
        };
        self.running.iter().map(of).collect()
    }

    fn tails(&self) -> String {
        self.running.iter().map(Gateway::tail).collect()
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        for gateway in &mut self.running {
            // A gateway that has ended already needs no signal.
            let _ = gateway.child.kill();
            let _ = gateway.child.wait();
        }
    }
}

impl Gateway {
    fn status(&self) -> Option<Value> {
        let mut stream = UnixStream::connect(&self.control).ok()?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).ok()?;
        let mut document = Vec::new();
        stream.read_to_end(&mut document).ok()?;
        serde_json::from_slice(&document).ok()
    }

    fn is_up(&self) -> bool {
        self.all_peers(|peer| peer["state"] == "up")
    }

    /// Whether the session uses the largest packets that the topology's interfaces take.
    fn knows_mtu(&self) -> bool {
        self.all_peers(|peer| peer["mtu"] == 1500)
    }

    fn all_peers(&self, is_so: fn(&Value) -> bool) -> bool {
        self.status().is_some_and(|status| status["peers"].as_array().is_some_and(|peers| peers.iter().all(is_so)))
    }

    /// The last lines of the log, to explain a failure.
    fn tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(3).collect();
        lines.into_iter().rev().map(|line| format!("\n  {}: {line}", self.name)).collect()
    }
}

fn new_key() -> Result<PrivateKey, Error> {
    let mut random = [0; 32];
    SystemRandom::new().fill(&mut random).map_err(|_| Error::Missing("the system has no random numbers".into()))?;
    Ok(PrivateKey::from_random(random))
}

/// The settings of a gateway without peers, whose key is `key`, and which is configured with the rate at which it `sends` at most.
fn settings(
    key: PrivateKey,
    sends: Option<Rate>,
    receives: Rate,
    rtt: Duration,
    options: &GatewayOptions,
) -> format::File {
    let any: IpAddr = match options.family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    let is_tcp = options.transport == Transport::Tcp;
    let gateway = format::Gateway {
        private_key: Some(Private(key)),
        listen: Some(Listen(SocketAddr::new(any, PORT))),
        mode: Some(if options.clear { Mode::Clear } else { Mode::Encrypted }),
        transport: is_tcp.then_some(format::Transport::Tcp),
        secured_externally: (is_tcp && options.clear).then_some(true),
        workers: options.workers.filter(|_| !is_tcp).map(format::WorkersEntry::Number),
        // It does not exist: each experiment begins without what others have measured.
        state_directory: Some(format::Path(options.directory.join("state").display().to_string())),
        ..format::Gateway::default()
    };
    let link = format::Link {
        interface: Some(Interface(SATELLITE_INTERFACE.to_owned())),
        receive_rate: Some(PositiveRate(receives)),
        capacity: (!is_tcp).then_some(options.capacity),
        max_streams: options.max_streams,
        repair: (!is_tcp && !options.repair).then_some(false),
        ..format::Link::new(sends.map(PositiveRate), Interval(rtt))
    };
    let control = options.congestion_control.as_ref().filter(|_| is_tcp);
    let tcp = control.map(|name| format::Tcp {
        congestion_control: Some(ControlName(name.clone())),
        target_queue: options.target_queue.map(Time),
        ..format::Tcp::default()
    });
    let interfaces = Some(vec![Interface(LAN_INTERFACE.to_owned())]);
    let intercept = format::Intercept { interfaces, ..format::Intercept::default() };
    format::File { gateway, tcp, intercept, ..format::File::new(link) }
}

/// The settings for a peer with `key`: where to reach it, or which site it is.
fn peer_settings(
    name: &str,
    key: &PrivateKey,
    reached_at: Option<SocketAddr>,
    site: Option<&Site>,
    options: &GatewayOptions,
) -> format::Peer {
    let prefix = |text: String| Prefix(text.parse().expect("a network of the topology is a prefix"));
    // The networks of experiments are no public ones.
    let allowed = ["198.18.0.0/15", "2001:db8::/32"].map(|text| prefix(text.to_owned()));
    let bits = if options.family == Family::V4 { 32 } else { 128 };
    let from = |site: &Site| vec![prefix(format!("{}/{bits}", site.satellite_address(options.family)))];
    format::Peer {
        public_key: Some(Public(key.public_key())),
        allow_destinations: Some(allowed.into()),
        address: reached_at.map(Address),
        routes: site.map(|site| site.networks().map(|network| prefix(network.to_string())).into()),
        accept_from: site.filter(|_| options.transport == Transport::Tcp).map(from),
        ..format::Peer::new(ShortName(name.to_owned()))
    }
}

fn file_error(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format!("{}: {error}", path.display()))
}
