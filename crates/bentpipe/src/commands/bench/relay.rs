//! Both satellite transports side by side, without a satellite between: what a gateway pair can carry, and at what price; and
//! beside them PEPsal, where there is one.

use super::throughput::{self, Measured};
use super::{Args, Findings, json, table};
use crate::output::Failure;
use lab::flows::Plan;
use lab::{Direction, Ends, GatewayOptions, Pepsal, Topology, Transport, Workload, bulk};
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use units::Duration;

/// The transports, and whether they go in clear.
const TRANSPORTS: [(&str, Transport, bool); 3] =
    [("tcp, clear", Transport::Tcp, true), ("tcp, TLS", Transport::Tcp, false), ("satpep", Transport::Satpep, false)];

/// How long PEPsal relays: about as long as the others.
const PEPSAL_TIME: Duration = Duration::from_secs(4);

#[derive(Serialize)]
struct Row {
    transport: &'static str,
    #[serde(flatten)]
    measured: Measured,
}

pub fn run(args: &Args) -> Result<Findings, Failure> {
    let base = args.experiment()?.gateways;
    let measure = |(name, transport, clear)| {
        let options = GatewayOptions { transport, clear, ..base.clone() };
        Ok(Row { transport: name, measured: throughput::measure(args, &options, 1)? })
    };
    let mut rows = TRANSPORTS.into_iter().map(measure).collect::<Result<Vec<_>, Failure>>()?;
    if let Some(program) = &args.pepsal {
        rows.push(Row { transport: "PEPsal, clear, up", measured: measure_pepsal(args, program)? });
    }
    let mut table = table(&["transport", "throughput", "processor time, both gateways", "each gateway"]);
    for Row { transport, measured } in &rows {
        table.add_row([
            (*transport).to_owned(),
            format!("{:.2} Gbit/s", measured.throughput_bps as f64 / 1e9),
            format!("{:.2} s/GB", measured.cpu_s_per_gb),
            format!("{:.2} s/GB", measured.cpu_s_per_gb / 2.0),
        ]);
    }
    let claim = "one flow down; the kernel's TCP: in clear >= 5 Gbit/s, at <= 1 s/GB for each gateway";
    Ok(Findings { claim, table, rows: json(&rows)? })
}

/// What PEPsal carries in the gateways' place, in clear. It passes no half-close, with which every transfer
/// of the other rows ends: here the client sends without an end.
fn measure_pepsal(args: &Args, program: &Path) -> Result<Measured, Failure> {
    let workload = Workload { direction: Direction::Up, ..args.experiment()?.workload };
    let topology = Topology::new(1, None)?;
    let pepsal = Pepsal::start(program, &topology)?;
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows: None };
    throughput::measure_proxies(args, || pepsal.cpu_time(), || bulk::run(&[plan], PEPSAL_TIME))
}

/// A program that may be run, by its whole path.
pub fn program(path: &str) -> Result<PathBuf, String> {
    let file = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !file.is_file() || file.permissions().mode() & 0o111 == 0 {
        return Err("not an executable file".into());
    }
    std::fs::canonicalize(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_a_program() {
        let executable = std::env::current_exe().expect("this program");
        let shown = executable.to_str().expect("a path in UTF-8");
        assert_eq!(program(shown), Ok(std::fs::canonicalize(&executable).expect("a path")));
        let directory = tempfile::tempdir().expect("a directory");
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "#!/bin/sh\n").expect("a file");
        for path in [directory.path(), &plain] {
            let refusal = program(path.to_str().expect("a path in UTF-8"));
            assert_eq!(refusal, Err("not an executable file".to_owned()), "{}", path.display());
        }
        assert!(program("/nowhere/pepsal").is_err_and(|refusal| refusal.contains("No such file")));
    }
}
