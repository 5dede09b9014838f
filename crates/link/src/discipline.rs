//! Queue disciplines, as data.

use crate::config::LONGEST;
use crate::{ConfigError, LinkConfig};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Probability};

/// Which packets a queue gives up, or marks, and which it serves next. Written `"drop_tail"`, `{ codel = {} }`,
/// `{ fq_codel = { target = "15ms" } }`, `{ pie = { ecn = true } }`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// First in, first out; what finds the queue full is dropped.
    #[default]
    DropTail,
    /// Controlled delay (RFC 8289): drops from the head once packets have waited too long for an interval.
    Codel(Codel),
    /// Controlled delay for each flow, and flows served in turn (RFC 8290). A full queue drops from the longest flow.
    FqCodel(FqCodel),
    /// Proportional integral controller enhanced (RFC 8033): drops what arrives with a probability that follows the delay.
    Pie(Pie),
    /// PIE for each flow, and flows served in turn as by FQ-CoDel.
    FqPie(FqPie),
    /// Random early detection, gentle (Floyd and Jacobson 1993): drops what arrives with a probability that follows the average
    /// queue.
    Red(Red),
    /// DualQ Coupled AQM (RFC 9332): a queue with early marks for ECT(1) beside one for all other packets.
    #[serde(rename = "dual_pi2")]
    DualPi2(DualPi2),
}

impl Discipline {
    pub(crate) fn is_drop_tail(&self) -> bool {
        *self == Discipline::DropTail
    }

    pub(crate) fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        match *self {
            Discipline::DropTail => Ok(()),
            Discipline::Codel(Codel { target, interval, .. }) => check_codel(target, interval),
            Discipline::FqCodel(FqCodel { target, interval, quantum, flows, .. }) => {
                check_codel(target, interval)?;
                check_flows(["discipline.fq_codel.flows", "discipline.fq_codel.quantum"], flows, quantum)
            }
            Discipline::Pie(Pie { target, update, max_burst, .. }) => check_pie(target, update, max_burst),
            Discipline::FqPie(FqPie { target, update, max_burst, quantum, flows, .. }) => {
                check_pie(target, update, max_burst)?;
                check_flows(["discipline.fq_pie.flows", "discipline.fq_pie.quantum"], flows, quantum)
            }
            Discipline::Red(red) => red.validate(link),
            Discipline::DualPi2(dual) => dual.validate(link),
        }
    }
}

fn check_codel(target: Duration, interval: Duration) -> Result<(), ConfigError> {
    if target.is_zero() || interval <= target || interval > LONGEST {
        return Err(ConfigError::new("discipline", "target is above 0s, interval above target and at most 1h"));
    }
    Ok(())
}

fn check_pie(target: Duration, update: Duration, max_burst: Duration) -> Result<(), ConfigError> {
    if target.is_zero() || target > LONGEST || update < SHORTEST_UPDATE || update > LONGEST || max_burst > LONGEST {
        return Err(ConfigError::new("discipline", "target is above 0s, update at least 1ms, and all are at most 1h"));
    }
    Ok(())
}

fn check_flows([flows_key, quantum_key]: [&'static str; 2], flows: u32, quantum: Bytes) -> Result<(), ConfigError> {
    if !(1..=65_536).contains(&flows) {
        return Err(ConfigError::new(flows_key, "it is not from 1 to 65536"));
    }
    if quantum < Bytes::new(256) {
        return Err(ConfigError::new(quantum_key, "it is below 256B"));
    }
    Ok(())
}

/// More frequent updates only cost time.
const SHORTEST_UPDATE: Duration = Duration::from_millis(1);

fn is_off(flag: &bool) -> bool {
    !*flag
}

/// Parameters of CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Codel {
    /// How long packets may wait. 5 ms in RFC 8289; it must exceed the time of a packet at the link's rate.
    pub target: Duration,
    /// About one round trip of the slowest flows: how long they may wait longer before one is dropped. 100 ms in RFC 8289;
    /// over a geostationary satellite, 600 ms.
    pub interval: Duration,
    /// Packets whose transport reads marks are marked instead of dropped.
    #[serde(skip_serializing_if = "is_off")]
    pub ecn: bool,
}

impl Default for Codel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

/// Parameters of FQ-CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodel {
    /// As CoDel's.
    pub target: Duration,
    /// As CoDel's.
    pub interval: Duration,
    /// As CoDel's.
    #[serde(skip_serializing_if = "is_off")]
    pub ecn: bool,
    /// What a flow may send in its turn. 1514 B in RFC 8290.
    pub quantum: Bytes,
    /// Queues among which flows are hashed. 1024 in RFC 8290.
    pub flows: u32,
}

