//! `bentpipe chaos` as programs see it.

mod own_run;

use own_run::with_own_run;
use std::process::Command;

#[test]
fn a_case_is_reported_by_the_contracts_names_and_is_the_same_for_any_number_of_jobs() {
    let run = |jobs: &str| {
        let arguments = ["chaos", "--seed", "5", "--transfers", "200", "--jobs", jobs, "--json"];
        Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(arguments).output().expect("bentpipe runs")
    };
    let output = run("1");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    for name in ["seed", "transfers", "completed", "wrong_bytes", "hangs"] {
        assert!(document[name].is_u64(), "{name} in {document}");
    }
    assert!(document["leaks"].is_object() && document["faults"].is_object());
    assert!(document["transfers"].as_u64() >= Some(200));
    assert_eq!(run("3").stdout, output.stdout);
}

#[test]
fn real_gateways_under_faults_lose_no_byte() {
    let arguments = ["chaos", "--real", "--seed", "4", "--transfers", "1", "--minutes", "0.1", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(arguments).output().expect("bentpipe runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert!(document["completed"].as_u64() > Some(10), "{document}");
    assert!(document["faults"].as_object().is_some_and(|faults| !faults.is_empty()), "{document}");
}

/// Gateways of the lab find another directory there.
#[test]
fn a_directory_below_run_is_refused_at_once() {
    let script = "$0 chaos --real --transfers 1 --minutes 0.1 --keep /run/user/kept";
    let Some(output) = with_own_run(script) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--keep /run/user/kept") && said.contains("elsewhere"), "{said}");
}
