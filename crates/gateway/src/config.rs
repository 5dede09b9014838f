//! The configuration file: read strictly and as a whole, every fault reported with its line (docs/configuration.md).

mod bypass;
mod class;
mod connection_log;
mod debug;
mod dlep;
mod dscp;
pub mod format;
mod host;
mod link;
mod memory;
mod peer;
#[cfg(test)]
mod refusals;
mod tcp;
mod text;
mod updates;
mod web;
mod workers;

use crate::build::Build;
use crate::rules::{Bypass, Hold, Rules};
use document::Document;
use document::Form;
use ipnet::IpNet;
use kernel::text_file::{self, WRITTEN};
use relay::link_state::PlausibleRange;
use relay::routes::Routes;
use satpep::{Cipher, CrossTrafficPolicy, Mode, PrivateKey, PublicKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Rate};

pub use connection_log::ConnectionLogSettings;
pub use debug::{DebugSettings, QlogSettings};
pub use document::Faults;
pub use dscp::DscpPolicy;
pub use format::Accept;
pub use host::{Named, missing_interfaces, notes};
pub use relay::classes::Class;
pub use satpep::{CapacityMode, RateConfidence};
pub(crate) use tcp::CROSS_LAYER;
pub use tcp::TcpSettings;
pub use updates::UpdateSettings;
pub use web::WebSettings;
pub use workers::Workers;

/// Where gateways keep what they remember, unless that is configured.
const STATE: &str = "/var/lib/bentpipe/gateway";

/// All settings of a gateway, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The file that they were read from, which a reload reads again.
    pub file: Option<PathBuf>,
    /// Names the gateway in logs, its nftables table and its control socket.
    pub name: String,
    /// The user as whom to go on after the start.
    pub user: Option<String>,
    /// Whether system calls and files that a gateway has no use for are denied it.
    pub sandbox: bool,
    /// The gateway's own key.
    pub private_key: PrivateKey,
    /// Where that was read from, unless the settings hold it.
    pub private_key_file: Option<PathBuf>,
    /// The kernel's own TCP as satellite transport; `satpep` if not set.
    pub tcp: Option<TcpSettings>,
    /// Address at which peers reach this gateway: of UDP, or of TCP where that is the transport.
    pub listen: SocketAddr,
    /// Whether the payload is encrypted.
    pub mode: Mode,
    /// The cipher of the session.
    pub cipher: Cipher,
    /// When a client's handshake is completed.
    pub accept: Accept,
    /// How long to try to reach a server.
    pub connect_timeout: Duration,
    /// What the kernel keeps of each connection with a host, in each direction.
    pub host_buffer: Bytes,
    /// Memory for the data of all sessions with peers, half of it for each direction.
    pub memory: Bytes,
    /// Whether `memory` is set. Otherwise it follows from what the process may use, which may have changed when the file is read again.
    pub memory_is_set: bool,
    /// The threads that carry packets.
    pub workers: Workers,
    /// How long TCP may leave data unacknowledged before its host counts as gone.
    pub user_timeout: Duration,
    /// After what idle time a host is probed.
    pub host_keepalive: Duration,
    /// The interfaces that the settings name.
    pub interfaces: Vec<Named>,
    /// The satellite link.
    pub link: Link,
    /// Interception.
    pub rules: Rules,
    /// The peers.
    pub peers: Vec<Peer>,
    /// Which peer (by its place in `peers`) each destination lies behind.
    pub routes: Routes<usize>,
    /// Classes of connections; each belongs to the first that it fits.
    pub classes: Vec<Class>,
    /// Connections that always go end to end.
    pub bypass: Vec<Bypass>,
    /// Where programs report link updates.
    pub updates: UpdateSettings,
    /// The modem that reports them.
    pub dlep: Option<dlep_io::RouterSettings>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The program that runs the gateway, which metrics name. No setting of the file.
    pub build: Build,
    /// Where the page is served.
    pub web: Option<WebSettings>,
    /// Where connections that have ended are logged.
    pub connection_log: Option<ConnectionLogSettings>,
    /// Where is kept what is remembered between runs.
    pub state_directory: PathBuf,
    /// The control socket.
    pub control: PathBuf,
    /// The group that may use it.
    pub control_group: Option<String>,
    /// What is written for debugging.
    pub debug: DebugSettings,
}

