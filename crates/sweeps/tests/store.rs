//! What a store keeps, and what it finds again.
#![allow(clippy::disallowed_methods, reason = "a test: several threads write")]

use std::sync::Arc;
use sweeps::{Error, Key, Store, encoded, rows};

const TEXT: &str = r#"
version = 1
nodes = ["earth", "moon"]
[[link]]
name = "laser"
between = ["earth", "moon"]
rate = "1Mbit/s"
delay = "20ms"
queue = "1BDP"
loss = 0.02
[[flow]]
name = "photos"
from = "moon"
to = "earth"
tcp = "cubic"
bulk = { size = "100kB" }
"#;

fn scenario(text: &str, overrides: &[&str]) -> scenario::Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let mut experiment = scenario::load(text, "moon.toml", &overrides, &|_| Err("none".into())).expect("sound");
    experiment.scenarios.remove(0)
}

fn run(scenario: &scenario::Scenario, seed: u64) -> results::Run {
    let mut simulation = sim::Simulation::of(scenario, seed, false).expect("sound");
    simulation.run();
    results::Run {
        label: results::Label { variant: None, seed },
        report: simulation.report(),
        groups: scenario.groups.clone(),
        network: Arc::clone(&scenario.network),
        flow_samples: Vec::new(),
        queue_samples: Vec::new(),
        capacity_samples: Vec::new(),
        not_captured: None,
    }
}

#[test]
fn a_key_is_of_what_is_simulated_and_not_of_how_it_is_written() {
    let key = Key::of(&scenario(TEXT, &[]));
    let written_otherwise = TEXT.replace("0.02", "2e-2 # two in a hundred").replace("20ms", "0.02s");
    assert_eq!(key, Key::of(&scenario(&written_otherwise, &["seeds.count=7", "record.interval=\"10ms\""])));
    assert_eq!(key, Key::of(&scenario(TEXT, &["record.flows=[]"])));
    assert_ne!(key, Key::of(&scenario(TEXT, &["link.laser.loss=0.03"])));
    assert_ne!(key, Key::of(&scenario(TEXT, &["flow.photos.tcp=reno"])));
    assert_eq!(Key::parse(&key.to_string()), Some(key));
    assert_eq!(Key::parse("moon"), None);
}

#[test]
fn what_was_put_is_there_for_the_next_process_and_in_the_order_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("it is made");
    assert!(store.is_empty());
    let scenario = scenario(TEXT, &[]);
    let key = Key::of(&scenario);
    let table = |seed| rows(key, &run(&scenario, seed));
    store.put(&[(key, 1), (key, 2)], &encoded(vec![table(1), table(2)]).expect("a shard")).expect("written");
    store.put(&[(key, 3)], &encoded(vec![table(3)]).expect("a shard")).expect("written");

    let again = Store::open(folder.path()).expect("it is there");
    assert_eq!(again.len(), 3);
    assert!(again.has((key, 3)) && !again.has((key, 4)));
    let (found, places) = again.rows(&[(key, 3), (key, 4), (key, 1)]).expect("readable");
    assert_eq!(places, [0, 2]);
    let direct = [table(3), table(1)];
    for (at, column) in found.columns.iter().enumerate() {
        let mut expected = direct[0].columns[at].values.clone();
        expected.extend(direct[1].columns[at].values.clone());
        assert_eq!(column.values, expected, "{}", column.name);
    }
}

#[test]
fn two_shards_with_the_same_run_give_it_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("it is made");
    let scenario = scenario(TEXT, &[]);
    let key = Key::of(&scenario);
    let table = |seed| rows(key, &run(&scenario, seed));
    store.put(&[(key, 1)], &encoded(vec![table(1)]).expect("a shard")).expect("written");
    store.put(&[(key, 1), (key, 2)], &encoded(vec![table(1), table(2)]).expect("a shard")).expect("written");
    let (found, places) = store.rows(&[(key, 1), (key, 2)]).expect("readable");
    assert_eq!((found.rows(), places), (2, vec![0, 1]));
}

