//! What applications write to a connection, and when.

use super::endpoint::Endpoint;
use super::rtt::RttStatistics;
use crate::packet::{CLIENT, SERVER};
use crate::{Application, Distribution, OnOff, RttReport, Transfer};
use units::{Bytes, CounterRandom, Duration, Instant, Rate};

/// Bytes that no simulation gets through. Sums with others stay far below the largest number.
const ENDLESS: u64 = 1 << 60;

/// An application at work: its client and its server.
#[derive(Debug)]
pub(crate) enum App {
    Bulk(Bulk),
    OnOff(Box<Bursts>),
    Web(Box<Web>),
}

/// What an application requests of the agent that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    /// To be woken at a time.
    Wake(Instant),
    /// All is delivered.
    End,
    /// Nothing more will be delivered, though not all is.
    GiveUp,
    /// What is written but not sent is to stay unsent.
    Abort,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Bulk {
    sender: u32,
    size: Option<u64>,
    /// What the sender has not written yet.
    left: u64,
    /// The request after which it begins.
    request: u64,
    /// What of it the client has not written yet.
    unasked: u64,
    has_begun: bool,
}

/// Bursts at a rate, with pauses.
#[derive(Debug)]
pub(crate) struct Bursts {
    rate: Rate,
    on_off: OnOff,
    random: CounterRandom,
    /// What is written at a time.
    chunk: u64,
    burst: Instant,
    burst_ends: Instant,
    /// What the burst has, what of it was to be written until now, and what of that the connection has taken: while it takes less, the
    /// application is blocked.
    bytes: u64,
    due: u64,
    written: u64,
}

/// Requests and responses.
#[derive(Debug)]
pub(crate) struct Web {
    requests: u64,
    request: Distribution<Bytes>,
    response: Distribution<Bytes>,
    think: Distribution<Duration>,
    random: CounterRandom,
    /// Bytes of all requests, and of all responses, until now.
    requested: u64,
    to_respond: u64,
    response_size: u64,
    /// What the client and the server have not written yet.
    left: [u64; 2],
    asked_at: Instant,
    responses: u64,
    has_responded: bool,
    /// A response is under way, or its request.
    is_waiting: bool,
    is_stopped: bool,
    times: RttStatistics,
}

impl App {
    pub(crate) fn new(application: &Application, mss: u32, random: CounterRandom) -> Self {
        match *application {
            Application::Bulk { size, transfer } => App::Bulk(Bulk::new(size, transfer)),
            Application::OnOff { rate, on_off } => App::OnOff(Box::new(Bursts::new(rate, on_off, mss, random))),
            Application::Web { requests, request, response, think } => {
                App::Web(Box::new(Web::new(requests, request, response, think, random)))
            }
        }
    }

    /// The port that sends what the flow counts.
    #[inline]
    pub(crate) fn sender(&self) -> u32 {
        match self {
            App::Bulk(bulk) => bulk.sender,
            App::OnOff(_) => CLIENT,
            App::Web(_) => SERVER,
        }
    }

    /// The port that receives what the flow counts.
    #[inline]
    pub(crate) fn receiver(&self) -> u32 {
        self.sender() ^ 1
    }

    /// The client is about to connect. What it sends first waits for the handshake, except where the SYN carries it.
    pub(crate) fn on_connecting(&mut self, client: &mut impl Endpoint) {
        if let App::Bulk(bulk) = self {
            bulk.on_connecting(client);
        }
    }

    pub(crate) fn on_connected(&mut self, now: Instant, port: u32, end: &mut impl Endpoint) -> Wish {
        match self {
            App::OnOff(bursts) if port == CLIENT => return bursts.write(now, end).map_or(Wish::Nothing, Wish::Wake),
            App::Web(web) if port == CLIENT => web.ask(now, end),
            App::Bulk(_) | App::OnOff(_) | App::Web(_) => {}
        }
        Wish::Nothing
    }

    pub(crate) fn on_writable(&mut self, now: Instant, port: u32, end: &mut impl Endpoint) -> Wish {
        match self {
            App::Bulk(bulk) if port == bulk.sender && bulk.has_begun => bulk.write(end),
            App::Bulk(bulk) if port != bulk.sender => bulk.ask(end),
            App::OnOff(bursts) if port == CLIENT && bursts.is_blocked() => {
                return bursts.go_on(now, end).map_or(Wish::Nothing, Wish::Wake);
            }
            App::Web(web) => web.left[port as usize] -= end.write(web.left[port as usize]),
            App::Bulk(_) | App::OnOff(_) => {}
        }
        Wish::Nothing
    }

