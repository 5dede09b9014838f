//! The kernel's table of connections (conntrack). Without room in it, the kernel drops the packets of new connections before any rule
//! sees them: clients of a terminal time out, and so do the hub's connections to servers.

use kernel::sysctl;

/// How many connections the kernel may track.
const MAX: &str = "net.netfilter.nf_conntrack_max";

/// How full the table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conntrack {
    /// Connections tracked in this network namespace.
    pub(crate) count: u64,
    /// How many there may be.
    pub(crate) max: u64,
}

impl Conntrack {
    /// Reads both; `None` if the kernel does not show them.
    pub(crate) fn read() -> Option<Self> {
        let read = |key: &str| sysctl::read(key).ok()?.parse().ok();
        Some(Self { count: read("net.netfilter.nf_conntrack_count")?, max: read(MAX)? })
    }

    /// Whether at least 95 % are in use. A maximum of 0 is none.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.is_above(95)
    }

    fn is_above(&self, percent: u64) -> bool {
        self.max > 0 && self.count.saturating_mul(100) >= self.max.saturating_mul(percent)
    }

    /// The command that makes room.
    pub(crate) fn remedy(&self) -> String {
        format!("sysctl -w {MAX}={}", self.max.saturating_mul(2))
    }
}

/// Logs when the table fills up.
#[derive(Debug, Default)]
pub(crate) struct FullTable {
    is_full: bool,
}

impl FullTable {
    /// It may vary by so much before it counts as having room again.
    const ROOM_PERCENT: u64 = 85;

    /// Takes over how full the table is.
    pub(crate) fn look(&mut self, table: Conntrack) {
        let was_full = std::mem::replace(&mut self.is_full, table.is_nearly_full());
        self.is_full |= was_full && table.is_above(Self::ROOM_PERCENT);
        if self.is_full && !was_full {
            tracing::warn!(
                count = table.count,
                max = table.max,
                "the kernel's table of connections (conntrack) is nearly full; without room in it, new connections hang: find out what \
                 fills it, or make room: {}",
                table.remedy()
            );
        } else if was_full && !self.is_full {
            tracing::info!("the kernel's table of connections (conntrack) has room again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_full_from_95_percent_until_it_is_below_85() {
        let mut table = FullTable::default();
        let is_full = [949, 950, 1000, 850, 849, 949].map(|count| {
            table.look(Conntrack { count, max: 1000 });
            table.is_full
        });
        assert_eq!(is_full, [false, true, true, true, false, false]);
        assert!(!Conntrack { count: 7, max: 0 }.is_nearly_full());
        assert_eq!(Conntrack { count: 0, max: 65_536 }.remedy(), "sysctl -w net.netfilter.nf_conntrack_max=131072");
    }
}
