//! The lists below the link: peers, streams and events, each with a title, a header and as many rows as fit.

use super::figures::{age, delay, percent, rate};
use super::history::History;
use super::view::{List, View};
use gateway::{Peer, PeerState, Stream};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Row, Table};
use units::Duration;

/// From this height of the terminal on, all lists are shown one below the other.
pub const TALL: u16 = 40;
/// From this width on, lists have all their columns.
const WIDE: u16 = 130;

/// What of the chosen list is on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    /// Rows of the list.
    pub rows: usize,
    /// As many fit.
    pub fit: usize,
}

/// Draws `list` into `area`.
pub fn draw(frame: &mut Frame, area: Rect, history: &History, view: &View, now: Duration, list: List) -> Shown {
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let rows = count(history, view, list);
    let is_alone = frame.area().height < TALL;
    frame.render_widget(title_line(history, view, list, is_alone), title);
    let fit = usize::from(body.height).saturating_sub(1);
    let first = if list == view.list { view.scrolled.min(rows.saturating_sub(fit)) } else { 0 };
    let columns = match list {
        List::Peers => peer_columns(body.width),
        List::Streams => stream_columns(body.width),
        List::Events => vec![Column::right("ago", 7), Column::wide("event")],
    };
    let rows_shown: Vec<(Vec<String>, bool)> = match list {
        List::Peers => view
            .peers(history)
            .into_iter()
            .skip(first)
            .take(fit)
            .map(|peer| peer_row(history, peer, body.width))
            .collect(),
        List::Streams => {
            let streams = view.streams(history).into_iter().skip(first).take(fit);
            streams.map(|stream| stream_row(history, stream, body.width)).collect()
        }
        List::Events => {
            let events = history.events.iter().rev().filter(|event| view.shows(&[&event.text])).skip(first).take(fit);
            events
                .map(|event| {
                    let mark = if event.is_trouble { "! " } else { "  " };
                    (vec![age((now - event.at).as_secs_f64()), format!("{mark}{}", event.text)], event.is_trouble)
                })
                .collect()
        }
    };
    let table = Table::new(rows_shown.into_iter().map(|row| table_row(row, &columns)), columns.iter().map(|c| c.width))
        .header(Row::new(columns.iter().map(|column| column.cell(column.name.to_owned()))).underlined());
    frame.render_widget(table, body);
    if rows == 0 && !view.filter.is_empty() {
        let [_, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(body);
        frame.render_widget(Line::from(format!("nothing matches: {}", view.filter)).italic(), below);
    }
    Shown { rows, fit }
}

/// How many rows `list` has.
pub fn count(history: &History, view: &View, list: List) -> usize {
    match list {
        List::Peers => view.peers(history).len(),
        List::Streams => view.streams(history).len(),
        List::Events => history.events.iter().filter(|event| view.shows(&[&event.text])).count(),
    }
}

/// The name of `list`, or of all lists where only one is shown; the chosen one in brackets.
fn title_line(history: &History, view: &View, list: List, is_alone: bool) -> Line<'static> {
    let names = [(List::Peers, "Peers"), (List::Streams, "Connections"), (List::Events, "Events")];
    let shown = names.into_iter().filter(|(one, _)| is_alone || *one == list);
    let titles = shown.map(|(one, name)| {
        let title = format!("{name} {}", count(history, view, one));
        if one == view.list { format!("[{title}]") } else { format!(" {title} ") }
    });
    let mut text = titles.collect::<Vec<_>>().join(" ");
    if !view.filter.is_empty() {
        text += &format!("  only: {}", view.filter);
    }
    Line::from(text).bold()
}

struct Column {
    name: &'static str,
    width: Constraint,
    is_right: bool,
}

impl Column {
    const fn left(name: &'static str, width: u16) -> Self {
        Self { name, width: Constraint::Length(width), is_right: false }
    }

    const fn right(name: &'static str, width: u16) -> Self {
        Self { name, width: Constraint::Length(width), is_right: true }
    }

    /// Shares with others of its kind what the rest leaves.
    const fn wide(name: &'static str) -> Self {
        Self { name, width: Constraint::Fill(1), is_right: false }
    }

