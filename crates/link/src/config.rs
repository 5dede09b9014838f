//! What a link is, as data.

use crate::dama::TerminalConfig;
use crate::geometry::Geometry;
use crate::opportunities::Opportunities;
use crate::steps::Steps;
use crate::trace;
use crate::{Acks, ConfigError, Discipline};
use serde::{Deserialize, Deserializer, Serialize};
use units::{Bytes, Duration, Probability, Rate};

/// One direction of a link. In text form (TOML, JSON) every key but `delay` may be left out, and unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Bits of IP packets per second; `None` (left out) is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Rates that take the place of `rate` from given times on: a rain fade, a recorded link. Zero is an outage, in which
    /// packets wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_steps: Option<Steps<Rate>>,
    /// Recorded delivery opportunities instead of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opportunities: Option<Opportunities>,
    /// A carrier shared with other terminals, instead of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dama: Option<TerminalConfig>,
    /// What the link layer adds to each packet, at most 10 kB: it takes its time of transmission, and nothing else (queues,
    /// counters and bit errors count IP packets). An HDLC frame around PPP is 8 bytes longer than its packet, say.
    #[serde(default)]
    pub overhead: Bytes,
    /// Propagation delay one way, from the last bit sent to the packet's arrival. In text also from the places of
    /// satellites and ground stations: see [`Geometry`].
    #[serde(deserialize_with = "delay_or_geometry")]
    pub delay: Duration,
    /// Delays that take the place of `delay` from given times on, for packets whose last bit is sent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_steps: Option<Steps<Duration>>,
    /// A change of satellite at regular times, with another delay, another rate and perhaps an outage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<Handover>,
    /// What happens when the delay falls: packets sent after the fall arrive right behind those sent before (true, the
    /// default), or overtake them (false).
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub keep_order: bool,
    /// A policer before the queue, if any: what exceeds its rate is dropped instead of queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// How much may wait for the transmitter.
    #[serde(default)]
    pub queue: QueueLimit,
    /// Which packets the queue gives up.
    #[serde(default, skip_serializing_if = "Discipline::is_drop_tail")]
    pub discipline: Discipline,
    /// What becomes of pure acknowledgements that wait.
    #[serde(default, skip_serializing_if = "Acks::is_keep")]
    pub acks: Acks,
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
    /// How many streams there are: [`LinkConfig::stream`] is below.
    pub const STREAMS: u64 = 1 << 56;

    /// A link without loss whose queue holds one bandwidth-delay product (`rate` times twice `delay`).
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            rate_steps: None,
            opportunities: None,
            dama: None,
            overhead: Bytes::ZERO,
            delay,
            delay_steps: None,
            handover: None,
            keep_order: true,
            policer: None,
            discipline: Discipline::DropTail,
            acks: Acks::Keep,
            queue: QueueLimit::bandwidth_delay_product(rate, delay * 2),
            loss: LossModel::None,
            reorder: None,
            duplicate: Probability::ZERO,
            seed: 0,
            stream: 0,
        }
    }

    /// Reads the files that hold traces, by name with `read` (whose error says why it cannot), and puts what they hold in
    /// their place. A link with files that were not read is no valid link.
    ///
    /// # Errors
    /// Names the key, the file and the line that is wrong, or that values are given beside the file.
    pub fn read_files(&mut self, mut read: impl FnMut(&str) -> Result<String, String>) -> Result<(), ConfigError> {
        if let Some(Steps { steps, file, .. }) = &mut self.rate_steps {
            trace::read_file("rate_steps.file", file, steps, &mut read, trace::steps)?;
        }
        if let Some(Steps { steps, file, .. }) = &mut self.delay_steps {
            trace::read_file("delay_steps.file", file, steps, &mut read, trace::steps)?;
        }
        if let Some(Opportunities { millis, file }) = &mut self.opportunities {
            trace::read_file("opportunities.file", file, millis, &mut read, trace::repeated_numbers)?;
        }
        match &mut self.loss {
            LossModel::Steps(Steps { steps, file, .. }) => {
                trace::read_file("loss.steps.file", file, steps, read, trace::steps)
            }
            LossModel::DropFile(name) => {
                let (mut file, mut packets) = (Some(std::mem::take(name)), Vec::new());
                trace::read_file("loss.drop_file", &mut file, &mut packets, read, trace::numbers)?;
                self.loss = LossModel::DropList(packets);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks what types cannot: [`crate::Link::new`] does so too.
    ///
    /// # Errors
    /// Names the first value that makes no link, and says what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_files()?;
        self.validate_rate()?;
        if self.overhead > MAX_OVERHEAD {
            return Err(ConfigError::new(
                "overhead",
                &format!("{} is more than {MAX_OVERHEAD} for each packet", self.overhead),
            ));
        }
        if self.delay > LONGEST {
            return Err(ConfigError::new("delay", &format!("{} is more than 1h", self.delay)));
        }
        if let Some(steps) = &self.delay_steps {
            steps.validate("delay_steps")?;
            if let Some((_, delay)) = steps.steps.iter().find(|(_, delay)| *delay > LONGEST) {
                return Err(ConfigError::new("delay_steps", &format!("{delay} is more than 1h")));
            }
        }
        if let Some(handover) = &self.handover {
            self.validate_handover(handover)?;
        }
        if matches!(self.queue, QueueLimit::Packets(0) | QueueLimit::Bytes(Bytes::ZERO)) {
            return Err(ConfigError::new("queue", "a queue holds at least one packet or byte"));
        }
        if let Some(policer) = &self.policer {
            policer.validate()?;
        }
        self.discipline.validate(self)?;
        self.validate_acks()?;
        self.loss.validate()?;
        let extra_delay = self.reorder.map_or(LONGEST, |reorder| reorder.extra_delay);
        if extra_delay.is_zero() || extra_delay > LONGEST {
            let problem = format!("{extra_delay} is not above 0s and at most 1h");
            return Err(ConfigError::new("reorder.extra_delay", &problem));
        }
        if self.stream >= Self::STREAMS {
            return Err(ConfigError::new("stream", "it is not below 2^56"));
        }
        Ok(())
    }

    /// The delay that stands for the link where one figure is needed before the run: `delay` if it is above zero, else the middle of
    /// the delays of its handovers, or the delay of its steps at time 0.
    pub fn nominal_delay(&self) -> Duration {
        if !self.delay.is_zero() {
            return self.delay;
        }
        match (&self.handover, &self.delay_steps) {
            (Some(Handover { delay: [low, high], .. }), _) => *low + high.saturating_sub(*low) / 2,
            (None, Some(steps)) => steps.at_start(self.delay),
            (None, None) => self.delay,
        }
    }

    /// The highest rate that the link ever has, of recorded opportunities their mean; `None` if it has none, or shares a carrier.
    pub fn highest_rate(&self) -> Option<Rate> {
        if let Some(opportunities) = &self.opportunities {
            return Some(opportunities.mean_rate());
        }
        if let Some(Handover { rate: Some([_, highest]), .. }) = self.handover {
            return Some(highest);
        }
        let steps = self.rate_steps.iter().flat_map(|steps| &steps.steps).map(|(_, rate)| *rate);
        steps.chain(self.rate).max()
    }

    /// The rate that stands for the link where one figure is needed before the run: the middle of the rates of its handovers, else `rate`.
    pub fn nominal_rate(&self) -> Option<Rate> {
        match self.handover {
            Some(Handover { rate: Some([low, high]), .. }) => {
                Some(Rate::from_bps(low.as_bps().midpoint(high.as_bps())))
            }
            _ => self.rate,
        }
    }

    /// Whether everything that is sent arrives once and in order.
    pub(crate) fn is_faithful(&self) -> bool {
        self.loss == LossModel::None
            && self.reorder.is_none()
            && self.duplicate == Probability::ZERO
            && self.handover.is_none()
            && self.keep_order
    }

    fn validate_files(&self) -> Result<(), ConfigError> {
        let loss = match &self.loss {
            LossModel::DropFile(name) => Some(name),
            LossModel::Steps(steps) => steps.file.as_ref(),
            _ => None,
        };
        let files = [
            ("rate_steps.file", self.rate_steps.as_ref().and_then(|steps| steps.file.as_ref())),
            ("delay_steps.file", self.delay_steps.as_ref().and_then(|steps| steps.file.as_ref())),
            ("opportunities.file", self.opportunities.as_ref().and_then(|opportunities| opportunities.file.as_ref())),
            ("loss", loss),
        ];
        match files.into_iter().find_map(|(key, name)| Some((key, name?))) {
            Some((key, name)) => Err(ConfigError::new(key, &format!("{name} has not been read"))),
            None => Ok(()),
        }
    }

    fn validate_rate(&self) -> Result<(), ConfigError> {
        if self.rate == Some(Rate::ZERO) {
            return Err(ConfigError::new("rate", "0bit/s never sends; leave it out for an unlimited rate"));
        }
        if let Some(opportunities) = &self.opportunities {
            if self.rate.is_some() || self.rate_steps.is_some() {
                return Err(ConfigError::new("opportunities", "they stand instead of `rate` and `rate_steps`"));
            }
            opportunities.validate("opportunities")?;
        }
        if let Some(dama) = &self.dama {
            if self.rate.is_some() || self.rate_steps.is_some() || self.opportunities.is_some() {
                return Err(ConfigError::new("dama", "the carrier's rate stands instead of rate and opportunities"));
            }
            dama.validate()?;
        }
        let Some(steps) = &self.rate_steps else { return Ok(()) };
        steps.validate("rate_steps")?;
        let Some(rate) = self.rate else {
            return Err(ConfigError::new("rate", "with rate_steps it is needed: it holds before the first step"));
        };
        if steps.timeline(rate, Rate::as_bps).recurs_above_zero() {
            Ok(())
        } else {
            Err(ConfigError::new("rate_steps", "it stays at 0bit/s: queued packets would never leave"))
        }
    }

    fn validate_acks(&self) -> Result<(), ConfigError> {
        match self.acks {
            Acks::Keep => Ok(()),
            Acks::Thin(0 | 1) => {
                Err(ConfigError::new("acks.thin", "it passes one of so many: write 2 or more, or leave `acks` out"))
            }
            _ if matches!(self.discipline, Discipline::DualPi2(_)) => Err(ConfigError::new(
                "acks",
                "the two queues of dual_pi2 keep all acknowledgements: take another discipline",
            )),
            Acks::Filter | Acks::Thin(_) => Ok(()),
        }
    }

    fn validate_handover(&self, handover: &Handover) -> Result<(), ConfigError> {
        let error = |key, problem: &str| Err(ConfigError::new(key, problem));
        // Each period is a change that the emulator wakes up for.
        if !(Duration::from_millis(1)..=LONGEST).contains(&handover.period) {
            return error("handover.period", "it is not from 1ms to 1h");
        }
        if handover.outage > handover.period {
            return error("handover.outage", "it is longer than the period");
        }
        if self.delay_steps.is_some() {
            return error("handover", "it draws delays: leave delay_steps out");
        }
        let [low, high] = handover.delay;
        if low > high || high > LONGEST {
            return error("handover.delay", "write the lowest and the highest delay, at most 1h");
        }
        match handover.rate {
            None => Ok(()),
            Some(_) if self.rate_steps.is_some() || self.opportunities.is_some() || self.dama.is_some() => {
                error("handover.rate", "leave rate_steps, opportunities and dama out")
            }
            Some([low, high]) if low > high || low == Rate::ZERO => {
                error("handover.rate", "write the lowest and the highest rate, above 0bit/s")
            }
            Some(_) => Ok(()),
        }
    }
}

/// Longer than any way on or near the Earth: what is above is a mistake.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);

/// No framing of a packet takes so much: what is above is a mistake.
const MAX_OVERHEAD: Bytes = Bytes::new(10_000);

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

/// A duration, or the geometry that gives it.
fn delay_or_geometry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct DelayVisitor;
    impl<'de> serde::de::Visitor<'de> for DelayVisitor {
        type Value = Duration;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a delay such as \"275ms\", or { geo = … } or { leo = … }")
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
            text.parse().map_err(E::custom)
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Duration, A::Error> {
            let geometry = Geometry::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
            geometry.delay().map_err(serde::de::Error::custom)
        }
    }
    deserializer.deserialize_any(DelayVisitor)
}