#[test]
fn a_shard_that_has_a_run_twice_gives_it_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("it is made");
    let scenario = scenario(TEXT, &["flow.photos.count=2"]);
    let key = Key::of(&scenario);
    let table = |seed| rows(key, &run(&scenario, seed));
    let (names, tables): (Vec<_>, Vec<_>) = [1, 1, 2, 1].map(|seed| ((key, seed), table(seed))).into_iter().unzip();
    store.put(&names, &encoded(tables).expect("a shard")).expect("written");
    let (found, places) = store.rows(&[(key, 2), (key, 1)]).expect("readable");
    assert_eq!((found.rows(), places), (4, vec![0, 0, 1, 1]));
}

#[test]
fn writers_of_the_same_runs_do_not_disturb_one_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = Key::of(&scenario(TEXT, &[]));
    let shard = encoded(vec![rows(key, &run(&scenario(TEXT, &[]), 1))]).expect("a shard");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut store = Store::open(folder.path()).expect("no shard is damaged");
                for _ in 0..100 {
                    store.put(&[(key, 1)], &shard).expect("written");
                }
            });
        }
    });
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).expect("read").map(|entry| entry.expect("read").file_name()).collect();
    assert!(names.len() == 1 && names[0].to_string_lossy().starts_with("shard-"), "{names:?}");
    assert_eq!(Store::open(folder.path()).expect("no shard is damaged").len(), 1);
}

#[test]
fn what_is_unfinished_is_not_there_and_what_is_no_shard_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(".abc-1.unfinished"), "half").expect("written");
    std::fs::write(folder.path().join("notes.txt"), "mine").expect("written");
    assert!(Store::open(folder.path()).expect("a store").is_empty());
    std::fs::write(folder.path().join("shard-abc.parquet"), "half").expect("written");
    let error = Store::open(folder.path()).expect_err("no shard");
    let said = error.to_string();
    assert!(matches!(error, Error::DamagedShard(_)) && said.contains("shard-abc.parquet: "), "{said}");
    assert!(said.ends_with("the shard is damaged; delete it, and its runs are made again"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("it is made");
    let key = Key::of(&scenario(TEXT, &[]));
    store
        .put(&[(key, 1)], &encoded(vec![rows(key, &run(&scenario(TEXT, &[]), 1))]).expect("a shard"))
        .expect("written");
    // In the place of the folder for the next one.
    let moved = folder.path().with_extension("moved");
    std::fs::rename(folder.path(), &moved).expect("moved");
    let error = store.put(&[(key, 2)], b"").expect_err("there is no folder");
    assert!(error.to_string().contains("shard-"), "{error}");
    assert!(!store.has((key, 2)));
    assert_eq!(Store::open(&moved).expect("a store").len(), 1);
    std::fs::rename(&moved, folder.path()).expect("moved back");
}

#[test]
fn no_flipped_bit_of_a_shard_becomes_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("it is made");
    let scenario = scenario(TEXT, &[]);
    let key = Key::of(&scenario);
    store.put(&[(key, 1)], &encoded(vec![rows(key, &run(&scenario, 1))]).expect("a shard")).expect("written");
    let shard = std::fs::read_dir(folder.path()).expect("a folder").next().expect("a shard").expect("readable").path();
    let sound = std::fs::read(&shard).expect("readable");
    for at in (0..sound.len()).step_by(sound.len() / 50) {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&shard, damaged).expect("written");
        let error = Store::open(folder.path()).map(|_| ()).expect_err("damaged");
        assert!(matches!(error, Error::DamagedShard(_)), "byte {at}: {error}");
        assert!(matches!(store.rows(&[(key, 1)]), Err(Error::DamagedShard(_))), "byte {at}");
    }
    std::fs::write(&shard, sound).expect("written");
    assert_eq!(Store::open(folder.path()).expect("sound again").len(), 1);
}

#[test]
fn a_shard_of_a_version_without_checksums_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = scenario(TEXT, &[]);
    let key = Key::of(&scenario);
    let shard = encoded(vec![rows(key, &run(&scenario, 1))]).expect("a shard");
    std::fs::write(folder.path().join("shard-0123456789abcdef.parquet"), shard).expect("written");
    assert!(Store::open(folder.path()).expect("a store").has((key, 1)));
}
