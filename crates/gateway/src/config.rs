//! The configuration file: read strictly and as a whole, every fault reported with its line (docs/gateway-config.md).

mod bypass;
mod class;
mod dlep;
mod document;
mod feed;
mod hop;
mod host;
mod marking;
mod memory;

use crate::rules::{Hold, Rules};
use crate::told::FeedSettings;
use document::{Document, Section};
use ipnet::IpNet;
use relay::routes::Routes;
use satpep::{Cipher, Mode, PrivateKey, PublicKey, Share};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Rate};

pub use bypass::Bypass;
pub(crate) use hop::CROSS_LAYER;
pub use hop::Hop;
pub use host::{Named, missing_interfaces};
pub use marking::Marking;
pub use relay::classes::Class;

/// Everything that a gateway is told, checked.
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
    /// The kernel's own TCP as satellite leg; the transport `satpep` if not set.
    pub hop: Option<Hop>,
    /// Address of the satellite side: of UDP, or of TCP where that is the leg.
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
    /// How long TCP may leave data unacknowledged before its host counts as gone.
    pub tcp_timeout: Duration,
    /// After what idle time a host is probed.
    pub host_keepalive: Duration,
    /// The interfaces that the settings name.
    pub interfaces: Vec<Named>,
    /// The satellite link.
    pub link: Link,
    /// Interception.
    pub rules: Rules,
    /// The gateways on the other side.
    pub peers: Vec<Peer>,
    /// Which peer (by its place in `peers`) each destination lies behind.
    pub routes: Routes<usize>,
    /// Classes of connections; each belongs to the first that it fits.
    pub classes: Vec<Class>,
    /// Connections that always go end to end.
    pub bypass: Vec<Bypass>,
    /// Who may tell what the link carries.
    pub feed: FeedSettings,
    /// The modem that tells it.
    pub dlep: Option<dlep_io::RouterSettings>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The control socket.
    pub control: PathBuf,
    /// The group that may use it.
    pub control_group: Option<String>,
}

/// When a client's TCP handshake is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// At once.
    Immediate,
    /// When the server has answered.
    Confirmed,
}

/// `[link]`.
#[derive(Debug, Clone)]
pub struct Link {
    /// The interface whose other traffic is measured.
    pub interface: Option<String>,
    /// What we may send.
    pub rate: Rate,
    /// What `rate` is worth while running.
    pub knowledge: Knowledge,
    /// How the link is shared with its other traffic.
    pub share: Share,
    /// What arrives here.
    pub receive_rate: Rate,
    /// Expected round-trip time.
    pub rtt: Duration,
    /// Largest IP packet.
    pub mtu: u16,
    /// How packets to peers are marked.
    pub dscp: Marking,
    /// Receive memory for each peer; the transport's default if not set.
    pub pool: Option<Bytes>,
    /// The longest time without traffic after which a peer that this gateway calls is asked for a sign of life.
    pub keepalive: Duration,
    /// How long connections survive an outage.
    pub outage_limit: Option<Duration>,
    /// Connections with each peer; the transport's default if not set.
    pub max_streams: Option<u32>,
    /// Whether repair is sent ahead of loss; the transport's default if not set.
    pub repair: Option<bool>,
    /// What repair may take of a full link beyond the share of what is lost; the transport's default if not set.
    pub repair_share: Option<f64>,
}

/// How the gateway knows what the link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// It is configured.
    Configured,
    /// The configured rate is a first guess, and the rest is learnt while running; what is told is a new first guess.
    Learnt,
    /// It is told while running; the configured rate counts while it is not.
    Told,
}

/// `[[peer]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// Its name in logs and tables.
    pub name: String,
    /// Its key, which is its identity. Without one there is no gateway on the far side: the satellite leg runs to the
    /// servers themselves.
    pub public_key: Option<PublicKey>,
    /// Where to call it.
    pub address: Option<SocketAddr>,
    /// Where it calls from; with leg `tcp`, any address if there is none.
    pub from: Vec<IpNet>,
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
    /// Its faults, one line each.
    #[error("{}", .0.join("\n"))]
    Faults(Vec<String>),
}

/// Reads and checks the configuration in `path`.
///
/// # Errors
/// If the file (or the key file that it names) cannot be read, or with every fault in it.
pub fn load(path: &Path) -> Result<Settings, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse_with(&text, &path.display().to_string(), None).map(|settings| from_file(settings, path))
}

