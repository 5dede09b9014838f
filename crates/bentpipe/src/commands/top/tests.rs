//! What is on the screen, by states of a gateway and keys.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::draw::draw;
use super::history::History;
use super::view::View;
use gateway::Snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use serde_json::{Value, json};
use units::Duration;

/// A hub's state `seconds` after its start: two terminals, of which one is away, and two connections.
fn state(seconds: u64) -> Value {
    let stream = |number: u64, port: u64, moved: u64, held: u64| {
        json!({
            "stream": number, "peer": "terminal-1", "side": "far", "client": format!("198.18.0.1:{port}"),
            "server": "203.0.113.7:443", "class": "default", "state": "established", "age_s": seconds as f64,
            "from_tcp_bytes": moved, "to_tcp_bytes": 0, "send_buffered_bytes": 0, "receive_buffered_bytes": held,
            "stall": (held > 0 && seconds > 4).then(|| json!({"cause": "host", "time_s": seconds as f64 - 1.0})),
        })
    };
    json!({
        "name": "hub", "pid": 7, "predecessor": null, "draining": null, "uptime_s": seconds as f64, "public_key": "k",
        "transport": "satpep", "rate_bps": 8_000_000, "capacity": {
            "rate_bps": 8_000_000, "prior_bps": 6_000_000, "basis": "reported", "state": "track", "confidence": 1.0,
            "policed": false, "changes": {},
        },
        "link": {"rate_bps": 8_000_000, "receive_rate_bps": 2_000_000, "rtt_s": 0.55, "source": "dlep", "age_s": 3.0},
        "link_updates": [{"source": "api", "accepted": 0, "rejected": 0}, {"source": "dlep", "accepted": 1, "rejected": 0}],
        "modem": null, "cross_traffic_bps": 1_000_000,
        "privileges": {"uid": 0, "capabilities": [], "bounded": true, "seccomp": true, "landlock": "full"},
        "connections": {
            "accepted": 0, "connected": 2, "finished": 0, "reset": 0, "unavailable": 0, "denied": 4, "refused": 0,
            "unreachable": 0, "protocol_errors": 0, "bytes_from_tcp": 0, "bytes_to_tcp": 0,
        },
        "bypassed": {}, "satellite": {
            "sent_packets": 500 * seconds, "sent_ip_bytes": 625_000 * seconds, "received_packets": 100 * seconds,
            "received_ip_bytes": 10_000 * seconds, "memory": {"limit_bytes": 64_000_000, "granted_bytes": 60_000_000, "send_buffered_bytes": 0},
        },
        "peers": [
            {"name": "terminal-1", "state": "up", "rtt_s": 0.562, "mtu": 1500, "streams": 2, "sent_packets": 500 * seconds,
             "lost_packets": 5 * seconds, "sent_bytes": 500_000 * seconds, "retransmitted_bytes": 10_000 * seconds,
             "receive_buffered_bytes": 1_000_000},
            {"name": "terminal-2", "state": "connecting", "trouble": {"reason": "no_answer", "says": "nothing has come from it"}},
        ],
        "streams": [stream(1, 5001, 500_000 * seconds, 0), stream(2, 5002, 0, 10_000)],
    })
}

fn snapshot(state: Value) -> Snapshot {
    serde_json::from_value(state).unwrap()
}

/// So many states, a second apart.
fn history(states: u64) -> History {
    let mut history = History::default();
    (1..=states).for_each(|second| history.take(Duration::from_secs(second), Ok(snapshot(state(second)))));
    history
}