/// `[link]`.
#[derive(Debug, Clone)]
pub struct Link {
    /// The interface whose cross traffic is measured.
    pub interface: Option<String>,
    /// Transmit rate, as far as it is known.
    pub rate: Option<Rate>,
    /// How far that is to be trusted.
    pub rate_confidence: RateConfidence,
    /// What is done with it, and with rates that are reported.
    pub capacity: CapacityMode,
    /// What is sent at most: neither the estimate nor a reported rate that is used exceeds it, if it is configured.
    pub ceiling: Option<Rate>,
    /// What room cross traffic is given.
    pub cross_traffic: CrossTrafficPolicy,
    /// Receive rate.
    pub receive_rate: Rate,
    /// The rates that are accepted of link updates.
    pub plausible: PlausibleRange,
    /// Expected round-trip time.
    pub rtt: Duration,
    /// Largest IP packet.
    pub mtu: u16,
    /// DSCP of packets to peers.
    pub dscp: DscpPolicy,
    /// Receive memory for each peer; the transport's default if not set.
    pub receive_memory: Option<Bytes>,
    /// The longest time without traffic after which a peer whose address is configured is asked for a sign of life.
    pub keepalive: Duration,
    /// How long connections survive an outage.
    pub outage_limit: Option<Duration>,
    /// Connections with each peer; the transport's default if not set.
    pub max_streams: Option<u32>,
    /// Whether FEC repair symbols are sent; the transport's default if not set.
    pub repair: Option<bool>,
    /// What repair may take of a full link beyond the share of what is lost; the transport's default if not set.
    pub repair_overhead: Option<f64>,
}

/// `[[peer]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// Its name in logs and tables.
    pub name: String,
    /// Its key, which is its identity. Without one there is no far gateway: the satellite transport runs to the
    /// servers themselves.
    pub public_key: Option<PublicKey>,
    /// Where to reach it.
    pub address: Option<SocketAddr>,
    /// Addresses from which it may connect, with the `tcp` transport; any if there is none.
    pub accept_from: Vec<IpNet>,
    /// What lies behind it.
    pub routes: Vec<IpNet>,
    /// Whether its routes may overlap those of others.
    pub overlap: bool,
    /// Client addresses that it may use here.
    pub allow_sources: Vec<IpNet>,
    /// What it may reach through us.
    pub allow_destinations: Vec<IpNet>,
    /// Whether servers see the client's address, rather than this gateway's.
    pub connect_as_client: bool,
    /// Share of the link against other peers.
    pub weight: u32,
    /// Upper limit for this peer.
    pub cap: Option<Rate>,
}

impl Settings {
    /// What the kernel may keep of a connection with a host, each way.
    pub(crate) fn host_backlog(&self) -> u32 {
        self.host_buffer.as_u64().try_into().unwrap_or(u32::MAX)
    }

    /// The same without the peers that are not to be kept, and without their routes.
    pub(crate) fn retain_peers(&mut self, keep: impl Fn(&Peer) -> bool) {
        let mut kept = 0;
        let places: Vec<Option<usize>> = self
            .peers
            .iter()
            .map(|peer| {
                let place = keep(peer).then_some(kept);
                kept += usize::from(place.is_some());
                place
            })
            .collect();
        self.routes = self.routes.filter_map(|at| places[at]);
        self.peers.retain(keep);
    }
}

impl Peer {
    /// Whether both are settings for one gateway: its key is its identity; without a far gateway, its name.
    pub(crate) fn is_same_gateway(&self, other: &Self) -> bool {
        self.public_key == other.public_key && (self.public_key.is_some() || self.name == other.name)
    }
}

/// The file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It could not be read at all.
    #[error("{path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// What is wrong with it.
    #[error(transparent)]
    Faults(#[from] Faults),
}

/// Reads and checks the configuration in `path`.
///
/// # Errors
/// If the file (or the key file that it names) cannot be read, or with every fault in it.
pub fn load(path: &Path) -> Result<Settings, ConfigError> {
    let text =
        text_file::read(path, WRITTEN).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse_with(&text, &path.display().to_string(), OwnKey::Read).map(|settings| from_file(settings, path))
}

/// Checks the configuration in `path`, which is for another machine: the key's file is there, and not here. Returns what [`notes`] has to say.
///
/// # Errors
/// If the file cannot be read, or with every fault in it.
pub fn check_for_another_machine(path: &Path) -> Result<Vec<String>, ConfigError> {
    let text =
        text_file::read(path, WRITTEN).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse_with(&text, &path.display().to_string(), OwnKey::Elsewhere).map(|settings| notes(&settings))
}

