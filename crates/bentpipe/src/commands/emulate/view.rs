//! What people see: the links in a line each, what goes through, and its outcome.

use crate::text::Text;
use emulator::{DirectionReport, Monitor, Report, TerminalReport};
use indicatif::{ProgressBar, ProgressStyle};
use link::{Handover, LinkConfig, LossModel, QueueLimit};
use results::listing::{Cell, Listing, count, figure, text};
use units::{Bytes, Duration, Instant, Quantity, Rate};

/// One line on a terminal that says what is going through.
pub(super) struct StatusLine {
    pub(super) bar: ProgressBar,
    monitor: Monitor,
    /// When the line was last drawn, and the bytes delivered up and down until then.
    last: (Instant, [u64; 2]),
}

impl StatusLine {
    const INTERVAL: Duration = Duration::from_millis(500);

    pub(super) fn new(monitor: Monitor) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { bar, monitor, last: (Instant::ZERO, [0; 2]) }
    }

    pub(super) fn show(&mut self, now: Instant) {
        let interval = now.since(self.last.0);
        if interval < Self::INTERVAL {
            return;
        }
        let report = self.monitor.report();
        let delivered = [report.up.delivered.bytes, report.down.delivered.bytes];
        let part = |name: &str, direction: &DirectionReport, index: usize| {
            let rate = Rate::from_transfer(Bytes::new(delivered[index] - self.last.1[index]), interval);
            let dropped = &direction.dropped;
            format!(
                "{name} {}, {} lost, {} queue full, late {} (p99 {})",
                Quantity::Rate.text(rate.as_bps() as f64),
                dropped.loss.packets,
                dropped.queue_full.packets,
                Quantity::Time.text(direction.lateness_us.p50 / 1e6),
                Quantity::Time.text(direction.lateness_us.p99 / 1e6),
            )
        };
        let line = format!("{}  |  {}", part("up", &report.up, 0), part("down", &report.down, 1));
        self.last = (now, delivered);
        self.bar.set_message(line);
        self.bar.tick();
    }
}

/// A link in one line.
pub(super) fn describe(link: &LinkConfig) -> String {
    let rate = match link {
        LinkConfig { handover: Some(Handover { rate: Some([low, high]), .. }), .. } => format!("{low} to {high}"),
        LinkConfig { opportunities: Some(_), .. } => "recorded opportunities".to_owned(),
        LinkConfig { rate_steps: Some(_), .. } => "rate in steps".to_owned(),
        LinkConfig { rate: Some(rate), .. } => rate.to_string(),
        LinkConfig { rate: None, .. } => "unlimited rate".to_owned(),
    };
    let queue = match link.queue {
        QueueLimit::Packets(packets) => format!("queue of {packets} packets"),
        QueueLimit::Bytes(bytes) => format!("queue of {bytes}"),
        QueueLimit::Unlimited => "no limit to the queue".to_owned(),
    };
    let loss = match &link.loss {
        LossModel::None => String::new(),
        LossModel::Bernoulli(probability) => format!(", loss {probability}"),
        LossModel::BitErrorRate(rate) => format!(", bit error rate {rate}"),
        LossModel::GilbertElliott(_) | LossModel::TimedGilbertElliott(_) => ", losses in bursts".to_owned(),
        LossModel::DropList(_) | LossModel::DropFile(_) => ", listed losses".to_owned(),
        LossModel::Steps(_) => ", losses by time".to_owned(),
    };
    let delay = match link {
        LinkConfig { handover: Some(Handover { period, delay: [low, high], .. }), .. } => {
            format!("{low} to {high} one way, another satellite every {period}")
        }
        LinkConfig { delay_steps: Some(_), .. } => "delay in steps".to_owned(),
        LinkConfig { delay, .. } => format!("{delay} one way"),
    };
    format!("{rate}, {delay}, {queue}{loss}")
}