/// Changes of satellite at regular times, as in low orbits: from one change to the next the delay (and the rate) is
/// constant, drawn uniformly for each period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Time between changes, counted from the link's start. Starlink's is 15 s.
    pub period: Duration,
    /// The lowest and the highest delay one way; they take the place of `delay`.
    pub delay: [Duration; 2],
    /// The lowest and the highest rate; they take the place of `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<[Rate; 2]>,
    /// The longest outage after a change, each drawn uniformly from zero to it: what is sent then is lost.
    #[serde(default)]
    pub outage: Duration,
}

/// A token bucket, as operators enforce a contract's rate with. Written `{ rate = "4Mbit/s", burst = "30kB" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Bits of IP packets per second that pass in the long run.
    pub rate: Rate,
    /// What passes at once after a pause: from 1500 B, one full packet, to 1 GiB.
    pub burst: Bytes,
}

/// How much may wait for the transmitter. The packet being sent has left the queue. Written `{ packets = 100 }`, `{ bytes = "320KiB" }` or `"unlimited"`.
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

/// Which packets are lost on the way. Written `{ bernoulli = 1e-3 }`, `{ bit_error_rate = 1e-6 }`,
/// `{ gilbert_elliott = { p = 0.01, r = 0.2, loss_bad = 1.0 } }`,
/// `{ timed_gilbert_elliott = { mean_good = "10s", mean_bad = "200ms", loss_bad = 1.0 } }`, `{ drop_list = [3, 17] }`,
/// `{ drop_file = "drops.txt" }`, `{ steps = { steps = [["10s", 0.01], ["20s", 0.0]] } }` or `"none"`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Two states, between which each packet may change: bursts that are long in packets, whatever their times.
    GilbertElliott(GilbertElliott),
    /// Two states that last exponentially distributed times: fades, whatever the traffic. The state depends on the time
    /// at which a packet's last bit is sent.
    TimedGilbertElliott(TimedGilbertElliott),
    /// These packets, by their number among those that were sent on this link, the first being 0 (as in ns-2's
    /// `ErrorModel/List`). A packet that finds the queue full is not sent and has no number.
    DropList(Vec<u64>),
    /// A file that holds such numbers, rising, one a line, until [`LinkConfig::read_files`] has read it.
    DropFile(String),
    /// A probability that changes at given times, zero before the first.
    Steps(Steps<Probability>),
}

