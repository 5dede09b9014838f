//! The end that wants the data.

use super::beginning::Beginning;
use super::checksum::Digest;
use super::wire::{Header, Message, Report};
use super::{Checksum, Refusal, Trace, TransferError, WORKING_INTERVAL, broken, read_message, refuse};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;
use units::{Bytes, Duration};

const CHUNK: usize = 256 * 1024;

/// Data that arrived in full.
#[derive(Debug)]
pub struct Received {
    /// Bytes of data that arrived.
    pub bytes: Bytes,
    /// Bytes before them, which were there already.
    pub begin: Bytes,
    /// Whether all of them are those that were sent.
    pub verified: bool,
    /// When the last byte of data was read.
    pub last_byte: Instant,
    /// How much had arrived when.
    pub trace: Trace,
}

/// Where a receiver puts the data.
pub trait Sink: Write {
    /// All data have been written. Has them last under their name if they are `verified`: a sender which hears that all is well may
    /// remove its own.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn finish(&mut self, verified: bool) -> io::Result<()>;
}

impl Sink for io::Sink {
    fn finish(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Asks the sender, to which the caller connected, for what comes after `beginning`.
///
/// # Errors
/// If the connection fails.
pub fn request(stream: &mut TcpStream, beginning: &Beginning) -> Result<(), TransferError> {
    let bytes = Message::Request(beginning.request()).to_bytes();
    stream.write_all(&bytes).map_err(broken(stream, "while asking for the data", Bytes::ZERO))
}

/// Receives what comes after `beginning` into `sink`, verifies all, finishes the sink and reports to the sender. Time counts from
/// `start` (connect or accept). A sender that offers less than `require` is refused, and so is one that sends again what is there.
/// `progress` is called with the bytes of data that are there, and their total.
///
/// # Errors
/// If the connection fails or ends early, the other end is no sender, or `sink` fails. Data that does not verify is no
/// error here: see [`Received::verified`].
pub fn receive(
    stream: &mut TcpStream,
    start: Instant,
    require: Checksum,
    beginning: Beginning,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Bytes, Bytes),
) -> Result<Received, TransferError> {
    let header = read_header(stream, &beginning)?;
    check(&header, require, beginning.bytes()).map_err(|refusal| refuse(stream, refusal))?;
    let mut trace = Trace::new(start);
    let mut digest = match header.checksum {
        Checksum::Sha256 => beginning.into_digest(),
        weaker => Digest::new(weaker),
    };
    let mut buffer = vec![0; CHUNK];
    let mut there = header.begin;
    while there < header.size {
        let wanted = (header.size - there).as_usize().min(CHUNK);
        let read = read_some(stream, &mut buffer[..wanted], "in the middle of the data", there, header.size)?;
        there += Bytes::from(read);
        trace.record(Instant::now(), there - header.begin);
        digest.update(&buffer[..read]);
        sink.write_all(&buffer[..read]).map_err(not_stored(stream))?;
        progress(there, header.size);
    }
    let (last_byte, bytes) = (Instant::now(), there - header.begin);
    trace.end(last_byte, bytes);
    let verified = read_digest(stream, &header)? == digest.finish() && ends_here(stream, header.size)?;
    at_work(stream, || sink.finish(verified)).map_err(not_stored(stream))?;
    report(stream, Report { verified, bytes: there, time: last_byte.duration_since(start).into() })?;
    Ok(Received { bytes, begin: header.begin, verified, last_byte, trace })
}

/// Does `work`, and says meanwhile to the sender that it goes on.
fn at_work<T>(stream: &TcpStream, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let say = move || {
            let mut stream = stream;
            while ended.recv_timeout(WORKING_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // If the connection is broken, the report says so.
                let _ = stream.write_all(&Message::Working.to_bytes());
            }
        };
        // Without the thread the sender may time out; the data are kept all the same.
        let _ = thread::Builder::new().name("at work".into()).spawn_scoped(scope, say);
        let result = work();
        drop(done);
        result
    })
}

/// Whether a sender with this header sends what is wanted.
fn check(header: &Header, require: Checksum, there: Bytes) -> Result<(), Refusal> {
    if header.checksum < require || (there > Bytes::ZERO && header.checksum != Checksum::Sha256) {
        return Err(Refusal::WeakChecksum);
    }
    if header.begin != there {
        return Err(Refusal::SenderDidNotAsk);
    }
    Ok(())
}

/// For `map_err`: the sink failed, which the sender must know.
fn not_stored(stream: &mut TcpStream) -> impl FnOnce(io::Error) -> TransferError {
    |error| {
        Refusal::NotStored.tell(stream);
        TransferError::NotStored(error)
    }
}

/// Waits for the sender's header, and answers if it asks before.
fn read_header(stream: &mut TcpStream, beginning: &Beginning) -> Result<Header, TransferError> {
    let mut asked = false;
    loop {
        match read_message(stream, "before any data", Bytes::ZERO)? {
            Message::Data(header) => return Ok(header),
            Message::Ask if !asked => {
                asked = true;
                request(stream, beginning)?;
            }
            Message::Working => {}
            Message::Request(_) => return Err(refuse(stream, Refusal::BothReceive)),
            Message::Refusal(refusal) => return Err(TransferError::Refused(refusal)),
            Message::Ask | Message::Report(_) => {
                return Err(TransferError::Protocol("answers with something that was not asked for"));
            }
        }
    }
}

