//! A `bentpipe gateway` process in every gateway of a topology, with keys and settings made for the occasion.

use crate::tell::Teller;
use crate::topology::{LAN_INTERFACE, SATELLITE_INTERFACE};
use crate::{Error, Family, Site, Topology};
use ring::rand::{SecureRandom, SystemRandom};
use satpep::PrivateKey;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;
use units::{Duration, Rate};

/// UDP port of the satellite side.
const PORT: u16 = 4500;

/// What crosses the satellite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SatelliteLeg {
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
    pub leg: SatelliteLeg,
    /// Whether the payload is only authenticated, not encrypted; with the leg `tcp`, neither.
    pub clear: bool,
    /// Show the gateways' logs on stderr instead of keeping them in the directory.
    pub show_logs: bool,
    /// Where they know the link's rates from.
    pub knowledge: Knowledge,
    /// With the leg `tcp`, the congestion control of what goes to the satellite; `None` leaves the kernel's default.
    pub congestion_control: Option<String>,
    /// With the cross-layer one, what may wait at the link; `None` leaves it to the gateway.
    pub queue: Option<Duration>,
    /// How many connections there may be with each peer; `None` leaves it to the gateway.
    pub max_streams: Option<u64>,
}

/// Where gateways know the link's rates from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Knowledge {
    /// From their settings.
    #[default]
    Configured,
    /// They learn while they run.
    Learnt,
    /// Their modems tell at each change.
    Told,
}

/// Running gateways; they end when this is dropped.
pub struct Gateways {
    running: Vec<Gateway>,
    /// Their modems, if those tell them something.
    modems: Option<Teller>,
}

struct Gateway {
    name: String,
    child: Child,
    control: PathBuf,
    log: PathBuf,
}