impl LossModel {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            LossModel::TimedGilbertElliott(model)
                if model.mean_good < SHORTEST_SOJOURN || model.mean_bad < SHORTEST_SOJOURN =>
            {
                Err(ConfigError::new("loss.timed_gilbert_elliott", "a mean sojourn is shorter than 1us"))
            }
            LossModel::Steps(steps) => steps.validate("loss.steps"),
            _ => Ok(()),
        }
    }
}

/// Much below the time of any packet: shorter sojourns only cost time.
const SHORTEST_SOJOURN: Duration = Duration::from_micros(1);

/// The Gilbert-Elliott channel by packet (Gilbert, BSTJ 39(5) 1960; Elliott, BSTJ 42(5) 1963). Each packet first changes
/// the state, or not, and then is lost, or not. It begins in the good state; the mean burst is 1/r packets, the mean
/// loss (r loss_good + p loss_bad) / (p + r).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability of going from the good to the bad state.
    pub p: Probability,
    /// Probability of going from the bad to the good state.
    pub r: Probability,
    /// Probability that a packet is lost in the good state (1-k).
    #[serde(default)]
    pub loss_good: Probability,
    /// Probability that a packet is lost in the bad state (1-h).
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// The channel that loses nothing in the good state and everything in the bad one, a fraction `loss` of all packets
    /// and `burst` packets in a row in the mean; `None` if no channel does both.
    pub fn with_bursts(loss: Probability, burst: f64) -> Option<Self> {
        let r = Probability::new(1.0 / burst).ok()?;
        let p = Probability::new(loss.as_f64() * r.as_f64() / (1.0 - loss.as_f64())).ok()?;
        let certain = Probability::new(1.0).ok()?;
        Some(Self { p, r, loss_good: Probability::ZERO, loss_bad: certain })
    }
}