fn read_digest(stream: &mut TcpStream, header: &Header) -> Result<Vec<u8>, TransferError> {
    let mut digest = vec![0; header.checksum.length()];
    let mut filled = 0;
    while filled < digest.len() {
        filled += read_some(stream, &mut digest[filled..], "before the checksum", header.size, header.size)?;
    }
    Ok(digest)
}

/// Reads at least one byte.
fn read_some(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    moment: &'static str,
    received: Bytes,
    expected: Bytes,
) -> Result<usize, TransferError> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(TransferError::Truncated { moment, received, expected }),
            Ok(read) => return Ok(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(stream, moment, received)(error)),
        }
    }
}

/// Whether the sender's direction ends now, as it should.
fn ends_here(stream: &mut TcpStream, size: Bytes) -> Result<bool, TransferError> {
    match read_some(stream, &mut [0], "", size, size) {
        Err(TransferError::Truncated { .. }) => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => Err(error),
    }
}

fn report(stream: &mut TcpStream, report: Report) -> Result<(), TransferError> {
    stream.write_all(&Message::Report(report).to_bytes()).map_err(broken(
        stream,
        "while reporting to the sender",
        report.bytes,
    ))
}

impl Received {
    /// Time from `start` to the last byte.
    pub fn time_since(&self, start: Instant) -> Duration {
        self.last_byte.duration_since(start).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Content, send};
    use std::net::TcpListener;

    /// What a receiver that requires `require` makes of a sender that offers `offer`.
    fn transfer(offer: Checksum, require: Checksum) -> Result<Received, TransferError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let sending = std::thread::spawn(move || {
            // Refused or not, the receiver says the result.
            let _ = send(&mut sender, &mut Content::random(Bytes::new(1000), 1), offer, &mut |_| {});
        });
        let received =
            receive(&mut stream, Instant::now(), require, Beginning::none(), &mut io::sink(), &mut |_, _| {});
        drop(stream);
        sending.join().unwrap();
        received
    }

    #[test]
    fn a_sender_cannot_choose_to_go_unverified() {
        use Checksum::{LengthOnly, Sha256, Xxh3};
        for (offer, require) in [(LengthOnly, Sha256), (Xxh3, Sha256), (LengthOnly, Xxh3)] {
            assert!(matches!(transfer(offer, require), Err(TransferError::Refused(Refusal::WeakChecksum))));
        }
        let enough = [(Sha256, Sha256), (Sha256, Xxh3), (Sha256, LengthOnly), (Xxh3, Xxh3), (LengthOnly, LengthOnly)];
        for (offer, require) in enough {
            assert!(transfer(offer, require).unwrap().verified);
        }
    }

    /// Takes its time.
    struct Slow(std::time::Duration);

    impl Write for Slow {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            Ok(data.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Slow {
        fn finish(&mut self, _: bool) -> io::Result<()> {
            std::thread::sleep(self.0);
            Ok(())
        }
    }

    #[test]
    fn a_sender_hears_that_a_slow_disk_is_at_work() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        Message::Data(Header { checksum: Checksum::LengthOnly, begin: Bytes::ZERO, size: Bytes::ZERO })
            .write(&mut bytes);
        bytes.extend(Digest::new(Checksum::LengthOnly).finish());
        sender.write_all(&bytes).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        let (none, sink) = (Beginning::none(), &mut Slow(WORKING_INTERVAL * 3 / 2));
        receive(&mut stream, Instant::now(), Checksum::LengthOnly, none, sink, &mut |_, _| {}).unwrap();
        drop(stream);
        let messages: Vec<_> = std::iter::from_fn(|| Message::read(&mut sender).ok()?.ok()).collect();
        let (last, before) = messages.split_last().expect("a report");
        assert!(!before.is_empty() && before.iter().all(|message| matches!(message, Message::Working)));
        assert!(matches!(last, Message::Report(report) if report.verified));
    }

    /// The receiver's verdict on `data` with the digest of `announced`.
    fn verdict(announced: &[u8], data: &[u8], checksum: Checksum) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        Message::Data(Header { checksum, begin: Bytes::ZERO, size: Bytes::from(data.len()) }).write(&mut bytes);
        bytes.extend_from_slice(data);
        let mut digest = Digest::new(checksum);
        digest.update(announced);
        bytes.extend(digest.finish());
        sender.write_all(&bytes).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        let (start, none) = (Instant::now(), Beginning::none());
        receive(&mut stream, start, checksum, none, &mut io::sink(), &mut |_, _| {}).unwrap().verified
    }

    #[test]
    fn one_wrong_byte_does_not_verify() {
        let right = [7; 1000];
        let mut wrong = right;
        wrong[500] ^= 1;
        for checksum in [Checksum::Sha256, Checksum::Xxh3] {
            assert!(verdict(&right, &right, checksum));
            assert!(!verdict(&right, &wrong, checksum));
        }
    }
}
