//! What the text concludes.

use super::ftp::{self, Plan, Transfer};
use super::theory::{self, LARGEST_WINDOW, T1, WHOLE, WINDOW};
use super::{depending, judged};
use crate::{Context, Error, Found, Reproduction};
use model::kruse::Start;

/// The claims of sections 3 and 4.
pub(super) fn claims(context: &Context<'_>) -> Result<Reproduction, Error> {
    let plans = ["2MB", "2MB-doubling", "45kB", "100kB"].map(Plan::new);
    let runs = ftp::run(&plans, context)?;
    let [sunos, doubling, small, medium] = &runs[..] else {
        return Err(Error::failed("four transfers were to be made"));
    };
    let found = vec![
        rate_does_not_matter()?,
        slow_start_doubles(sunos, doubling),
        small_files(small, medium)?,
        first_100_kbytes()?,
        window_against_slow_start()?,
    ];
    Ok(Reproduction { found, ..Reproduction::default() })
}

fn rate_does_not_matter() -> Result<Found, Error> {
    let mut apart: f64 = 0.0;
    for window in [5_000, 25_000] {
        apart = apart.max(1.0 - long_run(768, window)? / long_run(T1, window)?);
    }
    let note =
        format!("half the rate costs at most {:.1} %, by table 1 with windows up to 25,000 bytes", apart * 100.0);
    Ok(judged("rate does not matter", apart < 0.05, note))
}

fn slow_start_doubles(sunos: &Transfer, doubling: &Transfer) -> Found {
    let growths = [sunos, doubling].map(growth);
    let [by_acks, by_bytes] = growths;
    depending(
        "slow start doubles",
        growths.map(|growth| (1.9..=2.1).contains(&growth)),
        format!(
            "by {by_acks:.2} in a round where it grows by acknowledgements, each for two segments; by {by_bytes:.2} by bytes"
        ),
    )
}

/// By what factor the window grows in a round trip, from one segment to the first that is half of the largest.
fn growth(run: &Transfer) -> f64 {
    let round = 2.0 * theory::SATELLITE.as_secs_f64() + 0.006;
    // Rounds are counted from the middle of the silence before them: what arrives in one takes a quarter of it at most.
    let first = run.first_arrival() - round / 4.0;
    let arrived = |number: u32| {
        let from = first + f64::from(number) * round;
        (run.arrived(from + round) - run.arrived(from)) / 512.0
    };
    let full = (1..40).find(|number| arrived(*number) >= 31.0).unwrap_or(40);
    (arrived(full) / arrived(0)).powf(1.0 / f64::from(full))
}

fn small_files(small: &Transfer, medium: &Transfer) -> Result<Found, Error> {
    let long_run = long_run(T1, WINDOW)?;
    let [small, medium] = [small, medium].map(|run| long_run / run.throughput());
    let note = format!("it promises {small:.1} times what 45 kB get, {medium:.1} times what 100 kB get");
    Ok(judged("small files defy the long-run model", small > 2.0 && medium > 2.0, note))
}

fn first_100_kbytes() -> Result<Found, Error> {
    let share = |bytes: u64| -> Result<f64, Error> {
        let ideal = bytes as f64 * 8.0 / 1e3 / long_run(T1, WINDOW)?;
        Ok((1.0 - ideal / time(Start::PAPER, WINDOW, bytes)?) * 100.0)
    };
    let (small, large) = (share(100_000)?, share(2_000_000)?);
    let note = format!("slow start takes {small:.0} % of the time of 100 kB, {large:.0} % of that of 2 MB");
    Ok(judged("first 100 kbytes", small > 50.0 && large < 10.0, note))
}

fn window_against_slow_start() -> Result<Found, Error> {
    const SIZE: u64 = 100_000;
    let whole = Start { initial: 48.0, ..Start::PAPER };
    let now = time(Start::PAPER, WINDOW, SIZE)?;
    let by_window = (now / time(Start::PAPER, LARGEST_WINDOW, SIZE)? - 1.0) * 100.0;
    let by_start = (now / time(whole, WINDOW, SIZE)? - 1.0) * 100.0;
    let note = format!("100 kB gain {by_window:.0} % by a window of 65,535 bytes, {by_start:.0} % without slow start");
    Ok(judged("window against slow start", by_start > 2.0 * by_window, note))
}

/// The model's long run, in kbit/s, where it applies.
fn long_run(kbits: u64, window: u64) -> Result<f64, Error> {
    theory::long_run(kbits, window)?.ok_or_else(|| Error::failed("the model does not apply"))
}

/// The model's time of a file over the T1, in s.
fn time(start: Start, window: u64, bytes: u64) -> Result<f64, Error> {
    Ok(bytes as f64 * 8.0 / 1e3 / theory::file_from(start, WHOLE, T1, window, bytes)?)
}
