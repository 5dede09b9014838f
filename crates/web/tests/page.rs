//! The page in a real browser. Skipped where there is no Chromium.

use crate::chromium::Browser;
use crate::site::Site;
use serde_json::{Value, json};
use status::{Modem, PeerState, Stall, StallCause, Trouble};
use std::net::TcpListener;
use web::{Access, Token};

const IS_LIVE: &str = "document.getElementById('connection').textContent === 'live'";

/// A browser that shows the page of `site`.
fn shown(site: &Site, view: &str) -> Option<Browser> {
    let mut browser = Browser::start()?;
    browser.open(&format!("http://{}/{view}", site.address()), 1280, 900);
    browser.wait(IS_LIVE);
    Some(browser)
}

#[test]
fn the_page_shows_the_numbers_of_the_gateway_and_asks_nobody_else() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    browser.wait("document.getElementById('sent').textContent.includes('Mbit/s')");
    let expected = [
        ("name", "gw"),
        ("capacity", "6.00 Mbit/s"),
        ("source", "(estimated from arrivals)"),
        ("cross", "500 kbit/s"),
        ("rtt", "600 ms"),
        ("queueing", "50.0 ms"),
    ];
    for (id, text) in expected {
        assert_eq!(browser.text(id), text, "{id}");
    }
    assert_eq!(browser.text("up"), "2 of 2");
    // 250,000 bytes in each sample, which are a second apart as well as the host keeps time.
    let sent: f64 = browser.text("sent").split(' ').next().unwrap().parse().unwrap();
    assert!((1.5..2.5).contains(&sent), "{sent} Mbit/s");
    browser.wait("document.querySelectorAll('#charts canvas').length === 6");
    let own = format!("http://{}/", site.address());
    assert!(
        browser.requested.iter().all(|url| url.starts_with(&own) || url.starts_with("data:")),
        "{:?}",
        browser.requested
    );
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_terminal_that_dies_is_seen_in_numbers_table_and_events() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "#peers") else { return };
    browser.wait("document.querySelectorAll('#view-peers tbody tr').length === 2");
    site.change(|state| {
        state.peers[1].state = PeerState::Unresponsive;
        state.peers[1].trouble = Some(Trouble::new("no_answer", "<b>no answer</b>"));
    });
    browser.wait("document.getElementById('peer-count').textContent === '1/2'");
    let row = "document.querySelector('#view-peers td.trouble')?.textContent === 'unresponsive: <b>no answer</b>'";
    browser.wait(row);
    browser.wait("document.getElementById('announcement').textContent.startsWith('terminal-2 is unresponsive')");
    browser.value("location.hash = '#events'");
    browser.wait("document.querySelector('#all li')?.innerText.includes('terminal-2 is unresponsive')");
}

#[test]
fn the_link_to_the_content_leaves_the_view_as_it_is() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "#peers") else { return };
    browser.value("document.querySelector('.skip').click()");
    browser.wait("document.activeElement.id === 'main'");
    assert_eq!(browser.value("document.getElementById('view-peers').hidden"), false);
    browser.value("location.hash = '#streams'");
    browser.wait("!document.getElementById('view-streams').hidden");
    browser.value("history.back()");
    browser.wait("!document.getElementById('view-peers').hidden");
}

#[test]
fn one_history_is_fetched_at_a_time_and_the_span_that_was_chosen_last_is_shown() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = Browser::start() else { return };
    // Histories come late, unless they are given up.
    let slow = "window.open = 0; window.most = 0; window.begun = 0; const fast = window.fetch; \
                window.fetch = async (address, options) => { \
                if (!address.includes('history')) return fast(address, options); \
                begun += 1; open += 1; most = Math.max(most, open); \
                const given_up = new Promise((_, fail) => options.signal.addEventListener('abort', fail)); \
                try { await Promise.race([given_up, new Promise((done) => setTimeout(done, 3000))]); } \
                finally { await null; open -= 1; } \
                return fast(address, options); }";
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": slow}));
    browser.open(&format!("http://{}/", site.address()), 1280, 900);
    browser.wait(IS_LIVE);
    for span in ["hour", "minutes", "hour"] {
        browser.value(&format!("document.querySelector('[value={span}]').click()"));
        browser.wait("open === 1");
    }
    browser.wait("open === 0");
    assert_eq!(
        browser.value("begun >= 3 && most <= 2"),
        true,
        "one that is given up may end behind the next one's begin"
    );
}