/// The report for people: all packets, and the terminals of a carrier.
pub(super) fn tables(report: &Report, columns: Option<usize>) -> Text {
    let mut text = Text::new(columns);
    text.listing(&packets(report));
    if !report.up.terminals.is_empty() {
        text.blank().listing(&terminals(&report.up.terminals));
    }
    text
}

fn terminals(terminals: &[TerminalReport]) -> Listing {
    let bytes = ["constant", "by rate", "by volume", "free"].map(|name| figure(name, Quantity::Bytes));
    let given = [figure("given", Quantity::Bytes), figure("used", Quantity::Share)];
    let mut listing = Listing::new([text("terminal"), count("requests")].into_iter().chain(given).chain(bytes));
    for TerminalReport { name, totals, .. } in terminals {
        let (given, used) = (totals.allocated_bytes() as f64, totals.used_bytes as f64);
        let share = if given == 0.0 { 0.0 } else { used / given };
        let bytes = [totals.cra_bytes, totals.rbdc_bytes, totals.vbdc_bytes, totals.fca_bytes];
        let row = [name.as_str().into(), totals.requests.into(), given.into(), share.into()];
        listing.add(row.into_iter().chain(bytes.map(|bytes| Cell::from(bytes as f64))));
    }
    listing
}

/// A row of the report: what it counts, and a direction's count.
type Count = (&'static str, fn(&DirectionReport) -> u64);

const COUNTS: [Count; 13] = [
    ("offered", |direction| direction.offered.packets),
    ("delivered", |direction| direction.delivered.packets),
    ("lost on the link", |direction| direction.dropped.loss.packets),
    ("queue full", |direction| direction.dropped.queue_full.packets),
    ("queue delay", |direction| direction.dropped.queue_delay.packets),
    ("policer", |direction| direction.dropped.policed.packets),
    ("marked", |direction| direction.marked.packets),
    ("duplicated", |direction| direction.duplicated.packets),
    ("held back", |direction| direction.reordered.packets),
    ("in transit at the end", |direction| direction.in_transit_packets),
    ("longer than the MTU", |direction| direction.dropped.oversize.packets),
    ("of no terminal", |direction| direction.dropped.no_terminal + direction.dropped.link_local),
    ("not carried by the emulator", |direction| {
        let dropped = &direction.dropped;
        let packets = dropped.memory_limit.packets + dropped.send_failed.packets;
        packets + dropped.receive_overrun + dropped.unsupported
    }),
];

fn packets(report: &Report) -> Listing {
    let counts = COUNTS.map(|(name, _)| count(name));
    let lateness = ["p50", "p99", "p99.9", "max"].map(|which| figure(format!("lateness {which}"), Quantity::Time));
    let transit = ["p50", "p95", "p99", "max"].map(|which| figure(format!("time on the link {which}"), Quantity::Time));
    let figures = std::iter::once(figure("mean rate", Quantity::Rate)).chain(lateness).chain(transit);
    let exempt = count("address resolution (exempt)");
    let mut listing = Listing::new(std::iter::once(text("packets")).chain(counts).chain([exempt]).chain(figures));
    for (name, direction) in [("up", &report.up), ("down", &report.down)] {
        let name = Cell::from(format!("{name} ({} to {})", direction.from, direction.to));
        let counts = COUNTS.map(|(_, of)| Cell::from(of(direction)));
        let wall = Duration::from_secs_f64(report.wall_s);
        let rate = Rate::from_transfer(Bytes::new(direction.delivered.bytes), wall).as_bps() as f64;
        let (late, transit) = (&direction.lateness_us, &direction.transit_us);
        let times = [late.p50, late.p99, late.p999, late.max, transit.p50, transit.p95, transit.p99, transit.max];
        let has_times = direction.delivered.packets > 0;
        let times = times.map(|micros| Cell::from(has_times.then_some(micros / 1e6)));
        let figures = std::iter::once(Cell::from(rate)).chain(times);
        let exempt = Cell::from(direction.exempt_frames);
        listing.add(std::iter::once(name).chain(counts).chain([exempt]).chain(figures));
    }
    listing.transposed()
}
