//! The thread that receives link updates.

use super::board::Board;
use super::{LinkState, Source, api, modem};
use crate::config::Settings;
use crate::error::{StartError, while_doing};
use crate::unix;
use dlep_io::RouterSettings;
use kernel::clock;
use relay::link_state::SourceSelector;
use status::{Modem, UpdateCounts};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use units::Duration;

/// Receives link updates and publishes the link state.
#[derive(Debug)]
pub struct LinkUpdates {
    board: Board,
    /// From before anything could be reported: a copy has yet to see what was reported meanwhile.
    state: watch::Receiver<LinkState>,
    modem: Option<modem::Seen>,
    /// None if nothing is configured to report the link.
    thread: Option<Thread>,
    socket: Option<unix::SocketFile>,
}

#[derive(Debug)]
struct Thread {
    stop: oneshot::Sender<()>,
    handle: std::thread::JoinHandle<()>,
}

/// How long the session with the modem may take to end in order.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(200);

impl Drop for LinkUpdates {
    fn drop(&mut self) {
        self.end_thread();
    }
}

/// The link as it is configured.
fn configured(settings: &Settings) -> LinkState {
    let link = &settings.link;
    LinkState {
        rate: link.nominal_rate(),
        rate_is_reported: false,
        receive_rate: link.receive_rate,
        rtt: link.rtt,
        source: Source::Configured,
        since: clock::now(),
    }
}

impl LinkUpdates {
    /// Listens as `settings` say, in the network namespace of the calling thread. `on_change` is called on another thread
    /// after each change of the link state.
    ///
    /// # Errors
    /// If a socket cannot be had.
    pub fn start(settings: &Settings, on_change: impl Fn() + Send + Sync + 'static) -> Result<Self, StartError> {
        let (updates, configured) = (&settings.updates, configured(settings));
        let board =
            Board::new(SourceSelector::new(configured, settings.link.rate_limits()), configured, Box::new(on_change));
        let state = board.subscribe();
        if !updates.is_used() && settings.dlep.is_none() {
            return Ok(Self { board, state, modem: None, thread: None, socket: None });
        }
        let (listener, socket) = match &updates.socket {
            Some(path) => Some(unix::listen(path, None, "[updates] socket")?).unzip(),
            None => (None, None),
        };
        let http = updates
            .http
            .map(|address| TcpListener::bind(address).map_err(while_doing(format!("[updates] http {address}"))))
            .transpose()?;
        let modem = settings.dlep.clone().map(|dlep| (dlep, modem::Seen::default()));
        let seen = modem.as_ref().map(|(_, seen)| seen.clone());
        let services = Services { board: board.clone(), max_validity: updates.max_validity, listener, http, modem };
        Ok(Self { board, state, modem: seen, thread: Some(services.start()?), socket })
    }

    /// Stops listening. The link state stays as it is, as long as the last update is valid: that of the modem without limit.
    pub(crate) fn stop(&mut self) {
        if !self.end_thread() {
            return;
        }
        self.socket = None;
        let board = self.board.clone();
        let keeper = Services { board, max_validity: Duration::ZERO, listener: None, http: None, modem: None };
        match keeper.start() {
            Ok(thread) => self.thread = Some(thread),
            Err(_) => self.board.withdraw(Source::Api),
        }
    }

    /// Ends the thread; whether there was one.
    fn end_thread(&mut self) -> bool {
        let Some(Thread { stop, handle }) = self.thread.take() else { return false };
        // The thread may have ended by itself.
        let _ = stop.send(());
        let _ = handle.join();
        true
    }

    /// Takes over a changed configuration.
    pub fn reconfigure(&self, settings: &Settings) {
        self.board.configure(configured(settings), settings.link.rate_limits());
    }

    /// The link state, now and at each change.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.state.clone()
    }

    /// The session with the modem, if one is to be had.
    pub fn modem(&self) -> Option<Modem> {
        self.modem.as_ref().map(modem::Seen::report)
    }

    /// Outcomes of each source's updates.
    pub fn counts(&self) -> [UpdateCounts; 2] {
        [Source::Api, Source::Dlep].map(|source| {
            let [accepted, rejected] = self.board.counts(source);
            UpdateCounts { source, accepted, rejected }
        })
    }
}

/// What the thread does.
struct Services {
    board: Board,
    max_validity: Duration,
    listener: Option<UnixListener>,
    http: Option<TcpListener>,
    modem: Option<(RouterSettings, modem::Seen)>,
}