    /// `received` bytes in all have come to `port`.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, port: u32, received: u64, end: &mut impl Endpoint) -> Wish {
        match self {
            App::Bulk(bulk) => bulk.on_read(port, received, end),
            App::OnOff(_) => Wish::Nothing,
            App::Web(web) => web.on_read(now, port, received, end),
        }
    }

    /// The client's timer; returns when it is to go off next.
    pub(crate) fn on_timer(&mut self, now: Instant, client: &mut impl Endpoint) -> Instant {
        match self {
            App::Bulk(_) => {}
            App::OnOff(bursts) => return bursts.write(now, client).unwrap_or(Instant::FAR_FUTURE),
            App::Web(web) => web.ask(now, client),
        }
        Instant::FAR_FUTURE
    }

    /// Whether something is under way of which not all is written to `port`.
    pub(crate) fn is_writing(&self, port: u32) -> bool {
        match self {
            App::Bulk(_) | App::OnOff(_) => false,
            App::Web(web) => web.left[port as usize] > 0 || port == SERVER && !web.has_responded,
        }
    }

    /// Nothing more is to be sent.
    pub(crate) fn on_stop(&mut self) -> Wish {
        match self {
            App::Bulk(_) => return Wish::Abort,
            App::OnOff(bursts) => bursts.stop(),
            App::Web(web) => return web.on_stop(),
        }
        Wish::Nothing
    }

    pub(crate) fn responses(&self) -> u64 {
        if let App::Web(web) = self { web.responses } else { 0 }
    }

    /// From request to the response's last byte.
    pub(crate) fn response_times(&self) -> Option<RttReport> {
        if let App::Web(web) = self { web.times.report() } else { None }
    }
}

impl Bulk {
    fn new(size: Option<Bytes>, transfer: Transfer) -> Self {
        let (sender, request) = match transfer {
            Transfer::Upload => (CLIENT, 0),
            Transfer::Download { request } => (SERVER, request.as_u64()),
        };
        let size = size.map(Bytes::as_u64);
        Self { sender, size, left: size.unwrap_or(ENDLESS), request, unasked: request, has_begun: false }
    }

    fn on_connecting(&mut self, client: &mut impl Endpoint) {
        if self.sender == CLIENT {
            self.has_begun = true;
            self.write(client);
        } else {
            self.ask(client);
        }
    }

    /// Writes what there is room for of the request.
    fn ask(&mut self, client: &mut impl Endpoint) {
        self.unasked -= client.write(self.unasked);
    }

    fn write(&mut self, end: &mut impl Endpoint) {
        self.left -= end.write(self.left);
        if self.left == 0 {
            end.finish();
        }
    }

    fn on_read(&mut self, port: u32, received: u64, end: &mut impl Endpoint) -> Wish {
        if port == self.sender {
            if received >= self.request && !self.has_begun {
                self.has_begun = true;
                self.write(end);
            }
            return Wish::Nothing;
        }
        if self.size == Some(received) { Wish::End } else { Wish::Nothing }
    }
}

impl Bursts {
    fn new(rate: Rate, on_off: OnOff, mss: u32, random: CounterRandom) -> Self {
        let zero = Instant::ZERO;
        // The first burst begins where one of no bytes has ended.
        let (bytes, due, written) = (0, 0, 0);
        Self { rate, on_off, random, chunk: u64::from(mss), burst: zero, burst_ends: zero, bytes, due, written }
    }

    fn begin(&mut self, now: Instant) {
        let on = self.on_off.on.sample(&mut self.random);
        (self.burst, self.burst_ends) = (now, now + on);
        // Also a burst of no length has a byte, and takes its time.
        self.bytes = self.rate.bytes_in(on).as_u64().max(1);
        (self.due, self.written) = (0, 0);
    }