/// Reads the configuration in `path` again for a running gateway, which may no longer be let at its private key: `key` is
/// taken where `key_file`, which has held it, cannot be read for that reason.
///
/// # Errors
/// Those of [`load`], and if a file is not a regular one: a running gateway must not wait for what a pipe may bring.
pub fn load_again(path: &Path, key: &PrivateKey, key_file: Option<&Path>) -> Result<Settings, ConfigError> {
    let text = read_regular(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse_with(&text, &path.display().to_string(), OwnKey::Known(key, key_file))
        .map(|settings| from_file(settings, path))
}

/// The text of the regular file `path`; of no other, which could keep the caller waiting.
fn read_regular(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    // To open a pipe waits for its writer, unless it is opened so.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    text_file::read_from(file, WRITTEN)
}

fn from_file(settings: Settings, path: &Path) -> Settings {
    Settings { file: Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())), ..settings }
}

/// Checks the configuration `text`, called `file` in faults.
///
/// # Errors
/// With every fault in it.
pub fn parse(text: &str, file: &str) -> Result<Settings, ConfigError> {
    parse_with(text, file, OwnKey::Read)
}

/// Where a private key is that the settings do not hold themselves.
#[derive(Debug, Clone, Copy)]
enum OwnKey<'k> {
    /// In its file.
    Read,
    /// There, and this one if the process may not read the file in which it was.
    Known(&'k PrivateKey, Option<&'k Path>),
    /// On another machine.
    Elsewhere,
}

fn parse_with(text: &str, file: &str, key: OwnKey<'_>) -> Result<Settings, ConfigError> {
    let mut document = Document::read(text, file, format::format())?;
    let settings = read(&mut document, key);
    Ok(document.finish(settings)?)
}

/// Seconds.
const HOUR: u64 = 3600;

/// What of the file decides how the rest of it is read.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Whether the satellite transport is `tcp`.
    is_tcp: bool,
    mode: Mode,
    /// Where peers reach this gateway, if that is set.
    listen: Option<SocketAddr>,
}

impl Choice {
    /// What is faulty counts as not set.
    fn read(document: &mut Document<'_>) -> Self {
        let transport: Option<format::Transport> = document.typed(&["gateway", "transport"]);
        let mode = document.typed(&["gateway", "mode"]);
        let listen: Option<text::Listen> = document.typed(&["gateway", "listen"]);
        Self {
            is_tcp: transport == Some(format::Transport::Tcp),
            mode: mode.unwrap_or_default(),
            listen: listen.map(|listen| listen.0),
        }
    }

    /// Reports the settings `keys` of the section at `path`, of which the `tcp` transport knows nothing.
    fn refuse_others(self, document: &mut Document<'_>, path: &[&str], keys: &[&str]) {
        for key in keys.iter().filter(|_| self.is_tcp) {
            let path = [path, &[key]].concat();
            if document.node(&path).is_some() {
                document.fault(&path, " has no effect with transport = \"tcp\"");
            }
        }
    }

    /// Reports settings of the cipher where nothing is encrypted or signed.
    fn refuse_ciphers(self, document: &mut Document<'_>) {
        let is_open = self.is_tcp && self.mode == Mode::Clear;
        for path in [["gateway", "cipher"], ["debug", "key_log"]].iter().filter(|_| is_open) {
            if document.node(path).is_some() {
                document.fault(path, " has no effect with transport = \"tcp\" and mode = \"clear\"");
            }
        }
    }
}

/// Routing tables that every Linux has: default, main and local.
const SYSTEM_TABLES: std::ops::RangeInclusive<u32> = 253..=255;

