//! Two gateways around a wire, each on a thread inside its own network namespace, and what ordinary TCP programs do through them.

mod programs;
mod sites;

pub use programs::{PATIENCE, assert_reset, echo_all, echoes, patient, pattern};
pub use sites::{Family, Site};

use gateway::config::Settings;
use gateway::{Gateway, Handle, StartError};
use satpep::PrivateKey;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The `tcp` transport, in clear and encrypted.
pub const CLEAR: &str = "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true";
pub const TLS: &str = "transport = \"tcp\"";

/// A gateway that runs, until it is dropped.
pub struct Running {
    pub handle: Handle,
    thread: Option<JoinHandle<Option<std::io::Result<()>>>>,
}

impl Running {
    /// Waits until it has ended by itself, in order.
    pub fn wait_for_end(mut self) {
        let thread = self.thread.take().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !thread.is_finished() {
            if Instant::now() > deadline {
                self.thread = Some(thread);
                panic!("the gateway does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        thread.join().unwrap().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.handle.stop();
        let ended = thread.join();
        assert!(std::thread::panicking() || matches!(ended, Ok(Some(Ok(())))), "{ended:?}");
    }
}

pub struct Pair {
    /// The hub's site and the terminal's.
    sites: [Site; 2],
    pub directory: tempfile::TempDir,
    pub running: [Option<Running>; 2],
    /// Added to `[gateway]` of the terminal.
    pub terminal_settings: &'static str,
    /// Added to `[link]` of the terminal, and sections of its own after it.
    pub terminal_link: &'static str,
    /// Added to `[link]` of the hub.
    pub hub_link: &'static str,
    /// `outage_limit` of both.
    pub outage_limit: &'static str,
    /// Added to `[gateway]` of both.
    pub settings: &'static str,
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

#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Hub,
    Terminal,
}

impl Pair {
    /// Hosts and routers around a wire, without gateways yet.
    pub fn new() -> Option<Self> {
        Some(Self {
            sites: sites::wired()?,
            directory: tempfile::tempdir().unwrap(),
            running: [None, None],
            terminal_settings: "",
            terminal_link: "",
            hub_link: "",
            outage_limit: "3s",
            settings: "",
            sections: "",
            outside: Family::V4,
            hub_initiates: false,
            has_far_gateway: true,
            terminal_key: [2; 32],
        })
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

    pub fn start_both(mut self, hub_settings: &str) -> Self {
        self.start(End::Hub, hub_settings);
        self.start(End::Terminal, "");
        self.wait_until(End::Hub, true);
        self.wait_until(End::Terminal, true);
        self
    }

    pub fn client(&self) -> &Site {
        self.site(End::Terminal)
    }

    pub fn server(&self) -> &Site {
        self.site(End::Hub)
    }

    pub fn site(&self, end: End) -> &Site {
        &self.sites[end as usize]
    }

    pub fn socket(&self, end: End) -> PathBuf {
        self.directory.path().join(format!("{}.sock", end as u8))
    }

    pub fn config(&self, end: End) -> PathBuf {
        self.directory.path().join(format!("{}.toml", end as u8))
    }

    pub fn start(&mut self, end: End, peer_settings: &str) {
        self.try_start(end, peer_settings).unwrap();
    }

    pub fn try_start(&mut self, end: End, peer_settings: &str) -> Result<(), StartError> {
        std::fs::write(self.config(end), self.text(end, peer_settings)).unwrap();
        self.running[end as usize] = Some(self.run(end, Gateway::start)?);
        Ok(())
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
            "[gateway]\nprivate_key = \"{}\"\nlisten = \"[::]:4500\"\nconnect_timeout = \"3s\"\n{settings}\n{}\n\
             [link]\ninterface = \"sat\"\nrate = \"2Gbit/s\"\nrtt = \"20ms\"\noutage_limit = \"{}\"\n{link}\n\
             [intercept]\ninterfaces = [\"lan\"]\n[control]\nsocket = \"{}\"\n\
             [[peer]]\nname = \"other\"\n{peer}\n{named}{peer_settings}\n{}\n",
            own.to_base64(),
            self.settings,
            self.outage_limit,
            self.socket(end).display(),
            self.sections,
        )
    }

    /// Runs the gateway that `begin` makes of the file at `end`.
    fn run(
        &self,
        end: End,
        begin: impl FnOnce(Settings) -> Result<Gateway, StartError> + Send + 'static,
    ) -> Result<Running, StartError> {
        self.run_settings(end, gateway::config::load(&self.config(end)).unwrap(), begin)
    }

    /// Runs the gateway that `begin` makes of `settings` at `end`.
    pub fn run_settings(
        &self,
        end: End,
        settings: Settings,
        begin: impl FnOnce(Settings) -> Result<Gateway, StartError> + Send + 'static,
    ) -> Result<Running, StartError> {
        let (report, begun) = mpsc::channel();
        let run = move || {
            let gateway = match begin(settings) {
                Ok(gateway) => gateway,
                Err(error) => {
                    report.send(Err(error)).unwrap();
                    return Ok(());
                }
            };
            report.send(Ok(gateway.handle())).unwrap();
            gateway.run()
        };
        let thread = Some(self.site(end).gateway.spawn("gateway", run).unwrap());
        begun.recv().unwrap().map(|handle| Running { handle, thread })
    }

    /// Starts a gateway at `end` that takes over; returns the one before.
    pub fn take_over(&mut self, end: End) -> Running {
        let new = self.run(end, Gateway::take_over).unwrap();
        self.running[end as usize].replace(new).unwrap()
    }

    /// Why a gateway at `end` cannot take over.
    pub fn fails_to_take_over(&self, end: End) -> String {
        self.run(end, Gateway::take_over).map(drop).unwrap_err().to_string()
    }

    /// Starts both gateways so that a client is only accepted once its server is. `false` where the machine lacks something.
    pub fn start_confirming(&mut self) -> bool {
        self.terminal_settings = "accept = \"confirmed\"";
        self.start(End::Hub, "");
        match self.try_start(End::Terminal, "") {
            Err(error) if error.is_missing() => {
                // Not every kernel has packet queues, and no package brings them.
                eprintln!("skipped: {error}");
                return false;
            }
            started => started.unwrap(),
        }
        self.wait_until(End::Hub, true);
        self.wait_until(End::Terminal, true);
        true
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

    /// What the gateway at `end` answers to the wish to read its file again.
    pub fn reload(&self, end: End) -> gateway::Answer {
        gateway::reload(&self.socket(end)).unwrap()
    }

    /// Has the gateway at `end` read its file again, which changes something that `expected` names.
    pub fn reload_changes(&self, end: End, expected: &str) {
        let answer = self.reload(end);
        assert!(answer.done && answer.changes.iter().any(|change| change.contains(expected)), "{answer:?}");
    }

    /// Has the gateway at `end` drain, `within` a time.
    pub fn drain(&self, end: End, within: Option<units::Duration>) {
        assert!(gateway::drain(&self.socket(end), within).unwrap().done);
    }

    /// Waits until the gateway at `end` has ended by itself, in order.
    pub fn wait_for_end(&mut self, end: End) {
        self.running[end as usize].take().unwrap().wait_for_end();
    }

    pub fn stop(&mut self, end: End) {
        drop(self.running[end as usize].take().unwrap());
    }

    pub fn status(&self, end: End) -> Value {
        gateway::status(&self.socket(end)).unwrap_or(Value::Null)
    }

    /// Waits until `end`'s peer answers, or does not, and its firewall has followed.
    pub fn wait_until(&self, end: End, up: bool) {
        self.wait_for(|pair| {
            (pair.status(end)["peers"][0]["state"] == "up", pair.sets(end).contains("elements")) == (up, up)
        });
    }

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

    pub fn sets(&self, end: End) -> String {
        self.output(end, "nft", "list sets")
    }

    /// Changes the firewall of the gateway at `end`.
    pub fn nft(&self, end: End, rules: &str) {
        let status = self.site(end).gateway.command("nft").arg(rules).status().unwrap();
        assert!(status.success(), "{rules}");
    }

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
        std::thread::spawn(move || listener.incoming().for_each(|stream| handle(patient(stream.unwrap()))));
        address
    }

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

pub fn carries_both_directions(pair: &Pair) {
    for family in [Family::V4, Family::V6] {
        let (up, down) = (pattern(1, 3_000_000), pattern(2, 2_000_000));
        let (sent, answer) = (up.clone(), down.clone());
        let (report, seen) = mpsc::channel();
        let server = pair.serve(family, 7, move |mut stream| {
            let mut received = Vec::new();
            // The client's FIN ends its direction only: the answer is sent after it.
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&answer).unwrap();
            report.send((stream.peer_addr().unwrap(), received == sent)).unwrap();
        });
        let mut client = pair.connect(server);
        client.write_all(&up).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert!(received == down, "{family:?}: {} of {} bytes arrived", received.len(), down.len());
        let (peer, intact) = seen.recv_timeout(PATIENCE).unwrap();
        assert!(intact, "{family:?}: the server received something else");
        assert_eq!(peer, client.local_addr().unwrap(), "the server sees the client's address and port");
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "connected")), (2, 2));
}
