//! The page in a real browser. Skipped where there is no Chromium.

use crate::chromium::Browser;
use crate::site::Site;
use serde_json::{Value, json};
use status::{PeerState, Trouble};
use std::net::TcpListener;
use web::Access;

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
    browser.wait("document.querySelectorAll('#charts canvas').length === 5");
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
