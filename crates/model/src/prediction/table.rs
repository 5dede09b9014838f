//! What every model says of one transfer, side by side.

use super::{Link, Transfer, channel, check, doubt, lossy_path, predict};
use crate::cardwell::{self, Handshake};
use crate::estimate::{Estimate, Invalid, rate_of};
use crate::kruse::{End, Reading, Start};
use crate::pftk::Counted;
use crate::{cross_layer, cubic, limit, mathis, pftk, satpep, window};
use units::{Bytes, Duration, Rate};

/// A model's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub model: &'static str,
    /// Payload over time: of the transfer where the model has its time, of one without end where not.
    pub throughput: Option<Rate>,
    /// How long the transfer takes.
    pub time: Option<Duration>,
    /// The window that it is about, in segments.
    pub window: Option<f64>,
    /// Why it does not hold here; `None` where it does.
    pub doubt: Option<String>,
}

impl Row {
    fn new(model: &'static str) -> Self {
        Self { model, throughput: None, time: None, window: None, doubt: None }
    }

    /// A model that has no figures here.
    fn without(model: &'static str, reason: String) -> Self {
        Self { doubt: Some(reason), ..Self::new(model) }
    }

    fn rate(model: &'static str, found: Result<Estimate<Rate>, Invalid>) -> Self {
        match found {
            Ok(found) => Self { throughput: Some(found.value), doubt: found.doubt, ..Self::new(model) },
            Err(invalid) => Self::without(model, invalid.to_string()),
        }
    }

    fn time(model: &'static str, size: Bytes, found: Estimate<Duration>) -> Self {
        let throughput = Some(Rate::from_transfer(size, found.value));
        Self { throughput, time: Some(found.value), doubt: found.doubt, ..Self::new(model) }
    }

    /// The row without figures that its types cannot hold: a time of 584 years stands for any longer one, and 0 bit/s for any
    /// rate below 1 bit/s.
    fn told(mut self) -> Self {
        if self.time == Some(Duration::MAX) {
            (self.time, self.throughput) = (None, None);
            self.doubt.get_or_insert_with(|| "the transfer takes more than 584 years".to_owned());
        } else if self.throughput == Some(Rate::ZERO) {
            self.throughput = None;
            self.doubt.get_or_insert_with(|| "the throughput is below 1bit/s".to_owned());
        }
        self
    }
}

/// Every model on its own, for the transfer that [`predict`] predicts, shared by `flows` where a model knows flows.
///
/// # Errors
/// As [`predict`], and without a session.
pub fn table(link: &Link, transfer: &Transfer, flows: u32) -> Result<Vec<Row>, Invalid> {
    check(link, transfer)?;
    Invalid::unless(flows > 0, "flows", flows, "1 or more")?;
    let prediction = predict(link, transfer)?.shared_by(flows);
    let path = lossy_path(link, transfer);
    let line = payload_rate(link, transfer);
    let least = physical_limit(link, transfer);
    let mut rows = vec![
        Row::time("prediction", transfer.size, prediction.time),
        Row::time("physical limit", transfer.size, Estimate::sound(least)),
        Row::rate("line rate", Ok(Estimate::sound(line))),
    ];
    rows.extend(windows(link, transfer)?);
    rows.extend([
        Row::rate("Mathis", mathis::throughput(&path)),
        Row::rate("PFTK, approximate", pftk::approximate(&path)),
        Row::rate("PFTK, full, received", pftk::full(&path, Counted::Received)),
        Row::rate("PFTK, full, sent", pftk::full(&path, Counted::Sent)),
        Row::rate("CUBIC", cubic::throughput(&path)),
        cardwell_row(link, transfer)?,
    ]);
    // What losses allow is no figure of a link that carries less.
    for row in rows.iter_mut().skip(3) {
        if row.doubt.is_none() && row.throughput.is_some_and(|rate| rate > line) {
            row.doubt = Some("above the line rate, which this model does not know".to_owned());
        }
    }
    rows.extend(assigned(link, transfer, flows));
    Ok(rows.into_iter().map(Row::told).collect())
}