/// Reads the configuration in `path` again for a running gateway, which may no longer be let at its private key: `key` is
/// taken where the key's file cannot be read for that reason.
///
/// # Errors
/// Those of [`load`].
pub fn load_again(path: &Path, key: &PrivateKey) -> Result<Settings, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse_with(&text, &path.display().to_string(), Some(key)).map(|settings| from_file(settings, path))
}

fn from_file(settings: Settings, path: &Path) -> Settings {
    Settings { file: Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())), ..settings }
}

/// Checks the configuration `text`, called `file` in faults.
///
/// # Errors
/// With every fault in it.
pub fn parse(text: &str, file: &str) -> Result<Settings, ConfigError> {
    parse_with(text, file, None)
}

fn parse_with(text: &str, file: &str, key: Option<&PrivateKey>) -> Result<Settings, ConfigError> {
    let mut document = Document::new(text, file).map_err(ConfigError::Faults)?;
    let settings = read(&mut document, key);
    document.finish();
    match settings {
        Some(settings) if document.faults().is_empty() => Ok(settings),
        _ => Err(ConfigError::Faults(document.into_faults())),
    }
}

/// Less than the two minutes for which NATs keep a mapping that follow RFC 4787.
const KEEPALIVE: Duration = Duration::from_secs(100);

/// Seconds.
const HOUR: u64 = 3600;

/// Whether a duration lies between so many seconds.
fn within(least: u64, most: u64) -> impl Fn(&Duration) -> bool {
    move |duration| (Duration::from_secs(least)..=Duration::from_secs(most)).contains(duration)
}

const KNOWLEDGE: [(&str, Knowledge); 3] =
    [("configured", Knowledge::Configured), ("learnt", Knowledge::Learnt), ("told", Knowledge::Told)];

const SECTIONS: &[&str] =
    &["gateway", "link", "tcp", "intercept", "bypass", "peer", "class", "feed", "dlep", "metrics", "control"];

