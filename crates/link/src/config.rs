//! What a link is, as data.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Probability, Rate};

/// One direction of a link. In text form (TOML, JSON) every key but `delay` may be left out, and unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Bits of IP packets per second; `None` (left out) is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Propagation delay one way, from the last bit sent to the packet's arrival.
    pub delay: Duration,
    /// How much may wait for the transmitter.
    #[serde(default)]
    pub queue: QueueLimit,
    /// Which packets are lost on the way.
    #[serde(default)]
    pub loss: LossModel,
    /// Which packets are overtaken, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// The fraction of the delivered packets that arrive twice.
    #[serde(default)]
    pub duplicate: Probability,
    /// The seed of the random processes.
    #[serde(default)]
    pub seed: u64,
    /// Tells the links of one experiment apart under one seed, for example the two directions of a path. Below 2^56.
    #[serde(default)]
    pub stream: u64,
}

impl LinkConfig {
    /// A link without loss whose queue holds one bandwidth-delay product (`rate` times twice `delay`).
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            delay,
            queue: QueueLimit::bandwidth_delay_product(rate, delay * 2),
            loss: LossModel::None,
            reorder: None,
            duplicate: Probability::ZERO,
            seed: 0,
            stream: 0,
        }
    }

    /// Checks what types cannot: [`crate::Link::new`] does so too.
    ///
    /// # Errors
    /// Names the first value that makes no link, and says what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let longest = Duration::from_secs(3600);
        if self.rate == Some(Rate::ZERO) {
            return Err(ConfigError::new("rate", "0bit/s never sends; leave it out for an unlimited rate"));
        }
        if self.delay > longest {
            return Err(ConfigError::new("delay", &format!("{} is more than 1h", self.delay)));
        }
        if matches!(self.queue, QueueLimit::Packets(0) | QueueLimit::Bytes(Bytes::ZERO)) {
            return Err(ConfigError::new("queue", "a queue holds at least one packet or byte"));
        }
        let extra_delay = self.reorder.map_or(longest, |reorder| reorder.extra_delay);
        if extra_delay.is_zero() || extra_delay > longest {
            return Err(ConfigError::new(
                "reorder.extra_delay",
                &format!("{extra_delay} is not above 0s and at most 1h"),
            ));
        }
        if self.stream >= 1 << 56 {
            return Err(ConfigError::new("stream", "it is not below 2^56"));
        }
        Ok(())
    }
}

/// How much may wait for the transmitter; what arrives beyond that is dropped (drop-tail). The packet being sent has left
/// the queue. Written `{ packets = 100 }`, `{ bytes = "320KiB" }` or `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// At most so many packets.
    Packets(u64),
    /// At most so many bytes of IP packets.
    Bytes(Bytes),
    /// As much as comes. Memory is then bounded by the offered traffic only.
    #[default]
    Unlimited,
}

impl QueueLimit {
    /// One bandwidth-delay product: the bytes that `rate` carries in `rtt`, at least one full-sized packet.
    pub fn bandwidth_delay_product(rate: Rate, rtt: Duration) -> Self {
        QueueLimit::Bytes(rate.bytes_in(rtt).max(Bytes::new(1500)))
    }

    /// Whether a packet of `size` may join a queue that holds `packets` of `bytes` together.
    #[inline]
    pub(crate) fn allows(self, packets: u64, bytes: Bytes, size: Bytes) -> bool {
        match self {
            QueueLimit::Packets(limit) => packets < limit,
            QueueLimit::Bytes(limit) => bytes + size <= limit,
            QueueLimit::Unlimited => true,
        }
    }
}

/// Which packets are lost on the way. Written `{ bernoulli = 1e-3 }`, `{ bit_error_rate = 1e-6 }` or `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each packet with this probability, independently of the others.
    Bernoulli(Probability),
    /// Each bit is wrong with this probability, independently of the others, and one wrong bit loses the packet: a
    /// packet of L bytes is lost with probability 1-(1-BER)^(8L). This is the rate of residual errors, after any
    /// correction.
    BitErrorRate(Probability),
}

