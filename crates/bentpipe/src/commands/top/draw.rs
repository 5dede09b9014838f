//! The screen, as a function of what is known and of how the user wants to see it. Colour adds to what the text says, nothing else.

use super::figures::{age, bars, bytes, delay, percent, rate};
use super::history::{History, LinkPoint};
use super::lists::{self, Shown};
use super::view::{List, View};
use crate::commands::gateway::status::unmeasured;
use gateway::link_state::Source;
use gateway::{PeerState, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use units::Duration;

/// Draws the state at `now`.
pub fn draw(frame: &mut Frame, history: &History, view: &View, now: Duration) -> Shown {
    let [title, notice, link, totals, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(7),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title_line(history, view).bold(), title);
    frame.render_widget(notice_line(history, now), notice);
    frame.render_widget(keys_line(view), keys);
    if let Some(latest) = &history.latest {
        draw_link(frame, link, history, latest);
        frame.render_widget(totals_line(latest), totals);
    }
    draw_lists(frame, body, history, view, now)
}

/// One list in small terminals, all in large ones.
fn draw_lists(frame: &mut Frame, area: Rect, history: &History, view: &View, now: Duration) -> Shown {
    if frame.area().height < lists::TALL {
        return lists::draw(frame, area, history, view, now, view.list);
    }
    // A list is as high as its rows, its title and its header, as far as there is room.
    let peers = (lists::count(history, view, List::Peers) + 2).clamp(4, usize::from(area.height) / 3);
    let areas: [Rect; 3] =
        Layout::vertical([Constraint::Length(peers as u16), Constraint::Fill(1), Constraint::Length(area.height / 4)])
            .areas(area);
    let mut shown = Shown::default();
    for (list, area) in [List::Peers, List::Streams, List::Events].into_iter().zip(areas) {
        let one = lists::draw(frame, area, history, view, now, list);
        if list == view.list {
            shown = one;
        }
    }
    shown
}

fn title_line(history: &History, view: &View) -> Line<'static> {
    let mut text = match &history.latest {
        None => "bentpipe top".to_owned(),
        Some(latest) => {
            let up = latest.peers.iter().filter(|peer| peer.state == PeerState::Up).count();
            format!(
                "{}  up {}  {}  peers up: {} of {}  connections: {}",
                latest.name,
                age(latest.uptime_s),
                latest.transport,
                up,
                latest.peers.len(),
                latest.streams.len()
            )
        }
    };
    if view.frozen.is_some() {
        text += "  FROZEN";
    }
    Line::from(text)
}

/// What is to be known before all else.
fn notice_line(history: &History, now: Duration) -> Line<'static> {
    let alarming = Style::default().fg(Color::Red);
    if let Some((since, why)) = &history.away {
        let state = if history.latest.is_some() { "GATEWAY AWAY, its last state below," } else { "NO GATEWAY" };
        return Line::styled(format!("{state} for {}: {why}", age((now - *since).as_secs_f64())), alarming);
    }
    let Some(latest) = &history.latest else { return Line::from("asking the gateway …") };
    if let Some(draining) = &latest.draining {
        let limit = draining.ends_within_s.map(|s| format!(", in {} at the latest", age(s))).unwrap_or_default();
        return Line::styled(
            format!("DRAINING: ends with the last of {} connections{limit}", draining.connections),
            alarming,
        );
    }
    let mut troubled = latest.peers.iter().filter_map(|peer| Some((peer, peer.trouble.as_ref()?)));
    match troubled.next() {
        Some((peer, trouble)) => {
            let others = match troubled.count() {
                0 => String::new(),
                others => format!(" (and {others} others)"),
            };
            let state = if peer.state == PeerState::Up { "" } else { " is not up" };
            Line::styled(format!("{}{state}{others}: {}", peer.name, trouble.says), alarming)
        }
        None => Line::default(),
    }
}

fn draw_link(frame: &mut Frame, area: Rect, history: &History, latest: &Snapshot) {
    let [head, rows] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::from(capacity(latest)).underlined(), head);
    let last = history.link.back().copied().unwrap_or_default();
    let capacity = latest.rate_bps as f64;
    let optional = |value: Option<f64>, write: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), write);
    let series: [(&str, String, Value, Scale); 6] = [
        ("transmit", rate(last.sent_bps), |point| point.sent_bps, Scale::Full(capacity, percent(last.use_share))),
        ("receive", rate(last.received_bps), |point| point.received_bps, Scale::Max(rate)),
        ("queue", optional(last.queue_s, delay), |point| point.queue_s.unwrap_or(0.0), Scale::Max(delay)),
        ("RTT", optional(last.rtt_s, delay), |point| point.rtt_s.unwrap_or(0.0), Scale::Max(delay)),
        ("loss", optional(last.loss, percent), |point| point.loss.unwrap_or(0.0), Scale::Max(percent)),
        ("repair", optional(last.repair, percent), |point| point.repair.unwrap_or(0.0), Scale::Max(percent)),
    ];
    for ((name, value, of, scale), row) in series.into_iter().zip(rows.rows()) {
        frame.render_widget(series_line(history, row.width, name, &value, of, &scale), row);
    }
}