fn read(document: &mut Document<'_>, key: OwnKey<'_>) -> Option<Settings> {
    let choice = Choice::read(document);
    let gateway: Option<format::Gateway> = document.section("gateway");
    let private_key = gateway.as_ref().and_then(|gateway| private_key(document, gateway, key));
    tcp::check_protection(document, choice);
    choice.refuse_others(document, &["gateway"], &["memory", "workers"]);
    choice.refuse_ciphers(document);
    let link = link::read(document, choice);
    let tcp = tcp::read(document, choice, link.as_ref());
    let updates: Option<UpdateSettings> = updates::read(document);
    let name = gateway.as_ref().and_then(|gateway| gateway.name.as_ref());
    let name = name.map_or_else(|| "bentpipe".to_owned(), |name| name.0.clone());
    let dlep = dlep::read(document, link.as_ref().and_then(|link| link.interface.as_deref()), &name);
    let intercept: Option<format::Intercept> = document.section("intercept");
    if intercept.as_ref().and_then(|intercept| intercept.table).is_some_and(|table| SYSTEM_TABLES.contains(&table)) {
        let problem =
            " is a table of the system (default, main, local), and the gateway empties its own: choose another number";
        document.fault(&["intercept", "table"], problem);
    }
    let own = private_key.as_ref().and_then(|(key, _)| Some(key.as_ref()?.public_key()));
    let peers = peer::read(document, choice, own);
    let memory = memory::read(document, gateway.as_ref(), choice, peers.len());
    let classes = class::read(document, choice);
    let bypass = bypass::read(document);
    let routes = peer::routes(document, &peers);
    let metrics: Option<format::Metrics> = document.section("metrics");
    let web = web::read(document);
    let connection_log = connection_log::read(document);
    let control: Option<format::Control> = document.section("control");
    let debug = debug::read(document, choice);
    let control_path = control.as_ref().map(|control| match &control.socket {
        Some(socket) => PathBuf::from(&socket.0),
        None => control_socket(&name),
    });
    if let (Some(updates), Some(control)) = (&updates, &control_path) {
        updates::check(document, updates, control);
    }

    let (gateway, link, intercept, control) = (gateway?, link?, intercept?, control?);
    let interfaces = host::named(document, &link, &intercept, dlep.as_ref());
    let rates = [link.nominal_rate(), link.receive_rate];
    let rules = rules(&name, &gateway, &link, &intercept);
    let (private_key, private_key_file) = private_key?;
    let time = |time: Option<document::Interval>, default| time.map_or(default, |time| time.0);
    Some(Settings {
        file: None,
        user: gateway.user.map(|user| user.0),
        sandbox: gateway.sandbox.unwrap_or(true),
        private_key: private_key.unwrap_or_else(stand_in),
        private_key_file,
        listen: gateway.listen.map_or_else(|| (unspecified_address(), 4500).into(), |listen| listen.0),
        tcp,
        mode: choice.mode,
        cipher: gateway.cipher.unwrap_or_else(|| default_cipher(choice.is_tcp, kernel::processor::has_aes())),
        accept: gateway.accept.unwrap_or(Accept::Immediate),
        host_buffer: gateway.host_buffer.map_or_else(|| default_host_buffer(rates), |size| size.0),
        interfaces,
        memory,
        memory_is_set: gateway.memory.is_some(),
        workers: gateway.workers.map_or_else(Workers::default, Workers::from),
        connect_timeout: time(gateway.connect_timeout, Duration::from_secs(20)),
        user_timeout: time(gateway.user_timeout, Duration::from_secs(HOUR / 4)),
        host_keepalive: time(gateway.host_keepalive, Duration::from_secs(2 * HOUR)),
        link,
        rules,
        peers,
        routes: routes?,
        classes,
        bypass,
        updates: updates?,
        dlep,
        metrics: metrics?.listen.map(|listen| listen.0),
        build: Build::default(),
        web: web?,
        connection_log: connection_log?,
        state_directory: gateway.state_directory.map_or_else(|| PathBuf::from(STATE), |path| PathBuf::from(path.0)),
        control: control_path?,
        control_group: control.group.map(|group| group.0),
        debug: debug?,
        name,
    })
}

/// What is intercepted, and how.
fn rules(name: &str, gateway: &format::Gateway, link: &Link, intercept: &format::Intercept) -> Rules {
    let names = |list: &Vec<text::Interface>| list.iter().map(|interface| interface.0.clone()).collect();
    let towards = intercept.out_interfaces.as_ref().map(names);
    Rules {
        table: table_name(name),
        interfaces: intercept.interfaces.as_ref().map(names).unwrap_or_default(),
        satellite: link.interface.clone(),
        towards: towards.unwrap_or_else(|| link.interface.clone().into_iter().collect()),
        port: intercept.port.unwrap_or(4501),
        mark: intercept.mark.unwrap_or(0x6270_0000),
        routing_table: intercept.table.unwrap_or(25_200),
        priority: intercept.rule_priority.unwrap_or(10),
        ipv6: kernel::routes::has_ipv6_loopback(),
        hold: (gateway.accept == Some(Accept::Confirmed)).then_some(Hold::Nftables),
    }
}

