//! What several flows deliver together.

/// The goodput of flows together: what all of them delivered, over the time in which at least one of them ran. The sum of their own
/// goodputs would exceed what links carry where one flow follows another.
#[derive(Debug, Clone, Default)]
pub struct Together {
    bytes: f64,
    /// When each flow began and ended, in seconds.
    spans: Vec<(f64, f64)>,
}

impl Together {
    /// Counts a flow that delivered `bytes` from `start` to `end`, in seconds; a flow that never started has neither.
    pub fn take(&mut self, bytes: u64, start: Option<f64>, end: Option<f64>) {
        if let Some((start, end)) = start.zip(end) {
            self.bytes += bytes as f64;
            self.spans.push((start, end));
        }
    }

    /// The goodput in bit/s; `None` if no flow ran for any time.
    pub fn goodput_bps(&self) -> Option<f64> {
        let time = self.time();
        (time > 0.0).then(|| self.bytes * 8.0 / time)
    }

    /// How long at least one flow ran, in seconds.
    fn time(&self) -> f64 {
        let mut spans = self.spans.clone();
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut time, mut covered) = (0.0, f64::NEG_INFINITY);
        for (start, end) in spans {
            time += (end - start.max(covered)).max(0.0);
            covered = covered.max(end);
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(flows: &[(u64, f64, f64)]) -> Option<f64> {
        let mut together = Together::default();
        flows.iter().for_each(|(bytes, start, end)| together.take(*bytes, Some(*start), Some(*end)));
        together.goodput_bps()
    }

    #[test]
    fn flows_side_by_side_add_up_and_flows_in_turn_do_not() {
        assert_eq!(together(&[(1_000, 0.0, 1.0)]), Some(8_000.0));
        assert_eq!(together(&[(1_000, 0.0, 1.0), (1_000, 0.0, 1.0)]), Some(16_000.0));
        assert_eq!(together(&[(1_000, 5.0, 6.0), (1_000, 0.0, 1.0)]), Some(8_000.0));
        // One within another, and one that overlaps the end of both.
        assert_eq!(together(&[(1_000, 0.0, 4.0), (500, 1.0, 2.0), (500, 3.0, 5.0)]), Some(2_000.0 * 8.0 / 5.0));
    }

    #[test]
    fn what_is_delivered_in_no_time_has_no_rate() {
        assert_eq!(together(&[(1_000, 2.0, 2.0)]), None);
    }

    #[test]
    fn what_delivered_nothing_counts_for_nothing() {
        assert_eq!(together(&[(0, 1.0, 3.0)]), Some(0.0));
        assert_eq!(together(&[(1_000, 0.0, 1.0), (0, 0.5, 1.0)]), Some(8_000.0));
    }

    #[test]
    fn flows_that_never_began_have_no_goodput() {
        let mut together = Together::default();
        assert_eq!(together.goodput_bps(), None);
        together.take(0, Some(3.0), None);
        together.take(0, None, None);
        assert_eq!(together.goodput_bps(), None);
    }
}