fn read(document: &mut Document<'_>, key: Option<&PrivateKey>) -> Option<Settings> {
    document.expect_sections(SECTIONS);

    let mut gateway = document.section("gateway");
    let name = gateway.text("name", "letters, digits, - and _, at most 32", valid_name).unwrap_or("bentpipe".into());
    let private_key = private_key(&mut gateway, key);
    let account = "a name of at most 32 letters, digits, - and _";
    let user = gateway.text("user", account, valid_name);
    let sandbox = gateway.flag("sandbox").unwrap_or(true);
    let listen = gateway.parsed("listen", "an address and port such as \"[::]:4500\"");
    let modes = [("encrypted", Mode::Encrypted), ("clear", Mode::Clear)];
    let mode = gateway.choice("mode", &modes).unwrap_or(Mode::Encrypted);
    let is_tcp = hop::is_chosen(&mut gateway, mode);
    let ciphers = [("chacha20-poly1305", Cipher::ChaCha20Poly1305), ("aes-128-gcm", Cipher::Aes128Gcm)];
    let cipher = gateway.choice("cipher", &ciphers);
    let accepts = [("immediate", Accept::Immediate), ("confirmed", Accept::Confirmed)];
    let accept = gateway.choice("accept", &accepts);
    let connect_timeout =
        gateway.checked("connect_timeout", "a duration from 1s to 1h, such as \"20s\"", within(1, HOUR));
    let host_buffer = gateway.checked("host_buffer", "a size from 64KiB to 1GiB, such as \"2MiB\"", |size: &Bytes| {
        (64 << 10..=1 << 30).contains(&size.as_u64())
    });
    let (memory, memory_line) = memory::read(&mut gateway, is_tcp);
    let tcp_timeout =
        gateway.checked("tcp_timeout", "a duration from 1s to 24h, such as \"180s\"", within(1, 24 * HOUR));
    let host_keepalive =
        gateway.checked("host_keepalive", "a duration from 10s to 24h, such as \"2h\"", within(10, 24 * HOUR));
    gateway.end(document);

    let (link, [knowledge_line, interface_line]) = read_link(document, is_tcp);
    let hop = hop::read(document, is_tcp, link.as_ref());
    let rates = link.as_ref().map_or([Rate::default(); 2], |link| [link.rate, link.receive_rate]);
    let [feed_line, dlep_line] = ["feed", "dlep"].map(|name| document.line_of_section(name));
    let feed = feed::read(document, rates);
    let dlep = dlep::read(document, link.as_ref().and_then(|link| link.interface.as_deref()), &name);
    match link.as_ref().map(|link| link.knowledge) {
        Some(Knowledge::Told) if !feed.is_used() && dlep_line == 0 => document.fault(
            knowledge_line,
            "[link] knowledge = \"told\" needs somebody who tells: [dlep], or [feed] socket or http".into(),
        ),
        Some(Knowledge::Configured) if feed.is_used() || dlep_line > 0 => {
            let (name, line) = if feed.is_used() { ("feed", feed_line) } else { ("dlep", dlep_line) };
            let allowed = "expected \"told\" or \"learnt\"";
            document.fault(line, format!("[{name}] has no effect with [link] knowledge = \"configured\": {allowed}"));
        }
        _ => {}
    }

    let mut intercept = document.section("intercept");
    let [line, towards_line] = ["interfaces", "out_interfaces"].map(|key| intercept.line_of_key(key));
    let interfaces = intercept.texts("interfaces", "interface names", valid_interface).unwrap_or_default();
    let towards = intercept.texts("out_interfaces", "interface names", valid_interface);
    let port = intercept.integer("port", 1..=65_535);
    let mark = intercept.integer("mark", 1..=u64::from(u32::MAX - 16));
    let routing_table = intercept.integer("table", 1..=252_000_000);
    let priority = intercept.integer("rule_priority", 1..=32_765);
    intercept.end(document);

    let (peers, lines) = read_peers(document, is_tcp.then_some(mode));
    if !is_tcp {
        memory::refuse_too_little(document, memory_line, memory, peers.len());
    }
    let classes = class::read(document, is_tcp);
    let bypass = bypass::read(document);

    let mut metrics = document.section("metrics");
    let metrics_listen = metrics.parsed("listen", "an address and port such as \"127.0.0.1:9090\"");
    metrics.end(document);
    let mut control = document.section("control");
    let socket = control.text("socket", "a path of at most 100 bytes", |path| !path.is_empty() && path.len() <= 100);
    let control_group = control.text("group", account, valid_name);
    control.end(document);

    let routes = peers.iter().enumerate().flat_map(|(at, peer)| peer.routes.iter().map(move |prefix| (*prefix, at)));
    let routes = match Routes::new(routes) {
        Ok(routes) => routes,
        Err(duplicate) => {
            let claims = |peer: &Peer| peer.routes.iter().any(|prefix| prefix.trunc() == duplicate.prefix);
            let line = peers.iter().rposition(claims).map_or(0, |last| lines[last]);
            document.fault(line, format!("[[peer]] routes: {duplicate}; each prefix leads to one peer"));
            return None;
        }
    };
    refuse_overlaps(document, &peers, &lines, &routes);
    let link = link?;
    let named = |key, line| move |name: &String| Named { key, line, name: name.clone() };
    let all = link.interface.iter().map(named("[link] interface", interface_line));
    let all = all.chain(interfaces.iter().map(named("[intercept] interfaces", line)));
    let out = towards.iter().flatten().map(named("[intercept] out_interfaces", towards_line));
    let all = all.chain(out).collect();
    let rules = Rules {
        table: table_name(&name),
        interfaces,
        satellite: link.interface.clone(),
        towards: towards.unwrap_or_else(|| link.interface.clone().into_iter().collect()),
        port: port.unwrap_or(4501) as u16,
        mark: mark.unwrap_or(0x6270_0000) as u32,
        routing_table: routing_table.unwrap_or(25_200) as u32,
        priority: priority.unwrap_or(25_200) as u32,
        ipv6: kernel::routes::has_ipv6_loopback(),
        hold: (accept == Some(Accept::Confirmed)).then_some(Hold::Nftables),
    };
    let (private_key, private_key_file) = private_key?;
    Some(Settings {
        file: None,
        user,
        sandbox,
        private_key,
        private_key_file,
        listen: listen.unwrap_or_else(|| (unspecified_address(), 4500).into()),
        hop,
        mode,
        cipher: cipher.unwrap_or(Cipher::Aes128Gcm),
        accept: accept.unwrap_or(Accept::Immediate),
        host_buffer: host_buffer.unwrap_or_else(|| default_host_buffer(rates)),
        interfaces: all,
        memory,
        connect_timeout: connect_timeout.unwrap_or(Duration::from_secs(20)),
        tcp_timeout: tcp_timeout.unwrap_or(Duration::from_secs(HOUR / 4)),
        host_keepalive: host_keepalive.unwrap_or(Duration::from_secs(2 * HOUR)),
        link,
        rules,
        peers,
        routes,
        classes,
        bypass,
        feed,
        dlep,
        metrics: metrics_listen,
        control: socket.map_or_else(|| control_socket(&name), PathBuf::from),
        control_group,
        name,
    })
}

