//! What people see: the links in a line each, what goes through, and its outcome.

use comfy_table::{CellAlignment, Table, presets};
use emulator::{DirectionReport, Monitor, Report, TerminalReport};
use indicatif::{ProgressBar, ProgressStyle};
use link::{Handover, LinkConfig, LossModel, QueueLimit};
use units::{Bytes, Duration, Instant, Rate};

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
                "{name} {rate}, {} lost, {} queue full, late {:.0}/{:.0}/{:.0} us",
                dropped.loss.packets,
                dropped.queue_full.packets,
                direction.lateness_us.p50,
                direction.lateness_us.p99,
                direction.lateness_us.p999,
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
pub(super) fn tables(report: &Report) -> String {
    let packets = packets(report);
    if report.up.terminals.is_empty() {
        return packets.to_string();
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["terminal", "requests", "given", "used", "constant", "by rate", "by volume", "free"]);
    for TerminalReport { name, totals, .. } in &report.up.terminals {
        let (given, used) = (totals.allocated_bytes(), totals.used_bytes);
        let share = if given == 0 { 0.0 } else { 100.0 * used as f64 / given as f64 };
        let bytes = [totals.cra_bytes, totals.rbdc_bytes, totals.vbdc_bytes, totals.fca_bytes];
        let kinds = bytes.map(|bytes| Bytes::new(bytes).to_string());
        let row = [name.clone(), totals.requests.to_string(), Bytes::new(given).to_string(), format!("{share:.1} %")];
        table.add_row(row.into_iter().chain(kinds));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{packets}\n{table}")
}

pub(super) fn packets(report: &Report) -> Table {
    let (up, down) = (&report.up, &report.down);
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "packets".to_owned(),
        format!("up ({} to {})", up.from, up.to),
        format!("down ({} to {})", down.from, down.to),
    ]);
    let mut row = |name: &str, value: &dyn Fn(&DirectionReport) -> String| {
        table.add_row([name.to_owned(), value(up), value(down)]);
    };
    row("offered", &|direction| direction.offered.packets.to_string());
    row("delivered", &|direction| direction.delivered.packets.to_string());
    row("mean rate", &|direction| {
        let wall = Duration::from_secs_f64(report.wall_s);
        Rate::from_transfer(Bytes::new(direction.delivered.bytes), wall).to_string()
    });
    row("lost on the link", &|direction| direction.dropped.loss.packets.to_string());
    row("queue full", &|direction| direction.dropped.queue_full.packets.to_string());
    row("queue delay", &|direction| direction.dropped.queue_delay.packets.to_string());
    row("duplicated", &|direction| direction.duplicated.packets.to_string());
    row("held back", &|direction| direction.reordered.packets.to_string());
    row("in transit at the end", &|direction| direction.in_transit_packets.to_string());
    row("not carried by the emulator", &|direction| {
        let dropped = &direction.dropped;
        let packets = dropped.memory_limit.packets + dropped.send_failed.packets;
        (packets + dropped.receive_overrun + dropped.unsupported).to_string()
    });
    row("address resolution (exempt)", &|direction| direction.exempt_frames.to_string());
    row("lateness p50/p99/p99.9/max", &|direction| {
        let late = &direction.lateness_us;
        format!("{:.0}/{:.0}/{:.0}/{:.0} us", late.p50, late.p99, late.p999, late.max)
    });
    row("time on the link p50/p95/p99/max", &|direction| {
        let [p50, p95, p99, max] = {
            let transit = &direction.transit_us;
            [transit.p50, transit.p95, transit.p99, transit.max].map(|micros| micros / 1e3)
        };
        format!("{p50:.1}/{p95:.1}/{p99:.1}/{max:.1} ms")
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