/// What a flow of FQ-CoDel and FQ-PIE sends in its turn (RFC 8290, section 5.2.4), and the number of queues (section 5.2.5).
const QUANTUM: Bytes = Bytes::new(1514);
const FLOWS: u32 = 1024;

impl Default for FqCodel {
    fn default() -> Self {
        let Codel { target, interval, ecn } = Codel::default();
        Self { target, interval, ecn, quantum: QUANTUM, flows: FLOWS }
    }
}

/// Parameters of PIE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pie {
    /// The intended delay. 15 ms in RFC 8033.
    pub target: Duration,
    /// How often the probability is calculated. 15 ms in RFC 8033.
    pub update: Duration,
    /// For so long a burst that begins on an idle link is let through. 150 ms in RFC 8033.
    pub max_burst: Duration,
    /// Packets whose transport reads marks are marked instead of dropped while the probability is below 10 %.
    pub ecn: bool,
}

impl Default for Pie {
    fn default() -> Self {
        let period = Duration::from_millis(15);
        Self { target: period, update: period, max_burst: Duration::from_millis(150), ecn: false }
    }
}

/// Parameters of FQ-PIE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqPie {
    /// As PIE's.
    pub target: Duration,
    /// As PIE's.
    pub update: Duration,
    /// As PIE's.
    pub max_burst: Duration,
    /// As PIE's.
    pub ecn: bool,
    /// As FQ-CoDel's.
    pub quantum: Bytes,
    /// As FQ-CoDel's.
    pub flows: u32,
}

impl Default for FqPie {
    fn default() -> Self {
        let Pie { target, update, max_burst, ecn } = Pie::default();
        Self { target, update, max_burst, ecn, quantum: QUANTUM, flows: FLOWS }
    }
}

/// Parameters of RED.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Average queues below let everything pass.
    pub min: Bytes,
    /// The probability rises from 0 at `min` to `max_probability` at `max`, and to 1 at twice of `max`.
    pub max: Bytes,
    /// Floyd recommends 0.1.
    #[serde(default = "max_probability")]
    pub max_probability: Probability,
    /// The weight of each arrival in the average. 0.002 in the paper.
    #[serde(default = "weight")]
    pub weight: Probability,
    /// Packets whose transport reads marks are marked instead of dropped.
    #[serde(default)]
    pub ecn: bool,
}

fn max_probability() -> Probability {
    Probability::new(0.1).unwrap_or_default()
}

fn weight() -> Probability {
    Probability::new(0.002).unwrap_or_default()
}

impl Red {
    /// RED between two average queues, with the recommended weight and probability.
    pub fn new(min: Bytes, max: Bytes) -> Self {
        Self { min, max, max_probability: max_probability(), weight: weight(), ecn: false }
    }

    fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        if self.min >= self.max {
            return Err(ConfigError::new("discipline.red", "min is not below max"));
        }
        if self.weight == Probability::ZERO {
            return Err(ConfigError::new("discipline.red.weight", "with 0 the average never moves; 0.002 is usual"));
        }
        if link.nominal_rate().is_none() {
            return Err(ConfigError::new(
                "discipline.red",
                "it needs `rate` or `handover.rate`, by which the average falls on an idle link",
            ));
        }
        Ok(())
    }
}

/// Parameters of DualPI2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DualPi2 {
    /// The intended delay of the queue for classic traffic. 15 ms in RFC 9332.
    pub target: Duration,
    /// What waits longer in the queue for ECT(1) is marked. 1 ms is usual; it must exceed the time of a packet at the link's rate.
    pub threshold: Duration,
    /// The longest round-trip time of the flows, from which the controller's gains follow. 100 ms in RFC 9332; over a geostationary
    /// satellite, 600 ms.
    pub rtt_max: Duration,
}

impl Default for DualPi2 {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            threshold: Duration::from_millis(1),
            rtt_max: Duration::from_millis(100),
        }
    }
}

impl DualPi2 {
    fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        if link.dama.is_some() {
            return Err(ConfigError::new("discipline.dual_pi2", "a terminal of a shared carrier has one queue"));
        }
        if self.target < SHORTEST_UPDATE || self.target > LONGEST || self.threshold > LONGEST {
            return Err(ConfigError::new("discipline.dual_pi2", "target is from 1ms to 1h, and threshold at most 1h"));
        }
        if self.rtt_max < Duration::from_millis(3) || self.rtt_max > LONGEST {
            return Err(ConfigError::new("discipline.dual_pi2.rtt_max", "it is not from 3ms to 1h"));
        }
        Ok(())
    }
}
