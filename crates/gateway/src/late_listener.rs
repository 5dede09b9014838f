//! Listeners at an address that the process before this one may be about to leave.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How long another process may take to close its listener once it has handed over.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);

/// Listens at `address`; if a process before this one `has_left` it only now, as soon as the address is free.
pub(crate) fn listen(address: SocketAddr, has_left: bool) -> io::Result<TcpListener> {
    let patience = if has_left { PATIENCE } else { Duration::ZERO };
    as_soon_as_free(patience, || TcpListener::bind(address))
}

/// Has `bind` listen at an address; while another process has that, again and again, for `patience` at most.
pub(crate) fn as_soon_as_free<T>(patience: Duration, bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_another_process_leaves_is_waited_for() {
        let before = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = before.local_addr().unwrap();
        assert_eq!(listen(address, false).unwrap_err().kind(), io::ErrorKind::AddrInUse, "at once");
        let leaves = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(before);
        });
        assert_eq!(listen(address, true).unwrap().local_addr().unwrap(), address);
        leaves.join().unwrap();
    }
}