#[test]
fn a_span_without_points_has_no_time_in_its_legends() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    let times =
        "[...document.querySelectorAll('.u-legend .u-series:first-child .u-value')].map((time) => time.textContent)";
    browser.wait(&format!("{times}.length === 6 && {times}.every((time) => /^[0-9:]+$/.test(time))"));
    browser.value("document.querySelector('[value=day]').click()");
    browser.wait(&format!("{times}.every((time) => time === '–')"));
}

#[test]
fn an_address_with_the_token_shows_all_of_the_page() {
    let site = Site::start(Access::Token(Token::new("0123456789abcdef").unwrap()));
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&format!("http://any:0123456789abcdef@{}/", site.address()), 1280, 900);
    browser.wait(IS_LIVE);
    browser.wait("document.querySelectorAll('#charts canvas').length === 6");
}

#[test]
fn streams_are_filtered_and_sorted_by_the_gateway() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "#streams") else { return };
    browser.wait("document.querySelectorAll('#view-streams tbody tr').length === 20");
    let filter = "const field = document.querySelector('#view-streams input'); field.value = '10.0.0.7'; field.dispatchEvent(new Event('input'))";
    browser.value(filter);
    browser.wait("document.querySelector('#view-streams tbody').innerText.includes('10.0.0.7:1007') && document.querySelectorAll('#view-streams tbody tr').length === 1");
    browser.value("document.querySelector('#view-streams [title=\"Sort by age\"]').click()");
    browser.wait("document.querySelector('#view-streams [aria-sort]').innerText.startsWith('Age')");
}

#[test]
fn what_is_marked_is_the_order_of_the_rows() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "#peers") else { return };
    let is_first = |name| format!("document.querySelector('#view-peers tbody th')?.textContent === '{name}'");
    let marked = "[...document.querySelectorAll('#view-peers :is([aria-sort], [aria-pressed=true])')].map((one) => one.textContent).join()";
    browser.wait(&is_first("terminal-2"));
    assert_eq!(browser.value(marked), "Busiest first");
    for (button, name, mark) in [
        ("[title=\"Sort by sent\"]", "terminal-1", "Sent"),
        ("[title=\"Sort by received\"]", "terminal-2", "Received"),
        ("[title=\"Sort by peer\"]", "terminal-1", "Peer"),
        ("[aria-pressed]", "terminal-2", "Busiest first"),
    ] {
        browser.value(&format!("document.querySelector('#view-peers {button}').click()"));
        browser.wait(&is_first(name));
        assert_eq!(browser.value(marked), mark);
    }
}

#[test]
fn a_page_that_loses_its_gateway_says_so_and_comes_back_by_itself() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    let address = site.address();
    drop(site);
    browser.wait("document.getElementById('connection').textContent === 'connection lost, trying again'");
    let again = Site::at(TcpListener::bind(address).unwrap(), Access::Local);
    again.change(|state| state.rate_bps = 7_000_000);
    browser.wait(IS_LIVE);
    browser.wait("document.getElementById('capacity').textContent === '7.00 Mbit/s'");
}

#[test]
fn events_of_another_process_stay_when_a_history_from_before_them_comes() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = Browser::start() else { return };
    let slow = "const fast = window.fetch; window.late = 0; window.came = false; window.fetch = async (address, options) => { \
                const response = await fast(address, options); \
                if (!address.includes('history') || late === 0) return response; \
                const text = await response.text(); \
                await new Promise((done) => setTimeout(done, late)); \
                setTimeout(() => { came = true; }, 500); \
                return new Response(text); }";
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": slow}));
    browser.open(&format!("http://{}/", site.address()), 1280, 900);
    browser.wait(IS_LIVE);
    let latest = |text: &str| format!("document.getElementById('latest').innerText.includes('{text}')");
    site.change(|state| state.peers[0].state = PeerState::Unresponsive);
    browser.wait(&latest("terminal-1 is unresponsive"));
    let address = site.address();
    drop(site);
    browser.value("window.late = 6000");
    let again = Site::at(TcpListener::bind(address).unwrap(), Access::Local);
    browser.wait("document.getElementById('connection').textContent !== 'live'");
    browser.wait(IS_LIVE);
    again.change(|state| state.peers[1].state = PeerState::Unresponsive);
    browser.wait(&latest("terminal-2 is unresponsive"));
    browser.wait("came");
    assert_eq!(browser.value(&latest("terminal-2 is unresponsive")), true);
    assert_eq!(browser.value(&latest("terminal-1")), false);
}

