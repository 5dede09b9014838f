//! What of the link the command line changes.

use crate::output::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use document::RateLimit;
use link::{Codel, Discipline, DualPi2, FqCodel, FqPie, GilbertElliott, LossModel, Pie, QueueLimit};
use std::str::FromStr;
use units::{Bytes, Duration, Probability};

/// Changes to the preset; each holds for both directions unless there is one for the direction.
#[derive(ClapArgs)]
#[command(next_help_heading = "Link (both paths, or with -up and -down one way)")]
pub(super) struct LinkArgs {
    /// Rate of IP packets, or `unlimited`
    #[arg(long)]
    rate: Option<RateLimit>,
    #[arg(long, hide_short_help = true, value_name = "RATE")]
    rate_up: Option<RateLimit>,
    #[arg(long, hide_short_help = true, value_name = "RATE")]
    rate_down: Option<RateLimit>,
    /// Round-trip time without queueing: half of it in each direction
    #[arg(long, conflicts_with_all = ["delay", "delay_up", "delay_down"])]
    rtt: Option<Duration>,
    /// Propagation delay one way
    #[arg(long)]
    delay: Option<Duration>,
    #[arg(long, hide_short_help = true, value_name = "DELAY")]
    delay_up: Option<Duration>,
    #[arg(long, hide_short_help = true, value_name = "DELAY")]
    delay_down: Option<Duration>,
    /// Limit of the queue: 100packets, 320KiB, 2BDP (of the rate and the round trip), or `unlimited` [default: that of the
    /// link file, or 1BDP]
    #[arg(long)]
    queue: Option<QueueSize>,
    #[arg(long, hide_short_help = true, value_name = "QUEUE")]
    queue_up: Option<QueueSize>,
    #[arg(long, hide_short_help = true, value_name = "QUEUE")]
    queue_down: Option<QueueSize>,
    /// Queue discipline: drop packets that arrive at a full queue, or by queueing delay
    #[arg(long, value_enum)]
    discipline: Option<QueueDiscipline>,
    #[arg(long, hide_short_help = true, value_enum)]
    discipline_up: Option<QueueDiscipline>,
    #[arg(long, hide_short_help = true, value_enum)]
    discipline_down: Option<QueueDiscipline>,
    /// Probability that a packet is lost
    #[arg(long, conflicts_with = "ber", value_name = "P")]
    loss: Option<Probability>,
    #[arg(long, hide_short_help = true, conflicts_with = "ber_up", value_name = "P")]
    loss_up: Option<Probability>,
    #[arg(long, hide_short_help = true, conflicts_with = "ber_down", value_name = "P")]
    loss_down: Option<Probability>,
    /// Lose packets in bursts of this mean length, at the loss rate of --loss
    #[arg(long, requires = "loss", value_name = "PACKETS")]
    burst: Option<f64>,
    #[arg(long, hide_short_help = true, requires = "loss_up", value_name = "PACKETS")]
    burst_up: Option<f64>,
    #[arg(long, hide_short_help = true, requires = "loss_down", value_name = "PACKETS")]
    burst_down: Option<f64>,
    /// Lose the packets with these numbers, counted from 0 in the order in which the link sends them
    #[arg(long, conflicts_with_all = ["loss", "ber"], value_delimiter = ',', value_name = "N,…")]
    drop: Vec<u64>,
    #[arg(long, hide_short_help = true, conflicts_with_all = ["loss_up", "ber_up"], value_delimiter = ',', value_name = "N,…")]
    drop_up: Vec<u64>,
    #[arg(long, hide_short_help = true, conflicts_with_all = ["loss_down", "ber_down"], value_delimiter = ',', value_name = "N,…")]
    drop_down: Vec<u64>,
    /// Bit error rate after error correction; longer packets are lost more often
    #[arg(long, value_name = "P")]
    ber: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    ber_up: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    ber_down: Option<Probability>,
    /// Fraction of packets that are delayed, so that others overtake them
    #[arg(long, value_name = "P")]
    reorder: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    reorder_up: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    reorder_down: Option<Probability>,
    /// Additional delay of packets that --reorder selects [default: 10ms]
    #[arg(long, value_name = "DELAY")]
    reorder_delay: Option<Duration>,
    /// Fraction of packets that arrive twice
    #[arg(long, value_name = "P")]
    duplicate: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    duplicate_up: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    duplicate_down: Option<Probability>,
}

/// How the size of a queue is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum QueueSize {
    Limit(QueueLimit),
    /// So many bandwidth-delay products.
    BandwidthDelayProducts(f64),
}

impl FromStr for QueueSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unlimited" {
            return Ok(Self::Limit(QueueLimit::Unlimited));
        }
        if let Some(number) = text.strip_suffix("BDP") {
            let products: f64 = number.trim().parse().map_err(|_| format!("`{number}` is not a number"))?;
            return if products > 0.0 && products <= 1000.0 {
                Ok(Self::BandwidthDelayProducts(products))
            } else {
                Err("it is not above 0BDP and at most 1000BDP".to_owned())
            };
        }
        if let Some(number) = text.strip_suffix("packets") {
            let packets = number.trim().parse().map_err(|_| format!("`{number}` is not a number of packets"))?;
            return Ok(Self::Limit(QueueLimit::Packets(packets)));
        }
        let bytes = Bytes::parse(text).map_err(|_| "write for example 100packets, 320KiB, 1BDP or unlimited")?;
        Ok(Self::Limit(QueueLimit::Bytes(bytes)))
    }
}

