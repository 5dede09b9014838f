//! The experiments of `bentpipe bench` that are quick enough to be tests, too. Where the machine allows neither root nor
//! user namespaces, the tests say so and pass.
#![allow(clippy::unwrap_used, reason = "a test")]

mod published;

use kernel::testing::best_of_three;
use serde_json::Value;
use std::process::{Command, Stdio};

/// The rows of one experiment, or `None` where the machine lacks what it needs.
fn rows(name: &str, further: &[&str]) -> Option<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command
        .args(["bench", name, "--repeats", "1", "--json"])
        .args(further)
        .env("BENTPIPE_LOG", "warn")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{message}");
        eprintln!("skipped: {message}");
        return None;
    }
    assert!(output.status.success(), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("bench", &result);
    assert_eq!(result["benches"][0]["name"], name);
    Some(result["benches"][0]["rows"].clone())
}

#[test]
fn a_new_connection_costs_one_round_trip_where_end_to_end_it_costs_two() {
    best_of_three(|| {
        let Some(rows) = rows("echo", &[]) else { return Ok(()) };
        let round_trips = |row: usize| rows[row]["time_ms"].as_f64().unwrap() / rows[row]["rtt_ms"].as_f64().unwrap();
        assert!(round_trips(0) >= 1.0 && round_trips(1) > 1.95, "{rows}");
        if round_trips(0) < 1.5 { Ok(()) } else { Err(rows.to_string()) }
    });
}

#[test]
fn connections_are_open_at_once_and_new_ones_come_at_a_rate_and_each_is_answered() {
    let further = ["--open", "1500", "--new-per-second", "400", "--seconds", "2"];
    let Some(rows) = rows("connections", &further) else { return };
    assert_eq!(rows.as_array().unwrap().len(), 3, "{rows}");
    for row in rows.as_array().unwrap() {
        let answered = ["open", "used", "new"].map(|what| row[what]["answered"].as_u64().unwrap());
        assert_eq!((answered, row["relayed"].as_u64()), ([1_500, 1_500, 800], Some(1_500)), "{row}");
        for gateway in ["hub_bytes_per_idle_stream", "terminal_bytes_per_idle_stream"] {
            assert!(row[gateway].as_f64().unwrap() < 64.0 * 1024.0, "{row}");
        }
    }
}

#[test]
fn the_cost_of_a_pair_is_measured_for_each_gateway_and_beside_another_build() {
    best_of_three(measure_the_cost);
}

fn measure_the_cost() -> Result<(), String> {
    let this = env!("CARGO_BIN_EXE_bentpipe");
    let Some(rows) = rows("cost", &["--only", "50Mbit/s, 60ms", "--beside", this]) else { return Ok(()) };
    let rows = rows.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| (&row["case"], &row["program"])).collect();
    let cases = ["", ", no repair", ", 1e-2 lost"].map(|what| Value::from(format!("50Mbit/s, 60ms{what}")));
    let programs = ["this", "other"].map(Value::from);
    let expected: Vec<_> = cases.iter().flat_map(|case| programs.iter().map(move |program| (case, program))).collect();
    assert_eq!(names, expected);
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        let both = figure("sender_cpu_s_per_gb") + figure("receiver_cpu_s_per_gb");
        assert!((both / figure("cpu_s_per_gb") - 1.0).abs() < 0.01 && both > 0.1, "{row}");
        assert!(figure("link_bytes_ratio") >= 1.03, "{row}");
        assert!(figure("waits_per_mb") > 0.0 && row["cpu_us_per_connection"].is_null(), "{row}");
        if figure("throughput_bps") <= 25e6 || figure("link_bytes_ratio") >= 1.3 {
            return Err(row.to_string());
        }
    }
    Ok(())
}

#[test]
fn an_unknown_experiment_is_named_with_exit_code_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(["bench", "everything"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("everything") && message.lines().count() == 1, "{message}");
}

#[test]
fn rows_that_do_not_exist_are_refused_with_those_that_do() {
    if rows("echo", &[]).is_none() {
        return;
    }
    let command = ["bench", "connections", "--only", "tls"];
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(command).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("\"tls\"") && message.contains("tcp, TLS"), "{message}");
}

#[test]
fn a_pepsal_that_cannot_be_run_is_refused_before_anything_is_measured() {
    let plain = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (file, ipv6, says) in [
        ("/nowhere/pepsal", None, "No such file"),
        (plain, None, "not an executable file"),
        ("/bin/sh", Some("-6"), "--ipv6"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        let output = command.args(["bench", "relay", "--pepsal", file]).args(ipv6).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("--pepsal") && message.contains(says) && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn the_capacity_s_estimate_is_measured_in_virtual_time_without_privileges() {
    let Some(rows) = rows("capacity", &["--cases", "1 MB, prior right", "--seeds", "2"]) else { return };
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["direction"]).collect::<Vec<_>>(), ["up", "down"], "{rows:?}");
    for row in rows {
        assert_eq!((&row["case"], row["seeds"].as_u64()), (&"1 MB, prior right".into(), Some(2)), "{row}");
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        assert!((0.9..=1.0).contains(&figure("share")) && figure("least_share") <= figure("share"), "{row}");
        assert!((1.03..1.2).contains(&figure("overhead")) && figure("queue_p95_s") < 0.1, "{row}");
        assert!(row["real"].is_null() && figure("target") > 0.9, "{row}");
        assert!(row["without"].is_null() && row["simulated_only"].is_null(), "{row}");
    }
}

#[test]
fn a_part_of_the_estimator_is_left_out_and_the_row_says_which() {
    let plot = tempfile::tempdir().unwrap();
    let directory = plot.path().join("pictures");
    let further = ["--cases", "1 MB, no prior", "--seeds", "1", "--without", "trains", "--plot"];
    let further = [&further[..], &[directory.to_str().unwrap()]].concat();
    let Some(without) = rows("capacity", &further) else { return };
    let Some(with) = rows("capacity", &further[..4]) else { return };
    for (without, with) in without.as_array().unwrap().iter().zip(with.as_array().unwrap()) {
        assert_eq!((&without["without"], &with["without"]), (&"trains".into(), &Value::Null));
        let share = |row: &Value| row["share"].as_f64().unwrap();
        assert!(share(without) < share(with) - 0.05, "{without} {with}");
    }
    for file in ["1-mb-no-prior-up.svg", "1-mb-no-prior-down.svg"] {
        let picture = std::fs::read_to_string(directory.join(file)).unwrap();
        assert!(picture.starts_with("<svg") && picture.contains("estimate"), "{file}");
    }
}

#[test]
fn an_unknown_part_of_the_estimator_is_refused_and_the_known_are_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command.args(["bench", "capacity", "--without", "luck"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("luck") && message.contains("queue-test") && message.contains("estimation"), "{message}");
}
