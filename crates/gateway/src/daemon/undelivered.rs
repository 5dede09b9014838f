//! New connections that the gateway's rules intercept and that never come to it: a chain of another program drops what is delivered to
//! this host, as a firewall with a policy of `drop` for its `input` does.

use units::{Duration, Instant};

/// Compares what the rules have intercepted with what has come.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    /// The count of those that had come, when it last changed, and since when it is what it is.
    arrived: u64,
    since: Instant,
    /// What the rules had intercepted a while after that: what was under way then has come, or has been counted.
    intercepted: Option<u64>,
    count: u64,
}

impl Undelivered {
    /// Fewer in a row mean nothing: clients that give up.
    const FEW: u64 = 3;
    /// The counts are read one after the other, and clients take a moment for their handshake.
    const MOMENT: Duration = Duration::from_secs(2);

    /// Takes over how many connections the rules have intercepted, and how many have come to the gateway by `now`. What is marked with
    /// `mark` is delivered to it.
    pub(super) fn take(&mut self, now: Instant, intercepted: u64, arrived: u64, mark: u32) {
        let was = self.count();
        if arrived != self.arrived || self.intercepted.is_some_and(|before| intercepted < before) {
            // One has come; or the rules have been set up again, whose counter begins at zero.
            *self = Self { arrived, since: now, intercepted: None, count: 0 };
        } else if now >= self.since + Self::MOMENT {
            self.count = intercepted - *self.intercepted.get_or_insert(intercepted);
        }
        if was == 0 && self.count() > 0 {
            tracing::warn!(
                count = self.count,
                "intercepted connections do not arrive at the gateway: unless clients only scan, a firewall drops them; let it accept their \
                 packets in each chain of hook input (meta mark {mark:#x} accept)"
            );
        } else if was > 0 && self.count() == 0 {
            tracing::info!("intercepted connections arrive at the gateway again");
        }
    }

    /// Begins again: connections have been left to come once more, by a process that was not ready for them.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self { arrived: self.arrived, since: now, intercepted: None, count: 0 };
    }

    /// How many in a row have not come; 0 for a few.
    pub(super) fn count(&self) -> u64 {
        if self.count < Self::FEW { 0 } else { self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_in_a_row_count_until_one_comes() {
        let mut undelivered = Undelivered::default();
        let mut count = |seconds, intercepted, arrived| {
            undelivered.take(Instant::ZERO + Duration::from_secs(seconds), intercepted, arrived, 1);
            undelivered.count()
        };
        assert_eq!([count(10, 2, 0), count(11, 4, 0), count(12, 5, 0)], [0, 0, 3]);
        // One comes, and others with it that the look does not count yet.
        assert_eq!([count(20, 6, 3), count(21, 9, 3), count(22, 9, 3)], [0, 0, 0]);
        assert_eq!([count(23, 11, 3), count(24, 12, 3)], [0, 3]);
        // The rules are set up again.
        assert_eq!([count(30, 1, 3), count(33, 3, 3), count(34, 6, 3)], [0, 0, 3]);
    }
}