/// The faster one, if this gateway begins sessions. TLS needs the same at both gateways, which may have different processors.
fn default_cipher(is_tcp: bool, has_aes: bool) -> Cipher {
    if has_aes || is_tcp { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 }
}

/// What the link carries in 100 ms, farther than most hosts are: more of what it cannot take yet would only wait here.
fn default_host_buffer(rates: [Rate; 2]) -> Bytes {
    let [up, down] = rates;
    up.max(down).bytes_in(Duration::from_millis(100)).clamp(Bytes::new(1 << 20), Bytes::new(16 << 20))
}

fn unspecified_address() -> IpAddr {
    if kernel::routes::has_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// The gateway's key, unless that is on another machine, and the file that holds it.
fn private_key(
    document: &mut Document<'_>,
    gateway: &format::Gateway,
    source: OwnKey<'_>,
) -> Option<(Option<PrivateKey>, Option<PathBuf>)> {
    let inline = gateway.private_key.as_ref().map(|key| key.0.clone());
    let file = gateway.private_key_file.as_ref().map(|path| path.0.clone());
    let mut refuse = |problem: &str| document.fault(&["gateway", "private_key_file"], problem);
    match (inline, file) {
        (Some(_), Some(_)) => refuse(" is given beside private_key: one of them is enough"),
        (Some(key), None) => return Some((Some(key), None)),
        (None, Some(path)) if path.parse::<PrivateKey>().is_ok() => {
            refuse(" is a key: expected a path; private_key takes the key itself");
        }
        (None, Some(path)) => match read_key(Path::new(&path), source) {
            Ok(key) => return Some((key, std::path::absolute(path).ok())),
            Err(problem) => refuse(&format!(" = {path:?}: {problem}")),
        },
        (None, None) => refuse(" is missing: expected a path to a key that `bentpipe keygen` has made"),
    }
    None
}

/// The key in the file `path`, unless that is on another machine. A gateway that runs already does not wait for it.
fn read_key(path: &Path, source: OwnKey<'_>) -> Result<Option<PrivateKey>, String> {
    let text = match source {
        OwnKey::Read => text_file::read(path, WRITTEN),
        OwnKey::Known(..) => read_regular(path),
        OwnKey::Elsewhere => return Ok(None),
    };
    match (text, source) {
        (Err(error), OwnKey::Known(key, Some(file)))
            if error.kind() == std::io::ErrorKind::PermissionDenied
                && std::path::absolute(path).is_ok_and(|path| path == file) =>
        {
            Ok(Some(key.clone()))
        }
        (Err(error), _) => Err(error.to_string()),
        (Ok(text), _) => {
            let key = text.trim().parse().map_err(|_| format!("the file does not hold {}", text::Private::EXPECTED))?;
            warn_if_others_read(path);
            Ok(Some(key))
        }
    }
}

/// In the place of a key that is on another machine: such settings are checked, and no gateway has them.
fn stand_in() -> PrivateKey {
    PrivateKey::from_random([0; 32])
}

/// The group may read it: that of the user as whom the gateway runs.
fn warn_if_others_read(key_file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(key_file).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o037 != 0 {
        tracing::warn!(
            "{}: its mode {mode:o} lets others at the private key; chmod 640 is enough for the gateway",
            key_file.display()
        );
    }
}

/// The name of the nftables table of gateway `name`. Names that differ in `-` and `_` alone have the same one.
pub(crate) fn table_name(name: &str) -> String {
    if name == "bentpipe" { name.to_owned() } else { format!("bentpipe_{}", name.replace('-', "_")) }
}

/// Where gateway `name` listens for `bentpipe gateway status` by default.
pub fn control_socket(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/bentpipe/{name}.sock"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use relay::policy::Policy;

    /// The private key of a gateway, and the public key of its peer.
    pub(crate) fn keys() -> (String, String) {
        let [own, peer] = [7, 6].map(|byte| PrivateKey::from_random([byte; 32]));
        (own.to_base64(), peer.public_key().to_string())
    }

    pub(crate) fn minimal() -> String {
        let (private, public) = keys();
        format!(
            "[gateway]\nprivate_key = \"{private}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n[[peer]]\nname = \"hub\"\npublic_key = \"{public}\"\n"
        )
    }

    pub(super) fn faults(text: &str) -> Vec<String> {
        match parse(text, "gateway.toml") {
            Err(ConfigError::Faults(faults)) => faults.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_minimum_is_enough_and_the_rest_has_defaults() {
        let settings = parse(&minimal(), "gateway.toml").unwrap();
        assert_eq!(settings.name, "bentpipe");
        assert_eq!(settings.link.receive_rate, Rate::from_bps(6_000_000));
        assert_eq!(settings.peers[0].routes.len(), 2);
        assert_eq!(settings.peers[0].allow_sources, settings.peers[0].routes);
        assert_eq!(settings.rules.table, "bentpipe");
        assert!(settings.peers[0].connect_as_client);
        assert_eq!(settings.link.keepalive, Duration::from_secs(100));
        assert!(settings.memory.as_u64() >= 1 << 20);
        let often = minimal().replace("[link]", "[link]\nkeepalive = \"5s\"");
        assert_eq!(parse(&often, "gateway.toml").unwrap().link.keepalive, Duration::from_secs(5));
    }

    #[test]
    fn the_cipher_is_what_the_processor_is_fast_at_unless_both_gateways_must_have_the_same() {
        let (aes, other) = (Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305);
        assert_eq!([true, false].map(|has_aes| default_cipher(false, has_aes)), [aes, other]);
        assert_eq!([true, false].map(|has_aes| default_cipher(true, has_aes)), [aes, aes]);
        for (key, expected) in [("aes-128-gcm", aes), ("chacha20-poly1305", other)] {
            let chosen = minimal().replace("[gateway]", &format!("[gateway]\ncipher = \"{key}\""));
            assert_eq!(parse(&chosen, "gateway.toml").unwrap().cipher, expected);
        }
    }

    /// The example of the documentation, with keys.
    fn documented_example() -> String {
        let text = include_str!("../../../docs/configuration.md");
        let example = text.split("```").find_map(|part| part.strip_prefix("toml\n")).unwrap();
        let (private, public) = keys();
        example
            .replace("private_key_file = \"/etc/bentpipe/private.key\"", &format!("private_key = \"{private}\""))
            .replace("public_key = \"base64\"", &format!("public_key = \"{public}\""))
    }

    #[test]
    fn the_documented_example_is_valid() {
        let example = documented_example();
        let settings = parse(&example, "example").unwrap();
        assert_eq!(settings.rules.table, "bentpipe_terminal_1");
        assert_eq!(settings.peers[0].cap, Some(Rate::from_bps(2_000_000)));
        assert_eq!(settings.classes.iter().map(|class| &*class.name).collect::<Vec<_>>(), ["interactive", "backup"]);
    }

    #[test]
    fn the_examples_of_the_packages_are_a_pair_that_serves_what_it_intercepts() {
        let read = |example: &str, placeholder: &str| {
            let (private, public) = keys();
            let example = example
                .replace("private_key_file = \"/etc/bentpipe/private.key\"", &format!("private_key = \"{private}\""))
                .replace(placeholder, &public);
            parse(&example, "example").unwrap()
        };
        let hub = read(include_str!("../../../contrib/examples/hub.toml"), "THE TERMINAL'S PUBLIC KEY");
        let terminal = read(include_str!("../../../contrib/examples/terminal.toml"), "THE HUB'S PUBLIC KEY");
        let [of_terminal, of_hub] = [&hub, &terminal].map(|settings| &settings.peers[0]);
        let policy = Policy::new(&of_hub.allow_sources, &of_hub.allow_destinations, &[]);
        let permitted = policy.reach().destinations;
        let is_served = of_terminal.routes.iter().flat_map(IpNet::hosts).all(|host| permitted.permit(host));
        assert!(hub.rules.interfaces.is_empty() || is_served, "the terminal serves none of what the hub intercepts");
    }

    #[test]
    fn the_documented_example_has_every_section() {
        let example = documented_example();
        let schema = format::json_schema();
        let has =
            |name: &str| example.lines().any(|line| line.trim_start_matches('[').starts_with(&format!("{name}]")));
        let missing: Vec<_> = schema["properties"].as_object().unwrap().keys().filter(|name| !has(name)).collect();
        // The section of the other transport is in docs/transports.md.
        assert_eq!(missing, ["tcp"]);
    }

    #[test]
    fn the_documented_example_of_the_tcp_transport_is_valid() {
        let text = include_str!("../../../docs/transports.md").split("## The `tcp` transport").nth(1).unwrap();
        let example = text.split("```").nth(1).unwrap();
        let (private, public) = keys();
        let example = example
            .replace("transport = \"tcp\"\n", &format!("transport = \"tcp\"\nprivate_key = \"{private}\"\n"))
            .replace("public_key = \"base64\"", &format!("public_key = \"{public}\""))
            + "\n[link]\ninterface = \"sat0\"\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n";
        let settings = parse(&example, "example").unwrap();
        assert_eq!(settings.peers.iter().map(|peer| &*peer.name).collect::<Vec<_>>(), ["hub", "servers"]);
        assert_eq!(settings.tcp.unwrap().congestion_control.as_deref(), Some("bp_cross"));
    }

    #[test]
    fn the_documentation_holds_the_reference_that_the_types_make() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("<!-- reference -->\n").expect("a place for the reference");
        let (written, after) = rest.split_once("<!-- end of the reference -->").expect("an end of the reference");
        let reference = format::reference();
        if std::env::var_os("BENTPIPE_WRITE_DOCS").is_some() {
            let page = format!("{before}<!-- reference -->\n{reference}<!-- end of the reference -->{after}");
            std::fs::write(path, page).unwrap();
        } else {
            assert_eq!(written, reference, "BENTPIPE_WRITE_DOCS=1 cargo test -p bentpipe-gateway config writes it");
        }
    }

    #[test]
    fn every_text_of_the_schema_has_a_form_that_is_read() {
        assert!(format::format().unknown_forms().is_empty(), "{:?}", format::format().unknown_forms());
    }

    #[test]
    fn settings_that_are_written_read_the_same() {
        let example = documented_example();
        let read = |text: &str| {
            let mut document = Document::read(text, "example", format::format()).unwrap();
            let file: Option<format::File> = document.typed(&[]);
            document.finish(file).unwrap()
        };
        let written = document::to_toml(&read(&example)).unwrap();
        assert_eq!(document::to_toml(&read(&written)).unwrap(), written);
        let [one, other] = [&example, &written].map(|text| parse(text, "example").unwrap());
        let plain = |settings: Settings| format!("{:?}", Settings { interfaces: Vec::new(), ..settings });
        assert_eq!(plain(one), plain(other));
    }

    #[test]
    fn every_fault_is_reported_with_line_key_and_what_is_allowed() {
        let text = minimal()
            .replace("rate = \"6Mbit/s\"", "rate = 6\ncross_traffic = \"far\"\nmtu = 100\nrtts = \"1s\"")
            + "weigth = 2\nroutes = [\"10.0.0.0/33\"]\nconnect_from = \"me\"\n[metricks]\n";
        let faults = faults(&text);
        for expected in [
            "gateway.toml:4:8: link.rate = 6: expected a rate of at least 1kbit/s, such as \"6Mbit/s\"",
            "gateway.toml:5:17: link.cross_traffic = \"far\": expected \"subtract\", \"fair\"",
            "gateway.toml:6:7: link.mtu = 100: expected an integer from 576 to 65534",
            "gateway.toml:7:1: link.rtts: unknown key; did you mean rtt?",
            "gateway.toml:12:1: peer.hub.weigth: unknown key; did you mean weight?",
            "gateway.toml:13:11: peer.hub.routes.0 = \"10.0.0.0/33\": expected a prefix such as",
            "gateway.toml:14:16: peer.hub.connect_from = \"me\": expected \"client\", \"gateway\"",
            "gateway.toml:15:2: metricks: unknown key; did you mean metrics?",
        ] {
            assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{expected}\n{faults:#?}");
        }
        assert_eq!(faults.len(), 8, "{faults:#?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let faults = faults("");
        for key in ["gateway.private_key_file", "link.rtt", "[[peer]]"] {
            assert!(faults.iter().any(|fault| fault.contains(key) && fault.contains("missing")), "{key}: {faults:#?}");
        }
    }

    #[test]
    fn contradictions_are_faults() {
        let (private, public) = keys();
        let twice = minimal() + &format!("[[peer]]\nname = \"other\"\npublic_key = \"{public}\"\nroutes = []\n");
        assert!(faults(&twice)[0].contains("same name or public_key"));
        let both = minimal().replace("[link]", "private_key_file = \"/nowhere\"\n[link]");
        assert!(
            faults(&both)[0].starts_with("gateway.toml:3:20: gateway.private_key_file is given beside"),
            "{private}"
        );
        let routes = minimal()
            + "routes = [\"10.0.0.0/8\"]\n[[peer]]\nname = \"b\"\npublic_key = \""
            + &PrivateKey::from_random([8; 32]).public_key().to_string()
            + "\"\nroutes = [\"10.0.0.0/8\"]\n";
        assert!(faults(&routes)[0].starts_with("gateway.toml:13:10: peer.b.routes: 10.0.0.0/8 is claimed twice"));
        let within = routes.replacen("routes = [\"10.0.0.0/8\"]", "routes = [\"10.1.0.0/16\", \"10.2.0.0/16\"]", 1);
        let expected =
            "gateway.toml:13:10: peer.b.routes: 10.1.0.0/16 of hub lies within 10.0.0.0/8 of b: say overlap = true";
        assert!(faults(&within)[0].starts_with(expected), "{:?}", faults(&within));
        assert_eq!(faults(&within).len(), 1);
        assert!(parse(&(within + "overlap = true\n"), "gateway.toml").is_ok());
    }

    #[test]
    fn times_and_sizes_beyond_use_are_refused() {
        for (section, line) in [
            ("[gateway]", "connect_timeout = \"999ms\""),
            ("[gateway]", "connect_timeout = \"2h\""),
            ("[gateway]", "user_timeout = \"0s\""),
            ("[gateway]", "host_keepalive = \"5s\""),
            ("[gateway]", "host_buffer = \"4kB\""),
            ("[gateway]", "host_buffer = \"2GiB\""),
            ("[link]", "outage_limit = \"1s\""),
            ("[gateway]", "memory = \"1kB\""),
            ("[link]", "keepalive = \"500ms\""),
            ("[link]", "keepalive = \"2h\""),
            ("[link]", "receive_memory = \"65GiB\""),
            ("[link]", "receive_memory = \"1kB\""),
            ("[link]", "mtu = 65535"),
            ("[link]", "dscp = 64"),
            ("[link]", "dscp = \"class\""),
            ("[link]", "repair_overhead = 0.51"),
            ("[link]", "repair_overhead = \"2%\""),
        ] {
            let faults = faults(&minimal().replace(section, &format!("{section}\n{line}")));
            assert!(faults[0].contains(line) && faults[0].contains(" from "), "{faults:?}");
            assert_eq!(faults.len(), 1, "{faults:?}");
        }
    }

    #[test]
    fn a_mistyped_private_key_is_not_shown() {
        let (private, _) = keys();
        let mistyped = format!("{}!", &private[..40]);
        let faults = faults(&minimal().replace(&private, &mistyped));
        assert!(faults[0].starts_with("gateway.toml:2:15: gateway.private_key is malformed"), "{faults:?}");
        assert!(faults.iter().all(|fault| !fault.contains(&mistyped[..8])), "{faults:?}");
    }

    #[test]
    fn text_that_could_leave_its_quotes_in_a_rule_is_refused() {
        let text = minimal() + "[intercept]\ninterfaces = [\"lan0\\\" accept\"]\n";
        assert!(faults(&text)[0].contains("interfaces"), "{:?}", faults(&text));
        assert!(faults(&minimal().replace("[gateway]", "[gateway]\nname = \"a; b\""))[0].contains("name"));
    }

    #[test]
    fn who_the_gateway_is_on_its_host_can_be_named() {
        let text = minimal().replace("[gateway]", "[gateway]\nuser = \"relay\"\nsandbox = false")
            + "[control]\ngroup = \"operators\"\n";
        let settings = parse(&text, "gateway.toml").unwrap();
        assert_eq!((settings.user.as_deref(), settings.sandbox), (Some("relay"), false));
        assert_eq!(settings.control_group.as_deref(), Some("operators"));
        let wrong = text.replace("relay", "a b").replace("false", "0").replace("operators", "");
        let faults = faults(&wrong);
        for expected in ["gateway.toml:2:8: gateway.user", "gateway.toml:3:11: gateway.sandbox", "control.group"] {
            assert!(faults.iter().any(|fault| fault.contains(expected)), "{expected}: {faults:?}");
        }
    }

    #[test]
    fn broken_toml_names_its_line() {
        assert!(faults("[gateway\nname = 1\n")[0].starts_with("gateway.toml:1:"));
    }
}
