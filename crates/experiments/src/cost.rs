//! What a gateway pair costs in processor time, memory and bytes on the link: without a satellite between, paced over an emulated
//! one, and in connections; beside another build of the program and PEPsal, in turns.

use crate::connections::{self, Load};
use crate::setup::{loss, median};
use crate::{Error, Setup, relay};
use lab::transfer::Checksum;
use lab::{
    Ends, Experiment, GatewayOptions, Gateways, LinkParameters, Path, Stage, Topology, Transport, Workload, flows,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use units::{Bytes, Duration, Rate};

/// Without a satellite: as in the experiment `throughput`.
const FAST: Rate = crate::throughput::RATE;
const FAST_RTT: Duration = crate::throughput::RTT;
const FAST_TOTAL: Bytes = Bytes::new(1_000_000_000);
/// How long a paced transfer sends, about.
const PACED_TIME: Duration = Duration::from_secs(5);
const PACED_RATES: [u64; 3] = [10, 50, 200];
const PACED_RTTS: [u64; 2] = [60, 600];
/// What a paced transfer meets: losses, and whether there is repair.
const VARIANTS: [(&str, f64, bool); 3] = [("", 0.0, true), (", no repair", 0.0, false), (", 1e-2 lost", 1e-2, true)];
/// The connections of the last row.
const LOAD: Load = Load { open: Some(4_000), per_second: 4_000, seconds: 2 };

/// What is claimed.
pub const CLAIM: &str = "one flow down; processor time of the gateway that sends and of the one that receives, in turns with other programs";

/// A case, and how it is run.
struct Case {
    name: String,
    kind: Kind,
}

enum Kind {
    /// Gateways wired together.
    Wired { transport: Transport, clear: bool, single: bool, workers: Option<u8> },
    /// Across a link of this rate, round-trip time and share of losses, with repair or without.
    Paced { rate: Rate, rtt: Duration, loss: f64, repair: bool },
    /// Connections that are open, and new ones.
    Connections,
}

/// The medians of a case with one program.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// Whose gateways: `this` program's, those of the `other` one, or `PEPsal`.
    pub program: &'static str,
    /// Bytes of payload in each repeat; none are counted of connections.
    pub bytes: Option<u64>,
    /// Payload over time.
    pub throughput_bps: Option<f64>,
    /// User and system time of the gateway that sends, for each 10^9 bytes.
    pub sender_cpu_s_per_gb: Option<f64>,
    /// The same of the gateway that receives.
    pub receiver_cpu_s_per_gb: Option<f64>,
    /// Of both.
    pub cpu_s_per_gb: Option<f64>,
    /// Of the busiest thread of either: what limits the throughput where there are processors enough.
    pub busiest_thread_s_per_gb: Option<f64>,
    /// How often both gateways have waited for something, for each 10^6 bytes.
    pub waits_per_mb: Option<f64>,
    /// Bytes of IP packets that entered the link over those of the payload.
    pub link_bytes_ratio: Option<f64>,
    /// Memory that an open connection takes, the mean of both gateways.
    pub bytes_per_idle_connection: Option<f64>,
    /// Processor time of both gateways for a connection that carries 64 bytes there and back.
    pub cpu_us_per_connection: Option<f64>,
}

/// One repeat.
#[derive(Debug, Default)]
struct Sample {
    bytes: Option<u64>,
    throughput_bps: Option<f64>,
    sender_cpu_s: Option<f64>,
    receiver_cpu_s: Option<f64>,
    thread_cpu_s: Option<f64>,
    waits: Option<f64>,
    link_bytes: Option<f64>,
    idle_bytes: Option<f64>,
    connection_us: Option<f64>,
}

/// The programs whose gateways are measured beside this one's.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Another build of `bentpipe`.
    pub other: Option<PathBuf>,
    /// PEPsal, which the first case is measured with.
    pub pepsal: Option<PathBuf>,
}

/// The names of the cases.
pub fn names() -> Vec<String> {
    cases().into_iter().map(|case| case.name).collect()
}

