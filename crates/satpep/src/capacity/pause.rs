//! A pause in sending, which distinguishes a queue from a longer path.

/// A pause in sending, and what is expected of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueTest {
    /// How long nothing is sent, and until when less is.
    pub(super) pause: f64,
    pub(super) until: f64,
    /// The queue before it.
    pub(super) queue: f64,
}

/// What has been made of delays so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Doubt {
    /// The delay came at once, by this much.
    pub(super) jump: f64,
    /// Tests in a row after which it was as long as before.
    pub(super) vain: u32,
}

impl QueueTest {
    /// What is sent for as long again as the pause: a queue that is made shorter stays so.
    pub(super) const PACE: f64 = 0.9;
    pub(super) const LONGEST: f64 = 0.1;
    pub(super) const SHORTEST: f64 = 0.02;
    /// The shortest in packets, and of the noise.
    pub(super) const PACKETS: f64 = 10.0;
    pub(super) const NOISE: f64 = 8.0;
    /// A queue is drained for a round trip and this long at most: then it is looked at again.
    pub(super) const LONGEST_DRAIN: f64 = 0.5;
    /// What is left of a drain is cut short if it is longer.
    pub(super) const WORTH: f64 = 0.2;
    /// A delay that fell by less than this share of the pause did not fall.
    pub(super) const FELL: f64 = 0.25;
    /// One that came at once to this share is no queue after the first test.
    pub(super) const AT_ONCE: f64 = 0.6;
    /// A queue beyond this many times what is high has grown, and not come by the way of a noise.
    pub(super) const VAIN: u32 = 2;
}
