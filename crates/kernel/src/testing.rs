//! For the tests of this and other crates.

use crate::Namespace;
use crate::socket_option::set_int;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A new namespace, or `None`, said on stderr, where the machine allows none.
///
/// # Panics
/// If it allows none although `BENTPIPE_MUST_RUN` is set, or for any other error.
pub fn namespace() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) if error.is_missing() => {
            assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Has at most so many bytes leave `socket` in a second (`SO_MAX_PACING_RATE`).
///
/// # Errors
/// None is expected.
pub fn limit_pacing(socket: &Socket, bytes_per_second: i32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Two connected sockets that user `uid` has made, as `SO_PEERCRED` says; `None`, said on stderr, if this process may not become that user.
///
/// # Panics
/// If the kernel has no room for sockets or threads.
pub fn pair_of_user(uid: u32) -> Option<(UnixStream, UnixStream)> {
    let pair = thread::spawn(move || {
        // SAFETY: the call takes no pointers. Unlike the library's, it changes this thread alone, which ends after it.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        (changed == 0).then(|| UnixStream::pair().expect("there is room for two sockets"))
    });
    let pair = pair.join().expect("the thread does not panic");
    if pair.is_none() {
        eprintln!("skipped: this process may not become user {uid}");
    }
    pair
}

/// Has the UDP socket `socket` send without checksums (`SO_NO_CHECK`), which no batch of datagrams can be sent with.
///
/// # Panics
/// If the kernel refuses.
pub fn send_without_checksums(socket: &socket2::Socket) {
    crate::socket_option::set_int(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
        .expect("a UDP socket takes the option");
}

/// Has the UDP socket `socket` send what is longer than `size` as datagrams of that size (`UDP_SEGMENT`). Whether the kernel can.
pub fn send_in_batches(socket: &socket2::Socket, size: u16) -> bool {
    crate::socket_option::set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size.into()).is_ok()
}

/// Runs of [`best_of_three`] at most, those on a late host included.
const MOST_RUNS: u32 = 10;
/// A host is late if its threads wake up later than this on average, while the test runs beside them.
const LATE: Duration = Duration::from_micros(300);

/// Real time against a bound, on a host that others use, too: a host that stands still makes a run worse and never better, so
/// the best of three counts. Wrong runs during which the host was late do not count, up to ten in all; where the host was late
/// during all ten, it cannot be told what is wrong, and stderr says so. `attempt` returns what was wrong.
///
/// # Panics
/// With what was wrong with the last run, if none was right and the host was on time during one of them.
pub fn best_of_three(attempt: impl Fn() -> Result<(), String>) {
    let (mut counted, mut last) = (0, String::new());
    for run in 1..=MOST_RUNS {
        let (result, lateness) = with_lateness(&attempt);
        let Err(wrong) = result else { return };
        println!("not this time: {wrong} (threads woke up {lateness:?} late on average)");
        counted += u32::from(lateness <= LATE);
        assert!(counted < 3, "{run} runs, {counted} of them on a host that was on time: {wrong}");
        last = wrong;
    }
    assert!(counted == 0, "{MOST_RUNS} runs, {counted} of them on a host that was on time: {last}");
    eprintln!("not judged: this host was late during all {MOST_RUNS} runs, in the last of which {last}");
}

/// What `run` returns, and how late on average a thread beside it that sleeps again and again wakes up.
#[expect(clippy::disallowed_methods, reason = "it measures the host in real time")]
fn with_lateness<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    const STEP: Duration = Duration::from_millis(2);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut late, mut times) = (Duration::ZERO, 0);
            while !is_over.load(Ordering::Relaxed) {
                let due = Instant::now() + STEP;
                thread::sleep(STEP);
                late += due.elapsed();
                times += 1;
            }
            late / times.max(1)
        });
        // Also after a failed assertion: nothing else ends the thread, for which the scope waits.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        is_over.store(true, Ordering::Relaxed);
        let lateness = watch.join().expect("it only sleeps");
        (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), lateness)
    })
}

/// Has `socket` sign its segments to and from `peer` with `key` (TCP-MD5, RFC 2385), and take no others.
///
/// # Errors
/// If the kernel has no TCP-MD5, or the key is longer than 80 bytes.
pub fn set_md5_key(socket: &Socket, peer: SocketAddr, key: &[u8]) -> io::Result<()> {
    /// `struct tcp_md5sig` of linux/tcp.h.
    #[repr(C)]
    struct Signature {
        address: [u8; 128],
        flags: u8,
        prefix_length: u8,
        key_length: u16,
        interface: libc::c_int,
        key: [u8; libc::TCP_MD5SIG_MAXKEYLEN],
    }
    if key.len() > libc::TCP_MD5SIG_MAXKEYLEN {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut signature = Signature {
        address: [0; 128],
        flags: 0,
        prefix_length: 0,
        key_length: key.len() as u16,
        interface: 0,
        key: [0; libc::TCP_MD5SIG_MAXKEYLEN],
    };
    signature.key[..key.len()].copy_from_slice(key);
    let peer = socket2::SockAddr::from(SocketAddr::new(peer.ip(), 0));
    let length = peer.len() as usize;
    // SAFETY: the address is valid for `length` bytes, which is less than 128.
    unsafe { std::ptr::copy_nonoverlapping(peer.as_ptr().cast::<u8>(), signature.address.as_mut_ptr(), length) };
    // SAFETY: the descriptor is open, and the option's value outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MD5SIG,
            (&raw const signature).cast(),
            size_of::<Signature>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