fn cases() -> Vec<Case> {
    let wired = |name: &str, transport, clear, single| {
        let name = format!("no link, {name}");
        Case { name, kind: Kind::Wired { transport, clear, single, workers: None } }
    };
    let threads = |name: &str, workers| {
        let name = format!("no link, {name}");
        let workers = Some(workers);
        Case { name, kind: Kind::Wired { transport: Transport::Satpep, clear: false, single: false, workers } }
    };
    let mut cases = vec![
        wired("encrypted", Transport::Satpep, false, false),
        threads("one thread", 1),
        threads("two threads", 2),
        wired("single packets", Transport::Satpep, false, true),
        wired("clear", Transport::Satpep, true, false),
        wired("tcp, TLS", Transport::Tcp, false, false),
        wired("tcp, clear", Transport::Tcp, true, false),
    ];
    for (mbps, rtt, variant) in PACED_RATES
        .into_iter()
        .flat_map(|mbps| PACED_RTTS.map(|rtt| (mbps, rtt)))
        .flat_map(|(mbps, rtt)| VARIANTS.map(|variant| (mbps, rtt, variant)))
    {
        let (name, loss, repair) = variant;
        let kind =
            Kind::Paced { rate: Rate::from_bps(mbps * 1_000_000), rtt: Duration::from_millis(rtt), loss, repair };
        cases.push(Case { name: format!("{mbps}Mbit/s, {rtt}ms{name}"), kind });
    }
    cases.push(Case { name: "connections".to_owned(), kind: Kind::Connections });
    cases
}

/// Measures each case whose name contains `only`, in each repeat with one program after the other.
///
/// # Errors
/// If the machine lacks something or a transfer fails.
pub fn run(setup: &Setup, beside: &Beside, only: &str) -> Result<Vec<Row>, Error> {
    let other = beside.other.as_ref().map(|program| ("other", Setup { program: program.clone(), ..setup.clone() }));
    let programs: Vec<_> = std::iter::once(("this", setup.clone())).chain(other).collect();
    let mut rows = Vec::new();
    for case in cases().into_iter().filter(|case| case.name.contains(only)) {
        // Other builds may not know how many threads they are to have.
        let needs_this = matches!(case.kind, Kind::Wired { workers: Some(_), .. });
        let programs = if needs_this { &programs[..1] } else { &programs[..] };
        let mut samples: Vec<Vec<Sample>> = programs.iter().map(|_| Vec::new()).collect();
        for seed in setup.seeds(setup.repeats) {
            for ((program, setup), samples) in programs.iter().zip(&mut samples) {
                let sample = measure(&Setup { seed, ..setup.clone() }, &case.kind)?;
                tracing::info!(case = case.name, program, ?sample, "measured");
                samples.push(sample);
            }
        }
        rows.extend(programs.iter().zip(&samples).map(|((program, _), samples)| row(&case.name, program, samples)));
        let of_pepsal = matches!(
            case.kind,
            Kind::Wired { transport: Transport::Satpep, clear: false, single: false, workers: None }
        );
        if let Some(program) = beside.pepsal.as_deref().filter(|_| of_pepsal) {
            let measured = relay::measure_pepsal(setup, program)?;
            let (throughput_bps, cpu_s_per_gb) = (Some(measured.throughput_bps as f64), Some(measured.cpu_s_per_gb));
            let bytes = Some(measured.bytes);
            rows.push(Row { bytes, throughput_bps, cpu_s_per_gb, ..row(&case.name, "PEPsal", &[]) });
        }
    }
    Ok(rows)
}

fn row(case: &str, program: &'static str, samples: &[Sample]) -> Row {
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| {
        let figures: Vec<_> = samples.iter().filter_map(of).collect();
        (!figures.is_empty()).then(|| median(&figures))
    };
    let per_byte = |of: fn(&Sample) -> Option<f64>, unit: f64| {
        middle(&move |sample| Some(of(sample)? * unit / sample.bytes? as f64))
    };
    Row {
        case: case.to_owned(),
        program,
        bytes: samples.first().and_then(|sample| sample.bytes),
        throughput_bps: middle(&|sample| sample.throughput_bps),
        sender_cpu_s_per_gb: per_byte(|sample| sample.sender_cpu_s, 1e9),
        receiver_cpu_s_per_gb: per_byte(|sample| sample.receiver_cpu_s, 1e9),
        cpu_s_per_gb: per_byte(|sample| Some(sample.sender_cpu_s? + sample.receiver_cpu_s?), 1e9),
        busiest_thread_s_per_gb: per_byte(|sample| sample.thread_cpu_s, 1e9),
        waits_per_mb: per_byte(|sample| sample.waits, 1e6),
        link_bytes_ratio: per_byte(|sample| sample.link_bytes, 1.0),
        bytes_per_idle_connection: middle(&|sample| sample.idle_bytes),
        cpu_us_per_connection: middle(&|sample| sample.connection_us),
    }
}