/// Of peers whose routes overlap, one has to say that it is meant: by default the routes are also the addresses that the peer's clients
/// may have.
fn refuse_overlaps(document: &mut Document<'_>, peers: &[Peer], lines: &[usize], routes: &Routes<usize>) {
    let mut told = Vec::new();
    for overlap in routes.overlaps() {
        let ((inner, one), (outer, other)) = (overlap.inner, overlap.outer);
        let pair = (one.min(other), one.max(other));
        if peers[one].overlap || peers[other].overlap || told.contains(&pair) {
            continue;
        }
        told.push(pair);
        let (one_name, other_name) = (&peers[one].name, &peers[other].name);
        document.fault(
            lines[one.max(other)],
            format!(
                "[[peer]] routes: {inner} of {one_name} lies within {outer} of {other_name}: say overlap = true at one of them if \
                 the longer prefix is to win"
            ),
        );
    }
}

/// What the link carries in 100 ms, farther than most hosts are: more of what it cannot take yet would only wait here.
fn default_host_buffer(rates: [Rate; 2]) -> Bytes {
    let [up, down] = rates;
    up.max(down).bytes_in(Duration::from_millis(100)).clamp(Bytes::new(1 << 20), Bytes::new(16 << 20))
}

fn unspecified_address() -> IpAddr {
    if kernel::routes::has_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// The link, and the lines of its `knowledge` and `interface`; `is_tcp` says which leg it is.
fn read_link(document: &mut Document<'_>, is_tcp: bool) -> (Option<Link>, [usize; 2]) {
    let mut section = document.section("link");
    let positive = |rate: &Rate| rate.as_bps() >= 1000;
    let rate: Option<Rate> = section.required("rate", "a rate of at least 1kbit/s, such as \"6Mbit/s\"", positive);
    let receive_rate = section.checked("receive_rate", "a rate of at least 1kbit/s, such as \"6Mbit/s\"", positive);
    let rtt = section.required("rtt", "a duration from 10us to 1min, such as \"550ms\"", |rtt: &Duration| {
        (Duration::from_micros(10)..=Duration::from_secs(60)).contains(rtt)
    });
    let link = Link {
        interface: section.text("interface", "an interface name", valid_interface),
        rate: rate.unwrap_or_default(),
        knowledge: section.choice("knowledge", &KNOWLEDGE).unwrap_or(Knowledge::Configured),
        share: section.choice("share", &[("assigned", Share::Assigned), ("fair", Share::Fair)]).unwrap_or_default(),
        receive_rate: receive_rate.or(rate).unwrap_or_default(),
        rtt: rtt.unwrap_or_default(),
        mtu: section.integer("mtu", 576..=65_534).unwrap_or(1500) as u16,
        dscp: section
            .parsed_or_number(
                "dscp",
                "\"copy\", or a code point from 0 to 63 or its name, such as 26, \"af31\", \"cs1\"",
            )
            .unwrap_or_default(),
        pool: section.checked("pool", "a size from 64KiB to 64GiB, such as \"4MB\"", |pool: &Bytes| {
            (64 << 10..=64 << 30).contains(&pool.as_u64())
        }),
        keepalive: section
            .checked("keepalive", "a duration from 1s to 1h, such as \"100s\"", within(1, HOUR))
            .unwrap_or(KEEPALIVE),
        outage_limit: section.checked(
            "outage_limit",
            "a duration from 2s to 24h, such as \"60s\"",
            within(2, 24 * HOUR),
        ),
        max_streams: section.integer("max_streams", 1..=1_000_000).map(|n| n as u32),
        repair: section.flag("repair"),
        repair_share: section.number("repair_share", 0.0..=0.5),
    };
    if is_tcp {
        hop::refuse_others(&mut section, &["share", "mtu", "pool", "repair", "repair_share"]);
        if link.knowledge == Knowledge::Learnt {
            section.refuse("knowledge", "= \"learnt\" has no effect with leg = \"tcp\": its congestion control learns");
        }
    }
    let lines = ["knowledge", "interface"].map(|key| section.line_of_key(key));
    section.end(document);
    (rate.and(rtt).map(|_| link), lines)
}

/// The peers, and for each the line of its routes; with leg `tcp`, in `tcp` mode.
fn read_peers(document: &mut Document<'_>, tcp: Option<Mode>) -> (Vec<Peer>, Vec<usize>) {
    let sections = document.sections("peer");
    if sections.is_empty() {
        document.fault(0, "[[peer]] is missing: a gateway needs at least one peer".into());
    }
    let mut peers: Vec<Peer> = Vec::new();
    let mut lines = Vec::new();
    for mut section in sections {
        let prefixes = "a list of prefixes such as [\"10.0.0.0/8\"]";
        let everything = || vec![IpNet::default(), IpNet::V6(ipnet::Ipv6Net::default())];
        let name: Option<String> =
            section.required("name", "letters, digits, - and _, at most 32", |n: &String| valid_name(n));
        let has_gateway = tcp.is_none() || section.flag("far_gateway").unwrap_or(true);
        let public_key = read_public_key(&mut section, has_gateway);
        let address: Option<SocketAddr> =
            section.parsed("address", "an address and port such as \"198.51.100.1:4500\"");
        let from = read_from(&mut section, tcp.filter(|_| has_gateway), address);
        let routes = section.list("routes", prefixes).unwrap_or_else(everything);
        let overlap = section.flag("overlap").unwrap_or(false);
        let allow_sources = section.list("allow_sources", prefixes).unwrap_or_else(|| routes.clone());
        let allow_destinations = section.list("allow_destinations", prefixes).unwrap_or_else(everything);
        let connect_as_client = section.choice("connect_from", &[("client", true), ("own", false)]).unwrap_or(true);
        let weight = section.integer("weight", 1..=1000).unwrap_or(1) as u32;
        let cap =
            section.checked("cap", "a rate of at least 1kbit/s, such as \"2Mbit/s\"", |r: &Rate| r.as_bps() >= 1000);
        if tcp.is_some() {
            hop::refuse_others(&mut section, &["weight", "cap"]);
        }
        let (line, routes_line) = (section.line(), section.line_of_key("routes"));
        section.end(document);
        let (Some(name), true) = (name, public_key.is_some() || !has_gateway) else { continue };
        let same_key = |peer: &Peer| public_key.is_some() && peer.public_key == public_key;
        if peers.iter().any(|peer| peer.name == name || same_key(peer)) {
            document.fault(line, format!("[[peer]] {name}: another peer has the same name or public_key"));
        }
        let weight = weight.max(1);
        lines.push(routes_line);
        peers.push(Peer {
            name,
            public_key,
            address,
            from,
            routes,
            overlap,
            allow_sources,
            allow_destinations,
            connect_as_client,
            weight,
            cap,
        });
    }
    (peers, lines)
}

fn read_public_key(peer: &mut Section<'_>, has_gateway: bool) -> Option<PublicKey> {
    let key = "a public key in base64, as `bentpipe keygen --public` prints it";
    if has_gateway {
        return peer.required("public_key", key, |_| true);
    }
    if peer.parsed::<PublicKey>("public_key", key).is_some() {
        peer.refuse("public_key", "is given, and far_gateway = false: it is the key of a far gateway");
    }
    None
}

/// Where the peer's gateway calls from: with leg `tcp` in clear, some address must be known.
fn read_from(peer: &mut Section<'_>, tcp: Option<Mode>, address: Option<SocketAddr>) -> Vec<IpNet> {
    let Some(mode) = tcp else { return Vec::new() };
    let allowed = "a list of prefixes such as [\"192.0.2.2/32\"]";
    let from: Option<Vec<IpNet>> = peer.list("from", allowed);
    match (from, address) {
        (Some(from), _) => from,
        (None, Some(address)) if mode == Mode::Clear => vec![address.ip().into()],
        (None, None) if mode == Mode::Clear => {
            peer.missing("from", &format!("with mode = \"clear\" and no address, {allowed}"));
            Vec::new()
        }
        (None, _) => Vec::new(),
    }
}

/// The gateway's key, and the file that holds it; `known` if it is in a file that this process may not read.
fn private_key(gateway: &mut Section<'_>, known: Option<&PrivateKey>) -> Option<(PrivateKey, Option<PathBuf>)> {
    let allowed = "a private key in base64, as `bentpipe keygen` prints it";
    let inline: Option<PrivateKey> = gateway.secret("private_key", allowed);
    let file: Option<String> = gateway.text("private_key_file", "a path", |path| !path.is_empty());
    match (inline, file) {
        (Some(_), Some(_)) => gateway.refuse("private_key_file", "is given beside private_key: one of them is enough"),
        (Some(key), None) => return Some((key, None)),
        (None, Some(path)) => match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && known.is_some() => {
                return known.map(|key| (key.clone(), std::path::absolute(path).ok()));
            }
            Err(error) => gateway.refuse("private_key_file", &format!("{path}: {error}")),
            Ok(text) => match text.trim().parse() {
                Ok(key) => {
                    warn_if_others_read(&path);
                    return Some((key, std::path::absolute(path).ok()));
                }
                Err(_) => gateway.refuse("private_key_file", &format!("{path} does not hold {allowed}")),
            },
        },
        (None, None) if gateway.has("private_key") || gateway.has("private_key_file") => {}
        (None, None) => gateway.missing("private_key_file", "a path to a key that `bentpipe keygen` has made"),
    }
    None
}

