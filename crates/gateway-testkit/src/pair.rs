//! Two gateways around a link, and what ordinary TCP programs do through them.

use crate::programs::{PATIENCE, assert_reset, patient};
use peering::PrivateKey;
use serde_json::Value;
use sites::{Family, Site};
use socket2::{Domain, SockRef, Socket, Type};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The `tcp` transport, in clear.
pub const CLEAR: &str = "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true";
/// The `tcp` transport, encrypted.
pub const TLS: &str = "transport = \"tcp\"";

/// One of the two ends of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The servers'.
    Hub,
    /// The clients'.
    Terminal,
}

/// Where a gateway runs.
#[derive(Debug)]
pub struct Place<'a> {
    /// Its site.
    pub site: &'a Site,
    /// Its configuration.
    pub config: &'a Path,
    /// Its control socket.
    pub socket: &'a Path,
}

/// How gateways are run: as the library on a thread, or as the program.
pub trait Runner: Default {
    /// A gateway that runs.
    type Running;
    /// Why none does.
    type Error: fmt::Debug + fmt::Display;

    /// Starts a gateway, without waiting for its peers.
    fn start(&self, place: &Place<'_>) -> Result<Self::Running, Self::Error>;

    /// Starts a gateway that takes over from the one that runs there, and waits until it has.
    fn take_over(&self, place: &Place<'_>) -> Result<Self::Running, Self::Error>;

    /// Has it end in order, and waits for that.
    fn stop(running: Self::Running);

    /// Waits until it has ended by itself, in order.
    fn wait_for_end(running: Self::Running);

    /// The test is over.
    fn abandon(running: Self::Running);
}

/// A hub and a terminal, with a client behind the terminal and servers behind the hub. Settings have to be made before a gateway
/// starts.
#[derive(Debug)]
pub struct Pair<R: Runner, N = ()> {
    /// The hub's site and the terminal's.
    sites: [Site; 2],
    /// What is between the sites, if it is more than a wire.
    pub network: N,
    /// How the gateways are run.
    pub runner: R,
    /// Configurations, sockets and logs.
    pub directory: tempfile::TempDir,
    /// The hub's gateway and the terminal's.
    pub running: [Option<R::Running>; 2],
    /// Added to `[gateway]` of the terminal.
    pub terminal_settings: &'static str,
    /// Added to `[link]` of the terminal, and sections of its own after it.
    pub terminal_link: &'static str,
    /// Added to `[link]` of the hub.
    pub hub_link: &'static str,
    /// `listen` of both.
    pub listen: &'static str,
    /// `outage_limit` of both.
    pub outage_limit: &'static str,
    /// Added to `[gateway]` of both.
    pub settings: &'static str,
    /// Added to `[control]` of both.
    pub control_settings: &'static str,
    /// Sections added to both.
    pub sections: &'static str,
    /// What the satellite session runs over.
    pub outside: Family,
    /// Whether the hub has the terminal's address, so that each initiates a session.
    pub hub_initiates: bool,
    /// Whether each has a gateway on its far side.
    pub has_far_gateway: bool,
    /// The terminal's private key; the hub expects it to be `[2; 32]`.
    pub terminal_key: [u8; 32],
}

impl<R: Runner, N: Default> Pair<R, N> {
    /// Sites around a wire, without gateways yet. `None`, said on stderr, where the machine lacks something.
    ///
    /// # Panics
    /// If it lacks something although `BENTPIPE_MUST_RUN` is set.
    pub fn new() -> Option<Self> {
        let wired = || {
            let (hub, terminal) = (Site::new(0, true)?, Site::new(1, true)?);
            sites::wire(&hub, &terminal)?;
            sites::route(&hub, std::slice::from_ref(&terminal))?;
            Ok([hub, terminal])
        };
        match wired() {
            Err(kernel::Error::Missing(what)) => skipped(&what),
            sites => Some(Self::between(sites.unwrap(), N::default())),
        }
    }

    /// Without gateways yet, whose transport will be `tcp` with these `settings`.
    pub fn with_tcp_transport(settings: &'static str) -> Option<Self> {
        let mut pair = Self::new()?;
        // Each has to be up for the other.
        (pair.settings, pair.hub_initiates) = (settings, true);
        for end in [End::Hub, End::Terminal] {
            let allow = || kernel::sysctl::write("net.ipv4.tcp_fastopen", "3");
            pair.site(end).gateway.run(allow).unwrap().unwrap();
        }
        Some(pair)
    }

    /// With both gateways up; `hub_settings` are added to the hub's `[[peer]]`.
    pub fn up(hub_settings: &str) -> Option<Self> {
        Some(Self::new()?.start_both(hub_settings))
    }
}

/// Says that a test is skipped because the machine lacks `what`.
///
/// # Panics
/// If `BENTPIPE_MUST_RUN` is set.
pub fn skipped<T>(what: &str) -> Option<T> {
    assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{what}");
    eprintln!("skipped: {what}");
    None
}

impl<R: Runner, N> Pair<R, N> {
    /// The hub's site and the terminal's across `network`, without gateways yet.
    pub fn between(sites: [Site; 2], network: N) -> Self {
        Self {
            sites,
            network,
            runner: R::default(),
            directory: tempfile::tempdir().unwrap(),
            running: [None, None],
            terminal_settings: "",
            terminal_link: "",
            hub_link: "",
            listen: "[::]:4500",
            outage_limit: "3s",
            settings: "",
            control_settings: "",
            sections: "",
            outside: Family::V4,
            hub_initiates: false,
            has_far_gateway: true,
            terminal_key: [2; 32],
        }
    }

    /// The same with both gateways, once they are up; `hub_settings` are added to the hub's `[[peer]]`.
    pub fn start_both(mut self, hub_settings: &str) -> Self {
        self.start(End::Hub, hub_settings);
        self.start(End::Terminal, "");
        self.wait_until(End::Hub, true);
        self.wait_until(End::Terminal, true);
        self
    }

    /// The site of the clients.
    pub fn client(&self) -> &Site {
        self.site(End::Terminal)
    }

    /// The site of the servers.
    pub fn server(&self) -> &Site {
        self.site(End::Hub)
    }

    /// The site at `end`.
    pub fn site(&self, end: End) -> &Site {
        &self.sites[end as usize]
    }

    /// The control socket of the gateway at `end`.
    pub fn socket(&self, end: End) -> PathBuf {
        self.directory.path().join(format!("{}.sock", end as u8))
    }

    /// The configuration of the gateway at `end`.
    pub fn config(&self, end: End) -> PathBuf {
        self.directory.path().join(format!("{}.toml", end as u8))
    }

    /// Where the gateway at `end` keeps what it remembers. It remembers nothing unless a test creates it.
    pub fn state_directory(&self, end: End) -> PathBuf {
        self.directory.path().join(format!("{}.state", end as u8))
    }

    /// Starts the gateway at `end`; `peer_settings` are added to its `[[peer]]`.
    pub fn start(&mut self, end: End, peer_settings: &str) {
        self.try_start(end, peer_settings).unwrap();
    }

    /// Tries to start the gateway at `end`.
    pub fn try_start(&mut self, end: End, peer_settings: &str) -> Result<(), R::Error> {
        std::fs::write(self.config(end), self.text(end, peer_settings)).unwrap();
        self.running[end as usize] = Some(self.at(end, |place| self.runner.start(place))?);
        Ok(())
    }

    /// What `act` does where the gateway at `end` runs.
    pub fn at<T>(&self, end: End, act: impl FnOnce(&Place<'_>) -> T) -> T {
        act(&Place { site: self.site(end), config: &self.config(end), socket: &self.socket(end) })
    }

    /// The settings of the gateway at `end`.
    fn text(&self, end: End, peer_settings: &str) -> String {
        let [hub, terminal] = [[1; 32], [2; 32]].map(PrivateKey::from_random);
        let own_terminal = PrivateKey::from_random(self.terminal_key);
        let address =
            |site: &Site| format!("address = \"{}\"", SocketAddr::new(site.satellite_address(self.outside), 4500));
        let (settings, link, call, own, other) = match end {
            End::Hub if self.hub_initiates => ("", self.hub_link, address(self.client()), hub, terminal),
            End::Hub => ("", self.hub_link, String::new(), hub, terminal),
            End::Terminal => (self.terminal_settings, self.terminal_link, address(self.server()), own_terminal, hub),
        };
        let peer = match self.has_far_gateway {
            true => format!("public_key = \"{}\"\n{call}", other.public_key()),
            false => "far_gateway = false".to_owned(),
        };
        // The networks of tests are no public ones.
        let named = match peer_settings.contains("allow_destinations") {
            true => "",
            false => "allow_destinations = [\"198.18.0.0/15\", \"203.0.113.0/24\", \"2001:db8::/32\"]\n",
        };
        format!(
            "[gateway]\nprivate_key = \"{}\"\nlisten = \"{}\"\nconnect_timeout = \"3s\"\nstate_directory = \"{}\"\n{settings}\n{}\n\
             [link]\ninterface = \"sat\"\nrate = \"2Gbit/s\"\nrtt = \"20ms\"\noutage_limit = \"{}\"\n{link}\n\
             [intercept]\ninterfaces = [\"lan\"]\n[control]\nsocket = \"{}\"\n{}\n\
             [[peer]]\nname = \"other\"\n{peer}\n{named}{peer_settings}\n{}\n",
            own.to_base64(),
            self.listen,
            self.state_directory(end).display(),
            self.settings,
            self.outage_limit,
            self.socket(end).display(),
            self.control_settings,
            self.sections,
        )
    }

    /// Starts a gateway at `end` that takes over; returns the one before.
    pub fn take_over(&mut self, end: End) -> R::Running {
        let new = self.at(end, |place| self.runner.take_over(place)).unwrap();
        self.running[end as usize].replace(new).unwrap()
    }

    /// Waits until the gateway at `end` has ended by itself, in order.
    pub fn wait_for_end(&mut self, end: End) {
        R::wait_for_end(self.running[end as usize].take().unwrap());
    }

    /// What the gateway at `end` answers to a line on its control socket.
    pub fn control(&self, end: End, question: &str) -> std::io::Result<Value> {
        answer(&self.socket(end), question)
    }

    /// Asserts that a port at which no server listens refuses the client.
    pub fn assert_refused(&self, family: Family) {
        let closed = SocketAddr::new(self.server().host_address(family), 9);
        assert_eq!(self.try_connect(closed).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }

    /// Changes the settings of the gateway at `end` in its file, which it does not know of yet.
    pub fn edit(&self, end: End, change: impl Fn(String) -> String) {
        let text = std::fs::read_to_string(self.config(end)).unwrap();
        std::fs::write(self.config(end), change(text)).unwrap();
    }

    /// Has the gateway at `end` end in order.
    pub fn stop(&mut self, end: End) {
        R::stop(self.running[end as usize].take().unwrap());
    }

    /// The state of the gateway at `end`; null if none answers.
    pub fn status(&self, end: End) -> Value {
        self.control(end, "status").unwrap_or(Value::Null)
    }

    /// Waits until `end`'s peer answers, or does not, and its firewall has followed.
    pub fn wait_until(&self, end: End, up: bool) {
        self.wait_for(|pair| {
            (pair.status(end)["peers"][0]["state"] == "up", pair.sets(end).contains("elements")) == (up, up)
        });
    }

    /// Waits until `what` is so.
    pub fn wait_for(&self, what: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !what(self) {
            assert!(Instant::now() < deadline, "{}\n{}", self.status(End::Hub), self.status(End::Terminal));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The whole answer to a request to `port` of `end`'s own host.
    pub fn http(&self, end: End, port: u16, request: &str, body: &str) -> String {
        self.http_with(end, port, request, "", body)
    }

    /// The same with `headers`, each ended by CRLF.
    pub fn http_with(&self, end: End, port: u16, request: &str, headers: &str, body: &str) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut stream = patient(self.site(end).gateway.run(|| TcpStream::connect(address)).unwrap().unwrap());
        let length = body.len();
        let head =
            format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// What a program prints that runs beside the gateway at `end`.
    pub fn output(&self, end: End, program: &str, arguments: &str) -> String {
        let output = self.site(end).gateway.command(program).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The sets of the firewall of the gateway at `end`.
    pub fn sets(&self, end: End) -> String {
        self.output(end, "nft", "list sets")
    }

    /// Changes the firewall of the gateway at `end`.
    pub fn nft(&self, end: End, rules: &str) {
        let status = self.site(end).gateway.command("nft").arg(rules).status().unwrap();
        assert!(status.success(), "{rules}");
    }

    /// How many connections of the gateway at `end` had this outcome.
    pub fn count(&self, end: End, outcome: &str) -> u64 {
        self.status(end)["connections"][outcome].as_u64().unwrap()
    }

    /// How many connections the terminal has opened so.
    pub fn opened(&self, how: &str) -> u64 {
        self.status(End::Terminal)["satellite"]["tunnels_opened"][how].as_u64().unwrap_or(0)
    }

    /// TCP connections that the hub has rejected for that reason.
    pub fn rejected(&self, reason: &str) -> u64 {
        self.status(End::Hub)["satellite"]["tunnels_rejected"][reason].as_u64().unwrap_or(0)
    }

    /// A server on `port` that handles one connection after the other until the test ends.
    pub fn serve(&self, family: Family, port: u16, handle: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
        let address = SocketAddr::new(self.server().host_address(family), port);
        let listener = self.server().host.run(|| TcpListener::bind(address)).unwrap().unwrap();
        // Where the queue of connections to accept overflows for some seconds, Linux forgets connections that their clients take for
        // established: on a busy machine, the usual 128 are too few.
        SockRef::from(&listener).listen(4_096).unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| handle(patient(stream.unwrap()))));
        address
    }

    /// A connection of the client to `address`.
    pub fn connect(&self, address: SocketAddr) -> TcpStream {
        patient(self.try_connect(address).unwrap())
    }

    /// Connects with packets of this traffic class.
    pub fn connect_marked(&self, address: SocketAddr, traffic_class: u32) -> TcpStream {
        let connect = || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            match address {
                SocketAddr::V4(_) => socket.set_tos_v4(traffic_class)?,
                SocketAddr::V6(_) => socket.set_tclass_v6(traffic_class)?,
            }
            socket.connect_timeout(&address.into(), PATIENCE)?;
            Ok::<_, std::io::Error>(socket.into())
        };
        patient(self.client().host.run(connect).unwrap().unwrap())
    }

    /// Tries to connect the client to `address`.
    pub fn try_connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        self.client().host.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap()
    }

    /// The client's connection to `address` ends with a reset, perhaps before the client has seen it made.
    pub fn assert_reset_at(&self, address: SocketAddr) {
        match self.try_connect(address) {
            Ok(stream) => assert_reset(&mut patient(stream)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

/// What the gateway behind the control socket `path` answers to a line.
pub fn answer(path: &Path, question: &str) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // In one piece: a gateway does not wait for the rest of a question for long.
    stream.write_all(format!("{question}\n").as_bytes())?;
    serde_json::from_reader(stream).map_err(std::io::Error::other)
}

impl<R: Runner, N> Drop for Pair<R, N> {
    fn drop(&mut self) {
        self.running.iter_mut().filter_map(Option::take).for_each(R::abandon);
    }
}
