//! Congestion controls in Python: they run inside the simulator, which takes Python's lock for each call.

use crate::errors::InputError;
use pyo3::prelude::*;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tcp::control::{Ack, Control, Loss, LossState, Sent, Start, Window};
use units::{Duration, Instant, Rate};

/// What a congestion control changes, in segments.
#[pyclass(name = "Window", module = "bentpipe._bentpipe", get_all, set_all)]
pub(crate) struct PyWindow {
    /// The congestion window.
    cwnd: f64,
    /// Below it the window grows by slow start.
    ssthresh: f64,
}

/// What is known when a connection is established.
#[pyclass(name = "Start", module = "bentpipe._bentpipe", frozen, get_all)]
pub(crate) struct PyStart {
    now: f64,
    mss: u32,
    rtt: Option<f64>,
    receive_window: u64,
    has_sack: bool,
}

/// An acknowledgement, as the sender understood it: times in seconds, data in bytes, `rate` in bit/s.
#[pyclass(name = "Ack", module = "bentpipe._bentpipe", frozen, get_all)]
pub(crate) struct PyAck {
    now: f64,
    mss: u32,
    acked: u64,
    delivered: u64,
    lost: u64,
    is_duplicate: bool,
    rtt: Option<f64>,
    srtt: Option<f64>,
    min_rtt: Option<f64>,
    rate: Option<f64>,
    prior_in_flight: u64,
    in_flight: u64,
    una: u64,
    nxt: u64,
    receive_window: u64,
    is_window_limited: bool,
    state: &'static str,
}

/// A loss, or an expiry of the retransmission timer: times in seconds, data in bytes.
#[pyclass(name = "Loss", module = "bentpipe._bentpipe", frozen, get_all)]
pub(crate) struct PyLoss {
    now: f64,
    mss: u32,
    flight: u64,
    nxt: u64,
    srtt: Option<f64>,
    min_rtt: Option<f64>,
    expiries: u32,
    state: &'static str,
}

/// A data segment that leaves; in its bytes, a FIN counts as one.
#[pyclass(name = "Sent", module = "bentpipe._bentpipe", frozen, get_all)]
pub(crate) struct PySent {
    now: f64,
    bytes: u64,
    in_flight: u64,
    is_retransmission: bool,
    nxt: u64,
}

/// A time in seconds.
fn seconds(at: Instant) -> f64 {
    at.as_secs_f64()
}

/// A time that is zero while it is not known.
fn known(time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| time.as_secs_f64())
}

fn name_of(state: LossState) -> &'static str {
    match state {
        LossState::Open => "open",
        LossState::Recovery => "recovery",
        LossState::Timeout => "timeout",
    }
}

impl From<&Start> for PyStart {
    fn from(start: &Start) -> Self {
        Self {
            now: seconds(start.now),
            mss: start.mss,
            rtt: start.rtt.map(Duration::as_secs_f64),
            receive_window: start.receive_window,
            has_sack: start.has_sack,
        }
    }
}

impl From<&Ack> for PyAck {
    fn from(ack: &Ack) -> Self {
        Self {
            now: seconds(ack.now),
            mss: ack.mss,
            acked: ack.acked,
            delivered: ack.delivered,
            lost: ack.lost,
            is_duplicate: ack.is_duplicate,
            rtt: ack.rtt.map(Duration::as_secs_f64),
            srtt: known(ack.srtt),
            min_rtt: known(ack.min_rtt),
            rate: ack.rate.map(|sample| sample.rate().as_bps() as f64),
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            una: ack.una,
            nxt: ack.nxt,
            receive_window: ack.receive_window,
            is_window_limited: ack.is_window_limited,
            state: name_of(ack.state),
        }
    }
}

impl From<&Loss> for PyLoss {
    fn from(loss: &Loss) -> Self {
        Self {
            now: seconds(loss.now),
            mss: loss.mss,
            flight: loss.flight,
            nxt: loss.nxt,
            srtt: known(loss.srtt),
            min_rtt: known(loss.min_rtt),
            expiries: loss.expiries,
            state: name_of(loss.state),
        }
    }
}

impl From<&Sent> for PySent {
    fn from(sent: &Sent) -> Self {
        Self {
            now: seconds(sent.now),
            bytes: sent.bytes,
            in_flight: sent.in_flight,
            is_retransmission: sent.is_retransmission,
            nxt: sent.nxt,
        }
    }
}

/// The first exception of a run's controls, after which none is called any more.
pub(crate) type Raised = Arc<OnceLock<PyErr>>;