/// A discipline with its usual parameters; a link file may set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum QueueDiscipline {
    /// First in, first out; packets that arrive at a full queue are dropped
    DropTail,
    /// RFC 8289: target 5 ms, interval 100 ms
    Codel,
    /// RFC 8290: CoDel for each flow, and flows served in turn
    FqCodel,
    /// RFC 8033: drops what arrives with a probability that follows the queueing delay
    Pie,
    /// PIE for each flow, and flows served in turn
    FqPie,
    /// RFC 9332: a queue with early marks for ECT(1) beside one for all other packets
    #[value(name = "dual-pi2")]
    DualPi2,
}

impl From<QueueDiscipline> for Discipline {
    fn from(discipline: QueueDiscipline) -> Self {
        match discipline {
            QueueDiscipline::DropTail => Discipline::DropTail,
            QueueDiscipline::Codel => Discipline::Codel(Codel::default()),
            QueueDiscipline::FqCodel => Discipline::FqCodel(FqCodel::default()),
            QueueDiscipline::Pie => Discipline::Pie(Pie::default()),
            QueueDiscipline::FqPie => Discipline::FqPie(FqPie::default()),
            QueueDiscipline::DualPi2 => Discipline::DualPi2(DualPi2::default()),
        }
    }
}

/// The options of one direction, those for both paths included.
pub(super) struct Overrides {
    pub(super) rate: Option<RateLimit>,
    pub(super) delay: Option<Duration>,
    pub(super) queue: Option<QueueSize>,
    pub(super) discipline: Option<QueueDiscipline>,
    pub(super) loss: Option<LossModel>,
    pub(super) reorder: Option<Probability>,
    pub(super) duplicate: Option<Probability>,
}

impl LinkArgs {
    pub(super) fn up(&self) -> Result<Overrides, Failure> {
        let own = loss(self.loss_up, self.burst_up, self.ber_up, &self.drop_up)?;
        Ok(Overrides {
            rate: self.rate_up.or(self.rate),
            delay: self.delay_up.or(self.one_way()),
            queue: self.queue_up.or(self.queue),
            discipline: self.discipline_up.or(self.discipline),
            loss: own.or(self.loss_both()?),
            reorder: self.reorder_up.or(self.reorder),
            duplicate: self.duplicate_up.or(self.duplicate),
        })
    }

    pub(super) fn down(&self) -> Result<Overrides, Failure> {
        let own = loss(self.loss_down, self.burst_down, self.ber_down, &self.drop_down)?;
        Ok(Overrides {
            rate: self.rate_down.or(self.rate),
            delay: self.delay_down.or(self.one_way()),
            queue: self.queue_down.or(self.queue),
            discipline: self.discipline_down.or(self.discipline),
            loss: own.or(self.loss_both()?),
            reorder: self.reorder_down.or(self.reorder),
            duplicate: self.duplicate_down.or(self.duplicate),
        })
    }

    /// Additional delay of packets that are reordered.
    pub(super) fn reorder_delay(&self) -> Result<Duration, Failure> {
        let reorders = [self.reorder, self.reorder_up, self.reorder_down].iter().any(Option::is_some);
        match self.reorder_delay {
            Some(_) if !reorders => Err(Failure::usage("--reorder-delay delays nothing without --reorder")),
            delay => Ok(delay.unwrap_or(Duration::from_millis(10))),
        }
    }

    fn loss_both(&self) -> Result<Option<LossModel>, Failure> {
        loss(self.loss, self.burst, self.ber, &self.drop)
    }

    fn one_way(&self) -> Option<Duration> {
        self.delay.or(self.rtt.map(|rtt| rtt / 2))
    }
}

/// The model that the options for losses of one direction, or of both, stand for.
pub(super) fn loss(
    probability: Option<Probability>,
    burst: Option<f64>,
    bit_error_rate: Option<Probability>,
    drop_list: &[u64],
) -> Result<Option<LossModel>, Failure> {
    if !drop_list.is_empty() {
        return Ok(Some(LossModel::DropList(drop_list.to_vec())));
    }
    match (probability, burst, bit_error_rate) {
        (Some(loss), Some(burst), _) => {
            let model = GilbertElliott::with_bursts(loss, burst).ok_or_else(|| {
                let problem = "a burst is at least one packet long, and between two there is another packet";
                Failure::usage(format!("--loss {loss} --burst {burst}: {problem}"))
            })?;
            Ok(Some(LossModel::GilbertElliott(model)))
        }
        (Some(loss), None, _) => Ok(Some(LossModel::Bernoulli(loss))),
        (None, _, rate) => Ok(rate.map(LossModel::BitErrorRate)),
    }
}
