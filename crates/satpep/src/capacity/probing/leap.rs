//! A rise of the estimate by trials of much more. A policer's bucket that has room for them lets them pass, too.

/// The latest such rise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leap {
    /// The estimate before the first of its trials, in bytes per second.
    pub(super) before: f64,
    /// When the last one passed, in seconds, and how many bytes had been received by then.
    pub(super) at: f64,
    pub(super) received: f64,
}

impl Leap {
    /// What is sent for so many seconds without losses does not fit a bucket.
    const SECONDS: f64 = 10.0;
    /// A bucket holds what its policer passes in so many seconds at most, or so many bytes.
    const BUCKET: f64 = 5.0;
    const BUCKET_BYTES: f64 = 1e6;

    /// Whether it is so long ago that losses would have shown a policer.
    pub(super) fn is_over(&self, now: f64) -> bool {
        now - self.at >= Self::SECONDS
    }

    /// Whether more has arrived by now, `received` bytes in all, than a policer that passes `rate` bytes per second and its bucket let through.
    pub(super) fn exceeds_policer(&self, now: f64, received: f64, rate: f64) -> bool {
        let bucket = (Self::BUCKET * rate).max(Self::BUCKET_BYTES);
        received - self.received > rate * (now - self.at) + bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_policer_has_a_bucket_of_more_than_five_seconds_and_a_megabyte() {
        let leap = Leap { before: 0.5e6, at: 10.0, received: 3e6 };
        let exceeds = |seconds: f64, received: f64, rate: f64| leap.exceeds_policer(10.0 + seconds, received, rate);
        // 1 MB/s and five seconds of it, in two seconds.
        assert!(!exceeds(2.0, 9.9e6, 1e6) && exceeds(2.0, 10.1e6, 1e6));
        assert!(!exceeds(2.0, 4.1e6, 0.1e6) && exceeds(2.0, 4.3e6, 0.1e6), "a slow policer's bucket may hold longer");
        assert!(!exceeds(0.1, 3.9e6, 0.0) && exceeds(0.1, 4.1e6, 0.0), "nothing passes in an outage");
    }
}
