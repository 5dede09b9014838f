//! Models over arrays. All arrays of a call have one length, and quantities are in base units.

use crate::errors::QuantityError;
use crate::waiting::BETWEEN_LOOKS;
use model::{Estimate, LossyPath, cubic, limit, mathis, pftk, prediction, queue, window};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::time::Instant;
use units::{Bytes, Duration, Probability, Rate};

type Input<'py> = PyReadonlyArray1<'py, f64>;
type Output<'py> = Bound<'py, PyArray1<f64>>;

/// The element of each array, in order; nothing if one is not contiguous. Copies, since other threads of Python may change the arrays
/// meanwhile.
struct Rows<const N: usize>([Vec<f64>; N]);

impl<const N: usize> Rows<N> {
    fn of(arrays: [&Input<'_>; N]) -> PyResult<Self> {
        let mut columns = [const { Vec::new() }; N];
        for (column, array) in columns.iter_mut().zip(arrays) {
            *column = array.as_slice()?.to_vec();
        }
        if columns.iter().any(|column| column.len() != columns[0].len()) {
            return Err(QuantityError::new_err("arrays of different lengths"));
        }
        Ok(Self(columns))
    }

    /// `model` of every row, without Python's lock. A parameter that means nothing raises, with the element where it stands; so does
    /// Ctrl-C.
    fn map<T: Send>(
        &self,
        py: Python<'_>,
        mut model: impl FnMut([f64; N]) -> Result<T, String> + Send,
    ) -> PyResult<Vec<T>> {
        py.detach(|| {
            let mut looked = Instant::now();
            let row = |at: usize| {
                if looked.elapsed() >= BETWEEN_LOOKS {
                    Python::attach(|py| py.check_signals())?;
                    looked = Instant::now();
                }
                let values = std::array::from_fn(|column| self.0[column][at]);
                model(values).map_err(|problem| {
                    let place = if self.0[0].len() > 1 { format!(" (element {at})") } else { String::new() };
                    QuantityError::new_err(format!("{problem}{place}"))
                })
            };
            (0..self.0[0].len()).map(row).collect()
        })
    }
}

/// `model` of every row of `arrays`, as an array.
fn mapped<'py, const N: usize>(
    py: Python<'py>,
    arrays: [&Input<'py>; N],
    model: impl FnMut([f64; N]) -> Result<f64, String> + Send,
) -> PyResult<Output<'py>> {
    Ok(PyArray1::from_vec(py, Rows::of(arrays)?.map(py, model)?))
}

/// What a model gives, or its error's text.
fn told<T, E: std::fmt::Display>(found: Result<T, E>) -> Result<T, String> {
    found.map_err(|error| error.to_string())
}

fn probability(name: &str, value: f64) -> Result<Probability, String> {
    Probability::new(value).map_err(|error| format!("{name}: {error}"))
}

fn time(name: &str, value: f64) -> Result<Duration, String> {
    within(name, value, "seconds", 1e10).map(Duration::from_secs_f64)
}

fn size(name: &str, value: f64) -> Result<Bytes, String> {
    within(name, value, "bytes", 1e18).map(|value| Bytes::new(value.round() as u64))
}

fn rate(name: &str, value: f64) -> Result<Rate, String> {
    within(name, value, "bit/s", 1e18).map(|value| Rate::from_bps(value.round() as u64))
}

/// A whole number of segments.
fn segments(name: &str, value: f64) -> Result<u32, String> {
    if (1.0..=1e6).contains(&value) && value.fract() == 0.0 {
        Ok(value as u32)
    } else {
        Err(format!("{name} = {value}: allowed whole numbers from 1 to 1000000"))
    }
}

/// A number that its type holds: of what is larger, the largest would be taken.
fn within(name: &str, value: f64, unit: &str, most: f64) -> Result<f64, String> {
    if (0.0..=most).contains(&value) {
        Ok(value)
    } else {
        // As Python writes it.
        let value = format!("{value:?}");
        Err(format!("{name} = {} {unit}: allowed 0 or more, at most {most:e}", value.trim_end_matches(".0")))
    }
}

/// Estimates as numbers, and the first doubt.
#[derive(Default)]
struct Doubts(Option<String>);

impl Doubts {
    fn take<T>(&mut self, estimate: Estimate<T>) -> T {
        self.0 = self.0.take().or(estimate.doubt);
        estimate.value
    }
}

/// The throughput, in bit/s, that the model `name` (mathis, pftk, pftk-approximate, pftk-received or cubic) gives a long transfer,
/// and the first reason for doubt. A window of infinity never limits.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parameters of the models")]
pub(crate) fn loss_model<'py>(
    py: Python<'py>,
    name: &str,
    loss: Input<'py>,
    rtt: Input<'py>,
    mss: Input<'py>,
    ack_every: Input<'py>,
    rto: Input<'py>,
    window: Input<'py>,
) -> PyResult<(Output<'py>, Option<String>)> {
    let mut doubts = Doubts::default();
    let values =
        mapped(py, [&loss, &rtt, &mss, &ack_every, &rto, &window], |[loss, rtt, mss, ack_every, rto, window]| {
            let path = LossyPath {
                mss: size("mss", mss)?,
                rtt: time("rtt", rtt)?,
                loss: probability("loss", loss)?,
                ack_every: segments("ack_every", ack_every)?,
                rto: time("rto", rto)?,
                window: (window != f64::INFINITY).then_some(window),
            };
            let estimate = match name {
                "mathis" => mathis::throughput(&path),
                "pftk" => pftk::full(&path, pftk::Counted::Sent),
                "pftk-received" => pftk::full(&path, pftk::Counted::Received),
                "pftk-approximate" => pftk::approximate(&path),
                "cubic" => cubic::throughput(&path),
                other => return Err(format!("{other}: there is no such model of losses")),
            };
            told(estimate).map(|estimate| doubts.take(estimate).as_bps() as f64)
        })?;
    Ok((values, doubts.0))
}