#[test]
fn a_hidden_page_has_no_connection_until_it_is_shown_again() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = Browser::start() else { return };
    let noted = "window.sources = []; window.EventSource = class extends EventSource { \
                 constructor(address) { super(address); sources.push(this); } }";
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": noted}));
    browser.open(&format!("http://{}/", site.address()), 1280, 900);
    browser.wait(IS_LIVE);
    let show = |browser: &mut Browser, is_shown: bool| {
        browser.value(&format!(
            "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}}); \
             document.dispatchEvent(new Event('visibilitychange'))",
            !is_shown
        ));
    };
    show(&mut browser, false);
    browser.wait("sources.every(source => source.readyState === EventSource.CLOSED)");
    browser.value("location.hash = '#streams'");
    browser.wait("!document.getElementById('view-streams').hidden");
    assert_eq!(browser.value("sources.length"), 1, "it is still hidden");
    show(&mut browser, true);
    browser.wait("document.querySelectorAll('#view-streams tbody tr').length === 20");
}

#[test]
fn everything_that_can_be_used_has_a_name_and_no_width_scrolls_sideways() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    for view in ["link", "peers", "streams", "events"] {
        browser.value(&format!("location.hash = '#{view}'"));
        browser.wait(&format!("!document.getElementById('view-{view}').hidden"));
        browser.wait(IS_LIVE);
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap();
        let used = ["button", "link", "searchbox", "radio", "table", "img", "group", "navigation", "columnheader"];
        let is_used = |node: &&Value| used.contains(&node["role"]["value"].as_str().unwrap_or_default());
        let named: Vec<_> = nodes.iter().filter(|node| node["ignored"] == false).filter(is_used).collect();
        assert!(named.len() > 4, "{view}");
        // uPlot's legends are tables of names and numbers under the heading of their group.
        let is_legend = |node: &Value| node["role"]["value"] == "table" && view == "link";
        for node in named.into_iter().filter(|node| !is_legend(node)) {
            assert!(node["name"]["value"].as_str().is_some_and(|name| !name.is_empty()), "{view}: {node}");
        }
        if view == "peers" || view == "streams" {
            browser.wait(&format!("document.querySelector('#view-{view} tbody tr') !== null"));
        }
        for width in [360, 768, 1280, 2560] {
            browser.resize(width, 900);
            browser.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
            browser.picture(&format!("{view}-{width}"));
        }
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
        );
        browser.resize(1280, 900);
        browser.picture(&format!("{view}-dark"));
        browser.call("Emulation.setEmulatedMedia", json!({"features": []}));
    }
}

#[test]
fn colours_that_the_system_forces_leave_bar_and_tabs_readable() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    browser.wait("document.querySelectorAll('.u-marker').length > 6");
    let forced = json!({"features": [{"name": "forced-colors", "value": "active"}]});
    browser.call("Emulation.setEmulatedMedia", forced);
    browser.wait("matchMedia('(forced-colors: active)').matches");
    let differ = |element: &str, property: &str| {
        let colours =
            format!("[...document.querySelectorAll('{element}')].map((one) => getComputedStyle(one).{property})");
        format!("{colours}.length > 1 && new Set({colours}).size > 1")
    };
    for (element, property) in [
        (".bar, .bar span", "backgroundColor"),
        (".swatch", "backgroundColor"),
        ("figure:first-child .u-marker", "borderTopColor"),
        ("nav a", "borderBottomColor"),
    ] {
        assert_eq!(browser.value(&differ(element, property)), true, "{element}");
    }
}

#[test]
fn a_link_that_is_cut_and_restored_is_seen_in_numbers_and_events() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    site.change(|sample| sample.peers.iter_mut().for_each(|peer| peer.state = PeerState::Unresponsive));
    browser.wait("document.getElementById('up').textContent === '0 of 2'");
    browser.wait("document.getElementById('up').classList.contains('trouble')");
    browser.wait("document.getElementById('latest').innerText.includes('terminal-1 is unresponsive')");
    browser.wait("document.querySelector('.told').textContent.includes('terminal-2 is unresponsive')");
    browser.picture("cut");
    site.change(|sample| sample.peers.iter_mut().for_each(|peer| peer.state = PeerState::Up));
    browser.wait("document.getElementById('up').textContent === '2 of 2'");
    browser.wait("document.getElementById('latest').innerText.includes('terminal-1 is up')");
}

