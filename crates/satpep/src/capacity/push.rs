//! Sending a little more than the estimate.

/// Sending a little more than the estimate where trains are spaced out, so that the link, and not the estimate, is the limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Push {
    pub(super) is_on: bool,
    /// What is sent beyond the estimate, as a share of it.
    pub(super) share: f64,
    /// Since when without a queue.
    pub(super) since: Option<f64>,
    /// When a queue last lowered an estimate that was measured.
    pub(super) fell_at: f64,
}

impl Default for Push {
    fn default() -> Self {
        Self { is_on: false, share: Self::LEAST, since: None, fell_at: f64::NEG_INFINITY }
    }
}

impl Push {
    /// Two per cent are 11 ms of queue in a round trip of a geostationary satellite link.
    pub(super) const LEAST: f64 = 0.02;
    /// After each round trip without a queue twice as much is tried, up to this share. Where trains say nothing, only pushes find a faster
    /// link: four times as much, up to twice the estimate.
    pub(super) const TIMES: f64 = 2.0;
    pub(super) const MOST: f64 = 0.25;
    pub(super) const ALONE_TIMES: f64 = 4.0;
    pub(super) const ALONE_MOST: f64 = 1.0;
    /// For so many seconds after a fall, which may have been too deep or short, more is tried. On a recorded Starlink link 0.06 reach
    /// 0.95 of what it carries, and 0.15 reach 0.97.
    pub(super) const FALLEN: f64 = 0.15;
    pub(super) const FALLEN_FOR: f64 = 10.0;
}