/// Reordering: some packets are held back, so that those behind them overtake.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// The fraction of packets held back.
    pub probability: Probability,
    /// By how long they are.
    pub extra_delay: Duration,
}

/// A value that makes no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("link: `{key}`: {problem}")]
pub struct ConfigError {
    key: &'static str,
    problem: String,
}

impl ConfigError {
    fn new(key: &'static str, problem: &str) -> Self {
        Self { key, problem: problem.to_owned() }
    }

    /// The key of the configuration that holds the value.
    pub fn key(&self) -> &'static str {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geo() -> LinkConfig {
        LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275))
    }

    #[test]
    fn a_queue_of_one_bandwidth_delay_product_by_default() {
        assert_eq!(geo().queue, QueueLimit::Bytes(Bytes::new(412_500)));
        let slow = QueueLimit::bandwidth_delay_product(Rate::from_bps(1_000), Duration::from_millis(1));
        assert_eq!(slow, QueueLimit::Bytes(Bytes::new(1500)));
    }

    #[test]
    fn refuses_what_makes_no_link_and_names_it() {
        let probability = Probability::new(0.5).expect("valid");
        let reorder = |extra_delay| Some(Reorder { probability, extra_delay });
        let cases = [
            ("rate", LinkConfig { rate: Some(Rate::ZERO), ..geo() }),
            ("delay", LinkConfig { delay: Duration::from_secs(3601), ..geo() }),
            ("queue", LinkConfig { queue: QueueLimit::Packets(0), ..geo() }),
            ("queue", LinkConfig { queue: QueueLimit::Bytes(Bytes::ZERO), ..geo() }),
            ("reorder.extra_delay", LinkConfig { reorder: reorder(Duration::ZERO), ..geo() }),
            ("reorder.extra_delay", LinkConfig { reorder: reorder(Duration::MAX), ..geo() }),
            ("stream", LinkConfig { stream: u64::MAX, ..geo() }),
        ];
        for (key, config) in cases {
            let error = config.validate().expect_err(key);
            assert_eq!(error.key(), key);
            assert!(error.to_string().contains(key), "{error}");
        }
        assert_eq!(geo().validate(), Ok(()));
    }

    #[test]
    fn reads_its_text_form() {
        let text = r#"
            rate = "1.536Mbit/s"
            delay = "280ms"
            queue = { packets = 64 }
            loss = { bit_error_rate = 1e-6 }
            reorder = { probability = 1e-2, extra_delay = "5ms" }
            duplicate = 1e-4
            seed = 7
        "#;
        let read: LinkConfig = toml::from_str(text).expect("valid");
        assert_eq!(read.queue, QueueLimit::Packets(64));
        assert_eq!(read.loss, LossModel::BitErrorRate(Probability::new(1e-6).expect("valid")));
        assert_eq!(toml::from_str::<LinkConfig>(&toml::to_string(&read).expect("text")).expect("valid"), read);

        let least: LinkConfig = toml::from_str(r#"delay = "1ms""#).expect("valid");
        assert_eq!((least.rate, least.queue, least.loss), (None, QueueLimit::Unlimited, LossModel::None));
    }

    #[test]
    fn refuses_unknown_keys_and_bare_numbers_by_name() {
        for (text, culprit) in [
            ("delay = \"1ms\"\nlatency = \"1ms\"", "latency"),
            ("delay = 5", "delay"),
            ("delay = \"1ms\"\nloss = { bernoulli = 2.0 }", "bernoulli"),
            ("delay = \"1ms\"\nqueue = { segments = 3 }", "segments"),
        ] {
            let error = toml::from_str::<LinkConfig>(text).expect_err(text).to_string();
            assert!(error.contains(culprit), "{error}");
        }
    }
}
