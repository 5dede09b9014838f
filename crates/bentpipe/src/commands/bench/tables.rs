//! The rows of experiments as tables for people.

use experiments::{capacity, connections, cost, echo, hub, limit, proxies, relay, stalled, throughput};
use lab::Direction;
use lab::load::Tally;
use results::listing::{Cell, Column, Listing, count, figure, text};
use std::fmt::Display;
use units::Quantity;

fn time(name: &str) -> Column {
    figure(name, Quantity::Time)
}

fn share(name: &str) -> Column {
    figure(name, Quantity::Share)
}

fn index(name: &str) -> Column {
    figure(name, Quantity::Index)
}

pub(super) fn proxies(rows: &[proxies::Row]) -> Listing {
    let mut listing = Listing::new([
        text("row"),
        time("limit"),
        time("bentpipe"),
        share("of the limit"),
        index("Jain"),
        text("best proxy"),
        time("its time"),
        figure("ratio", Quantity::Number),
    ]);
    for row in rows {
        listing.add([
            row.row.into(),
            row.limit_s.into(),
            row.time_s.into(),
            row.limit_share.into(),
            row.jain_index.into(),
            row.best_proxy.into(),
            row.best_proxy_s.into(),
            row.ratio.into(),
        ]);
    }
    listing
}

pub(super) fn limit(rows: &[limit::Row]) -> Listing {
    let mut listing = Listing::new([
        text("row"),
        time("limit"),
        index("target"),
        index("simulated"),
        index("real"),
        index("overhead"),
        index("Jain"),
        index("latecomer"),
        time("queue p95"),
    ]);
    for row in rows {
        // Simulated and real.
        let both = |of: fn(&limit::Figures) -> Option<f64>| {
            let figures: Vec<_> = [&row.simulated, &row.real].into_iter().flatten().filter_map(of).collect();
            if figures.is_empty() { Cell::Missing } else { Cell::Figures { figures, between: " / " } }
        };
        let share = |figures: Option<limit::Figures>| Cell::from(figures.map(|figures| figures.share));
        listing.add([
            row.row.into(),
            row.limit_s.into(),
            row.target.into(),
            share(row.simulated),
            share(row.real),
            both(|figures| Some(figures.overhead)),
            both(|figures| figures.jain_index),
            both(|figures| figures.latecomer),
            both(|figures| figures.queue_ms.map(|ms| ms / 1e3)),
        ]);
    }
    listing
}

/// Each figure beside its target.
pub(super) fn capacity(rows: &[capacity::Row]) -> Listing {
    let mut listing = Listing::new([
        text("case"),
        text("direction"),
        count("seeds"),
        index("share"),
        index("least"),
        index("target"),
        share("overhead"),
        time("queue p95"),
        text("others"),
        text("misses"),
        index("real"),
    ]);
    for row in rows {
        let figures = &row.simulated;
        let others = [
            ("Jain", figures.jain_index),
            ("back RTT", figures.back_rtt),
            ("into outage", figures.sent_into_outage),
            ("requests s", figures.requests_s),
            ("policed", figures.policed),
        ];
        let others: Vec<_> =
            others.into_iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", value?))).collect();
        let phases = figures.phase_shares.map(|shares| shares.map(|share| format!("{share:.3}")).join(", "));
        let others = others.into_iter().chain(phases.map(|shares| format!("before, during, after {shares}")));
        listing.add([
            row.case.as_str().into(),
            if row.direction == Direction::Up { "up" } else { "down" }.into(),
            row.seeds.to_string().into(),
            figures.share.into(),
            row.least_share.into(),
            row.target.into(),
            (figures.overhead - 1.0).into(),
            figures.queue_p95_s.into(),
            others.collect::<Vec<_>>().join(", ").into(),
            row.missed.join(", ").into(),
            row.real.map(|real| real.share).into(),
        ]);
    }
    listing
}

pub(super) fn hub(rows: &[hub::Row]) -> Listing {
    let mut listing = Listing::new([
        count("terminals"),
        count("streams each"),
        time("limit"),
        time("time"),
        share("of the limit"),
        index("Jain over terminals"),
    ]);
    for row in rows {
        listing.add([
            row.terminals.to_string().into(),
            row.streams_each.to_string().into(),
            row.limit_s.into(),
            row.time_s.into(),
            row.limit_share.into(),
            row.jain_terminals.into(),
        ]);
    }
    listing
}

