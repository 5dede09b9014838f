//! Two gateways around a wire, and what ordinary TCP programs do through them.
#![allow(dead_code, reason = "each test program uses a part of it")]

#[path = "../../../gateway/tests/pair/programs.rs"]
mod programs;

pub use programs::{PATIENCE, assert_reset, echo_all, echoes, patient, pattern};

use lab::{Family, Satellite, Site, Topology};
use satpep::PrivateKey;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The `tcp` transport, in clear and encrypted.
pub const CLEAR: &str = "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true";
pub const TLS: &str = "transport = \"tcp\"";

pub struct Pair {
    pub topology: Topology,
    pub directory: tempfile::TempDir,
    /// The hub's gateway and the terminal's.
    pub running: [Option<Child>; 2],
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
    /// What of the log, as a filter, is written as JSON to [`Pair::log`].
    pub logged: Option<&'static str>,
    /// A command that runs the gateways' own: in a place that lacks something.
    pub within: &'static [&'static str],
    /// Variables of the environment of gateways that start from now on.
    pub environment: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Hub,
    Terminal,
}

impl Pair {
    /// Hosts and routers around a wire, without gateways yet.
    pub fn new() -> Option<Self> {
        Self::across(None)
    }

    /// Hosts and routers around a satellite or a wire, without gateways yet.
    pub fn across(satellite: Option<Satellite>) -> Option<Self> {
        let topology = match Topology::new(1, satellite) {
            Err(lab::Error::Missing(what)) => {
                assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{what}");
                eprintln!("skipped: {what}");
                return None;
            }
            other => other.unwrap(),
        };
        Some(Self {
            topology,
            directory: tempfile::tempdir().unwrap(),
            running: [None, None],
            terminal_settings: "",
            terminal_link: "",
            hub_link: "",
            outage_limit: "3s",
            settings: "",
            control_settings: "",
            sections: "",
            outside: Family::V4,
            hub_initiates: false,
            has_far_gateway: true,
            terminal_key: [2; 32],
            logged: None,
            within: &[],
            environment: Vec::new(),
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
        &self.topology.terminals[0]
    }

    pub fn server(&self) -> &Site {
        &self.topology.hub
    }

    pub fn site(&self, end: End) -> &Site {
        if end == End::Hub { self.server() } else { self.client() }
    }

    pub fn socket(&self, end: End) -> std::path::PathBuf {
        self.directory.path().join(format!("{}.sock", end as u8))
    }

    pub fn start(&mut self, end: End, peer_settings: &str) {
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
        let text = format!(
            "[gateway]\nprivate_key = \"{}\"\nlisten = \"[::]:4500\"\nconnect_timeout = \"3s\"\n{settings}\n{}\n\
             [link]\ninterface = \"sat\"\nrate = \"2Gbit/s\"\nrtt = \"20ms\"\noutage_limit = \"{}\"\n{link}\n\
             [intercept]\ninterfaces = [\"lan\"]\n\
             [control]\nsocket = \"{}\"\n{}\n\
             [[peer]]\nname = \"other\"\n{peer}\n{named}{peer_settings}\n{}\n",
            own.to_base64(),
            self.settings,
            self.outage_limit,
            self.socket(end).display(),
            self.control_settings,
            self.sections,
        );
        std::fs::write(self.config(end), text).unwrap();
        self.running[end as usize] = Some(self.gateway(end).spawn().unwrap());
    }

    pub fn config(&self, end: End) -> std::path::PathBuf {
        self.directory.path().join(format!("{}.toml", end as u8))
    }

    /// The log of the gateway at `end`.
    pub fn log(&self, end: End) -> std::path::PathBuf {
        self.directory.path().join(format!("{}.log", end as u8))
    }

    /// The gateway's command at `end`, whose settings are there.
    fn gateway(&self, end: End) -> Command {
        let words = [self.within, &[env!("CARGO_BIN_EXE_bentpipe"), "gateway", "--config"]].concat();
        let mut command = self.site(end).gateway.command(words[0]);
        command.args(&words[1..]).arg(self.config(end)).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(filter) = self.logged {
            let log = std::fs::File::create(self.log(end)).unwrap();
            command.args(["--log-format", "json"]).env("BENTPIPE_LOG", filter).stderr(log);
        }
        command
    }

    /// What `bentpipe gateway doctor` says at `end`, whose settings are there: its exit code, and its checks.
    pub fn doctor(&self, end: End) -> (Option<i32>, Vec<Value>) {
        self.doctor_with(end, &[], None)
    }

    /// The same with `options`, and with `path` as the directory of programs.
    pub fn doctor_with(&self, end: End, options: &[&str], path: Option<&str>) -> (Option<i32>, Vec<Value>) {
        let mut command = self.site(end).gateway.command(env!("CARGO_BIN_EXE_bentpipe"));
        command
            .args(["gateway", "doctor", "--json", "--config"])
            .arg(self.config(end))
            .args(options)
            .stdin(Stdio::null());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), document["checks"].as_array().unwrap().clone())
    }

