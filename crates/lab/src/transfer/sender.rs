//! The end that has the data.

use super::beginning::Beginning;
use super::checksum::Digest;
use super::delivery::Delivery;
use super::wire::{Header, Message, Report, Request};
use super::{Checksum, Content, Refusal, TransferError, WORKING_INTERVAL, broken, read_message, refuse};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;
use units::{Bytes, Duration};

/// Data handed to the kernel at once.
const CHUNK: usize = 256 * 1024;

/// A transfer that the receiver confirmed.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Bytes of data that were sent.
    pub bytes: Bytes,
    /// Bytes before them, which the receiver had already.
    pub begin: Bytes,
    /// As the receiver measured it: from its connect or accept to the last byte of data.
    pub receiver_time: Duration,
    /// Segments that this end's TCP sent more than once.
    pub retransmitted_segments: u32,
}

/// Waits until the receiver, which connected, asks for the data.
///
/// # Errors
/// If the connection fails or the other end is no receiver.
pub fn await_request(stream: &mut TcpStream) -> Result<Request, TransferError> {
    match read(stream, "before the receiver asked", Bytes::ZERO)? {
        Message::Request(request) => Ok(request),
        Message::Ask | Message::Data(_) => Err(refuse(stream, Refusal::BothSend)),
        Message::Working | Message::Report(_) | Message::Refusal(_) => Err(UNEXPECTED),
    }
}

/// Has the receiver, to which the caller connected, ask for the data that it does not have.
///
/// # Errors
/// If the connection fails or the other end is no receiver.
pub fn ask(stream: &mut TcpStream) -> Result<Request, TransferError> {
    let moment = "while asking what the receiver has";
    stream.write_all(&Message::Ask.to_bytes()).map_err(broken(stream, moment, Bytes::ZERO))?;
    match read(stream, moment, Bytes::ZERO)? {
        Message::Request(request) => Ok(request),
        _ => Err(UNEXPECTED),
    }
}

/// Sends `content` and waits for the receiver's report. `progress` is called with the bytes of data that the kernel has taken.
///
/// # Errors
/// If the content cannot be read, the connection fails, or what the receiver got does not verify.
pub fn send(
    stream: &mut TcpStream,
    content: &mut Content,
    checksum: Checksum,
    progress: &mut dyn FnMut(Bytes),
) -> Result<Sent, TransferError> {
    transmit(stream, content, Bytes::ZERO, (checksum, Digest::new(checksum)), progress)
}

/// Sends what the receiver asked for by `request`, with SHA-256, and waits for its report. `progress` is called with the bytes
/// of the content that the receiver has or the kernel has taken.
///
/// # Errors
/// Those of [`send`], and if what the receiver has is not how `content` begins.
pub fn resume(
    stream: &mut TcpStream,
    content: &mut Content,
    request: &Request,
    progress: &mut dyn FnMut(Bytes),
) -> Result<Sent, TransferError> {
    let mut told = Instant::now();
    // Reading much from a slow disk may take longer than the receiver would wait.
    let mut still_checking = || {
        if told.elapsed() < WORKING_INTERVAL {
            return Ok(());
        }
        told = Instant::now();
        let bytes = Message::Working.to_bytes();
        stream.write_all(&bytes).map_err(broken(stream, "while comparing what the receiver has", Bytes::ZERO))
    };
    let beginning = Beginning::of(content, request.begin, &mut still_checking)?;
    match beginning.filter(|beginning| beginning.request() == *request) {
        Some(beginning) => {
            transmit(stream, content, request.begin, (Checksum::Sha256, beginning.into_digest()), progress)
        }
        None => Err(refuse(stream, Refusal::OtherBeginning)),
    }
}

/// Sends what `content` has from `begin` on. The digest has what comes before.
fn transmit(
    stream: &mut TcpStream,
    content: &mut Content,
    begin: Bytes,
    (checksum, digest): (Checksum, Digest),
    progress: &mut dyn FnMut(Bytes),
) -> Result<Sent, TransferError> {
    let size = content.size();
    let header = Header { checksum, begin, size };
    let mut delivery = Delivery::default();
    let written = write_all(stream, content, header, digest, (&mut delivery, progress));
    if let Err(error @ (TransferError::File { .. } | TransferError::ContentEnded { .. })) = written {
        // The receiver must not take what it has for the whole.
        let _ = stream.shutdown(Shutdown::Both);
        return Err(error);
    }
    let end = |()| stream.shutdown(Shutdown::Write).map_err(broken(stream, "after the last byte", size));
    if let Err(error) = written.and_then(end) {
        // A receiver that hangs up may have said why.
        let has_hung_up = matches!(error, TransferError::Broken { .. });
        return Err(match has_hung_up.then(|| read(stream, "", size)) {
            Some(Err(reason @ (TransferError::Refused(_) | TransferError::Version { .. }))) => reason,
            _ => error,
        });
    }
    let report = read_report(stream, &mut delivery, size)?;
    if !report.verified || report.bytes != size {
        return Err(TransferError::NotVerified);
    }
    let retransmitted_segments = kernel::tcp::tcp_info(stream).map_or(0, |info| info.retransmitted_segments);
    Ok(Sent { bytes: size - begin, begin, receiver_time: report.time, retransmitted_segments })
}