fn screen(history: &History, view: &View, now: u64, size: (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal
        .draw(|frame| {
            draw(frame, history, view, Duration::from_secs(now));
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    cells.chunks(size.0.into()).map(|row| row.concat().trim_end().to_owned() + "\n").collect()
}

fn press(view: &mut View, history: &History, keys: &[KeyCode]) {
    keys.iter().for_each(|key| view.on_key(KeyEvent::from(*key), history));
}

/// The position of each of `texts` in `screen`, which has them all; however many spaces there are between words.
fn places<const N: usize>(screen: &str, texts: [&str; N]) -> [usize; N] {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let screen = &screen.lines().map(words).collect::<Vec<_>>().join("\n");
    texts.map(|text| screen.find(text).unwrap_or_else(|| panic!("{text:?} is not in\n{screen}")))
}

#[test]
fn the_link_is_shown_with_rates_use_loss_and_queue() {
    let text = screen(&history(5), &View::default(), 5, (80, 24));
    places(
        &text,
        [
            "hub up 5s satpep peers up: 1 of 2 connections: 2",
            "terminal-2 is not up: nothing has come from it",
            "link 8.00Mbit/s reported (dlep for 3s) cross traffic 1.00Mbit/s",
            // 625 kB each second, and the cross traffic, of 8 Mbit/s.
            "transmit 5.00Mbit/s 75.0 % in use",
            "receive 80.0kbit/s max 80.0kbit/s",
            "queue 12.0ms max 12.0ms",
            "RTT 562ms",
            "loss 1.00 %",
            "repair 2.00 %",
            "since start: 4 denied, memory 1.00MB of 64.0MB",
            "[Peers 2]",
            "terminal-1 up 4.08Mbit/s 0bit/s 1.00 % 562ms 2",
            "q quit Tab list s sort:use / filter Space freeze",
        ],
    );
    // Four intervals: four bars at the right end, of five eighths of the capacity.
    let transmit = text.lines().find(|line| line.starts_with("transmit")).unwrap();
    assert!(transmit.ends_with(" ▅▅▅▅") && transmit.chars().count() == 80, "{transmit:?}");
}

#[test]
fn peers_are_sorted_by_use_and_by_trouble() {
    let (history, mut view) = (history(3), View::default());
    let order = |view: &View| places(&screen(&history, view, 3, (80, 24)), ["\nterminal-1", "\nterminal-2 no_answer"]);
    let [first, second] = order(&view);
    assert!(first < second, "the one with traffic is first");
    press(&mut view, &history, &[KeyCode::Char('s'), KeyCode::Char('s')]);
    let [first, second] = order(&view);
    assert!(second < first, "the one in trouble is first");
}

#[test]
fn connections_show_their_ends_rates_and_who_stalls_them() {
    let (history, mut view) = (history(5), View::default());
    press(&mut view, &history, &[KeyCode::Tab]);
    let small = screen(&history, &view, 5, (80, 24));
    let [fast, stalled] = places(&small, ["198.18.0.1:5001", "198.18.0.1:5002"]);
    assert!(fast < stalled, "the fast one is first\n{small}");
    places(&small, ["[Connections 2]", "4.00Mbit/s -", "0bit/s host 4s"]);
    press(&mut view, &history, &[KeyCode::Char('s')]);
    let [fast, stalled] = places(&screen(&history, &view, 5, (80, 24)), ["198.18.0.1:5001", "198.18.0.1:5002"]);
    assert!(stalled < fast, "the stalled one is first");
    let wide = screen(&history, &view, 5, (130, 24));
    places(&wide, ["from TCP", "stalled by", "established", "default"]);
}

#[test]
fn a_filter_leaves_the_rows_that_contain_it() {
    let (history, mut view) = (history(3), View::default());
    press(&mut view, &history, &[KeyCode::Tab, KeyCode::Char('/'), KeyCode::Char(':'), KeyCode::Char('5')]);
    press(&mut view, &history, &["0", "0", "2"].map(|digit| KeyCode::Char(digit.chars().next().unwrap())));
    assert!(screen(&history, &view, 3, (80, 24)).contains("filter: :5002"), "it is edited in the last line");
    press(&mut view, &history, &[KeyCode::Enter]);
    let text = screen(&history, &view, 3, (80, 24));
    places(&text, ["[Connections 1]", "only: :5002", "198.18.0.1:5002"]);
    assert!(!text.contains("198.18.0.1:5001"));
    view.filter = "absent".into();
    places(&screen(&history, &view, 3, (80, 24)), ["[Connections 0]", "nothing matches: absent"]);
    press(&mut view, &history, &[KeyCode::Esc]);
    assert!(screen(&history, &view, 3, (80, 24)).contains("198.18.0.1:5001"));
    press(&mut view, &history, &[KeyCode::Char('q')]);
    assert!(view.is_over);
}

/// The losses of the link, and of each of its peers, by what was sent to each and lost, before and after.
fn losses(before: &[(&str, u64, u64)], after: &[(&str, u64, u64)]) -> (Option<f64>, Vec<Option<f64>>) {
    let with = |at: u64, peers: &[(&str, u64, u64)]| {
        let mut with = state(at);
        let peer = |(name, sent, lost): &(&str, u64, u64)| json!({"name": name, "state": "up", "sent_packets": sent, "lost_packets": lost});
        with["peers"] = peers.iter().map(peer).collect();
        snapshot(with)
    };
    let mut history = History::default();
    history.take(Duration::from_secs(1), Ok(with(1, before)));
    history.take(Duration::from_secs(2), Ok(with(2, after)));
    (history.link[0].loss, history.peers.values().map(|peer| peer.loss).collect())
}

#[test]
fn no_more_than_everything_is_lost() {
    assert_eq!(losses(&[("a", 1000, 10)], &[("a", 1002, 16)]), (Some(1.0), vec![Some(1.0)]));
}

#[test]
fn a_peer_whose_counters_begin_again_says_nothing_of_the_losses_of_others() {
    let before = [("a", 1000, 0), ("b", 5000, 50)];
    assert_eq!(losses(&before, &[("a", 0, 0), ("b", 6000, 60)]), (Some(0.01), vec![None, Some(0.01)]));
    assert_eq!(losses(&before, &[("b", 6000, 60)]), (Some(0.01), vec![Some(0.01)]));
    assert_eq!(losses(&before, &[("a", 1000, 0), ("b", 6000, 60), ("c", 7, 7)]).0, Some(0.01));
}

#[test]
fn shares_of_packets_are_unknown_where_the_transport_counts_none() {
    let of_tcp = |at: u64, lost: u64| {
        let mut state = state(at);
        (state["transport"], state["cross_traffic_bps"]) = (json!("tcp"), Value::Null);
        state["satellite"] =
            json!({"sent_packets": 0, "sent_ip_bytes": 0, "received_packets": 0, "received_ip_bytes": 0});
        state["peers"] = json!([{"name": "a", "state": "up", "sent_bytes": 1000 * at, "lost_packets": lost}]);
        snapshot(state)
    };
    let mut history = History::default();
    history.take(Duration::from_secs(1), Ok(of_tcp(1, 0)));
    history.take(Duration::from_secs(2), Ok(of_tcp(2, 50)));
    assert_eq!((history.link[0].loss, history.link[0].repair), (None, None));
    assert_eq!(history.peers["a"].loss, None);
    let text = screen(&history, &View::default(), 2, (130, 40));
    assert!(!text.contains("cross traffic"), "it is not measured either\n{text}");
}

#[test]
fn what_happens_between_two_states_is_an_event() {
    let mut history = history(2);
    let mut changed = state(3);
    changed["peers"][0]["state"] = json!("unresponsive");
    changed["peers"][0]["mtu"] = json!(1280);
    changed["link"]["rate_bps"] = json!(4_000_000);
    changed["bypassed"] = json!({"unserved": 3, "rule voice": 2});
    changed["connections"]["denied"] = json!(5);
    changed["missing_interfaces"] = json!([{"key": "intercept.interfaces", "name": "lan0"}]);
    history.take(Duration::from_secs(3), Ok(snapshot(changed)));
    let mut view = View::default();
    press(&mut view, &history, &[KeyCode::BackTab]);
    places(
        &screen(&history, &view, 8, (80, 24)),
        [
            "[Events 7]",
            "5s ! 1 connection denied by policy",
            "5s ! 3 connections end to end: unserved",
            "5s 2 connections end to end: rule voice",
            "5s ! terminal-1: MTU 1500 to 1280",
            "5s ! terminal-1: up to unresponsive",
            "5s ! link: 8Mbit/s to 4Mbit/s by dlep",
            "5s ! the interface lan0 (intercept.interfaces) is missing",
        ],
    );
}

/// The events of a peer that has this state and MTU before and after.
fn events_of_a_peer(transport: &str, before: (&str, u64), after: (&str, u64)) -> Vec<(String, bool)> {
    let with = |at: u64, (name, mtu): (&str, u64)| {
        let mut with = state(at);
        with["transport"] = json!(transport);
        (with["peers"][0]["state"], with["peers"][0]["mtu"]) = (json!(name), json!(mtu));
        snapshot(with)
    };
    let mut history = History::default();
    history.take(Duration::from_secs(1), Ok(with(1, before)));
    history.take(Duration::from_secs(2), Ok(with(2, after)));
    history.events.iter().map(|event| (event.text.clone(), event.is_trouble)).collect()
}

#[test]
fn the_mtu_of_a_peer_that_is_not_up_is_no_event() {
    let ended = events_of_a_peer("satpep", ("up", 1500), ("connecting", 0));
    assert_eq!(ended, [("terminal-1: up to connecting".to_owned(), true)]);
}

#[test]
fn an_mtu_of_0_is_with_the_tcp_transport_what_the_route_allows() {
    let shrinks = events_of_a_peer("tcp", ("up", 0), ("up", 1280));
    assert_eq!(shrinks, [("terminal-1: MTU of the route to 1280".to_owned(), true)]);
    let grows = events_of_a_peer("tcp", ("up", 1280), ("up", 0));
    assert_eq!(grows, [("terminal-1: MTU 1280 to that of the route".to_owned(), false)]);
    assert_eq!(events_of_a_peer("satpep", ("up", 0), ("up", 1280)), []);
}

#[test]
fn connections_that_go_end_to_end_all_the_while_leave_room_for_other_events() {
    let mut history = history(1);
    let mut changed = state(2);
    for second in 2..1500 {
        changed["uptime_s"] = json!(second as f64);
        changed["peers"][0]["state"] = json!("unresponsive");
        changed["bypassed"] = json!({"rule voice": second - 1});
        changed["connections"]["refused"] = json!(second - 1);
        history.take(Duration::from_secs(second), Ok(snapshot(changed.clone())));
    }
    let events: Vec<_> = history.events.iter().map(|event| (&*event.text, event.is_trouble)).collect();
    let outcomes = |one, other| [(one, false), (other, true)];
    let later = outcomes("600 connections end to end: rule voice", "600 connections refused by the server");
    assert_eq!(events[0], ("terminal-1: up to unresponsive", true));
    assert_eq!(
        events[1..],
        [outcomes("1 connection end to end: rule voice", "1 connection refused by the server"), later, later].concat()
    );
}

#[test]
fn an_outage_of_a_thousand_peers_is_one_event_beside_its_cause() {
    let all = |at: u64, state_of_peers: &str, rate: u64| {
        let mut all = state(at);
        all["link"]["rate_bps"] = json!(rate);
        let peer = |at: u64| json!({"name": format!("site-{at}"), "state": state_of_peers});
        all["peers"] = (0..1000).map(peer).collect();
        snapshot(all)
    };
    let mut history = History::default();
    history.take(Duration::from_secs(1), Ok(all(1, "up", 8_000_000)));
    history.take(Duration::from_secs(2), Ok(all(2, "unresponsive", 1_000_000)));
    let events: Vec<_> = history.events.iter().map(|event| &*event.text).collect();
    assert_eq!(events, ["link: 8Mbit/s to 1Mbit/s by dlep", "1000 peers: up to unresponsive"]);
}

#[test]
fn a_gateway_that_goes_away_and_comes_back_is_shown_so() {
    let mut history = History::default();
    let view = View::default();
    history.take(Duration::from_secs(1), Err("none serves /run/x.sock".into()));
    places(&screen(&history, &view, 4, (80, 24)), ["NO GATEWAY for 3s: none serves /run/x.sock", "[Peers 0]"]);
    for second in 5..8 {
        history.take(Duration::from_secs(second), Ok(snapshot(state(second))));
    }
    history.take(Duration::from_secs(8), Err("none serves /run/x.sock".into()));
    let away = screen(&history, &view, 18, (80, 24));
    places(&away, ["GATEWAY AWAY, its last state below, for 10s: none serves", "terminal-1"]);
    // Another process: its counters start at zero, which is no rate.
    let mut restarted = state(1);
    restarted["pid"] = json!(8);
    history.take(Duration::from_secs(20), Ok(snapshot(restarted)));
    let back = screen(&history, &view, 20, (80, 24));
    assert!(!back.contains("AWAY"), "{back}");
    assert_eq!(history.link.len(), 2, "{back}");
    let events: Vec<_> = history.events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(events[events.len() - 2..], ["the gateway answers", "process 8 has started"]);
}

#[test]
fn a_frozen_screen_stays_while_the_present_goes_on() {
    let (mut history, mut view) = (history(3), View::default());
    press(&mut view, &history, &[KeyCode::Char(' ')]);
    history.take(Duration::from_secs(4), Ok(snapshot(state(4))));
    let shown = |view: &View| screen(view.frozen.as_deref().unwrap_or(&history), view, 4, (80, 24));
    places(&shown(&view), ["up 3s", "FROZEN", "Space go on"]);
    press(&mut view, &history, &[KeyCode::Char(' ')]);
    places(&shown(&view), ["up 4s", "Space freeze"]);
}

#[test]
fn any_size_can_be_drawn_and_tall_ones_show_all_lists() {
    let (history, mut view) = (history(400), View::default());
    assert_eq!(history.link.len(), 300, "the past is bounded");
    for _ in 0..3 {
        for size in [(1, 1), (10, 3), (39, 12), (80, 24), (129, 39), (130, 40), (300, 100)] {
            let text = screen(&history, &view, 400, size);
            assert!(text.lines().all(|line| line.chars().count() <= size.0.into()));
            if size.1 >= 40 {
                places(&text, ["Peers 2", "Connections 2", "Events 0", "terminal-2", "198.18.0.1:5002"]);
            }
        }
        press(&mut view, &history, &[KeyCode::PageDown, KeyCode::Tab]);
    }
}

#[test]
fn scrolling_ends_with_the_last_row() {
    let mut many = state(2);
    let peers: Vec<Value> = (0..50).map(|at| json!({"name": format!("site-{at:02}"), "state": "up"})).collect();
    many["peers"] = json!(peers);
    let mut history = history(1);
    history.take(Duration::from_secs(2), Ok(snapshot(many)));
    let mut view = View::default();
    press(&mut view, &history, &[KeyCode::PageDown; 20]);
    let text = screen(&history, &view, 2, (80, 24));
    places(&text, ["site-49"]);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal
        .draw(|frame| {
            let shown = draw(frame, &history, &view, Duration::ZERO);
            view.limit_scrolling(shown.rows, shown.fit);
        })
        .unwrap();
    press(&mut view, &history, &[KeyCode::Up]);
    assert!(!screen(&history, &view, 2, (80, 24)).contains("site-49"), "one key back, one row back");
}