#[test]
fn stalls_estimates_and_the_modems_word_are_shown() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "#streams") else { return };
    site.change(|sample| {
        sample.streams[3].stall = Some(Stall { cause: StallCause::Host, time_s: 72.0 });
        sample.streams[3].to_tcp_bytes = 1_000_000;
        let name = Some("Modem X".into());
        sample.modem = Some(Modem {
            address: Some(([192, 0, 2, 9], 854).into()),
            name,
            link_is_up: true,
            quality: Some(87),
            ..Modem::default()
        });
    });
    browser.value("document.querySelector('#view-streams [title=\"Sort by stalled by\"]').click()");
    browser.wait("document.querySelector('#view-streams tbody tr').innerText.includes('host, 1 min 12 s')");
    browser.value("location.hash = '#link'");
    browser.wait("document.getElementById('link-state').textContent.includes('Modem Modem X: link up, quality 87 %.')");
    browser.wait(
        "document.getElementById('estimate').textContent.includes('estimated when the RTT of the link is known')",
    );
    site.change(|sample| (sample.peers[0].sent_packets, sample.peers[0].lost_packets) = (100_000, 1000));
    // RFC 9438, section 5.1: 21.3 segments in a round trip of 550 ms.
    browser.wait("document.getElementById('without').textContent === '448 kbit/s'");
    browser.wait("document.getElementById('estimate').textContent.includes('an estimate for one connection with CUBIC, end to end and alone on a link of 550 ms RTT that loses 1.00 %')");
}

#[test]
fn the_page_is_ready_300_ms_after_it_has_loaded() {
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    let after = "performance.getEntriesByName('live')[0].startTime - performance.getEntriesByType('navigation')[0].loadEventEnd";
    let mut measured = Vec::new();
    for _ in 0..5 {
        browser.call("Page.reload", json!({"ignoreCache": true}));
        browser.wait("performance.getEntriesByName('live').length > 0");
        measured.push(browser.value(after).as_f64().unwrap());
    }
    println!("live after load, in ms: {measured:.0?}");
    // The best of five: others share the processor.
    assert!(measured.iter().any(|time| *time <= 300.0), "{measured:?}");
}

/// Rules of axe-core that find faults, by impact.
fn faults(browser: &mut Browser, axe: &str) -> Vec<(String, String, String)> {
    browser.value(axe);
    let found = browser.value("axe.run().then((result) => result.violations.map((fault) => [fault.impact, fault.id, fault.nodes.map((node) => node.html).join(' ').slice(0, 300)]))");
    serde_json::from_value(found).unwrap()
}

/// axe-core, where `npm ci` has fetched it.
fn axe() -> Option<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/axe/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(file).ok();
    if axe.is_none() {
        eprintln!("skipped: axe-core is missing (npm ci --ignore-scripts --prefix crates/web/tests/axe)");
    }
    axe
}

#[test]
fn axe_finds_no_serious_fault_in_any_view_or_a_replay() {
    let Some(axe) = axe() else { return };
    let site = Site::start(Access::Local);
    let Some(mut browser) = shown(&site, "") else { return };
    let mut found = Vec::new();
    for scheme in ["light", "dark"] {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", media);
        for view in ["link", "peers", "streams", "events"] {
            browser.value(&format!("location.hash = '#{view}'"));
            browser.wait(&format!("!document.getElementById('view-{view}').hidden"));
            browser.wait(IS_LIVE);
            found.extend(faults(&mut browser, &axe).into_iter().map(|fault| (view, scheme, fault)));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.html");
    std::fs::write(&file, crate::replay::replay().html()).unwrap();
    browser.open(&format!("file://{}", file.display()), 1280, 900);
    browser.wait("document.body.dataset.ready === 'yes'");
    found.extend(faults(&mut browser, &axe).into_iter().map(|fault| ("replay", "dark", fault)));
    println!("{found:#?}");
    let is_serious = |impact: &str| impact == "serious" || impact == "critical";
    let serious: Vec<_> = found.iter().filter(|(_, _, (impact, ..))| is_serious(impact)).collect();
    assert!(serious.is_empty(), "{serious:#?}");
}