fn write_all(
    stream: &mut TcpStream,
    content: &mut Content,
    header: Header,
    mut digest: Digest,
    (delivery, progress): (&mut Delivery, &mut dyn FnMut(Bytes)),
) -> Result<(), TransferError> {
    let size = header.size;
    let mut buffer = Vec::with_capacity(CHUNK + 64);
    // Header and first data leave together: a small first segment would cost its own packet.
    Message::Data(header).write(&mut buffer);
    let mut sent = header.begin;
    loop {
        let start = buffer.len();
        let wanted = (size - sent).as_usize().min(CHUNK - start);
        buffer.resize(start + wanted, 0);
        let read = content.read(&mut buffer[start..])?;
        sent += Bytes::from(read);
        if read < wanted {
            return Err(TransferError::ContentEnded { read: sent, announced: size });
        }
        digest.update(&buffer[start..]);
        if sent == size {
            buffer.extend(digest.finish());
            delivery.write_all(stream, &buffer).map_err(broken(stream, "while sending", sent))?;
            progress(sent);
            return Ok(());
        }
        delivery.write_all(stream, &buffer).map_err(broken(stream, "while sending", sent))?;
        progress(sent);
        buffer.clear();
    }
}

fn read_report(stream: &mut TcpStream, delivery: &mut Delivery, size: Bytes) -> Result<Report, TransferError> {
    loop {
        delivery.await_answer(stream);
        match read(stream, "before the receiver confirmed", size)? {
            Message::Report(report) => return Ok(report),
            Message::Working => {}
            Message::Ask | Message::Data(_) => return Err(refuse(stream, Refusal::BothSend)),
            Message::Request(_) | Message::Refusal(_) => return Err(UNEXPECTED),
        }
    }
}

const UNEXPECTED: TransferError = TransferError::Protocol("answers with something that was not asked for");

/// The next message of the receiver; one that refuses is an error.
fn read(stream: &mut TcpStream, moment: &'static str, bytes: Bytes) -> Result<Message, TransferError> {
    match read_message(stream, moment, bytes)? {
        Message::Refusal(refusal) => Err(TransferError::Refused(refusal)),
        message => Ok(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::io::Read;
    use std::net::SocketAddr;
    use std::time::Duration as StdDuration;

    const SIZE: Bytes = Bytes::new(1_000_000);
    const IDLE: StdDuration = StdDuration::from_millis(400);

    /// What comes of sending to an end that takes a piece now and then, until it has taken `most` bytes, and confirms the whole.
    fn send_slowly(most: usize) -> Result<Sent, TransferError> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.set_recv_buffer_size(20_000).expect("a small window");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        listener.listen(1).expect("listen");
        let address = listener.local_addr().expect("an address").as_socket().expect("of IPv4");
        let own = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        own.set_send_buffer_size(4_000_000).expect("it holds everything");
        own.connect(&address.into()).expect("connect");
        let mut stream = TcpStream::from(own);
        stream.set_read_timeout(Some(IDLE)).expect("a timeout");
        stream.set_write_timeout(Some(IDLE)).expect("a timeout");
        let (mut other, _) = listener.accept().expect("accept");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut taken, mut buffer) = (0, vec![0; 50_000]);
                while taken < most {
                    match other.read(&mut buffer) {
                        Ok(count @ 1..) => taken += count,
                        _ => break,
                    }
                    std::thread::sleep(StdDuration::from_millis(20));
                }
                if taken < SIZE.as_usize() {
                    // It is still there, and reads no more.
                    std::thread::sleep(IDLE * 6);
                    return;
                }
                let report = Report { verified: true, bytes: SIZE, time: Duration::from_secs(1) };
                other.write_all(&Message::Report(report).to_bytes()).expect("the confirmation");
            });
            send(&mut stream, &mut Content::random(SIZE, 1), Checksum::Xxh3, &mut |_| ())
        })
    }

    #[test]
    fn what_is_slow_to_arrive_is_waited_for_while_it_arrives() {
        let begun = Instant::now();
        assert_eq!(send_slowly(usize::MAX).expect("it is confirmed").bytes, SIZE);
        assert!(begun.elapsed() > IDLE, "it took longer than nothing may move: {:?}", begun.elapsed());
    }

    #[test]
    fn a_receiver_that_says_that_it_is_at_work_is_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connect");
        stream.set_read_timeout(Some(IDLE)).expect("a timeout");
        let (mut other, _) = listener.accept().expect("accept");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                other.read_to_end(&mut Vec::new()).expect("the data");
                for _ in 0..12 {
                    std::thread::sleep(IDLE / 3);
                    other.write_all(&Message::Working.to_bytes()).expect("a word");
                }
                let report = Report { verified: true, bytes: SIZE, time: Duration::from_secs(1) };
                other.write_all(&Message::Report(report).to_bytes()).expect("the confirmation");
            });
            let sent = send(&mut stream, &mut Content::random(SIZE, 1), Checksum::Xxh3, &mut |_| ());
            assert_eq!(sent.expect("it is confirmed").bytes, SIZE);
        });
    }

    #[test]
    fn an_end_that_takes_no_more_is_given_up() {
        let error = send_slowly(100_000).expect_err("nothing moves");
        assert!(matches!(error, TransferError::TimedOut { .. }), "{error}");
    }
}