/// The group may read it: that of the user as whom the gateway runs.
fn warn_if_others_read(key_file: &str) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(key_file).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o037 != 0 {
        tracing::warn!(
            "{key_file}: its mode {mode:o} lets others at the private key; chmod 640 is enough for the gateway"
        );
    }
}

/// The name of the nftables table of gateway `name`.
fn table_name(name: &str) -> String {
    if name == "bentpipe" { name.to_owned() } else { format!("bentpipe_{}", name.replace('-', "_")) }
}

/// Where gateway `name` listens for `bentpipe gateway status`, unless told otherwise.
pub fn control_socket(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/bentpipe/{name}.sock"))
}

fn valid_name(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Linux takes almost any byte in an interface's name; those that could end a quoted string in a rule are refused.
fn valid_interface(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@' | b':');
    (1..=15).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> (String, String) {
        let key = PrivateKey::from_random([7; 32]);
        (key.to_base64(), key.public_key().to_string())
    }

    pub(super) fn minimal() -> String {
        let (private, public) = keys();
        format!(
            "[gateway]\nprivate_key = \"{private}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n[[peer]]\nname = \"hub\"\npublic_key = \"{public}\"\n"
        )
    }

    pub(super) fn faults(text: &str) -> Vec<String> {
        match parse(text, "gateway.toml") {
            Err(ConfigError::Faults(faults)) => faults,
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
    fn the_documented_example_is_valid() {
        let text = include_str!("../../../docs/gateway-config.md");
        let example = text.split("```").find_map(|part| part.strip_prefix("toml\n")).unwrap();
        let (private, public) = keys();
        let example = example
            .replace("private_key_file = \"/etc/bentpipe/private.key\"", &format!("private_key = \"{private}\""))
            .replace("public_key = \"base64\"", &format!("public_key = \"{public}\""));
        let settings = parse(&example, "example").unwrap();
        assert_eq!(settings.rules.table, "bentpipe_terminal_1");
        assert_eq!(settings.peers[0].cap, Some(Rate::from_bps(2_000_000)));
        assert_eq!(settings.classes.iter().map(|class| &*class.name).collect::<Vec<_>>(), ["interactive", "backup"]);
    }

    #[test]
    fn the_documented_example_of_the_leg_tcp_is_valid() {
        let text = include_str!("../../../docs/gateway-config.md").split("## The leg `tcp`").nth(1).unwrap();
        let example = text.split("```").nth(1).unwrap();
        let (private, public) = keys();
        let example = example
            .replace("leg = \"tcp\"\n", &format!("leg = \"tcp\"\nprivate_key = \"{private}\"\n"))
            .replace("public_key = \"base64\"", &format!("public_key = \"{public}\""))
            + "\n[link]\ninterface = \"sat0\"\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n";
        let settings = parse(&example, "example").unwrap();
        assert_eq!(settings.peers.iter().map(|peer| &*peer.name).collect::<Vec<_>>(), ["hub", "servers"]);
        assert_eq!(settings.hop.unwrap().congestion_control.as_deref(), Some("bp_cross"));
    }

    #[test]
    fn every_fault_is_reported_with_line_key_and_what_is_allowed() {
        let text = minimal().replace("rate = \"6Mbit/s\"", "rate = 6\nshare = \"far\"\nmtu = 100\nrtts = \"1s\"")
            + "weigth = 2\nroutes = [\"10.0.0.0/33\"]\nconnect_from = \"me\"\n[metricks]\n";
        let faults = faults(&text);
        for expected in [
            "gateway.toml:4: [link] rate = 6: expected a rate of at least 1kbit/s, such as \"6Mbit/s\"",
            "gateway.toml:5: [link] share = \"far\": expected \"assigned\" or \"fair\"",
            "gateway.toml:6: [link] mtu = 100: expected an integer from 576 to 65534",
            "gateway.toml:7: [link] rtts: unknown key; did you mean rtt?",
            "gateway.toml:12: [[peer]] weigth: unknown key; did you mean weight?",
            "gateway.toml:13: [[peer]] routes = \"10.0.0.0/33\": expected a list of prefixes",
            "gateway.toml:14: [[peer]] connect_from = \"me\": expected \"client\" or \"own\"",
            "gateway.toml:15: [metricks]: unknown section; did you mean metrics?",
        ] {
            assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{expected}\n{faults:#?}");
        }
        assert_eq!(faults.len(), 8, "{faults:#?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let faults = faults("");
        for key in ["private_key_file", "[link] rate", "[link] rtt", "[[peer]]"] {
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
            faults(&both)[0].starts_with("gateway.toml:3: [gateway] private_key_file is given beside"),
            "{private}"
        );
        let routes = minimal()
            + "routes = [\"10.0.0.0/8\"]\n[[peer]]\nname = \"b\"\npublic_key = \""
            + &PrivateKey::from_random([8; 32]).public_key().to_string()
            + "\"\nroutes = [\"10.0.0.0/8\"]\n";
        assert!(faults(&routes)[0].starts_with("gateway.toml:13: [[peer]] routes: 10.0.0.0/8 is claimed twice"));
        let within = routes.replacen("routes = [\"10.0.0.0/8\"]", "routes = [\"10.1.0.0/16\", \"10.2.0.0/16\"]", 1);
        let expected =
            "gateway.toml:13: [[peer]] routes: 10.1.0.0/16 of hub lies within 10.0.0.0/8 of b: say overlap = true";
        assert!(faults(&within)[0].starts_with(expected), "{:?}", faults(&within));
        assert_eq!(faults(&within).len(), 1);
        assert!(parse(&(within + "overlap = true\n"), "gateway.toml").is_ok());
    }

    #[test]
    fn times_and_sizes_beyond_use_are_refused() {
        for (section, line) in [
            ("[gateway]", "connect_timeout = \"999ms\""),
            ("[gateway]", "connect_timeout = \"2h\""),
            ("[gateway]", "tcp_timeout = \"0s\""),
            ("[gateway]", "host_keepalive = \"5s\""),
            ("[gateway]", "host_buffer = \"4kB\""),
            ("[gateway]", "host_buffer = \"2GiB\""),
            ("[link]", "outage_limit = \"1s\""),
            ("[gateway]", "memory = \"1kB\""),
            ("[link]", "keepalive = \"500ms\""),
            ("[link]", "keepalive = \"2h\""),
            ("[link]", "pool = \"65GiB\""),
            ("[link]", "pool = \"1kB\""),
            ("[link]", "mtu = 65535"),
            ("[link]", "dscp = 64"),
            ("[link]", "dscp = \"class\""),
            ("[link]", "repair_share = 0.51"),
            ("[link]", "repair_share = \"2%\""),
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
        assert!(faults[0].starts_with("gateway.toml:2: [gateway] private_key is malformed"), "{faults:?}");
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
        for expected in ["gateway.toml:2: [gateway] user", "gateway.toml:3: [gateway] sandbox", "[control] group"] {
            assert!(faults.iter().any(|fault| fault.contains(expected)), "{expected}: {faults:?}");
        }
    }

    #[test]
    fn broken_toml_names_its_line() {
        assert!(faults("[gateway\nname = 1\n")[0].starts_with("gateway.toml:1: "));
    }
}
