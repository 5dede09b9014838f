//! Timers that a poller can wait for, with absolute deadlines on the clock of [`crate::clock::now`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use units::{Duration, Instant};

/// A timer descriptor (`timerfd_create(2)`), readable once its deadline has passed. It is close-on-exec and non-blocking.
///
/// ```
/// use kernel::{clock, timer::Timer};
/// let timer = Timer::new()?;
/// timer.set(Some(clock::now()))?;
/// while !timer.acknowledge()? {}
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// If the process or the host is out of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor and nothing else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Fires once at `deadline` (at once if that has passed) and no more for an earlier deadline; `None`, like
    /// [`Instant::FAR_FUTURE`], never fires. An expiry that was not acknowledged is forgotten.
    ///
    /// # Errors
    /// Those of `timerfd_settime(2)`; none is expected.
    pub fn set(&self, deadline: Option<Instant>) -> io::Result<()> {
        // A value of zero would disarm the timer instead of firing at once.
        let nanos = deadline.filter(|at| *at < Instant::FAR_FUTURE).map_or(0, |at| at.as_nanos().max(1));
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: timespec(Duration::from_nanos(nanos)),
        };
        // SAFETY: the descriptor is open, `spec` outlives the call, and the old value is not asked for.
        let result =
            unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &spec, std::ptr::null_mut()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether the timer has fired since it was set or last acknowledged; it is unreadable again afterwards.
    ///
    /// # Errors
    /// Those of `read(2)`; none is expected.
    pub fn acknowledge(&self) -> io::Result<bool> {
        let mut expirations = 0u64;
        // SAFETY: the buffer is eight writable bytes, the size that a timer descriptor asks for.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut expirations).cast(), size_of::<u64>()) };
        if read >= 0 {
            return Ok(expirations > 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Lets the kernel delay the calling thread's timed waits by at most `slack` (`PR_SET_TIMERSLACK`; Linux's default is
/// 50 µs; zero means that default). Timers set through [`Timer`] have no slack; sleeps and poll timeouts do.
///
/// # Errors
/// Those of `prctl(2)`; none is expected.
pub fn set_slack(slack: Duration) -> io::Result<()> {
    let nanos = libc::c_ulong::try_from(slack.as_nanos()).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: no pointer is passed.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sleeps until `deadline` on the clock of [`crate::clock::now`], or until a signal comes.
pub fn sleep_until(deadline: Instant) {
    let time = timespec(Duration::from_nanos(deadline.as_nanos()));
    // SAFETY: `time` lives until after the call, and the time that is left is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
}

pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    let nanos = duration.as_nanos();
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as _, tv_nsec: (nanos % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::poll::{Interest, wait};

    fn fires_within(timer: &Timer, timeout: Duration) -> bool {
        let mut ready = [Interest::readable(timer.as_fd())];
        wait(&mut ready, Some(timeout)).expect("poll");
        ready[0].is_ready()
    }

    #[test]
    fn fires_at_its_deadline_and_not_before() {
        let timer = Timer::new().expect("timer");
        let deadline = clock::now() + Duration::from_millis(5);
        timer.set(Some(deadline)).expect("set");
        assert!(fires_within(&timer, Duration::from_secs(60)));
        assert!(clock::now() >= deadline);
        assert!(timer.acknowledge().expect("read"));
        assert!(!timer.acknowledge().expect("read"), "one deadline fires once");
    }

    #[test]
    fn a_past_deadline_fires_at_once_and_none_never() {
        let timer = Timer::new().expect("timer");
        assert!(!timer.acknowledge().expect("read"));
        timer.set(Some(Instant::ZERO)).expect("set");
        assert!(fires_within(&timer, Duration::from_secs(60)));
        timer.set(None).expect("set");
        assert!(!fires_within(&timer, Duration::from_millis(2)));
        timer.set(Some(Instant::FAR_FUTURE)).expect("set");
        assert!(!fires_within(&timer, Duration::from_millis(2)));
    }

    #[test]
    fn sleeps_until_a_deadline_and_not_past_ones() {
        let deadline = clock::now() + Duration::from_millis(2);
        sleep_until(deadline);
        assert!(clock::now() >= deadline);
        sleep_until(Instant::ZERO);
    }

    #[test]
    fn slack_can_be_set() {
        set_slack(Duration::from_nanos(1)).expect("slack");
    }
}
