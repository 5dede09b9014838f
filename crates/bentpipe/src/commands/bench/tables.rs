//! The rows of experiments as tables for people.

use comfy_table::{Table, presets};
use experiments::{connections, echo, hub, limit, proxies, relay, stalled, throughput};
use lab::load::Tally;
use std::fmt::Display;
use units::Bytes;

pub(super) fn proxies(rows: &[proxies::Row]) -> Table {
    let mut table = table(&["row", "limit", "bentpipe", "of the limit", "Jain", "best proxy", "its time", "ratio"]);
    for row in rows {
        table.add_row([
            row.row.to_owned(),
            format!("{:.2} s", row.limit_s),
            format!("{:.2} s", row.time_s),
            format!("{:.1} %", row.limit_share * 100.0),
            format!("{:.3}", row.jain_index),
            row.best_proxy.to_owned(),
            format!("{:.2} s", row.best_proxy_s),
            format!("{:.2}", row.ratio),
        ]);
    }
    table
}

pub(super) fn limit(rows: &[limit::Row]) -> Table {
    let mut table =
        table(&["row", "limit", "target", "simulated", "real", "overhead", "Jain", "latecomer", "queue p95"]);
    for row in rows {
        let both = |of: &dyn Fn(&limit::Figures) -> Option<f64>, text: &dyn Fn(f64) -> String| {
            let figures = [&row.simulated, &row.real].into_iter().flatten().filter_map(of);
            figures.map(text).collect::<Vec<_>>().join(" / ")
        };
        let three_digits = |figure: f64| format!("{figure:.3}");
        let share = |figures: Option<limit::Figures>| figures.map_or_else(String::new, |f| three_digits(f.share));
        table.add_row([
            row.row.to_owned(),
            format!("{:.3} s", row.limit_s),
            three_digits(row.target),
            share(row.simulated),
            share(row.real),
            both(&|figures| Some(figures.overhead), &three_digits),
            both(&|figures| figures.jain_index, &three_digits),
            both(&|figures| figures.latecomer, &three_digits),
            both(&|figures| figures.queue_ms, &|queue| format!("{queue:.0} ms")),
        ]);
    }
    table
}

pub(super) fn hub(rows: &[hub::Row]) -> Table {
    let mut table = table(&["terminals", "streams each", "limit", "time", "of the limit", "Jain over terminals"]);
    for row in rows {
        table.add_row([
            row.terminals.to_string(),
            row.streams_each.to_string(),
            format!("{:.2} s", row.limit_s),
            format!("{:.2} s", row.time_s),
            format!("{:.1} %", row.limit_share * 100.0),
            format!("{:.4}", row.jain_terminals),
        ]);
    }
    table
}

pub(super) fn stalled(rows: &[stalled::Row]) -> Table {
    let mut table = table(&["streams", "alone", "beside a stalled reader", "cost", "gateways hold for it"]);
    for row in rows {
        table.add_row([
            row.streams.to_string(),
            format!("{:.2} s", row.alone_s),
            format!("{:.2} s", row.beside_s),
            format!("{:.1} %", row.cost_percent),
            Bytes::new(row.held_bytes).to_string(),
        ]);
    }
    table
}

pub(super) fn echo(rows: &[echo::Row]) -> Table {
    let mut table = table(&["path", "round-trip time", "echo", "above it"]);
    for row in rows {
        table.add_row([
            row.path.to_owned(),
            format!("{:.0} ms", row.rtt_ms),
            format!("{:.1} ms", row.time_ms),
            format!("{:.1} ms", row.above_rtt_ms),
        ]);
    }
    table
}

pub(super) fn throughput(rows: &[throughput::Row]) -> Table {
    let mut table = table(&["connections", "throughput", "both gateways' processor time"]);
    for row in rows {
        table.add_row([
            row.connections.to_string(),
            format!("{:.2} Gbit/s", row.throughput_bps as f64 / 1e9),
            format!("{:.2} s/GB", row.cpu_s_per_gb),
        ]);
    }
    table
}

pub(super) fn relay(rows: &[relay::Row]) -> Table {
    let mut table = table(&["transport", "throughput", "processor time, both gateways", "each gateway"]);
    for relay::Row { transport, measured } in rows {
        table.add_row([
            (*transport).to_owned(),
            format!("{:.2} Gbit/s", measured.throughput_bps as f64 / 1e9),
            format!("{:.2} s/GB", measured.cpu_s_per_gb),
            format!("{:.2} s/GB", measured.cpu_s_per_gb / 2.0),
        ]);
    }
    table
}

/// Of two figures the first is the hub's, the second the terminal's.
pub(super) fn connections(rows: &[connections::Row]) -> Table {
    let header = ["transport", "open", "new, in a second", "answered", "refused, reset, none", "first answer", "p99"];
    let mut table = table(&[&header[..], &["processor, both", "hub, each", "terminal, each", "descriptors"]].concat());
    for row in rows {
        let all = [&row.open, &row.used, &row.new];
        let sum = |of: fn(&Tally) -> u64| all.into_iter().map(of).sum::<u64>();
        let pair = |one: &dyn Display, other: &dyn Display| format!("{one}, {other}");
        table.add_row([
            row.transport.to_owned(),
            row.relayed.to_string(),
            format!("{:.0}", row.new.begun_per_second),
            format!("{} of {}", sum(|tally| tally.answered), sum(|tally| tally.connections)),
            pair(
                &sum(|tally| tally.refused + tally.failed),
                &pair(&sum(|tally| tally.reset), &sum(|tally| tally.unanswered)),
            ),
            format!("{:.2} ms", row.new.median_ms),
            format!("{:.1} ms", row.new.p99_ms),
            format!("{:.0} us", row.cpu_us_per_connection),
            Bytes::new(row.hub_bytes_per_idle_stream as u64).to_string(),
            Bytes::new(row.terminal_bytes_per_idle_stream as u64).to_string(),
            pair(&row.hub_descriptors, &row.terminal_descriptors),
        ]);
    }
    table
}

/// An empty table with a header.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    table
}
