//! `[gateway] workers`: threads that carry packets.

use super::format;
use units::Rate;

/// How many threads the packets of the `satpep` transport are carried by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// As many as the link's capacity asks for, and the machine has processors for.
    #[default]
    Auto,
    /// So many. With one, the event loop does everything.
    Count(u8),
}

impl Workers {
    /// From this capacity on one thread may be too slow, and below that one it is fast enough again.
    const FAST: Rate = Rate::from_bps(500_000_000);
    const SLOW: Rate = Rate::from_bps(250_000_000);
    /// One thread for what the loop does, one to receive and one to send.
    const MOST_BY_ITSELF: usize = 3;

    /// How many threads beside the event loop carry packets over a link of this capacity, on a machine with so many processors, now that there
    /// are `running`.
    pub fn beside_the_loop(self, capacity: Rate, processors: usize, running: usize) -> usize {
        match self {
            Self::Count(count) => usize::from(count).saturating_sub(1),
            Self::Auto if capacity >= Self::FAST || (running > 0 && capacity >= Self::SLOW) => {
                processors.min(Self::MOST_BY_ITSELF) - 1
            }
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
    fn one_thread_is_enough_for_a_slow_link_and_three_for_any() {
        let mbit = |rate: u64| Rate::from_bps(rate * 1_000_000);
        let auto = |rate, processors, running| Workers::Auto.beside_the_loop(mbit(rate), processors, running);
        assert_eq!(auto(499, 8, 0), 0);
        assert_eq!(auto(500, 8, 0), 2);
        assert_eq!(auto(300, 8, 2), 2, "not to and fro");
        assert_eq!(auto(249, 8, 2), 0);
        assert_eq!(auto(10_000, 2, 0), 1);
        assert_eq!(auto(10_000, 1, 0), 0, "one processor gains nothing");
        assert_eq!(Workers::Count(1).beside_the_loop(mbit(10_000), 8, 0), 0);
        assert_eq!(Workers::Count(5).beside_the_loop(mbit(1), 1, 0), 4);
    }
}