fn measure(setup: &Setup, kind: &Kind) -> Result<Sample, Error> {
    match *kind {
        Kind::Wired { transport, clear, single, workers } => {
            let options = GatewayOptions { transport, clear, workers, ..setup.gateways.clone() };
            measure_wired(setup, &options, single)
        }
        Kind::Paced { rate, rtt, loss: share, repair } => {
            let base = setup.experiment()?;
            let size = rate.bytes_in(PACED_TIME);
            let workload = Workload { size, checksum: Checksum::LengthOnly, ..base.workload };
            let link = LinkParameters { rate, rtt, loss: loss(share)?, ..base.link };
            let gateways = GatewayOptions { repair, ..base.gateways.clone() };
            let experiment = Experiment { link, workload, gateways, ..base };
            let stage = experiment.start(&Path::Bentpipe)?;
            let Stage { topology, gateways: Some(gateways) } = &stage else {
                return Err(Error::failed("there are no gateways"));
            };
            watch(topology, gateways, &experiment.workload)
        }
        Kind::Connections => {
            let row = connections::measure_satpep(setup, &LOAD)?;
            if !row.is_complete() {
                return Err(Error::failed("not every connection was relayed and answered"));
            }
            let idle = (row.hub_bytes_per_idle_stream + row.terminal_bytes_per_idle_stream) / 2.0;
            let connection_us = Some(row.cpu_us_per_connection);
            Ok(Sample { idle_bytes: Some(idle), connection_us, ..Sample::default() })
        }
    }
}

/// Gateways wired together; with `single` packets the kernel takes batches apart before they enter the wire.
fn measure_wired(setup: &Setup, options: &GatewayOptions, single: bool) -> Result<Sample, Error> {
    let topology = Topology::new(1, None)?;
    if single {
        topology.send_single_packets()?;
    }
    let gateways = Gateways::start(&setup.program, &topology, [FAST; 2], FAST_RTT, options)?;
    let workload = Workload { size: FAST_TOTAL, checksum: Checksum::LengthOnly, ..setup.experiment()?.workload };
    watch(&topology, &gateways, &workload)
}

/// The processor time that the busiest of all threads has used in between.
fn busiest(before: &[BTreeMap<u32, Duration>], after: &[BTreeMap<u32, Duration>]) -> Option<Duration> {
    let used = |(before, after): (&BTreeMap<u32, Duration>, &BTreeMap<u32, Duration>)| {
        after.iter().map(|(thread, time)| time.saturating_sub(before.get(thread).copied().unwrap_or_default())).max()
    };
    before.iter().zip(after).filter_map(used).max()
}

/// Runs one flow from the hub to the terminal and says what it has cost.
fn watch(topology: &Topology, gateways: &Gateways, workload: &Workload) -> Result<Sample, Error> {
    let link_bytes = || topology.satellite_report().map(|report| report.down.offered.bytes);
    let (cpu, threads) = (gateways.cpu_times()?, gateways.thread_times()?);
    let (waits, link) = (gateways.waits()?, link_bytes());
    let flows = flows::run(&[Ends { client: &topology.terminals[0], server: &topology.hub }], workload)?;
    let (cpu_after, waits_after) = (gateways.cpu_times()?, gateways.waits()?);
    let busiest = busiest(&threads, &gateways.thread_times()?);
    if flows.iter().any(|flow| !flow.verified) {
        return Err(Error::failed("the transfer did not arrive whole in the time that it had"));
    }
    let cpu_s = |at: usize| Some((cpu_after[at] - cpu[at]).as_secs_f64());
    let bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes);
    Ok(Sample {
        bytes: Some(bytes.as_u64()),
        throughput_bps: Some(Rate::from_transfer(bytes, flows::time(&flows)).as_bps() as f64),
        sender_cpu_s: cpu_s(0),
        receiver_cpu_s: cpu_s(1),
        thread_cpu_s: busiest.map(Duration::as_secs_f64),
        waits: Some((waits_after - waits) as f64),
        link_bytes: link_bytes().zip(link).map(|(after, before)| (after - before) as f64),
        ..Sample::default()
    })
}