    /// Starts the gateway at `end`, which must end because the machine lacks something; returns what it says of that.
    pub fn refusal(&mut self, end: End) -> String {
        self.start(end, "");
        assert!(self.lacks_something(end), "exit code 3");
        let told = String::from_utf8(self.gateway(end).output().unwrap().stderr).unwrap();
        let lines: Vec<_> = told.lines().filter(|line| line.starts_with("bentpipe: ")).collect();
        assert_eq!(lines.len(), 1, "{told}");
        lines[0].to_owned()
    }

    /// Starts both gateways so that a client is only accepted once its server is. `false` where the machine lacks something.
    pub fn start_confirming(&mut self) -> bool {
        self.terminal_settings = "accept = \"confirmed\"";
        self.start(End::Hub, "");
        self.start(End::Terminal, "");
        if self.lacks_something(End::Terminal) {
            return false;
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

    /// Whether the gateway at `end` has ended because the machine lacks something, rather than come up.
    pub fn lacks_something(&mut self, end: End) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.status(end).is_null() {
            assert!(Instant::now() < deadline);
            if let Some(status) = self.running[end as usize].as_mut().unwrap().try_wait().unwrap() {
                assert_eq!(status.code(), Some(3));
                eprintln!("skipped: see the gateway's last words");
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Changes the settings of the gateway at `end` in its file, which it does not know of yet.
    pub fn edit(&self, end: End, change: impl Fn(String) -> String) {
        let text = std::fs::read_to_string(self.config(end)).unwrap();
        std::fs::write(self.config(end), change(text)).unwrap();
    }

    /// What `bentpipe gateway` says when it is asked with `words` of the gateway at `end`: exit code, stdout and stderr.
    pub fn ask(&self, end: End, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        let output = command.arg("gateway").args(words).arg("--socket").arg(self.socket(end)).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Sends a signal to the gateway at `end`, by its number.
    pub fn signal(&self, end: End, signal: &str) {
        let child = self.running[end as usize].as_ref().unwrap();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    }

    /// Waits until the gateway at `end` has ended by itself, in order.
    pub fn wait_for_end(&mut self, end: End) {
        let deadline = Instant::now() + PATIENCE;
        let mut child = self.running[end as usize].take().unwrap();
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return assert!(status.success(), "{status}"),
                None if Instant::now() > deadline => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    panic!("the gateway does not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Starts a new process at `end` that takes over, and waits until it answers; returns the old one.
    pub fn take_over(&mut self, end: End) -> Child {
        let mut command = self.gateway(end);
        let new = command.arg("--take-over").spawn().unwrap();
        let pid = new.id();
        let old = self.running[end as usize].replace(new).unwrap();
        self.wait_for(|pair| pair.status(end)["pid"] == pid);
        old
    }

    /// Starts a process at `end` that does not succeed in taking over; returns what it says.
    pub fn fails_to_take_over(&self, end: End) -> String {
        let output = self.gateway(end).arg("--take-over").output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// SIGTERM, and wait for the end.
    pub fn stop(&mut self, end: End) {
        let mut child = self.running[end as usize].take().unwrap();
        // By its number: the child has not been waited for, so that nobody else can have it.
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// SIGKILL.
    pub fn kill(&mut self, end: End) {
        let mut child = self.running[end as usize].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn status(&self, end: End) -> Value {
        gateway::status(&self.socket(end)).unwrap_or(Value::Null)
    }

    /// Waits until `end`'s peer answers, or does not, and its firewall has followed.
    pub fn wait_until(&self, end: End, up: bool) {
        let deadline = Instant::now() + PATIENCE;
        while (self.status(end)["peers"][0]["state"] == "up", self.sets(end).contains("elements")) != (up, up) {
            assert!(Instant::now() < deadline, "never {up}: {}", self.status(end));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The whole answer to a request to `port` of `end`'s own host.
    pub fn http(&self, end: End, port: u16, request: &str, body: &str) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut stream = patient(self.site(end).gateway.run(|| TcpStream::connect(address)).unwrap().unwrap());
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub fn sets(&self, end: End) -> String {
        let list = self.site(end).gateway.command("nft").args(["list", "sets"]).output().unwrap();
        String::from_utf8(list.stdout).unwrap()
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

    pub fn wait_for(&self, what: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !what(self) {
            assert!(Instant::now() < deadline, "{}\n{}", self.status(End::Hub), self.status(End::Terminal));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Changes the firewall of the gateway at `end`.
    pub fn nft(&self, end: End, rules: &str) {
        let status = self.site(end).gateway.command("nft").arg(rules).status().unwrap();
        assert!(status.success(), "{rules}");
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

impl Drop for Pair {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// A connection of each Internet Protocol goes through both gateways.
pub fn relays_both_families(pair: &Pair) {
    for family in [Family::V4, Family::V6] {
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), &pattern(1, 100_000));
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "connected")), (2, 2));
}

/// One reader that stops holds up its own writer, nobody else, and loses nothing; the gateways keep little for it.
pub fn stalls_alone(pair: &Pair) {
    const LENGTH: usize = 200_000_000;
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let (report, total) = std::sync::mpsc::channel();
    let stalled = pair.serve(Family::V4, 7, move |mut stream| {
        resumed.recv().unwrap();
        let (mut buffer, mut sum, mut length) = (vec![0; 1 << 20], 0u64, 0);
        while let count @ 1.. = stream.read(&mut buffer).unwrap() {
            sum += buffer[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
            length += count;
        }
        report.send((length, sum)).unwrap();
    });
    let other = pair.serve(Family::V4, 8, echo_all);
    let block = pattern(3, 1_000_000);
    let mut client = pair.connect(stalled);
    let written = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let progress = std::sync::Arc::clone(&written);
    let expected = block.iter().map(|byte| u64::from(*byte)).sum::<u64>() * (LENGTH / block.len()) as u64;
    let writer = std::thread::spawn(move || {
        for _ in 0..LENGTH / block.len() {
            client.write_all(&block).unwrap();
            progress.fetch_add(block.len(), std::sync::atomic::Ordering::Relaxed);
        }
    });
    // The writer comes to a stand, far from the end.
    let now = || written.load(std::sync::atomic::Ordering::Relaxed);
    let deadline = Instant::now() + PATIENCE;
    let mut last = usize::MAX;
    while last != now() {
        assert!(Instant::now() < deadline);
        last = now();
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(last < LENGTH * 9 / 10, "back-pressure reaches the writer: {last}");
    let asked = Instant::now();
    echoes(&mut pair.connect(other), b"not held up");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    for child in pair.running.iter().flatten() {
        let memory = kernel::process::resident_memory(child.id()).unwrap();
        assert!(memory < 128_000_000, "{memory}");
    }
    resume.send(()).unwrap();
    assert_eq!(total.recv_timeout(PATIENCE), Ok((LENGTH, expected)));
    writer.join().unwrap();
}
