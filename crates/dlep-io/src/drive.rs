//! A session over one TCP connection.

use dlep::{Participant, Status};
use kernel::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use units::Duration;

/// How long a peer may take to read the last message.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs `session` over `stream` until it is over, and ends it in order once the sender of `input` is gone. `turn` is called
/// after each step with what `input` holds; it takes the session's events.
pub(crate) async fn drive<P: Participant, T: Copy>(
    session: &mut P,
    stream: TcpStream,
    input: &mut watch::Receiver<T>,
    mut turn: impl FnMut(&mut P, T),
) {
    let (mut read, mut write) = stream.into_split();
    let mut buffer = vec![0; 16 * 1024];
    let (mut out, mut written, mut is_leaving, mut farewell) = (Vec::new(), 0, false, None);
    loop {
        let current = *input.borrow_and_update();
        turn(session, current);
        if written == out.len() {
            // What the peer does not read stays with the session, which knows how much of that is too much.
            (out, written) = (session.poll_transmit().unwrap_or_default(), 0);
        }
        if session.is_over() {
            if out.is_empty() {
                return;
            }
            farewell.get_or_insert_with(|| clock::now() + FAREWELL);
        }
        let timeout = session.next_timeout().or(farewell);
        let due = async {
            match timeout {
                Some(at) => tokio::time::sleep(at.since(clock::now()).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = read.read(&mut buffer) => match count {
                Ok(count @ 1..) => session.handle_bytes(clock::now(), &buffer[..count]),
                Ok(0) | Err(_) => session.lost(),
            },
            count = write.write(&out[written..]), if written < out.len() => match count {
                Ok(count) => written += count,
                Err(_) => session.lost(),
            },
            () = due => {
                // Where this process was held up, heartbeats may wait to be read: what they put off must not be done.
                tokio::task::yield_now().await;
                if let Ok(count @ 1..) = read.try_read(&mut buffer) {
                    session.handle_bytes(clock::now(), &buffer[..count]);
                }
                session.handle_timeout(clock::now());
            }
            changed = input.changed(), if !is_leaving => if changed.is_err() {
                is_leaving = true;
                session.terminate(clock::now(), Status::SHUTTING_DOWN, "stopping");
            },
        }
        if session.is_over() {
            // Lost, or the peer does not read: nothing that is still to be written can be.
            turn(session, current);
            let rest = std::mem::take(&mut out);
            let _ = write.try_write(&rest[written..]);
            return;
        }
    }
}
