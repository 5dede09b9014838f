//! The result of `bentpipe demo`: as JSON, as text and as a page.

use super::Args;
use crate::curves::{self, Curve};
use crate::replay;
use crate::text::Text;
use lab::{Experiment, Flow, LinkParameters, Outcome};
use results::listing::{Listing, count, figure, text};
use serde::Serialize;
use units::{Bytes, Duration, Probability, Quantity, Rate};
use web::{Course, Replay};

/// The result of a demo.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The command that gives it again.
    command: String,
    link: LinkReport,
    transfer: TransferReport,
    pub(super) paths: Vec<PathReport>,
}

#[derive(Debug, Serialize)]
struct LinkReport {
    rate_bps: u64,
    rtt_s: f64,
    loss: Probability,
    reorder: Probability,
    duplicate: Probability,
    queue_bytes: u64,
    seed: u64,
}

#[derive(Debug, Serialize)]
struct TransferReport {
    size_bytes: u64,
    flows: usize,
    direction: lab::Direction,
}

/// What was measured on one path.
#[derive(Debug, Serialize)]
pub(super) struct PathReport {
    pub(super) path: String,
    time_s: f64,
    goodput_bps: u64,
    limit_s: f64,
    limit_share: f64,
    /// Bytes of IP packets sent into the link in the data's direction, over bytes of data.
    overhead: f64,
    pub(super) verified: bool,
    jain_index: f64,
    flows: Vec<FlowReport>,
    /// Packets of the data's direction that the link's queue and the link itself lost.
    dropped: emulator::Dropped,
    /// How late the emulator was against its model.
    lateness_us: emulator::Lateness,
    curve: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct FlowReport {
    time_s: f64,
    goodput_bps: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Point {
    time_s: f64,
    throughput_bps: u64,
}

/// Intervals of the longest curve.
const CURVE_STEPS: u64 = 120;

impl Report {
    /// The report before any path is measured.
    pub(super) fn new(args: &Args, experiment: &Experiment, paths: &[String]) -> Self {
        let LinkParameters { rate, rtt, loss, reorder, duplicate, seed } = experiment.link;
        Self {
            command: args.command(paths),
            link: LinkReport {
                rate_bps: rate.as_bps(),
                rtt_s: rtt.as_secs_f64(),
                loss,
                reorder,
                duplicate,
                queue_bytes: rate.bytes_in(rtt).as_u64(),
                seed,
            },
            transfer: TransferReport {
                size_bytes: args.size.as_u64(),
                flows: experiment.flows,
                direction: experiment.workload.direction,
            },
            paths: Vec::new(),
        }
    }

    fn title(&self) -> String {
        let flows = match self.transfer.flows {
            1 => String::new(),
            flows => format!("{flows} x "),
        };
        let way = match self.transfer.direction {
            lab::Direction::Up => "from the client to the server",
            lab::Direction::Down => "from the server to the client",
        };
        let mut harm = format!("{} of the packets lost", self.link.loss);
        for (what, probability) in [("reordered", self.link.reorder), ("duplicated", self.link.duplicate)] {
            if probability > Probability::ZERO {
                harm.push_str(&format!(", {probability} {what}"));
            }
        }
        format!(
            "{flows}{} {way}, {} and {} round-trip time, {harm}",
            Bytes::new(self.transfer.size_bytes),
            Rate::from_bps(self.link.rate_bps),
            Duration::from_secs_f64(self.link.rtt_s),
        )
    }

    /// As a page.
    pub(super) fn replay(&self) -> Replay {
        let mut fast = self.paths.iter().collect::<Vec<_>>();
        fast.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        let subject = fast.iter().find(|path| path.path == "bentpipe").or(fast.first());
        let headline = subject.map_or_else(String::new, |subject| {
            let others = self.paths.iter().filter(|path| path.path != subject.path);
            let others: Vec<_> = others.map(|path| (path.path.clone(), path.time_s)).collect();
            web::headline(&subject.path, subject.time_s, &others, Some(subject.limit_share))
        });
        Replay {
            title: self.title(),
            headline,
            courses: self.paths.iter().map(|path| path.course(self.transfer.bytes())).collect(),
            limit: self.paths.first().map(|path| self.limit(path.limit_s)),
            tables: vec![replay::table("Paths", &self.table(), 1)],
            note: "Time counts from the client's connect() to the receiver's last byte. Measured by".into(),
            command: self.command.clone(),
        }
    }

    /// What the link's physics allow: nothing until the first byte can have arrived, then the link's rate.
    fn limit(&self, end_s: f64) -> Course {
        let rounds = self.transfer.direction.rounds();
        let points = vec![(0.0, 0.0), (rounds * self.link.rtt_s, 0.0), (end_s, self.transfer.bytes())];
        Course { name: "limit of the link".into(), points, is_complete: true }
    }

    /// For people.
    pub(super) fn text(&self, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        text.lines(self.title()).blank().listing(&self.table()).blank();
        text.verbatim(curves::draw(&self.curves(), self.link.rate_bps as f64 / 1e6, columns));
        text
    }

    fn table(&self) -> Listing {
        let fair = (self.transfer.flows > 1).then(|| figure("Jain index", Quantity::Index));
        let columns = [
            text("path"),
            figure("time", Quantity::Time),
            figure("goodput", Quantity::Rate),
            figure("of the limit", Quantity::Share),
            figure("overhead", Quantity::Share),
            count("verified"),
        ];
        let has_fair = fair.is_some();
        let mut listing = Listing::new(columns.into_iter().chain(fair));
        for path in &self.paths {
            let row = [
                path.path.as_str().into(),
                path.time_s.into(),
                (path.goodput_bps as f64).into(),
                path.limit_share.into(),
                (path.overhead - 1.0).into(),
                if path.verified { "yes" } else { "NO" }.into(),
            ];
            listing.add(row.into_iter().chain(has_fair.then(|| path.jain_index.into())));
        }
        listing
    }

    /// Throughput against time, in Mbit/s.
    pub(super) fn curves(&self) -> Vec<Curve> {
        let of = |path: &PathReport| Curve {
            name: path.path.clone(),
            points: path.curve.iter().map(|point| (point.time_s, point.throughput_bps as f64 / 1e6)).collect(),
        };
        self.paths.iter().map(of).collect()
    }
}

impl TransferReport {
    /// Of all flows.
    fn bytes(&self) -> f64 {
        self.size_bytes as f64 * self.flows as f64
    }
}

impl PathReport {
    /// Its curve as bytes received.
    fn course(&self, whole: f64) -> Course {
        let (mut before, mut bytes) = (0.0, 0.0);
        let mut points = vec![(0.0, 0.0)];
        for point in self.curve.iter().take_while(|point| point.time_s < self.time_s) {
            bytes += point.throughput_bps as f64 / 8.0 * (point.time_s - before);
            before = point.time_s;
            points.push((before, bytes.min(whole)));
        }
        points.push((self.time_s, whole));
        Course { name: self.path.clone(), points, is_complete: true }
    }

    /// What `outcome` says of the path `name`.
    pub(super) fn new(name: &str, experiment: &Experiment, outcome: &Outcome) -> Self {
        let (time, limit) = (outcome.time(), experiment.limit());
        let carried = match experiment.workload.direction {
            lab::Direction::Up => &outcome.satellite.up,
            lab::Direction::Down => &outcome.satellite.down,
        };
        let step = (time / CURVE_STEPS).max(Duration::from_millis(20));
        let curve = outcome.curve(step).into_iter();
        Self {
            path: name.to_owned(),
            time_s: time.as_secs_f64(),
            goodput_bps: Rate::from_transfer(outcome.bytes(), time).as_bps(),
            limit_s: limit.as_secs_f64(),
            limit_share: limit.as_secs_f64() / time.as_secs_f64(),
            overhead: outcome.link_bytes.as_u64() as f64 / experiment.total().as_u64() as f64,
            verified: outcome.verified(),
            jain_index: outcome.jain_index(),
            flows: outcome.flows.iter().map(FlowReport::new).collect(),
            dropped: carried.dropped,
            lateness_us: carried.lateness_us,
            curve: curve.map(|(time_s, bps)| Point { time_s, throughput_bps: bps.round() as u64 }).collect(),
        }
    }
}

impl FlowReport {
    fn new(flow: &Flow) -> Self {
        Self { time_s: flow.time().as_secs_f64(), goodput_bps: flow.goodput().as_bps() }
    }
}