/// The throughput, in bit/s, of one window in a round trip.
#[pyfunction]
pub(crate) fn window_throughput<'py>(py: Python<'py>, window: Input<'py>, rtt: Input<'py>) -> PyResult<Output<'py>> {
    mapped(py, [&window, &rtt], |[bytes, rtt]| {
        told(window::throughput(size("window", bytes)?, time("rtt", rtt)?)).map(|rate| rate.as_bps() as f64)
    })
}

/// The least time, in seconds, in which a transfer can cross a link, whatever the protocol.
#[pyfunction]
pub(crate) fn link_limit<'py>(
    py: Python<'py>,
    rounds: Input<'py>,
    bytes: Input<'py>,
    link_rate: Input<'py>,
    rtt: Input<'py>,
    loss: Input<'py>,
) -> PyResult<Output<'py>> {
    mapped(py, [&rounds, &bytes, &link_rate, &rtt, &loss], |[rounds, bytes, bps, rtt, loss]| {
        let (size, rate, rtt) = (size("size", bytes)?, rate("rate", bps)?, time("rtt", rtt)?);
        let loss = probability("loss", loss)?;
        let rounds = within("rounds", rounds, "round trips", 1e9)?;
        if rate == Rate::ZERO {
            return Err(format!("rate = {bps} bit/s: allowed 1 or more"));
        }
        match limit::time(rounds, size, rate, rtt, loss) {
            Duration::MAX => Err(format!("size = {bytes} bytes: allowed what the link delivers within 584 years")),
            time => Ok(time.as_secs_f64()),
        }
    })
}

/// The share of its rate that a link with a short queue carries. The queue is in bandwidth-delay products.
#[pyfunction]
pub(crate) fn queue_utilisation<'py>(py: Python<'py>, products: Input<'py>, beta: Input<'py>) -> PyResult<Output<'py>> {
    mapped(py, [&products, &beta], |[products, beta]| told(queue::utilisation(products, beta)))
}

/// The time, in seconds, and the throughput, in bit/s, of transfers, what binds each, and the first reason for doubt. The queue
/// is in bytes; a queue or a window of infinity never limits.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parameters of the models")]
pub(crate) fn predict<'py>(
    py: Python<'py>,
    control: &str,
    upload: bool,
    link_rate: Input<'py>,
    rtt: Input<'py>,
    loss: Input<'py>,
    bytes: Input<'py>,
    queue: Input<'py>,
    window: Input<'py>,
    initial_window: Input<'py>,
    ack_every: Input<'py>,
) -> PyResult<(Output<'py>, Output<'py>, Vec<String>, Option<String>)> {
    let control = match control {
        "reno" => prediction::Control::Reno,
        "cubic" => prediction::Control::Cubic,
        "hybla" => prediction::Control::Hybla,
        "bbr" => prediction::Control::Bbr,
        other => return Err(QuantityError::new_err(format!("control = {other}: allowed reno, cubic, hybla, bbr"))),
    };
    let direction = if upload { prediction::Direction::Up } else { prediction::Direction::Down };
    let bounded = |name, value: f64| if value == f64::INFINITY { Ok(None) } else { size(name, value).map(Some) };
    let rows = Rows::of([&link_rate, &rtt, &loss, &bytes, &queue, &window, &initial_window, &ack_every])?;
    let mut doubts = Doubts::default();
    let predictions = rows.map(py, |[bps, rtt, loss, bytes, queue, window, initial_window, ack_every]| {
        let rtt = time("rtt", rtt)?;
        let link = prediction::Link {
            rate: rate("rate", bps)?,
            rtt,
            loss: probability("loss", loss)?,
            queue: bounded("queue", queue)?,
        };
        let transfer = prediction::Transfer {
            size: size("size", bytes)?,
            mss: Bytes::new(1448),
            header: Bytes::new(52),
            window: bounded("window", window)?,
            initial_window,
            ack_every: segments("ack_every", ack_every)?,
            rto: rtt + Duration::from_millis(200),
            control,
            direction,
        };
        let found = told(prediction::predict(&link, &transfer))?;
        let seconds = doubts.take(found.time).as_secs_f64();
        Ok((seconds, found.throughput.as_bps() as f64, found.binding.to_string()))
    })?;
    let times = PyArray1::from_iter(py, predictions.iter().map(|row| row.0));
    let rates = PyArray1::from_iter(py, predictions.iter().map(|row| row.1));
    Ok((times, rates, predictions.into_iter().map(|row| row.2).collect(), doubts.0))
}