    fn cell(&self, text: String) -> Text<'static> {
        let text = Text::from(text);
        if self.is_right { text.right_aligned() } else { text }
    }
}

fn table_row((texts, is_trouble): (Vec<String>, bool), columns: &[Column]) -> Row<'static> {
    let row = Row::new(texts.into_iter().zip(columns).map(|(text, column)| column.cell(text)));
    if is_trouble { row.style(Style::default().fg(Color::Red)) } else { row }
}

fn peer_columns(width: u16) -> Vec<Column> {
    let mut columns = vec![
        Column::wide("peer"),
        Column::left("state", 16),
        Column::right("transmit", 10),
        Column::right("receive", 10),
        Column::right("loss", 6),
        Column::right("RTT", 6),
        Column::right("conns", 5),
    ];
    if width >= WIDE {
        columns.extend([
            Column::right("resent", 6),
            Column::right("repair", 6),
            Column::right("MTU", 5),
            Column::left("address", 24),
        ]);
    }
    columns
}

fn peer_row(history: &History, peer: &Peer, width: u16) -> (Vec<String>, bool) {
    let rates = history.peers.get(&peer.name).copied().unwrap_or_default();
    let share = |share: Option<f64>| share.map_or("-".into(), percent);
    let mut row = vec![
        peer.name.clone(),
        peer.trouble.as_ref().map_or(peer.state.name().into(), |trouble| trouble.reason.to_string()),
        rate(rates.sent_bps),
        rate(rates.received_bps),
        share(rates.loss),
        peer.rtt_s.map_or("-".into(), delay),
        peer.streams.to_string(),
    ];
    if width >= WIDE {
        row.extend([
            share(rates.retransmitted),
            share(rates.repair),
            peer.mtu.to_string(),
            peer.address.map_or("-".into(), |address| address.to_string()),
        ]);
    }
    (row, peer.state != PeerState::Up || peer.trouble.is_some())
}

/// What the columns of fixed width and the gaps take, beside the two addresses.
const fn stream_rest(width: u16) -> u16 {
    if width >= WIDE { 12 + 14 + 10 + 7 + 10 + 10 + 16 + 8 } else { 7 + 10 + 16 + 4 }
}

fn stream_columns(width: u16) -> Vec<Column> {
    let ends = [Column::wide("client"), Column::wide("server")];
    if width >= WIDE {
        let peer = [Column::left("peer", 12)];
        let rest = [
            Column::left("state", 14),
            Column::left("class", 10),
            Column::right("age", 7),
            Column::right("from TCP", 10),
            Column::right("to TCP", 10),
            Column::left("stalled by", 16),
        ];
        peer.into_iter().chain(ends).chain(rest).collect()
    } else {
        let rest = [Column::right("age", 7), Column::right("rate", 10), Column::left("stalled by", 16)];
        ends.into_iter().chain(rest).collect()
    }
}

fn stream_row(history: &History, stream: &Stream, width: u16) -> (Vec<String>, bool) {
    let rates = history.rates(stream);
    let room = usize::from(width.saturating_sub(stream_rest(width)) / 2);
    let end = |address: Option<std::net::SocketAddr>| {
        shortened(&address.map_or_else(|| "-".into(), |address| address.to_string()), room)
    };
    let stall =
        stream.stall.map_or_else(|| "-".into(), |stall| format!("{} {}", stall.cause.name(), age(stall.time_s)));
    let (client, server) = (end(stream.client), end(stream.server));
    let row = if width >= WIDE {
        let class = stream.class.clone().unwrap_or_else(|| "-".into());
        let rates = [rate(rates.from_tcp_bps), rate(rates.to_tcp_bps)];
        let [from, to] = rates;
        vec![stream.peer.clone(), client, server, stream.state.clone(), class, age(stream.age_s), from, to, stall]
    } else {
        vec![client, server, age(stream.age_s), rate(rates.from_tcp_bps + rates.to_tcp_bps), stall]
    };
    (row, stream.stall.is_some())
}

/// The end of an address, which tells more than its beginning: the port and the host's part.
fn shortened(address: &str, room: usize) -> String {
    if address.len() <= room {
        return address.to_owned();
    }
    format!("…{}", &address[address.len() - room.saturating_sub(1).min(address.len())..])
}
