//! New connections that the gateway's rules intercept and that never come to it: a chain of another program drops what is delivered to
//! this host, as a firewall with a policy of `drop` for its `input` does.

/// Compares what the rules have intercepted with what has come.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    /// What both counts were when a connection had come since the look before.
    intercepted: u64,
    arrived: u64,
    count: u64,
}

impl Undelivered {
    /// Fewer in a row mean nothing: clients that give up, or whose packets are under way.
    const FEW: u64 = 3;

    /// Takes over how many connections the rules have intercepted, and how many have come to the gateway. What is marked with `mark` is
    /// delivered to it.
    pub(super) fn take(&mut self, intercepted: u64, arrived: u64, mark: u32) {
        let was = self.count();
        // The counter of rules that are set up again begins at zero.
        if arrived != self.arrived || intercepted < self.intercepted {
            (self.intercepted, self.arrived) = (intercepted, arrived);
        }
        self.count = intercepted - self.intercepted;
        if was == 0 && self.count() > 0 {
            tracing::warn!(
                count = self.count,
                "intercepted connections do not arrive at the gateway: let the firewall accept their packets in each chain of hook input \
                 (meta mark {mark:#x} accept)"
            );
        } else if was > 0 && self.count() == 0 {
            tracing::info!("intercepted connections arrive at the gateway again");
        }
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
        let mut count = |intercepted, arrived| {
            undelivered.take(intercepted, arrived, 1);
            undelivered.count()
        };
        assert_eq!([count(2, 0), count(3, 0), count(7, 0)], [0, 3, 7]);
        assert_eq!([count(8, 1), count(10, 1), count(11, 1)], [0, 0, 3]);
        // The rules are set up again.
        assert_eq!([count(1, 1), count(3, 1), count(4, 1)], [0, 0, 3]);
    }
}