pub(super) fn stalled(rows: &[stalled::Row]) -> Listing {
    let mut listing = Listing::new([
        count("streams"),
        time("alone"),
        time("beside a stalled reader"),
        share("cost"),
        figure("gateways hold for it", Quantity::Bytes),
    ]);
    for row in rows {
        listing.add([
            row.streams.to_string().into(),
            row.alone_s.into(),
            row.beside_s.into(),
            (row.cost_percent / 100.0).into(),
            (row.held_bytes as f64).into(),
        ]);
    }
    listing
}

pub(super) fn echo(rows: &[echo::Row]) -> Listing {
    let mut listing = Listing::new([text("path"), time("round-trip time"), time("echo"), time("above it")]);
    for row in rows {
        let times = [row.rtt_ms, row.time_ms, row.above_rtt_ms].map(|ms| Cell::from(ms / 1e3));
        listing.add(std::iter::once(row.path.into()).chain(times));
    }
    listing
}

/// Processor time, in seconds for each gigabyte.
fn processor(name: &str) -> Column {
    figure(format!("{name}, s/GB"), Quantity::Number)
}

pub(super) fn throughput(rows: &[throughput::Row]) -> Listing {
    let throughput = figure("throughput", Quantity::Rate);
    let mut listing = Listing::new([count("connections"), throughput, processor("processor time, both gateways")]);
    for row in rows {
        listing.add([row.connections.to_string().into(), (row.throughput_bps as f64).into(), row.cpu_s_per_gb.into()]);
    }
    listing
}

pub(super) fn relay(rows: &[relay::Row]) -> Listing {
    let throughput = figure("throughput", Quantity::Rate);
    let processor = [processor("processor time, both gateways"), processor("each gateway")];
    let mut listing = Listing::new([text("transport"), throughput].into_iter().chain(processor));
    for relay::Row { transport, measured } in rows {
        listing.add([
            (*transport).into(),
            (measured.throughput_bps as f64).into(),
            measured.cpu_s_per_gb.into(),
            (measured.cpu_s_per_gb / 2.0).into(),
        ]);
    }
    listing
}

/// Processor time of gateways, case by case, and what else they cost.
pub(super) fn cost(rows: &[cost::Row]) -> Listing {
    let number = |name: &str| figure(name, Quantity::Number);
    let mut listing = Listing::new([
        text("case"),
        text("program"),
        figure("throughput", Quantity::Rate),
        processor("sender"),
        processor("receiver"),
        processor("both"),
        processor("busiest thread"),
        number("waits per MB"),
        index("bytes on the link / payload"),
        figure("idle connection", Quantity::Bytes),
        figure("processor, connection", Quantity::Time),
    ]);
    for row in rows {
        listing.add([
            row.case.as_str().into(),
            row.program.into(),
            row.throughput_bps.into(),
            row.sender_cpu_s_per_gb.into(),
            row.receiver_cpu_s_per_gb.into(),
            row.cpu_s_per_gb.into(),
            row.busiest_thread_s_per_gb.into(),
            row.waits_per_mb.into(),
            row.link_bytes_ratio.into(),
            row.bytes_per_idle_connection.into(),
            row.cpu_us_per_connection.map(|us| us / 1e6).into(),
        ]);
    }
    listing
}

/// Connections, and what they cost: processor time for each, memory for each that is idle.
pub(super) fn connections(rows: &[connections::Row]) -> Listing {
    let counts = ["open", "new, in a second", "answered", "refused, reset, none"].map(count);
    let times = ["first answer", "p99", "processor, both"].map(time);
    let memory = ["hub, each", "terminal, each"].map(|name| figure(name, Quantity::Bytes));
    let columns = std::iter::once(text("transport")).chain(counts).chain(times).chain(memory);
    let mut listing = Listing::new(columns.chain([count("descriptors")]));
    for row in rows {
        let all = [&row.open, &row.used, &row.new];
        let sum = |of: fn(&Tally) -> u64| all.into_iter().map(of).sum::<u64>();
        let pair = |one: &dyn Display, other: &dyn Display| format!("{one}, {other}");
        listing.add([
            row.transport.into(),
            row.relayed.to_string().into(),
            format!("{:.0}", row.new.begun_per_second).into(),
            format!("{} of {}", sum(|tally| tally.answered), sum(|tally| tally.connections)).into(),
            pair(
                &sum(|tally| tally.refused + tally.failed),
                &pair(&sum(|tally| tally.reset), &sum(|tally| tally.unanswered)),
            )
            .into(),
            (row.new.median_ms / 1e3).into(),
            (row.new.p99_ms / 1e3).into(),
            (row.cpu_us_per_connection / 1e6).into(),
            row.hub_bytes_per_idle_stream.into(),
            row.terminal_bytes_per_idle_stream.into(),
            pair(&row.hub_descriptors, &row.terminal_descriptors).into(),
        ]);
    }
    listing
}
