//! How the user wants to see a gateway: which list, in which order, which rows, and what each key changes of it.

use super::history::History;
use gateway::{Peer, PeerState, Stream};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The lists below the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum List {
    /// The peers: on a hub, its terminals.
    #[default]
    Peers,
    /// The relayed connections.
    Streams,
    /// What has happened.
    Events,
}

/// The order of peers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PeerOrder {
    /// The most traffic first.
    #[default]
    Use,
    /// The most loss first.
    Loss,
    /// Those that are not up first, then by loss.
    Trouble,
    /// By name.
    Name,
}

/// The order of streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamOrder {
    /// The fastest first.
    #[default]
    Rate,
    /// The longest stall first.
    Stall,
    /// The oldest first.
    Age,
}

/// What is shown, and how.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The list that keys act on; in small terminals the only one.
    pub list: List,
    /// The order of peers.
    pub peer_order: PeerOrder,
    /// The order of streams.
    pub stream_order: StreamOrder,
    /// Only rows that contain this are shown.
    pub filter: String,
    /// Whether keys go to the filter.
    pub edits_filter: bool,
    /// So many rows of [`Self::list`] are above the screen.
    pub scrolled: usize,
    /// What is shown instead of the present.
    pub frozen: Option<Box<History>>,
    /// Whether to end.
    pub is_over: bool,
    /// Whether to leave the terminal to the shell.
    pub stops: bool,
}

/// Rows that a page key moves by.
const PAGE: usize = 10;

impl View {
    /// Does what `key` stands for; `history` is the present, which freezing keeps.
    pub fn on_key(&mut self, key: KeyEvent, history: &History) {
        match key.code {
            // Ctrl-\ is reported as Ctrl-4, which terminals send as the same byte.
            KeyCode::Char('c' | '4' | '\\') if key.modifiers.contains(KeyModifiers::CONTROL) => self.is_over = true,
            KeyCode::Char('z') if key.modifiers.contains(KeyModifiers::CONTROL) => self.stops = true,
            _ if self.edits_filter => self.edit_filter(key.code),
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Tab => self.show(self.list.next()),
            KeyCode::BackTab => self.show(self.list.next().next()),
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('/') => self.edits_filter = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => {
                self.frozen = if self.frozen.is_some() { None } else { Some(Box::new(history.clone())) };
            }
            KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled += PAGE,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
    }

    /// Keeps within `rows` rows, of which `visible` are on the screen.
    pub fn limit_scrolling(&mut self, rows: usize, visible: usize) {
        self.scrolled = self.scrolled.min(rows.saturating_sub(visible));
    }

    fn show(&mut self, list: List) {
        (self.list, self.scrolled) = (list, 0);
    }

    fn edit_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.edits_filter = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.edits_filter = false;
            }
            _ => {}
        }
        self.scrolled = 0;
    }

    fn sort(&mut self) {
        use PeerOrder::{Loss, Name, Trouble, Use};
        use StreamOrder::{Age, Rate, Stall};
        match self.list {
            List::Peers => {
                self.peer_order = match self.peer_order {
                    Use => Loss,
                    Loss => Trouble,
                    Trouble => Name,
                    Name => Use,
                }
            }
            List::Streams => {
                self.stream_order = match self.stream_order {
                    Rate => Stall,
                    Stall => Age,
                    Age => Rate,
                }
            }
            List::Events => {}
        }
    }

    /// Whether a row of these texts is shown.
    pub fn shows(&self, texts: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&filter))
    }

    /// The peers to show, in order.
    pub fn peers<'a>(&self, history: &'a History) -> Vec<&'a Peer> {
        let peers = history.latest.iter().flat_map(|latest| &latest.peers);
        let mut peers: Vec<&Peer> = peers
            .filter(|peer| {
                let address = peer.address.map_or_else(String::new, |address| address.to_string());
                self.shows(&[&peer.name, peer.state.name(), &address])
            })
            .collect();
        let rates = |peer: &Peer| history.peers.get(&peer.name).copied().unwrap_or_default();
        let used = |peer: &Peer| rates(peer).sent_bps + rates(peer).received_bps;
        let loss = |peer: &Peer| rates(peer).loss.unwrap_or(0.0);
        let is_up = |peer: &Peer| peer.state == PeerState::Up;
        peers.sort_by(|a, b| {
            let by_loss = || loss(b).total_cmp(&loss(a));
            let order = match self.peer_order {
                PeerOrder::Use => used(b).total_cmp(&used(a)),
                PeerOrder::Loss => by_loss(),
                PeerOrder::Trouble => is_up(a).cmp(&is_up(b)).then_with(by_loss),
                PeerOrder::Name => std::cmp::Ordering::Equal,
            };
            order.then_with(|| a.name.cmp(&b.name))
        });
        peers
    }

    /// The streams to show, in order.
    pub fn streams<'a>(&self, history: &'a History) -> Vec<&'a Stream> {
        let streams = history.latest.iter().flat_map(|latest| &latest.streams);
        let ends = |stream: &Stream| {
            [stream.client, stream.server].map(|end| end.map_or_else(String::new, |end| end.to_string()))
        };
        // Reckoned once for each stream: there may be thousands.
        let mut keyed: Vec<(f64, &Stream)> = streams
            .filter(|stream| {
                self.filter.is_empty() || {
                    let [client, server] = ends(stream);
                    self.shows(&[&stream.peer, &client, &server, stream.class.as_deref().unwrap_or(""), &stream.state])
                }
            })
            .map(|stream| {
                let rates = history.rates(stream);
                let key = match self.stream_order {
                    StreamOrder::Rate => rates.from_tcp_bps + rates.to_tcp_bps,
                    StreamOrder::Stall => stream.stall.map_or(0.0, |stall| stall.time_s),
                    StreamOrder::Age => stream.age_s,
                };
                (key, stream)
            })
            .collect();
        keyed.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| y.age_s.total_cmp(&x.age_s)));
        keyed.into_iter().map(|(_, stream)| stream).collect()
    }
}

impl List {
    fn next(self) -> Self {
        match self {
            Self::Peers => Self::Streams,
            Self::Streams => Self::Events,
            Self::Events => Self::Peers,
        }
    }
}

impl PeerOrder {
    /// As the keys' line shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Loss => "loss",
            Self::Trouble => "trouble",
            Self::Name => "name",
        }
    }
}

impl StreamOrder {
    /// As the keys' line shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Stall => "stall",
            Self::Age => "age",
        }
    }
}
