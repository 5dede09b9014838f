//! Two connections, and a network that loses, delays and repeats what a schedule says: what must hold with every recovery, every
//! congestion control and every profile, whatever the schedule.

use crate::network::{DELAY, Fate, Network, judge};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tcp::control::CONTROLS;
use tcp::recovery::RECOVERIES;
use tcp::{Allocation, Capacity, Config, Profile};
use units::{Instant, Rate};

/// What happens to the first segments of one direction; the later ones arrive.
fn schedule() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        5 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        2 => (1u64..300).prop_map(Fate::Late),
        1 => (0u64..900).prop_map(Fate::Repeated),
    ];
    let bursts = prop::collection::vec((fate, 1usize..5), 0..25);
    bursts.prop_map(|bursts| bursts.into_iter().flat_map(|(fate, times)| std::iter::repeat_n(fate, times)).collect())
}

/// Every valid configuration of a recovery, a control and a profile.
fn configs() -> impl Iterator<Item = Config> {
    let capacity = Some(Capacity::new(Allocation::new(Rate::from_bps(5_000_000), 1), DELAY * 2));
    RECOVERIES.iter().flat_map(move |recovery| {
        CONTROLS.iter().flat_map(move |control| {
            [Profile::Rfc, Profile::Linux, Profile::Ns2].into_iter().filter_map(move |profile| {
                let config = Config { recovery, control, capacity, ..Config::new(profile) };
                config.validate().is_ok().then_some(config)
            })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, rng_seed: RngSeed::Fixed(793), failure_persistence: None, ..ProptestConfig::default() })]

    /// Both directions deliver every byte once and in order and close once, or the connection fails by name; no timer lies in the
    /// past, time does not stand still, and in the end nothing is left to happen.
    #[test]
    fn every_byte_arrives_once_whatever_is_lost_late_or_repeated(
        forth in schedule(),
        back in schedule(),
        bytes in 1u64..80_000,
        answer in 0u64..20_000,
    ) {
        // Those of ns-2 are one-way: the next test has them.
        for config in configs().filter(|config| !config.bare) {
            let name = format!("{} {} {:?}", config.recovery.name, config.control.name, config.profile);
            let mut network = Network::new(config, [forth.clone(), back.clone()], [bytes, answer]);
            let run = network.run();
            prop_assert!(run.is_ok(), "{}: {:?}", name, run);
            let verdict = judge(&network, [bytes, answer]);
            prop_assert!(verdict.is_ok(), "{}: {:?}", name, verdict);
        }
    }
}

#[test]
fn without_faults_every_byte_arrives_and_none_leaves_twice() {
    for config in configs() {
        let name = format!("{} {} {:?}", config.recovery.name, config.control.name, config.profile);
        let mut network = Network::new(config, [Vec::new(), Vec::new()], [30_000, 0]);
        assert_eq!(network.run(), Ok(()), "{name}");
        assert_eq!(network.ends[1].read, 30_000, "{name}");
        let counters = network.ends[0].connection.metrics().counters;
        assert_eq!((counters.retransmissions, counters.timeouts), (0, 0), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, rng_seed: RngSeed::Fixed(235), failure_persistence: None, ..ProptestConfig::default() })]

    /// In the profile of ns-2 connections are one-way, have no FIN and never give up: what is written arrives.
    #[test]
    fn in_the_profile_of_ns2_every_byte_arrives_whatever_is_lost_late_or_repeated(
        forth in schedule(),
        back in schedule(),
        bytes in prop_oneof![Just(1u64), 1u64..6_000, 1u64..80_000],
    ) {
        for config in configs().filter(|config| config.bare) {
            let name = format!("{} {}", config.recovery.name, config.control.name);
            let mut network = Network::new(config, [forth.clone(), back.clone()], [bytes, 0]);
            let run = network.run();
            prop_assert!(run.is_ok(), "{}: {:?}", name, run);
            let verdict = judge(&network, [bytes, 0]);
            prop_assert!(verdict.is_ok(), "{}: {:?}", name, verdict);
        }
    }
}

/// ns-2's Vegas has the first segment in the first packet, which here is the SYN. An end that writes nothing sends nothing (`sendmsg` in
/// tcp.cc of ns-2 2.35: no bytes are no packets).
#[test]
fn a_transfer_of_one_byte_is_over_for_both_ends_with_each_agent_of_ns2() {
    for config in configs().filter(|config| config.bare) {
        let name = format!("{} {}", config.recovery.name, config.control.name);
        let mut network = Network::new(config, [Vec::new(), Vec::new()], [1, 0]);
        assert_eq!(network.run(), Ok(()), "{name}");
        assert_eq!(judge(&network, [1, 0]), Ok(()), "{name}");
        assert!(network.now <= Instant::ZERO + DELAY * 4, "{name}: {:?}", network.now);
        assert_eq!(network.ends[1].connection.metrics().counters.data_segments, 0, "{name}");
    }
}
