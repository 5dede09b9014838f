//! What of the link the command line changes.

use crate::output::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use document::RateLimit;
use link::{Codel, Discipline, DualPi2, FqCodel, FqPie, GilbertElliott, LossModel, Pie, QueueLimit, Reorder};
use scenario::link_file::InPlace;
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
    #[arg(long, value_name = "PACKETS")]
    burst: Option<f64>,
    #[arg(long, hide_short_help = true, value_name = "PACKETS")]
    burst_up: Option<f64>,
    #[arg(long, hide_short_help = true, value_name = "PACKETS")]
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

impl Overrides {
    /// What holds in place of a link file's, so that what the file derives from it follows.
    pub(super) fn in_place(&self) -> InPlace {
        InPlace { rate: self.rate, delay: self.delay }
    }
}

impl LinkArgs {
    pub(super) fn up(&self) -> Result<Overrides, Failure> {
        let own = Losses { loss: self.loss_up, burst: self.burst_up, ber: self.ber_up, drop: &self.drop_up };
        Ok(Overrides {
            rate: self.rate_up.or(self.rate),
            delay: self.delay_up.or(self.one_way()),
            queue: self.queue_up.or(self.queue),
            discipline: self.discipline_up.or(self.discipline),
            loss: self.losses(&own)?,
            reorder: self.reorder_up.or(self.reorder),
            duplicate: self.duplicate_up.or(self.duplicate),
        })
    }

    pub(super) fn down(&self) -> Result<Overrides, Failure> {
        let own = Losses { loss: self.loss_down, burst: self.burst_down, ber: self.ber_down, drop: &self.drop_down };
        Ok(Overrides {
            rate: self.rate_down.or(self.rate),
            delay: self.delay_down.or(self.one_way()),
            queue: self.queue_down.or(self.queue),
            discipline: self.discipline_down.or(self.discipline),
            loss: self.losses(&own)?,
            reorder: self.reorder_down.or(self.reorder),
            duplicate: self.duplicate_down.or(self.duplicate),
        })
    }

    /// The reordering of a link of which the file says `base`, if packets are `reordered` by an option.
    pub(super) fn reorder(&self, reordered: Option<Probability>, base: Option<Reorder>) -> Option<Reorder> {
        let probability = reordered.or(base.map(|base| base.probability))?;
        let extra_delay = self.reorder_delay.or(base.map(|base| base.extra_delay));
        Some(Reorder { probability, extra_delay: extra_delay.unwrap_or(Duration::from_millis(10)) })
    }

    /// Whether --reorder-delay is given, which needs something to delay.
    pub(super) fn has_reorder_delay(&self) -> bool {
        self.reorder_delay.is_some()
    }

    /// Whether the option for the length of bursts is given, and no probability of losses for either direction.
    fn bursts_without_loss(&self) -> bool {
        self.burst.is_some() && [self.loss, self.loss_up, self.loss_down].iter().all(Option::is_none)
    }

    /// The losses of a direction with `own` options, beside which those for both directions hold.
    fn losses(&self, own: &Losses<'_>) -> Result<Option<LossModel>, Failure> {
        let both = Losses { loss: self.loss, burst: self.burst, ber: self.ber, drop: &self.drop };
        if self.bursts_without_loss() || (own.burst.is_some() && own.loss.or(both.loss).is_none()) {
            return Err(Failure::usage("--burst says how long bursts are, and --loss how much is lost: give both"));
        }
        if own.ber.is_some() || !own.drop.is_empty() {
            return own.model();
        }
        if own.loss.is_some() || own.burst.is_some() {
            let (loss, burst) = (own.loss.or(both.loss), own.burst.or(both.burst));
            return Losses { loss, burst, ber: None, drop: &[] }.model();
        }
        match both.loss {
            // Of the other direction alone.
            None => Losses { burst: None, ..both }.model(),
            Some(_) => both.model(),
        }
    }

    fn one_way(&self) -> Option<Duration> {
        self.delay.or(self.rtt.map(|rtt| rtt / 2))
    }
}

/// The options for losses of one direction, or of both.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses<'a> {
    pub(super) loss: Option<Probability>,
    pub(super) burst: Option<f64>,
    pub(super) ber: Option<Probability>,
    pub(super) drop: &'a [u64],
}

impl Losses<'_> {
    /// The model that they stand for.
    pub(super) fn model(&self) -> Result<Option<LossModel>, Failure> {
        if !self.drop.is_empty() {
            return Ok(Some(LossModel::DropList(self.drop.to_vec())));
        }
        match (self.loss, self.burst, self.ber) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        link: LinkArgs,
    }

    /// The models up and down.
    fn losses(options: &str) -> Result<[Option<LossModel>; 2], String> {
        let words = std::iter::once("emulate").chain(options.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let [up, down] = [line.link.up(), line.link.down()].map(|way| way.map_err(|failure| failure.to_string()));
        Ok([up?.loss, down?.loss])
    }

    #[test]
    fn options_of_a_direction_go_together_with_those_of_both() {
        let probability = |share| Probability::new(share).expect("a probability");
        let random = |share| Some(LossModel::Bernoulli(probability(share)));
        let bursts =
            |share, length| GilbertElliott::with_bursts(probability(share), length).map(LossModel::GilbertElliott);
        for (options, up, down) in [
            ("", None, None),
            ("--loss 0.01 --loss-up 0.02", random(0.02), random(0.01)),
            ("--loss 0.01 --burst 4", bursts(0.01, 4.0), bursts(0.01, 4.0)),
            ("--loss 0.01 --burst 4 --loss-up 0.02", bursts(0.02, 4.0), bursts(0.01, 4.0)),
            ("--loss 0.01 --burst-down 8", random(0.01), bursts(0.01, 8.0)),
            ("--loss-down 0.01 --burst 8", None, bursts(0.01, 8.0)),
            ("--loss 0.01 --drop-up 3", Some(LossModel::DropList(vec![3])), random(0.01)),
            (
                "--loss 0.01 --burst 4 --ber-up 1e-7",
                Some(LossModel::BitErrorRate(probability(1e-7))),
                bursts(0.01, 4.0),
            ),
        ] {
            assert_eq!(losses(options).expect(options), [up, down], "{options}");
        }
        for options in ["--burst 4", "--burst-up 4", "--burst-up 4 --loss-down 0.1", "--loss 0.01 --burst 0.5"] {
            assert!(losses(options).expect_err(options).contains("--burst"), "{options}");
        }
    }
}
