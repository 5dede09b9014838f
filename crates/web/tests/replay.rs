//! A finished run's page in a real browser. Skipped where there is no Chromium.

use crate::chromium::Browser;
use serde_json::json;
use web::{Course, Replay, ReplayTable, headline};

/// A megabyte in 2 s, and in 5 s with a pause.
pub fn replay() -> Replay {
    let course =
        |name: &str, points: &[(f64, f64)]| Course { name: name.into(), points: points.to_vec(), is_complete: true };
    Replay {
        title: "1 MB, 6 Mbit/s and 550 ms round-trip time, 0.001 of the packets lost".into(),
        headline: headline("bentpipe", 2.0, &[("cubic".into(), 5.0)], Some(0.83)),
        courses: vec![
            course("bentpipe", &[(0.0, 0.0), (0.5, 0.0), (2.0, 1e6)]),
            course("cubic", &[(0.0, 0.0), (0.8, 0.0), (2.0, 2e5), (3.0, 2e5), (5.0, 1e6)]),
        ],
        limit: Some(course("limit of the link", &[(0.0, 0.0), (0.275, 0.0), (1.66, 1e6)])),
        tables: vec![ReplayTable {
            caption: "Paths".into(),
            columns: ["path", "time", "goodput", "of the limit"].map(String::from).into(),
            texts: 1,
            rows: [["bentpipe", "2.00 s", "4.00 Mbit/s", "83.0 %"], ["cubic", "5.00 s", "1.60 Mbit/s", "33.2 %"]]
                .map(|row| row.map(String::from).into())
                .into(),
        }],
        note: "Time counts from the client's connect() to the receiver's last byte. Measured by".into(),
        command: "bentpipe demo --rate 6Mbit/s --rtt 550ms --loss 0.001".into(),
    }
}

#[test]
fn a_finished_run_opens_from_its_file_replays_and_asks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.html");
    std::fs::write(&file, replay().html()).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    let address = format!("file://{}", file.display());
    browser.open(&address, 1280, 900);
    browser.wait("document.body.dataset.ready === 'yes'");
    assert_eq!(browser.value("document.querySelector('.headline').textContent"), json!(replay().headline));
    assert_eq!(browser.value("document.querySelectorAll('#charts canvas').length"), json!(2));
    let row = |at: usize| {
        format!("[...document.getElementById('now').rows[{at}].cells].map((cell) => cell.textContent).join('|')")
    };
    assert_eq!(browser.value(&row(0)), json!("bentpipe|1.00 MB|100 %|–|over after 2.00 s"));
    // In the pause of the second: a fifth has arrived, and nothing arrives.
    let to = "const slider = document.getElementById('moment'); slider.value = Math.round(slider.max * 0.59); slider.dispatchEvent(new Event('input'))";
    browser.value(to);
    assert_eq!(browser.value(&row(1)), json!("cubic|200 kB|20.0 %|0 bit/s|"));
    assert_eq!(browser.value(&row(0)), json!("bentpipe|1.00 MB|100 %|–|over after 2.00 s"));
    browser.value("document.getElementById('play').click()");
    browser.wait("document.getElementById('moment').value === document.getElementById('moment').max");
    browser.wait("document.getElementById('play').textContent === 'Replay'");
    for width in [360, 1280, 2560] {
        browser.resize(width, 900);
        browser.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
        let heights = "[...document.getElementById('now').rows].map((row) => row.offsetHeight)";
        let are_low = browser.value(&format!("Math.max(...{heights}) < 55"));
        assert_eq!(are_low, true, "at most two lines: {}", browser.value(heights));
        browser.picture(&format!("replay-{width}"));
    }
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.call("Emulation.setEmulatedMedia", dark);
    browser.resize(1280, 900);
    browser.picture("replay-dark");
    assert!(browser.requested.iter().all(|url| *url == address || url.starts_with("data:")), "{:?}", browser.requested);
    assert_eq!(browser.complaints, Vec::<String>::new());
}