type Value = fn(&LinkPoint) -> f64;

/// What a whole bar stands for.
enum Scale {
    /// A given value, and how much of it is in use.
    Full(f64, String),
    /// The largest value on the screen, written so.
    Max(fn(f64) -> String),
}

/// A name, the present value, its scale, and bars of the past.
fn series_line(history: &History, width: u16, name: &str, value: &str, of: Value, scale: &Scale) -> Line<'static> {
    const TEXT: usize = 40;
    let room = usize::from(width).saturating_sub(TEXT);
    let seen = history.link.iter().rev().take(room).map(of).fold(0.0, f64::max);
    let (full, remark) = match scale {
        Scale::Full(full, remark) => (*full, format!("{remark} in use")),
        Scale::Max(write) => (seen, format!("max {}", write(seen))),
    };
    let bars = bars(history.link.iter().map(of), room, full);
    let text = format!("{name:<9} {value:>11}  {remark:<16} ");
    Line::from(vec![Span::raw(text), Span::styled(bars, Style::default().fg(Color::Cyan))])
}

/// The capacity and where it is from, the link state, the modem, cross traffic.
fn capacity(latest: &Snapshot) -> String {
    let link = &latest.link;
    let believed = &latest.capacity;
    let basis = match &*believed.basis {
        "prior" if believed.prior_bps.is_some() => "configured".to_owned(),
        "prior" => "assumed".to_owned(),
        "remembered" | "reported" | "fixed" => believed.basis.to_string(),
        measured => format!("by {measured}"),
    };
    let mut text = format!("link {} {basis}", rate(latest.rate_bps as f64));
    match &*believed.state {
        "guess" => text += &unmeasured(believed),
        "silent" => text += ", no reports",
        _ if believed.policed => text += ", policed",
        _ => {}
    }
    if link.source != Source::Configured {
        // What is reported may be below what is in use, or the same.
        let reported = if link.rate_bps == latest.rate_bps { String::new() } else { rate(link.rate_bps as f64) + " " };
        text += &format!(" ({} {reported}for {})", link.source.name(), age(link.age_s));
    }
    if let Some(bps) = latest.cross_traffic_bps {
        text += &format!("  cross traffic {}", rate(bps as f64));
    }
    match &latest.modem {
        Some(modem) if modem.address.is_none() => text += "  no modem",
        Some(modem) if !modem.link_is_up => text += "  modem: link down",
        Some(_) => text += "  modem: link up",
        None => {}
    }
    text
}

/// What has gone wrong since the gateway started, and its memory.
fn totals_line(latest: &Snapshot) -> Line<'static> {
    let counters = &latest.connections;
    let dropped = latest.satellite.dropped.values().sum::<u64>() + latest.satellite.send_errors;
    let counts = [
        ("reset", counters.reset),
        ("abandoned", counters.abandoned),
        ("denied", counters.denied),
        ("refused", counters.refused),
        ("unreachable", counters.unreachable),
        ("unavailable", counters.unavailable),
        ("end to end", latest.bypassed.values().sum()),
        ("drops", dropped),
    ];
    let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
    let mut parts: Vec<String> = counts.collect();
    if let Some(memory) = &latest.satellite.memory {
        let limit = memory.limit_bytes.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)));
        // Of what is granted to peers, most is credit that idle ones keep.
        let unread: u64 = latest.peers.iter().map(|peer| peer.receive_buffered_bytes).sum();
        let held = memory.send_buffered_bytes.max(unread);
        parts.push(format!("memory {}{limit}", bytes(held)));
    }
    Line::from(format!("since start: {}", if parts.is_empty() { "no trouble".into() } else { parts.join(", ") }))
}

fn keys_line(view: &View) -> Line<'static> {
    if view.edits_filter {
        return Line::from(format!("filter: {}▏  Enter keep  Esc clear", view.filter)).reversed();
    }
    let sort = match view.list {
        List::Peers => format!("s sort:{}  ", view.peer_order.name()),
        List::Streams => format!("s sort:{}  ", view.stream_order.name()),
        List::Events => String::new(),
    };
    let freeze = if view.frozen.is_some() { "go on" } else { "freeze" };
    Line::from(format!("q quit  Tab list  {sort}/ filter  Space {freeze}  ↑↓ PgUp PgDn scroll")).reversed()
}
