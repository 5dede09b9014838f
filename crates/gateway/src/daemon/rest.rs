//! When the event loop has little to do after it was busy.

/// Counts the loop's wakes in each second.
#[derive(Debug, Default)]
pub(super) struct Rest {
    wakes: u32,
    was_busy: bool,
}

impl Rest {
    /// Fewer wakes in a second are rest: ticks, keepalives of peers, a few packets.
    const FEW: u32 = 100;

    pub(super) fn on_wake(&mut self) {
        self.wakes = self.wakes.saturating_add(1);
    }

    /// Whether the second that ends now is the first one of rest; called once a second.
    pub(super) fn begins(&mut self) -> bool {
        let is_busy = std::mem::take(&mut self.wakes) >= Self::FEW;
        std::mem::replace(&mut self.was_busy, is_busy) && !is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(rest: &mut Rest, wakes: u32) -> bool {
        (0..wakes).for_each(|_| rest.on_wake());
        rest.begins()
    }

    #[test]
    fn rest_begins_once_after_each_busy_time() {
        let mut rest = Rest::default();
        let wakes = [10, 10, 5_000, 300, 10, 10, 200, 0, 0];
        let begins = wakes.map(|wakes| second(&mut rest, wakes));
        assert_eq!(begins, [false, false, false, false, true, false, false, true, false]);
    }
}
