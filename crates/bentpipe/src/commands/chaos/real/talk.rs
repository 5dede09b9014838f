//! A transfer between two ordinary sockets: both directions at the same time, every byte checked.

use chaos::{Dice, pattern};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

/// Longer than any fault: who waits longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The same past the gateways: a host that has sent something again a few times in vain waits for up to two minutes (RFC 6298,
/// 5.5; Linux's `TCP_RTO_MAX`).
const PATIENCE_END_TO_END: Duration = Duration::from_secs(240);
/// A shorter round-trip time than any link's and a longer one than a gateway's in the next room.
const ACROSS_THE_LINK: Duration = Duration::from_millis(5);
/// Bytes of the client's first words.
const HEADER: usize = 40;

/// What a transfer is to be.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub number: u64,
    /// Bytes that the client, and the server, sends.
    pub bytes: [u64; 2],
    /// The client, or the server, ends its direction only after the other has.
    pub waits: [bool; 2],
    /// Who gives up after reading so many bytes.
    pub abort: Option<(usize, u64)>,
    /// Who stops reading for so long.
    pub stall: Option<(usize, Duration)>,
}

/// How one end saw a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Everything arrived, and both directions ended in order.
    Complete,
    /// This end gave up, as planned.
    GaveUp,
    /// The other end gave up, as planned, on a connection past the gateways: the link has lost the reset, and nobody says it again.
    ResetLost,
    /// The connection was reset or could not be made.
    Broken(ErrorKind),
    /// Bytes were wrong.
    Wrong(u64),
    /// The other direction ended in order so many bytes too early.
    CutShort(u64),
    /// Nothing came for too long.
    Hung,
}

impl Plan {
    /// The transfer `number` of the seed.
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut dice = Dice::new(seed, (1 << 40) + number);
        let mut size = || if dice.chance(0.1) { 0 } else { dice.spread(1.0, 600e3) as u64 };
        let bytes = [size(), size()];
        let who = dice.index(2);
        Self {
            number,
            bytes,
            waits: dice.pick(&[[false; 2], [false; 2], [true, false], [false, true]]),
            abort: dice.chance(0.06).then(|| (who, dice.between(0, bytes[1 - who]))),
            stall: dice.chance(0.08).then(|| (dice.index(2), Duration::from_millis(dice.between(10, 3000)))),
        }
    }

    fn encode(&self) -> [u8; HEADER] {
        let (who, abort) = self.abort.unwrap_or((0, u64::MAX));
        let flags = u64::from(self.waits[0]) | u64::from(self.waits[1]) << 1 | (who as u64) << 2;
        let stall = self.stall.filter(|(who, _)| *who == 1).map_or(0, |(_, lasts)| lasts.as_millis() as u64);
        let mut header = [0; HEADER];
        let words = [self.number, self.bytes[0], self.bytes[1], abort, flags | stall << 8];
        header.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
        header
    }

    /// What the server has to know of it.
    fn decode(header: &[u8; HEADER]) -> Self {
        let word = |at: usize| u64::from_be_bytes(*header[at * 8..].first_chunk().expect("five words"));
        let (abort, rest) = (word(3), word(4));
        Self {
            number: word(0),
            bytes: [word(1), word(2)],
            waits: [rest & 1 == 1, rest & 2 == 2],
            // The client as well: the server then expects a reset, or an end too early.
            abort: (abort != u64::MAX).then_some((usize::from(rest & 4 == 4), abort)),
            stall: (rest >> 8 > 0).then(|| (1, Duration::from_millis(rest >> 8))),
        }
    }
}

/// The client's part, on a connection that has been made.
pub fn client(plan: &Plan, mut stream: TcpStream) -> Seen {
    let begun = wait_for(&stream, patience(plan, &stream)).and_then(|()| stream.write_all(&plan.encode()));
    begun.map_or_else(|error| seen(error.kind()), |()| talk(plan, 0, &stream))
}

/// The server's part. `None` if the connection ended before it said what it is.
pub fn server(mut stream: TcpStream) -> Option<(Plan, Seen)> {
    let mut header = [0; HEADER];
    wait_for(&stream, PATIENCE_END_TO_END).ok()?;
    stream.read_exact(&mut header).ok()?;
    let plan = Plan::decode(&header);
    wait_for(&stream, patience(&plan, &stream)).ok()?;
    Some((plan, talk(&plan, 1, &stream)))
}

/// How long to wait for anything. A reset that the link has lost is not said again past the gateways, however long one waits.
fn patience(plan: &Plan, stream: &TcpStream) -> Duration {
    if is_past_gateways(stream) && plan.abort.is_none() { PATIENCE_END_TO_END } else { PATIENCE }
}

fn wait_for(stream: &TcpStream, patience: Duration) -> std::io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))
}

/// Whether the other end of `stream` is across the link.
fn is_past_gateways(stream: &TcpStream) -> bool {
    kernel::tcp::tcp_info(stream).is_ok_and(|info| info.min_rtt >= ACROSS_THE_LINK)
}

fn seen(kind: ErrorKind) -> Seen {
    match kind {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Seen::Hung,
        kind => Seen::Broken(kind),
    }
}

