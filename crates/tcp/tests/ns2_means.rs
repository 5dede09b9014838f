//! The recoveries of the RFCs, given ns-2's constants and lists of lost packets, take as long as ns-2's own in the mean.
//! Run by run they differ where the RFCs and ns-2 do (what `FlightSize` counts, when a timer restarts, ticks of a clock);
//! the profile that follows ns-2 to the letter is held to every single run elsewhere.

use crate::ns2::rows;
use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit};
use std::collections::BTreeMap;
use tcp::{Config, MinRto, Options, Profile, ReceiveBuffer, RecoveryKind, RttRules, Sampling};
use units::{Bytes, Duration, Rate};

const SEGMENTS: u64 = 685;
const MSS: u32 = 1460;

/// The path of the recorded runs: 10 Mbit/s and 1 ms, the satellite hop with 6 Mbit/s and 275 ms, 10 Mbit/s and 1 ms.
fn path(config: Config, drops: Vec<u64>) -> Path {
    let queue = QueueLimit::Packets(600);
    let access = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(10_000_000), Duration::from_millis(1)) };
    let hop = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275)) };
    let lossy = LinkConfig { loss: LossModel::DropList(drops), ..hop.clone() };
    Path::new(config, vec![access.clone(), lossy, access.clone()], vec![access.clone(), hop, access])
}

/// The RFCs' rules with the constants of the recorded runs.
fn config(recovery: &str) -> Config {
    Config {
        mss: MSS,
        recovery: RecoveryKind::by_name(recovery).expect("known"),
        initial_window: 2.0,
        initial_ssthresh: 500.0,
        slow_start_limit: Some(1.0),
        growth_counts_acks: true,
        grow_when_not_limited: true,
        options: Options { timestamps: false, window_scaling: true, sack: true, dsack: false },
        acks: tcp::AckPolicy { every: 1, delay: Duration::ZERO, quick: 0 },
        rtt: RttRules {
            initial_rto: Duration::from_secs(3),
            min_rto: MinRto::Total(Duration::from_millis(200)),
            max_rto: Duration::from_secs(60),
            granularity: Duration::from_millis(10),
            sampling: Sampling::OneAtATime,
            min_window: Duration::MAX,
        },
        receive_buffer: ReceiveBuffer::plain(Bytes::new(500 * u64::from(MSS))),
        bare: true,
        ..Config::new(Profile::Rfc)
    }
}

#[test]
fn the_recoveries_of_the_rfcs_take_as_long_as_those_of_ns2_in_the_mean() {
    let number = |text: &str| text.parse::<u64>().expect(text);
    let lists: BTreeMap<_, Vec<u64>> = rows("random_lists.csv")
        .into_iter()
        .map(|row| {
            let drops = row["drops"].split([' ', ',']).filter(|text| !text.is_empty()).map(number).collect();
            ((row["p"].clone(), number(&row["list"])), drops)
        })
        .collect();
    let mut means: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for row in rows("random_runs.csv") {
        let [variant, p, list, received_s] = ["variant", "p", "list", "received_s"].map(|name| &row[name]);
        if variant == "vegas" || number(list) >= 40 {
            continue;
        }
        let mut path = path(config(variant), lists[&(p.clone(), number(list))].clone());
        let end = path.transfer(SEGMENTS * u64::from(MSS)).expect("complete").as_secs_f64();
        let (ours, theirs) = means.entry((variant.clone(), p.clone())).or_default();
        *ours += end;
        *theirs += received_s.parse::<f64>().expect("a time");
    }
    assert_eq!(means.len(), 12);
    for (case, (ours, theirs)) in means {
        let ratio = ours / theirs;
        println!("{case:?}: {ratio:.4}");
        assert!((ratio - 1.0).abs() < 0.05, "{case:?}: {ratio}");
    }
}