impl Services {
    fn start(self) -> Result<Thread, StartError> {
        let doing = || while_doing("starting the thread of [updates] and [dlep]");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(doing())?;
        let (stop, stopped) = oneshot::channel();
        let run = move || runtime.block_on(self.run(stopped));
        let handle = std::thread::Builder::new().name("updates".into()).spawn(run).map_err(doing())?;
        Ok(Thread { stop, handle })
    }

    /// Serves all of them until `stopped`; one that fails leaves the others alone.
    async fn run(self, stopped: oneshot::Receiver<()>) {
        let mut tasks = JoinSet::new();
        let api = api::Api { board: self.board.clone(), max_validity: self.max_validity };
        let failed = |name, result: std::io::Result<()>| {
            result.unwrap_or_else(|error| tracing::error!(%error, "[updates] {name} is no longer served"));
        };
        if let Some(listener) = self.listener {
            let api = api.clone();
            tasks.spawn(async move { failed("socket", api.serve_socket(listener).await) });
        }
        if let Some(listener) = self.http {
            tasks.spawn(async move { failed("http", api.serve_http(listener).await) });
        }
        let keeper = self.board.clone();
        tasks.spawn(async move { keeper.keep().await });
        let (goodbye, until) = watch::channel(());
        let session = self.modem.map(|(dlep, seen)| tokio::spawn(modem::listen(dlep, self.board, seen, until)));
        // However the sender goes.
        let _ = stopped.await;
        drop(goodbye);
        if let Some(session) = session {
            let _ = tokio::time::timeout(FAREWELL, session).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::link_state::LinkState;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::sync::mpsc;

    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

    /// A service at `socket` and `http`, and a message at each change.
    fn service(socket: &Path, http: SocketAddr) -> (LinkUpdates, mpsc::Receiver<()>) {
        let [key, peer] = [7, 6].map(|byte| satpep::PrivateKey::from_random([byte; 32]));
        let text = format!(
            "[gateway]\nprivate_key = \"{}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n\
             [updates]\nsocket = \"{}\"\nhttp = \"{http}\"\n[[peer]]\nname = \"hub\"\npublic_key = \"{}\"\n",
            key.to_base64(),
            socket.display(),
            peer.public_key()
        );
        let (changed, changes) = mpsc::channel();
        let on_change = move || changed.send(()).unwrap_or_default();
        (LinkUpdates::start(&config::parse(&text, "test").unwrap(), on_change).unwrap(), changes)
    }

    fn put(http: SocketAddr, body: &str) -> String {
        ask(http, "PUT", body)
    }

    fn ask(http: SocketAddr, method: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} /link HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn what_was_reported_before_anybody_looked_is_news() {
        let folder = tempfile::tempdir().unwrap();
        let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (updates, changes) = service(&folder.path().join("updates.sock"), http);
        assert!(!updates.state().has_changed().unwrap(), "nothing was reported");
        assert!(put(http, r#"{"rate": "3Mbit/s"}"#).starts_with("HTTP/1.1 200"));
        changes.recv_timeout(PATIENCE).unwrap();
        let mut state = updates.state();
        assert!(state.has_changed().unwrap());
        assert_eq!(bps(&state.borrow_and_update()), (3_000_000, Source::Api));
        assert!(!state.has_changed().unwrap());
    }

    #[test]
    fn the_last_update_of_a_service_that_stops_expires() {
        let folder = tempfile::tempdir().unwrap();
        let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (mut updates, changes) = service(&folder.path().join("updates.sock"), http);
        assert!(put(http, r#"{"rate": "3Mbit/s", "valid_for": "1s"}"#).starts_with("HTTP/1.1 200"));
        changes.recv_timeout(PATIENCE).unwrap();
        updates.stop();
        assert!(TcpStream::connect(http).is_err(), "another process may have the port");
        assert_eq!(bps(&updates.state().borrow()), (3_000_000, Source::Api));
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&updates.state().borrow()), (6_000_000, Source::Configured));
    }

    #[test]
    fn the_last_report_of_the_modem_stays_when_the_service_stops() {
        let Some(host) = kernel::testing::namespace() else { return };
        kernel::network::IpBatch::new(&host).add("link set lo up").run().unwrap();
        let rate = Some(units::Rate::from_bps(4_000_000));
        let latency = Some(Duration::from_millis(275));
        let link = dlep::Metrics {
            max_receive: rate,
            max_transmit: rate,
            receive: rate,
            transmit: rate,
            latency,
            ..dlep::Metrics::default()
        };
        let modem = dlep_io::ModemSettings {
            interface: "lo".into(),
            port: dlep::PORT,
            destination: "02:00:5e:10:00:01".parse().unwrap(),
            session: dlep::Settings { heartbeat: Duration::from_secs(1), name: "modem".into() },
        };
        let modem = host.run(|| dlep_io::Modem::open(modem)).unwrap().unwrap();
        let (_reports, latest) = watch::channel(dlep_io::LinkReport { session: link, link: Some(link) });
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(modem.run(latest)).unwrap();
        };
        let _modem = host.spawn("modem", run).unwrap();

        let text = config::tests::minimal() + "[dlep]\ninterface = \"lo\"\nmodem = \"127.0.0.1\"\n";
        let (changed, changes) = mpsc::channel();
        let on_change = move || changed.send(()).unwrap_or_default();
        let settings = config::parse(&text, "test").unwrap();
        let mut updates = host.run(|| LinkUpdates::start(&settings, on_change)).unwrap().unwrap();
        changes.recv_timeout(PATIENCE).unwrap();
        updates.stop();
        assert_eq!(updates.modem().unwrap().last_end.as_deref(), Some("ended from here: shutting down: stopping"));
        assert_eq!(bps(&updates.board.selected()), (4_000_000, Source::Dlep));
    }

    fn bps(state: &LinkState) -> (u64, Source) {
        (state.rate.as_bps(), state.source)
    }

    #[test]
    fn updates_arrive_by_socket_and_http_and_the_link_falls_back_when_they_expire() {
        let directory = std::env::temp_dir().join(format!("bentpipe-updates-{}", std::process::id()));
        let socket = directory.join("updates.sock");
        let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (updates, changes) = service(&socket, http);
        let state = updates.state();
        assert_eq!(bps(&state.borrow()), (6_000_000, Source::Configured));

        let mut script = UnixStream::connect(&socket).unwrap();
        script.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answers = BufReader::new(script.try_clone().unwrap()).lines();
        let mut say = |line: &str| {
            // At once: a line that is too long ends the conversation.
            script.write_all(format!("{line}\n").as_bytes()).unwrap();
            answers.next().unwrap().unwrap()
        };
        assert!(say(r#"{"rate": "4Mbit/s", "rtt": "600ms"}"#).starts_with(r#"{"link":{"rate_bps":4000000,"#));
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&state.borrow()), (4_000_000, Source::Api));
        assert!(say("nonsense").contains("error"));
        assert_eq!(bps(&state.borrow()), (4_000_000, Source::Api));
        assert!(say(r#"{"rate": "4bit/h"}"#).contains("expected a rate"));
        assert!(say(r#"{"rate": "4Gbit/s"}"#).contains("expected a rate from 60kbit/s to 60Mbit/s"));
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&state.borrow()), (6_000_000, Source::Configured));
        say(r#"{"rate": "5Mbit/s"}"#);
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&state.borrow()), (5_000_000, Source::Api));
        let shown = ask(http, "GET", "");
        assert!(shown.contains(r#"{"link":{"rate_bps":5000000,"#) && shown.contains(r#""source":"api""#), "{shown}");
        say("null");
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&state.borrow()), (6_000_000, Source::Configured));

        let answer = put(http, r#"{"rate": "3Mbit/s", "valid_for": "1s"}"#);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&state.borrow()), (3_000_000, Source::Api));
        changes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(bps(&state.borrow()), (6_000_000, Source::Configured));
        assert!(put(http, "{}").starts_with("HTTP/1.1 422"));
        assert!(put(http, "rate").starts_with("HTTP/1.1 400"));
        assert!(put(http, &"x".repeat(5000)).starts_with("HTTP/1.1 413"));
        let long = "x".repeat(5000);
        assert!(say(&long).contains("longer than 4096 bytes"));

        assert_eq!(updates.counts()[0], UpdateCounts { source: Source::Api, accepted: 3, rejected: 2 });
        drop(updates);
        assert!(!socket.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn each_answer_shows_the_state_after_its_update_however_fast_they_come() {
        with_service(|_, _, http| {
            for rate in 1..=5 {
                let answer = put(http, &format!("{{\"rate\": \"{rate}Mbit/s\"}}"));
                assert!(answer.contains(&format!("\"rate_bps\":{rate}000000,")), "{answer}");
            }
        });
    }

    /// What a gateway with the socket and HTTP of [`service`] does with what `act` says to them.
    fn with_service(act: impl FnOnce(&LinkUpdates, &Path, SocketAddr)) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("updates.sock");
        let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (updates, _changes) = service(&socket, http);
        act(&updates, &socket, http);
    }

    fn counts(updates: &LinkUpdates) -> (u64, u64) {
        let [UpdateCounts { accepted, rejected, .. }, _] = updates.counts();
        (accepted, rejected)
    }

    /// What HTTP answers to `request`, whatever it is.
    fn raw(http: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Its connection may be closed while it still sends.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn http_takes_an_update_only_as_the_whole_body_of_a_put_to_its_path() {
        with_service(|updates, _, http| {
            let update = r#"{"rate": "4Mbit/s"}"#;
            for method in ["POST", "PATCH", "DELETE", "OPTIONS"] {
                let answer = ask(http, method, update);
                assert!(answer.starts_with("HTTP/1.1 405"), "a web page can have a browser send it: {answer}");
                assert!(answer.contains("allow: GET,HEAD,PUT"), "{answer}");
            }
            let put = |path: &str, header: &str, body: &str| {
                raw(
                    http,
                    format!("PUT {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n\r\n{body}").as_bytes(),
                )
            };
            let length = format!("Content-Length: {}", update.len());
            let too_many = format!("1388\r\n{}\r\n0\r\n\r\n", " ".repeat(5000));
            for (status, answer) in [
                (404, put("/", &length, update)),
                (404, put("/link/", &length, update)),
                // No body at all, and a length that is none.
                (400, put("/link", "X: y", "")),
                (400, put("/link", "Content-Length: x", update)),
                // More than is taken, which was not announced.
                (413, put("/link", "Transfer-Encoding: chunked", &too_many)),
                (400, raw(http, b"\x16\x03\x01\x02\x00\r\n\r\n")),
            ] {
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer}");
            }
            let mut half = TcpStream::connect(http).unwrap();
            write!(half, "PUT /link HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{update}").unwrap();
            half.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = half.read_to_end(&mut Vec::new());
            assert_eq!(counts(updates), (0, 0));
            assert_eq!(bps(&updates.state().borrow()), (6_000_000, Source::Configured));
            let chunks = "PUT /link HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
                          a\r\n{\"rate\": \"\r\n9\r\n4Mbit/s\"}\r\n0\r\n\r\n";
            assert!(raw(http, chunks.as_bytes()).starts_with("HTTP/1.1 200"));
            assert_eq!(counts(updates), (1, 0));
        });
    }

    #[test]
    fn a_reporter_that_hangs_up_within_an_update_has_reported_nothing_and_the_others_go_on() {
        with_service(|updates, socket, _| {
            let mut other = UnixStream::connect(socket).unwrap();
            other.set_read_timeout(Some(PATIENCE)).unwrap();
            let halves: [&[u8]; 4] = [b"", b"{\"rate\": \"4Mbi", b"nul", b"\xff\xfe\x00"];
            for half in halves {
                let mut stream = UnixStream::connect(socket).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(half).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert_eq!(answer.lines().count(), usize::from(!half.is_empty()), "{answer}");
                assert!(half.is_empty() || answer.starts_with("{\"error\":\""), "{answer}");
            }
            // Two updates at once are answered one by one, and the later one counts.
            other.write_all(b"{\"rate\": \"4Mbit/s\"}\n{\"rate\": \"5Mbit/s\"}\n").unwrap();
            let answers: Vec<_> = BufReader::new(other).lines().take(2).map(Result::unwrap).collect();
            assert!(answers.iter().all(|answer| answer.starts_with("{\"link\":")), "{answers:?}");
            let is_later = || bps(&updates.state().borrow()) == (5_000_000, Source::Api);
            let wait = || std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(
                (0..2000).any(|_| is_later() || {
                    wait();
                    false
                }),
                "{:?}",
                updates.state().borrow()
            );
            assert_eq!(counts(updates), (2, 0));
        });
    }

    #[test]
    fn reporters_beyond_sixteen_wait_until_one_hangs_up() {
        with_service(|_, socket, _| {
            let connect = || {
                let mut stream = UnixStream::connect(socket).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(b"null\n").unwrap();
                stream
            };
            let answer = |stream: &mut UnixStream| stream.read(&mut [0; 4096]);
            let mut first: Vec<_> = (0..16).map(|_| connect()).collect();
            first.iter_mut().for_each(|stream| assert!(answer(stream).unwrap() > 0));
            let mut next = connect();
            next.set_nonblocking(true).unwrap();
            // One that has a place is answered behind it.
            first[0].write_all(b"null\n").unwrap();
            assert!(answer(&mut first[0]).unwrap() > 0);
            assert_eq!(answer(&mut next).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
            first.pop();
            next.set_nonblocking(false).unwrap();
            assert!(answer(&mut next).unwrap() > 0);
        });
    }
}