    /// Writes one chunk, or what is left of the burst; returns when the next is to be written, unless the application is blocked.
    fn write(&mut self, now: Instant, client: &mut impl Endpoint) -> Option<Instant> {
        if self.written == self.bytes {
            self.begin(now);
        }
        self.due += self.chunk.min(self.bytes - self.due);
        self.go_on(now, client)
    }

    fn is_blocked(&self) -> bool {
        self.written < self.due
    }

    /// Writes what the connection has not taken of the last chunk; returns as [`Bursts::write`].
    fn go_on(&mut self, now: Instant, client: &mut impl Endpoint) -> Option<Instant> {
        self.written += client.write(self.due - self.written);
        if self.is_blocked() {
            return None;
        }
        let next = self.burst + self.rate.time_to_send(Bytes::new(self.written));
        if self.written < self.bytes {
            return Some(next.max(now));
        }
        // A burst whose application was blocked ends when all is written.
        let ends = self.burst_ends.max(now);
        Some((ends + self.on_off.off.sample(&mut self.random)).max(next))
    }

    /// Gives up what the connection has not taken.
    fn stop(&mut self) {
        self.due = self.written;
    }
}

impl Web {
    fn new(
        requests: Option<u64>,
        request: Distribution<Bytes>,
        response: Distribution<Bytes>,
        think: Distribution<Duration>,
        random: CounterRandom,
    ) -> Self {
        Self {
            requests: requests.unwrap_or(u64::MAX),
            request,
            response,
            think,
            random,
            requested: 0,
            to_respond: 0,
            response_size: 0,
            left: [0; 2],
            asked_at: Instant::ZERO,
            responses: 0,
            has_responded: true,
            is_waiting: false,
            is_stopped: false,
            times: RttStatistics::default(),
        }
    }

    /// The client's next request, and what the server will answer.
    fn ask(&mut self, now: Instant, client: &mut impl Endpoint) {
        if self.is_stopped || !self.has_responded {
            return;
        }
        let counted = |bytes: Bytes| bytes.as_u64().clamp(1, ENDLESS);
        let request = counted(self.request.sample(&mut self.random));
        self.response_size = counted(self.response.sample(&mut self.random));
        self.requested += request;
        self.to_respond += self.response_size;
        self.asked_at = now;
        (self.has_responded, self.is_waiting) = (false, true);
        self.left[CLIENT as usize] = request - client.write(request);
    }

    /// No more requests; the response under way, if any, still comes.
    fn on_stop(&mut self) -> Wish {
        self.is_stopped = true;
        if self.is_waiting { Wish::Nothing } else { Wish::GiveUp }
    }

    fn on_read(&mut self, now: Instant, port: u32, received: u64, end: &mut impl Endpoint) -> Wish {
        if port == SERVER {
            if received == self.requested && !std::mem::replace(&mut self.has_responded, true) {
                self.left[SERVER as usize] = self.response_size - end.write(self.response_size);
            }
            return Wish::Nothing;
        }
        if received < self.to_respond {
            return Wish::Nothing;
        }
        self.responses += 1;
        self.is_waiting = false;
        self.times.add(now.since(self.asked_at));
        if self.responses == self.requests {
            end.finish();
            return Wish::End;
        }
        if self.is_stopped {
            return Wish::GiveUp;
        }
        Wish::Wake(now + self.think.sample(&mut self.random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A log-normal draw of a large deviation may be the largest number.
    #[test]
    fn a_response_of_the_largest_size_never_ends() {
        let constant = |bytes| Distribution::Constant(Bytes::new(bytes));
        let think = Distribution::Constant(Duration::ZERO);
        let mut web = Web::new(None, constant(100), constant(1_000), think, CounterRandom::new(1, 0));
        let config = tcp::Config::new(tcp::Profile::Rfc);
        let mut client = tcp::Connection::connect(Arc::new(config), Instant::ZERO);
        web.ask(Instant::ZERO, &mut client);
        web.has_responded = true;
        let woken = Wish::Wake(Instant::ZERO);
        assert_eq!(web.on_read(Instant::ZERO, CLIENT, 1_000, &mut client), woken);
        (web.request, web.response) = (constant(u64::MAX), constant(u64::MAX));
        web.ask(Instant::ZERO, &mut client);
        assert_eq!(web.on_read(Instant::ZERO, CLIENT, 1_000_000, &mut client), Wish::Nothing);
        assert_eq!(web.responses, 1);
    }
}