fn talk(plan: &Plan, role: usize, stream: &TcpStream) -> Seen {
    let key = |role: usize| plan.number * 2 + role as u64;
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            send(stream, key(role), plan.bytes[role])?;
            if plan.waits[role] { Ok(()) } else { stream.shutdown(Shutdown::Write) }
        });
        let read = receive(plan, role, stream, key(1 - role));
        if read == Seen::GaveUp {
            // Closed with a reset, once the writer has noticed.
            let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Both);
        }
        let written = writing.join().unwrap_or(Ok(()));
        match (read, written) {
            (Seen::Hung, _) if plan.abort.is_some() && is_past_gateways(stream) => Seen::ResetLost,
            (Seen::Complete, Err(error)) => seen(error.kind()),
            (Seen::Complete, Ok(())) if plan.waits[role] => match stream.shutdown(Shutdown::Write) {
                Ok(()) => Seen::Complete,
                Err(error) => seen(error.kind()),
            },
            (read, _) => read,
        }
    })
}

fn send(mut stream: &TcpStream, key: u64, bytes: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    let mut sent = 0;
    while sent < bytes {
        let length = buffer.len().min(usize::try_from(bytes - sent).unwrap_or(usize::MAX));
        pattern::fill(key, sent, &mut buffer[..length]);
        stream.write_all(&buffer[..length])?;
        sent += length as u64;
    }
    Ok(())
}

fn receive(plan: &Plan, role: usize, mut stream: &TcpStream, key: u64) -> Seen {
    let expected = plan.bytes[1 - role];
    let abort_after = plan.abort.filter(|(who, _)| *who == role).map(|(_, after)| after);
    let mut stall = plan.stall.filter(|(who, _)| *who == role).map(|(_, lasts)| lasts);
    let mut buffer = vec![0; 32 * 1024];
    let mut received = 0;
    loop {
        if abort_after.is_some_and(|after| received >= after) {
            return Seen::GaveUp;
        }
        let length = match stream.read(&mut buffer) {
            Ok(0) if received == expected => return Seen::Complete,
            Ok(0) => return Seen::CutShort(expected.saturating_sub(received).max(1)),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return seen(error.kind()),
        };
        let wrong = pattern::count_wrong(key, received, &buffer[..length]);
        received += length as u64;
        if wrong > 0 || received > expected {
            return Seen::Wrong(wrong.max(received.saturating_sub(expected)));
        }
        if received * 2 >= expected
            && let Some(lasts) = stall.take()
        {
            thread::sleep(lasts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc;

    fn plan() -> Plan {
        Plan { number: 3, bytes: [100_000, 70_000], waits: [false, true], abort: None, stall: None }
    }

    fn between(
        plan: Plan,
        server: impl FnOnce(TcpStream) -> Option<(Plan, Seen)> + Send + 'static,
        once_client_ended: impl FnOnce(),
    ) -> (Seen, Option<Seen>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let far = thread::spawn(move || server(listener.accept().expect("a client").0));
        let near = client(&plan, TcpStream::connect(address).expect("it listens"));
        once_client_ended();
        (near, far.join().expect("no panic").map(|(_, seen)| seen))
    }

    #[test]
    fn a_server_learns_who_is_to_give_up() {
        let waits = [[false, false], [true, false], [false, true]];
        for (abort, waits) in [None, Some((0, 10)), Some((1, 0))].into_iter().zip(waits) {
            let decoded = Plan::decode(&Plan { abort, waits, ..plan() }.encode());
            assert_eq!((decoded.abort, decoded.waits), (abort, waits));
        }
    }

    #[test]
    fn both_ends_tell_complete_aborted_cut_and_wrong_transfers_apart() {
        assert_eq!(between(plan(), server, || ()), (Seen::Complete, Some(Seen::Complete)));
        // More than the sockets can hold: without a reader, the client gives up before it has sent all of it.
        let aborted = Plan { abort: Some((0, 10)), bytes: [64 << 20, 70_000], ..plan() };
        let (has_given_up, given_up) = mpsc::channel();
        let late = move |mut stream: TcpStream| {
            stream.read_exact(&mut [0; HEADER]).ok()?;
            send(&stream, 7, 10).ok()?;
            given_up.recv_timeout(PATIENCE).ok()?;
            Some((aborted, talk(&aborted, 1, &stream)))
        };
        let (near, far) = between(aborted, late, || has_given_up.send(()).expect("the server waits for it"));
        assert_eq!(near, Seen::GaveUp);
        assert!(matches!(far, Some(Seen::Broken(_) | Seen::CutShort(_))), "{far:?}");
        let cut = |mut stream: TcpStream| {
            stream.read_exact(&mut [0; HEADER + 100_000]).ok()?;
            send(&stream, 7, 69_999).ok()?;
            None
        };
        assert_eq!(between(Plan { waits: [true, false], ..plan() }, cut, || ()).0, Seen::CutShort(1));
        let wrong = |mut stream: TcpStream| {
            stream.read_exact(&mut [0; HEADER + 100_000]).ok()?;
            send(&stream, 8, 70_000).ok()?;
            None
        };
        assert!(matches!(between(Plan { waits: [true, false], ..plan() }, wrong, || ()).0, Seen::Wrong(_)));
    }
}