/// The Gilbert-Elliott channel by time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedGilbertElliott {
    /// How long the good state lasts in the mean.
    pub mean_good: Duration,
    /// How long the bad state lasts in the mean.
    pub mean_bad: Duration,
    /// Probability that a packet is lost in the good state.
    #[serde(default)]
    pub loss_good: Probability,
    /// Probability that a packet is lost in the bad state.
    pub loss_bad: Probability,
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
            ("overhead", LinkConfig { overhead: Bytes::new(10_001), ..geo() }),
            ("delay", LinkConfig { delay: Duration::from_secs(3601), ..geo() }),
            ("queue", LinkConfig { queue: QueueLimit::Packets(0), ..geo() }),
            ("queue", LinkConfig { queue: QueueLimit::Bytes(Bytes::ZERO), ..geo() }),
            ("reorder.extra_delay", LinkConfig { reorder: reorder(Duration::ZERO), ..geo() }),
            ("reorder.extra_delay", LinkConfig { reorder: reorder(Duration::MAX), ..geo() }),
            ("acks.thin", LinkConfig { acks: Acks::Thin(1), ..geo() }),
            (
                "acks",
                LinkConfig { acks: Acks::Filter, discipline: Discipline::DualPi2(crate::DualPi2::default()), ..geo() },
            ),
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
    fn bursts_give_the_loss_and_the_length_asked_for() {
        let probability = |p| Probability::new(p).expect("valid");
        let model = GilbertElliott::with_bursts(probability(0.02), 5.0).expect("possible");
        let (p, r) = (model.p.as_f64(), model.r.as_f64());
        assert!((p / (p + r) - 0.02).abs() < 1e-12 && (1.0 / r - 5.0).abs() < 1e-12);
        // Half of all packets in bursts of one would be every other one, and more than that in bursts of one cannot be.
        assert!(GilbertElliott::with_bursts(probability(0.5), 1.0).is_some());
        for (loss, burst) in [(0.6, 1.0), (0.1, 0.5), (1.0, 5.0), (0.1, f64::NAN)] {
            assert_eq!(GilbertElliott::with_bursts(probability(loss), burst), None, "{loss} {burst}");
        }
    }

    #[test]
    fn reads_its_text_form() {
        let text = r#"
            rate = "1.536Mbit/s"
            delay = "280ms"
            overhead = "6B"
            queue = { packets = 64 }
            loss = { bit_error_rate = 1e-6 }
            reorder = { probability = 1e-2, extra_delay = "5ms" }
            duplicate = 1e-4
            seed = 7
        "#;
        let read: LinkConfig = toml::from_str(text).expect("valid");
        assert_eq!((read.overhead, read.queue), (Bytes::new(6), QueueLimit::Packets(64)));
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
