//! `[gateway] workers`: threads that carry packets.

use super::format;
use units::Rate;

/// How many threads the packets of the `satpep` transport are carried by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// One, until that is busy with a fast link, and the machine has other processors.
    #[default]
    Auto,
    /// So many. With one, the event loop does everything.
    Count(u8),
}

impl Workers {
    /// Below this capacity one thread is fast enough on any machine, and others would cost more by waking each other than they spare.
    const FAST: Rate = Rate::from_bps(500_000_000);
    const SLOW: Rate = Rate::from_bps(250_000_000);
    /// The event loop is busy for such a share of the time when others are to help it, and for such a one when they need not: with
    /// them it has about three fifths of the work.
    const BUSY: f64 = 0.6;
    const IDLE: f64 = 0.25;
    /// One thread for what the loop does, one to receive and one to send.
    const MOST_BY_ITSELF: usize = 3;

    /// How many threads are to carry packets beside the event loop, now that `running` do. The link has this `capacity`, the machine so
    /// many `processors`, and the event loop has been busy for the share `busy` of the time.
    pub fn beside_the_loop(self, capacity: Rate, processors: usize, running: usize, busy: f64) -> usize {
        let is_needed = if running > 0 {
            capacity >= Self::SLOW && busy >= Self::IDLE
        } else {
            capacity >= Self::FAST && busy >= Self::BUSY
        };
        match self {
            Self::Count(count) => usize::from(count).saturating_sub(1),
            Self::Auto if is_needed => processors.min(Self::MOST_BY_ITSELF) - 1,
            Self::Auto => 0,
        }
    }
}

impl From<format::WorkersEntry> for Workers {
    fn from(entry: format::WorkersEntry) -> Self {
        match entry {
            format::WorkersEntry::Number(count) => Self::Count(count),
            format::WorkersEntry::Auto(format::Auto::Auto) => Self::Auto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::*;

    fn workers(line: &str) -> Workers {
        let text = minimal().replace("[gateway]", &format!("[gateway]\n{line}"));
        super::super::parse(&text, "gateway.toml").expect("no faults").workers
    }

    #[test]
    fn the_number_of_threads_is_given_or_found() {
        assert_eq!(workers(""), Workers::Auto);
        assert_eq!(workers("workers = \"auto\""), Workers::Auto);
        assert_eq!(workers("workers = 3"), Workers::Count(3));
        let text = minimal().replace("[gateway]", "[gateway]\nworkers = \"many\"");
        assert!(faults(&text)[0].contains("gateway.workers"), "{:?}", faults(&text));
    }

    #[test]
    fn one_thread_is_enough_unless_it_is_busy_with_a_fast_link() {
        let mbit = |rate: u64| Rate::from_bps(rate * 1_000_000);
        let auto =
            |rate, processors, running, busy| Workers::Auto.beside_the_loop(mbit(rate), processors, running, busy);
        assert_eq!(auto(499, 8, 0, 0.9), 0);
        assert_eq!(auto(500, 8, 0, 0.5), 0);
        assert_eq!(auto(500, 8, 0, 0.9), 2);
        assert_eq!(auto(300, 8, 2, 0.4), 2, "not to and fro");
        assert_eq!(auto(249, 8, 2, 0.4), 0);
        assert_eq!(auto(10_000, 8, 2, 0.2), 0);
        assert_eq!(auto(10_000, 2, 0, 1.0), 1);
        assert_eq!(auto(10_000, 1, 0, 1.0), 0, "one processor gains nothing");
        assert_eq!(Workers::Count(1).beside_the_loop(mbit(10_000), 8, 0, 1.0), 0);
        assert_eq!(Workers::Count(5).beside_the_loop(mbit(1), 1, 0, 0.0), 4);
    }
}