/// A control as Python gives it: its name, whether it governs the window, and those of its methods that its class has.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Methods {
    name: String,
    governs_window: bool,
    on_connected: Option<Py<PyAny>>,
    on_ack: Option<Py<PyAny>>,
    grow: Option<Py<PyAny>>,
    on_loss: Option<Py<PyAny>>,
    on_timeout: Option<Py<PyAny>>,
    on_recovered: Option<Py<PyAny>>,
    on_sent: Option<Py<PyAny>>,
    pacing_rate: Option<Py<PyAny>>,
}

/// A congestion control that Python wrote.
pub(crate) struct Written {
    methods: Methods,
    window: Py<PyWindow>,
    raised: Raised,
}

impl Written {
    /// The control whose methods `make` gives.
    pub(crate) fn new(py: Python<'_>, make: &Py<PyAny>, raised: &Raised) -> PyResult<Self> {
        let methods = make.bind(py).call0()?.extract()?;
        let window = Py::new(py, PyWindow { cwnd: 0.0, ssthresh: 0.0 })?;
        Ok(Self { methods, window, raised: Arc::clone(raised) })
    }

    /// Calls a method, if the class has it, with a fact and the window, which it may change.
    fn tell<F>(&self, name: &str, method: Option<&Py<PyAny>>, fact: impl FnOnce() -> F, window: &mut Window)
    where
        F: for<'py> IntoPyObject<'py>,
    {
        self.call(method, |py, method| {
            let shared = self.share(py, window)?;
            method.call1((fact(), shared))?;
            let changed = shared.try_borrow()?;
            *window = self.checked(name, &changed)?;
            Ok(())
        });
    }

    /// Does something with a method, if the class has it and nothing was raised yet.
    fn call<T>(
        &self,
        method: Option<&Py<PyAny>>,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let method = method.filter(|_| self.raised.get().is_none())?;
        match Python::attach(|py| call(py, method.bind(py))) {
            Ok(value) => Some(value),
            Err(error) => {
                // An earlier exception counts.
                let _ = self.raised.set(error);
                None
            }
        }
    }

    /// The window as Python sees it.
    fn share<'py>(&self, py: Python<'py>, window: &Window) -> PyResult<&Bound<'py, PyWindow>> {
        let shared = self.window.bind(py);
        *shared.try_borrow_mut()? = PyWindow { cwnd: window.cwnd, ssthresh: window.ssthresh };
        Ok(shared)
    }

    fn checked(&self, method: &str, window: &PyWindow) -> PyResult<Window> {
        let PyWindow { cwnd, ssthresh } = *window;
        let refuse = |key: &str, value: f64, allowed: &str| {
            let name = &self.methods.name;
            Err(InputError::new_err(format!("{name}.{method} set {key} = {value}: allowed {allowed}")))
        };
        if !(cwnd >= 1.0 && cwnd.is_finite()) {
            return refuse("cwnd", cwnd, "a number of segments, 1 or more");
        }
        if ssthresh.is_nan() || ssthresh < 1.0 {
            return refuse("ssthresh", ssthresh, "a number of segments, 1 or more, or infinity");
        }
        Ok(Window { cwnd, ssthresh })
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.methods.name)
    }
}

impl Control for Written {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        self.tell("on_connected", self.methods.on_connected.as_ref(), || PyStart::from(start), window);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.tell("on_ack", self.methods.on_ack.as_ref(), || PyAck::from(ack), window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        self.tell("grow", self.methods.grow.as_ref(), || PyAck::from(ack), window);
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.tell("on_loss", self.methods.on_loss.as_ref(), || PyLoss::from(loss), window);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.tell("on_timeout", self.methods.on_timeout.as_ref(), || PyLoss::from(timeout), window);
    }

    fn on_recovered(&mut self, ack: &Ack, window: &mut Window) {
        self.tell("on_recovered", self.methods.on_recovered.as_ref(), || PyAck::from(ack), window);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.call(self.methods.on_sent.as_ref(), |_, method| method.call1((PySent::from(sent),)).map(|_| ()));
    }

    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        let rate = self.call(self.methods.pacing_rate.as_ref(), |py, method| {
            let rate: Option<f64> = method.call1((self.share(py, window)?,))?.extract()?;
            match rate {
                Some(rate) if !(rate >= 1.0 && rate.is_finite()) => {
                    let name = &self.methods.name;
                    Err(InputError::new_err(format!(
                        "{name}.pacing_rate gave {rate}: allowed a number of bit/s, 1 or more, or None"
                    )))
                }
                rate => Ok(rate),
            }
        });
        rate.flatten().map(|rate| Rate::from_bps(rate as u64))
    }

    fn governs_window(&self) -> bool {
        self.methods.governs_window
    }
}
