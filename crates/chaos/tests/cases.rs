//! A bounded part of what `bentpipe chaos` runs.

/// Cases from the first seed on, for about ten seconds of a debug build.
const CASES: u64 = 40;

#[test]
fn transfers_under_faults_lose_no_byte_hang_nowhere_and_leave_nothing() {
    let mut all = chaos::Report::new(1);
    (1..=CASES).for_each(|seed| all.add(chaos::run(seed)));
    assert!(all.is_sound(), "{all:#?}");
    assert!(all.transfers > CASES * 30 && all.completed > all.transfers / 2, "{all:#?}");
    assert!(all.faults.values().all(|count| *count > 0), "{:?}", all.faults);
}

#[test]
fn a_case_is_the_same_each_time() {
    assert_eq!(chaos::run(7), chaos::run(7));
    assert_eq!(chaos::run(7).transfers, chaos::transfers(7));
}