/// The least time of any protocol, in packets of the transfer's sizes.
pub(super) fn physical_limit(link: &Link, transfer: &Transfer) -> Duration {
    limit::time_at(transfer.direction.rounds(), transfer.size, payload_bps(link, transfer), link.rtt)
}

/// Bits of payload per second that the line carries, in packets of the transfer's sizes.
fn payload_bps(link: &Link, transfer: &Transfer) -> f64 {
    let share = transfer.mss.as_u64() as f64 / (transfer.mss + transfer.header).as_u64() as f64;
    link.rate.as_bps() as f64 * share * (1.0 - link.loss.as_f64())
}

/// [`payload_bps`] as a rate.
fn payload_rate(link: &Link, transfer: &Transfer) -> Rate {
    rate_of(payload_bps(link, transfer))
}

/// The models that know windows, slow start and nothing of losses.
fn windows(link: &Link, transfer: &Transfer) -> Result<Vec<Row>, Invalid> {
    let errorless = |row: Row| match row.doubt {
        None if link.loss.as_f64() > 0.0 => Row { doubt: Some("it knows no losses".to_owned()), ..row },
        _ => row,
    };
    let channel = channel(link, transfer);
    let mut rows = Vec::new();
    match transfer.window {
        Some(bytes) => {
            let bound = window::throughput(bytes, link.rtt).map(Estimate::sound);
            let steady = channel.steady(bytes).map(|steady| steady.throughput);
            rows.extend([Row::rate("window", bound), errorless(Row::rate("Kruse, steady state", steady))]);
        }
        None => {
            let reason = || "no window is given".to_owned();
            rows.extend(["window", "Kruse, steady state"].map(|model| Row::without(model, reason())));
        }
    }
    let start = Start { initial: transfer.initial_window, growth: 2.0, handshake: true };
    let window = transfer.window.unwrap_or(Bytes::new(1 << 50));
    let run = channel.slow_start(window, transfer.size, start, Reading::Cycles(End::ReceiverDone))?;
    let data = transfer.size.as_u64() as f64 / transfer.mss.as_u64() as f64;
    let time = Estimate::unless(run.time, doubt::overflows(link, transfer, data), || {
        "its windows overflow the queue, which it does not know".to_owned()
    });
    rows.push(errorless(Row::time("Kruse, slow start", transfer.size, time)));
    Ok(rows)
}

fn cardwell_row(link: &Link, transfer: &Transfer) -> Result<Row, Invalid> {
    let from = cardwell::Transfer {
        segments: (transfer.size.as_u64() as f64 / transfer.mss.as_u64() as f64).ceil(),
        initial: transfer.initial_window,
        delayed_ack: Duration::ZERO,
        handshake: Some(Handshake { timeout: Duration::from_secs(1) }),
    };
    let latency = cardwell::latency(&lossy_path(link, transfer), &from)?;
    Ok(Row::time("Cardwell", transfer.size, latency.map(|latency| latency.total())))
}

/// The models that give each of `flows` a window.
fn assigned(link: &Link, transfer: &Transfer, flows: u32) -> [Row; 2] {
    let packet = transfer.mss + transfer.header;
    let header_share = transfer.header.as_u64() as f64 / transfer.mss.as_u64() as f64;
    let product = link.rate.as_bps() as f64 * link.rtt.as_secs_f64() / 8.0;
    let cross_layer = cross_layer::segments(link.rate, link.rtt, header_share, transfer.mss, flows);
    let satpep = satpep::greatest_window(product, 1.0, flows as usize, packet.as_u64() as f64);
    let row = |model, segments: f64| {
        let in_a_round_trip = Rate::from_bps((segments * transfer.mss.bits() as f64 / link.rtt.as_secs_f64()) as u64);
        let part = Rate::from_bps(payload_rate(link, transfer).as_bps() / u64::from(flows));
        Row { throughput: Some(in_a_round_trip.min(part)), window: Some(segments), ..Row::new(model) }
    };
    [row("cross-layer window", cross_layer), row("SaTPEP, equation (2)", satpep)]
}