impl Gateways {
    /// Starts `program` as a gateway in every site of `topology`, told that the satellite carries `rates` (up and
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
        fs::create_dir_all(&options.directory).map_err(|error| file_error(&options.directory, &error))?;
        let hub_key = new_key()?;
        let mut hub_peers = String::new();
        let mut terminals = Vec::new();
        for (index, terminal) in topology.terminals.iter().enumerate() {
            let (name, key) = (format!("terminal-{}", index + 1), new_key()?);
            hub_peers.push_str(&peer_settings(&name, &key, None, Some(terminal), options));
            let call = SocketAddr::new(topology.hub.satellite_address(options.family), PORT);
            let peer = peer_settings("hub", &hub_key, Some(call), None, options);
            terminals.push((name, settings(&key, [up, down], rtt, options) + &peer, terminal));
        }
        let mut gateways = Self { running: Vec::new(), modems: None };
        let hub = settings(&hub_key, [down, up], rtt, options) + &hub_peers;
        gateways.start_one(program, "hub", &hub, &topology.hub, options)?;
        for (name, settings, site) in &terminals {
            gateways.start_one(program, name, settings, site, options)?;
        }
        gateways.wait_for_sessions(rtt, options.leg)?;
        if let (Knowledge::Told, Some(monitor)) = (options.knowledge, topology.satellite_monitor()) {
            let feed = |name: &str| options.directory.join(format!("{name}.feed"));
            let near: Vec<_> = terminals.iter().map(|(name, ..)| feed(name)).collect();
            gateways.modems = Some(Teller::start(monitor, &feed("hub"), &near)?);
        }
        Ok(gateways)
    }

    fn start_one(
        &mut self,
        program: &Path,
        name: &str,
        settings: &str,
        site: &Site,
        options: &GatewayOptions,
    ) -> Result<(), Error> {
        let file = |suffix: &str| options.directory.join(format!("{name}.{suffix}"));
        let (config, control, log) = (file("toml"), file("sock"), file("log"));
        let mut text = format!("{settings}\n[control]\nsocket = \"{}\"\n", control.display());
        if options.knowledge == Knowledge::Told {
            text += &format!("\n[feed]\nsocket = \"{}\"\n", file("feed").display());
        }
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
            .spawn()
            .map_err(|error| Error::failed(format!("cannot start {}: {error}", program.display())))?;
        self.running.push(Gateway { name: name.to_owned(), child, control, log });
        Ok(())
    }

    /// Waits until every session is up, and a while longer for it to learn the size of packets that the link takes: a
    /// measurement is of a session that has settled.
    fn wait_for_sessions(&mut self, rtt: Duration, leg: SatelliteLeg) -> Result<(), Error> {
        let patience = Duration::from_secs(10) + rtt * 20;
        if let Some(late) = self.wait_for(patience, Gateway::is_up)? {
            return Err(Error::failed(format!("gateway {late}: no session after {patience}{}", self.tails())));
        }
        match leg {
            SatelliteLeg::Satpep => {
                self.wait_for(rtt * 10, Gateway::knows_mtu)?;
            }
            // The connections that are kept open ahead of need take their handshake.
            SatelliteLeg::Tcp => thread::sleep((rtt * 2).into()),
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
        let of = |gateway: &Gateway| kernel::process::cpu_time(gateway.child.id());
        self.running.iter().try_fold(Duration::ZERO, |sum, gateway| Ok(sum + of(gateway)?.into()))
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

fn settings(key: &PrivateKey, [sends, receives]: [Rate; 2], rtt: Duration, options: &GatewayOptions) -> String {
    let any = match options.family {
        Family::V4 => "0.0.0.0",
        Family::V6 => "[::]",
    };
    // The other leg knows no such thing, and leaves it to its congestion control.
    let knowledge = match options.knowledge {
        Knowledge::Configured => "",
        Knowledge::Learnt => "knowledge = \"learnt\"\n",
        Knowledge::Told => "knowledge = \"told\"\n",
    };
    let mode = match (options.leg, options.clear) {
        (SatelliteLeg::Satpep, false) => "mode = \"encrypted\"",
        (SatelliteLeg::Satpep, true) => "mode = \"clear\"",
        (SatelliteLeg::Tcp, false) => "leg = \"tcp\"\nmode = \"encrypted\"",
        (SatelliteLeg::Tcp, true) => "leg = \"tcp\"\nmode = \"clear\"\nprotected_hop = true",
    };
    let control = options.congestion_control.as_ref().filter(|_| options.leg == SatelliteLeg::Tcp);
    let max_streams = options.max_streams.map_or(String::new(), |most| format!("max_streams = {most}\n"));
    let queue = options.queue.map_or(String::new(), |queue| format!("queue = \"{}ns\"\n", queue.as_nanos()));
    let control = control.map_or(String::new(), |name| format!("\n[tcp]\ncongestion_control = \"{name}\"\n{queue}"));
    format!(
        r#"[gateway]
private_key = "{}"
listen = "{any}:{PORT}"
{mode}

[link]
interface = "{SATELLITE_INTERFACE}"
rate = "{}bit/s"
receive_rate = "{}bit/s"
{knowledge}{max_streams}rtt = "{}ns"

[intercept]
interfaces = ["{LAN_INTERFACE}"]
{control}"#,
        key.to_base64(),
        sends.as_bps(),
        receives.as_bps(),
        rtt.as_nanos(),
    )
}

/// The settings for a peer with `key`: where to call it, or which site it is that calls.
fn peer_settings(
    name: &str,
    key: &PrivateKey,
    call: Option<SocketAddr>,
    site: Option<&Site>,
    options: &GatewayOptions,
) -> String {
    // The networks of experiments are no public ones.
    let mut text = format!(
        "\n[[peer]]\nname = \"{name}\"\npublic_key = \"{}\"\n\
         allow_destinations = [\"198.18.0.0/15\", \"2001:db8::/32\"]\n",
        key.public_key()
    );
    if let Some(address) = call {
        text.push_str(&format!("address = \"{address}\"\n"));
    }
    if let Some(site) = site {
        let [v4, v6] = site.networks();
        text.push_str(&format!("routes = [\"{v4}\", \"{v6}\"]\n"));
        if options.leg == SatelliteLeg::Tcp {
            let bits = if options.family == Family::V4 { 32 } else { 128 };
            text.push_str(&format!("from = [\"{}/{bits}\"]\n", site.satellite_address(options.family)));
        }
    }
    text
}

fn file_error(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format!("{}: {error}", path.display()))
}
