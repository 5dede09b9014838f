//! `bentpipe predict` end to end: it needs no privilege and no network.
#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn predict(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("predict").args(args).env_remove("BENTPIPE_LOG").stdin(Stdio::null()).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = predict(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(args: &[&str]) -> String {
    let output = predict(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_binding_limit_is_named() {
    for (args, binding, model) in [
        (&["--size", "5kB"][..], "round trips", "round trips"),
        (&["--size", "500kB"], "slow start", "Kruse, slow start"),
        (&["--size", "50MB"], "line rate", "the line's rate"),
        (&["--size", "50MB", "--window", "65535B"], "window", "Kruse, steady state"),
        (&["--size", "50MB", "--receive-buffer", "64KiB"], "window", "Kruse, steady state"),
        (
            &["--size", "50MB", "--loss", "1e-2", "--congestion-control", "reno"],
            "loss",
            "Reno's window from loss to loss",
        ),
        (&["--size", "50MB", "--loss", "1e-2"], "loss", "CUBIC's window from loss to loss"),
        (&["--size", "50MB", "--loss", "1e-2", "--congestion-control", "bbr"], "line rate", "the line's rate"),
        (&["--size", "500MB", "--queue", "10packets"], "queue", "utilisation of a short queue"),
    ] {
        let document = json(args);
        assert_eq!(
            (document["binding"].as_str(), document["model"].as_str()),
            (Some(binding), Some(model)),
            "{args:?}"
        );
        let (rate, time) = (document["throughput_bps"].as_f64().unwrap(), document["time_s"].as_f64().unwrap());
        let bits = rate * time / 8.0;
        assert!(
            ["5e3", "5e5", "5e7", "5e8"].iter().any(|size| (bits / size.parse::<f64>().unwrap() - 1.0).abs() < 1e-3)
        );
    }
}

#[test]
fn without_end_a_transfer_is_as_fast_as_one_of_a_terabyte() {
    for args in [
        &["--loss", "1e-2", "--window", "32KiB"][..],
        &["--loss", "1e-3", "--window", "64KiB", "--congestion-control", "reno"],
        &["--loss", "1e-4", "--queue", "0.1BDP"],
    ] {
        let document = json(&[args, &["--size", "1000GB"]].concat());
        let (steady, of_it) = (&document["steady"], document["throughput_bps"].as_f64().unwrap());
        assert!((steady["throughput_bps"].as_f64().unwrap() / of_it - 1.0).abs() < 0.01, "{args:?}: {document}");
        assert_eq!(steady["binding"], document["binding"], "{args:?}");
    }
}

#[test]
fn figures_of_the_models() {
    let document = json(&["--rtt", "550ms", "--loss", "1e-3", "--mss", "1460B", "--header", "40B", "--rto", "1s"]);
    let bps = |name: &str| {
        let row = document["models"].as_array().unwrap().iter().find(|row| row["model"] == name).unwrap();
        row["throughput_bps"].as_f64().unwrap()
    };
    for (name, kbps) in
        [("Mathis", 581.6), ("PFTK, approximate", 579.2), ("PFTK, full, received", 563.9), ("PFTK, full, sent", 574.2)]
    {
        assert!((bps(name) / 1e3 - kbps).abs() < 0.06, "{name}: {}", bps(name));
    }
    assert_eq!(document["valid"], true);
}

/// The parameter's own value, or its default, counts for nothing.
#[test]
fn a_plot_is_refused_for_its_values_only() {
    for args in [
        &["--plot", "rtt=10ms..100ms", "--rto", "300ms"][..],
        &["--plot", "mss=100B..1000B", "--window", "1kB"],
        &["--plot", "rto=1s..2s", "--rto", "1ms"],
    ] {
        assert_eq!(json(args)["points"][0]["valid"].as_bool(), Some(true), "{args:?}");
    }
    let output = predict(&["--plot", "rtt=10ms..400ms", "--rto", "300ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--rto must not be below --rtt"));
}

/// Nobody loses one packet in 10^40; it is no reason not to end.
#[test]
fn the_least_losses_are_predicted() {
    for (loss, control) in [("1e-320", "cubic"), ("1e-40", "reno"), ("1e-40", "hybla")] {
        let document = json(&["--loss", loss, "--congestion-control", control]);
        assert_eq!(document["time_s"], json(&["--congestion-control", control])["time_s"], "{loss} {control}");
    }
}

#[test]
fn what_cannot_be_told_is_no_figure() {
    let slow = ["--rate", "1bit/s", "--loss", "0.9", "--size", "1MB"];
    let document = json(&slow);
    assert!(document["throughput_bps"].is_null() && document["steady"]["throughput_bps"].is_null(), "{document}");
    assert!(document["time_s"].as_f64().unwrap() > 8e7);
    assert!(text(&slow).contains("below 1 bit/s: limited by"));
    let output = predict(&["--rate", "1bit/s", "--size", "1000000GB"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("--size 1000000GB is not allowed; allowed: what the link delivers within 584 years"),
        "{error}"
    );
}

#[test]
fn outside_its_range_a_model_says_so() {
    let document = json(&["--loss", "0.1", "--size", "10MB"]);
    assert_eq!(document["valid"], false);
    assert!(document["doubt"].as_str().unwrap().contains("0.02"));
    let table = text(&["--size", "1MB"]);
    assert!(table.contains("no: loss = 0: allowed above 0"), "{table}");
    assert!(table.contains("limited by slow start") && table.contains("the time:"), "{table}");
}

/// A product of these is 1250 bytes.
#[test]
fn a_queue_of_products_holds_at_least_one_packet() {
    let slow = ["--rate", "500kbit/s", "--rtt", "20ms", "--queue"];
    let time_s = |queue| json(&[&slow[..], &[queue]].concat())["time_s"].as_f64().unwrap();
    assert_eq!(time_s("1BDP"), time_s("1packets"));
    assert_eq!(time_s("0.01BDP"), time_s("1packets"));
    json(&["--rtt", "20ms", "--queue", "1BDP", "--plot", "rate=100kbit/s..1Mbit/s"]);
}

#[test]
fn impossible_parameters_are_refused_with_what_is_allowed() {
    for (args, says) in [
        (&["--rate", "0bit/s"][..], "--rate 0bit/s is not allowed; allowed: above 0bit/s"),
        (&["--rate", "6MB"], "6Mbit/s"),
        (&["--rtt", "0s"], "--rtt"),
        (&["--rtt", "-5ms"], "unexpected argument '-5' found; a value that begins with - is written --option=-VALUE"),
        (&["--rtt=-5ms"], "it is negative"),
        (&["--rtt", "1ns"], "--rtt 1ns is not allowed; allowed: 2ns or more"),
        (&["--loss", "-0.1"], "from 0 to 1"),
        (&["--loss", "1"], "from 0, below 1"),
        (&["--window", "1000B"], "--window is 1kB; allowed: 1.448kB (--mss) or more"),
        (
            &["--receive-buffer", "2000B"],
            "--receive-buffer times --window-share is 1kB; allowed: 1.448kB (--mss) or more",
        ),
        (&["--window", "0B"], "--window"),
        (&["--initial-window", "0"], "--initial-window"),
        (&["--ack-every", "0"], "--ack-every"),
        (&["--size", "0B"], "above 0B"),
        (&["--mss", "0B"], "--mss"),
        (&["--queue", "100B"], "one packet or more"),
        (&["--queue", "0BDP"], "0BDP"),
        (&["--rto", "10ms"], "--rto must not be below --rtt"),
        (&["--window-share", "0", "--receive-buffer", "1MB"], "--window-share"),
        (&["--flows", "0"], "--flows"),
        (&["--congestion-control", "vegas"], "cubic"),
        (&["--out", "x.svg"], "--plot"),
        (&["--plot", "los=1..2"], "loss"),
        (&["--plot", "loss=1e-1..1e-6"], "does not rise"),
        (&["--plot", "loss=0.5"], "FROM..TO"),
        (&["--plot", "loss=0..1"], "from 0, below 1"),
        (&["--plot", "loss=0..0.1", "--axis", "log"], "above zero"),
    ] {
        let output = predict(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(says) && error.trim().lines().count() == 1, "{args:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn every_parameter_can_be_plotted() {
    let folder = tempfile::tempdir().unwrap();
    for sweep in [
        "rate=100kbit/s..100Mbit/s",
        "rtt=1ms..700ms",
        "loss=1e-6..1e-1",
        "loss=0..0.1",
        "size=10kB..100MB",
        "window=8KiB..4MiB",
        "receive-buffer=8KiB..4MiB",
        "queue=10kB..1MB",
        "initial-window=1..64",
        "ack-every=1..8",
        "mss=500B..9000B",
        "rto=600ms..3s",
    ] {
        let svg = folder.path().join("plot.svg");
        let rto = if sweep.starts_with("rtt") { "700ms" } else { "600ms" };
        let args = ["--size", "3MB", "--rto", rto, "--plot", sweep, "--out", svg.to_str().unwrap()];
        let table = text(&args);
        assert!(table.contains("limited by"), "{table}");
        let drawn = fs::read_to_string(&svg).unwrap();
        assert!(drawn.contains("<polyline") && drawn.contains("throughput, Mbit/s"), "{sweep}");
        assert!(drawn.contains(&format!("--plot {sweep}")), "the command is in the caption of {sweep}");
    }
}

#[test]
fn a_plot_goes_to_the_terminal_to_a_page_or_to_a_program() {
    let args = ["--size", "20MB", "--plot", "loss=1e-6..1e-1"];
    let drawn = text(&args);
    assert!(drawn.contains("throughput against probability that a packet is lost") && drawn.contains('⠉'), "{drawn}");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("plot.html");
    text(&[&args[..], &["--show", "time", "--out", page.to_str().unwrap()]].concat());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("time, s") && page.contains("bentpipe predict"));
    let document = json(&args);
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 161);
    let rates: Vec<f64> = points.iter().map(|point| point["throughput_bps"].as_f64().unwrap()).collect();
    assert!(rates.windows(2).all(|pair| pair[0] >= pair[1] * 0.999), "more losses never help: {rates:?}");
    let missing = predict(&[&args[..], &["--out", "/nonexistent/plot.svg"]].concat());
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn the_extension_is_the_format_and_what_is_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in
        [("a.svg", &b"<svg "[..]), ("b.PDF", b"%PDF-"), ("c.png", b"\x89PNG"), ("d.html", b"<!DOCTYPE")]
    {
        let file = folder.path().join(name);
        let output = predict(&["--plot", "loss=1e-6..1e-1", "--out", file.to_str().unwrap()]);
        assert!(fs::read(&file).unwrap().starts_with(start), "{name}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("bentpipe: wrote {}\n", file.display()));
    }
    let unknown = folder.path().join("e.jpg");
    let refused = predict(&["--plot", "loss=1e-6..1e-1", "--out", unknown.to_str().unwrap()]);
    assert_eq!((refused.status.code(), unknown.exists()), (Some(2), false));
    assert!(String::from_utf8(refused.stderr).unwrap().contains(".svg, .pdf or .png"));
}
