//! A flow whose window is set from outside, step by step: what a learning agent needs.

use crate::controlled::flows;
use crate::errors::{BentpipeError, InputError, LimitError, scenario_error};
use crate::experiment::Experiment;
use pyo3::prelude::*;
use scenario::{Application, Traffic};
use sim::{Simulation, Stopped};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tcp::control::{Ack, Control, Loss, Start, Window};
use units::Instant;

/// Events between two looks at signals, and at whether the flow has ended.
const EVENTS_AT_ONCE: u32 = 1 << 13;

/// What has happened from one step to the next.
#[pyclass(module = "bentpipe._bentpipe", frozen, get_all)]
#[derive(Clone, Default)]
pub(crate) struct Observation {
    /// The time of the run, in seconds.
    time_s: f64,
    /// How long the step took.
    elapsed_s: f64,
    /// The payload of a full segment, in bytes; zero before the connection is established.
    mss: u32,
    /// The congestion window at its end, in segments.
    cwnd: f64,
    /// The smoothed round-trip time, and the smallest so far; zero before the first.
    srtt_s: f64,
    min_rtt_s: f64,
    /// What arrived during the step, what was found lost, and what is under way at its end.
    delivered_bytes: u64,
    lost_bytes: u64,
    in_flight_bytes: u64,
    /// How often the retransmission timer expired.
    timeouts: u32,
    /// Whether the flow, or the run, has ended; then there is no next step.
    is_over: bool,
}

/// What the control and the agent share.
#[derive(Debug, Default)]
struct Turn {
    by_ack: bool,
    /// Whether data may leave.
    is_connected: bool,
    /// The window that the agent wants, in segments.
    wanted: f64,
    /// The step is over when this is acknowledged.
    round_ends: u64,
    is_due: bool,
    begun_s: f64,
    /// What was acknowledged in all, in bytes.
    acknowledged: u64,
    so_far: Step,
}

/// What has happened in the step.
#[derive(Debug, Default, Clone, Copy)]
struct Step {
    mss: u32,
    cwnd: f64,
    srtt_s: f64,
    min_rtt_s: f64,
    delivered: u64,
    lost: u64,
    in_flight: u64,
    timeouts: u32,
}

/// The control of the flow: the window is what the agent wants.
#[derive(Debug)]
struct Steered(Arc<Mutex<Turn>>);

fn lock(turn: &Mutex<Turn>) -> MutexGuard<'_, Turn> {
    // Numbers are whole whatever became of the thread that changed them.
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control for Steered {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        let mut turn = lock(&self.0);
        turn.is_connected = true;
        turn.wanted = window.cwnd;
        turn.so_far.mss = start.mss;
        turn.begun_s = start.now.as_secs_f64();
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        let mut turn = lock(&self.0);
        if !turn.is_connected {
            // It is of QUIC's handshake, and nobody has asked for a window yet.
            return;
        }
        window.cwnd = turn.wanted;
        turn.acknowledged += ack.delivered;
        let step = &mut turn.so_far;
        step.mss = ack.mss;
        step.cwnd = window.cwnd;
        step.srtt_s = ack.srtt.as_secs_f64();
        step.min_rtt_s = ack.min_rtt.as_secs_f64();
        step.delivered += ack.delivered;
        step.lost += ack.lost;
        step.in_flight = ack.in_flight;
        if ack.una >= turn.round_ends || turn.by_ack {
            turn.is_due = true;
            turn.round_ends = ack.nxt.max(ack.una + 1);
        }
    }

    fn grow(&mut self, _: &Ack, _: &mut Window) {}

    fn on_loss(&mut self, _: &Loss, _: &mut Window) {}

    fn on_timeout(&mut self, _: &Loss, window: &mut Window) {
        let mut turn = lock(&self.0);
        (turn.wanted, window.cwnd) = (1.0, 1.0);
        turn.so_far.cwnd = 1.0;
        turn.so_far.timeouts += 1;
        turn.is_due = true;
    }

    fn governs_window(&self) -> bool {
        true
    }
}

/// A run of one variant with one seed, of which `flow` (by default the only TCP flow) has its window set by `step`.
#[pyclass(module = "bentpipe._bentpipe", frozen)]
pub(crate) struct Episode {
    flow: usize,
    /// Of a transfer that is stopped, nothing more is acknowledged; what other traffic has sent still arrives.
    is_bulk: bool,
    simulation: Mutex<Simulation>,
    turn: Arc<Mutex<Turn>>,
    /// Whether the flow was complete when the run was.
    is_complete: OnceLock<bool>,
}

#[pymethods]
impl Episode {
    /// Ready for its first step. A step ends with each acknowledgement (`by_ack`), or when a window of data is acknowledged;
    /// in both cases when the retransmission timer expires.
    #[new]
    #[pyo3(signature = (experiment, variant, seed, flow=None, by_ack=false))]
    fn new(
        py: Python<'_>,
        experiment: &Experiment,
        variant: usize,
        seed: u64,
        flow: Option<&str>,
        by_ack: bool,
    ) -> PyResult<Self> {
        let fault = |text: String| scenario_error(py, vec![text]);
        let scenario = experiment.scenarios.get(variant);
        let scenario = scenario.ok_or_else(|| fault(format!("there is no variant with the number {variant}")))?;
        let [flow] = flows(py, scenario, flow)?[..] else {
            return Err(fault("an agent steers one flow, and the scenario has several: name one".to_owned()));
        };
        let mut simulation = Simulation::of(scenario, seed, false).map_err(|error| fault(error.to_string()))?;
        let turn = Arc::new(Mutex::new(Turn { by_ack, ..Turn::default() }));
        let steered = Box::new(Steered(Arc::clone(&turn)));
        simulation.set_control(flow, steered).map_err(|error| fault(error.to_string()))?;
        let traffic = &scenario.flows[flow].traffic;
        let is_bulk = matches!(
            traffic,
            Traffic::Tcp { application: Application::Bulk { .. }, .. }
                | Traffic::Quic { application: Application::Bulk { .. }, .. }
        );
        Ok(Self { flow, is_bulk, simulation: Mutex::new(simulation), turn, is_complete: OnceLock::new() })
    }

    /// Goes on to the end of the next step, with a congestion window of `cwnd` segments from the next acknowledgement on (as it
    /// is without).
    #[pyo3(signature = (cwnd=None))]
    fn step(&self, py: Python<'_>, cwnd: Option<f64>) -> PyResult<Observation> {
        if let Some(cwnd) = cwnd {
            if !(cwnd >= 1.0 && cwnd.is_finite()) {
                return Err(InputError::new_err(format!("cwnd = {cwnd}: allowed a number of segments, 1 or more")));
            }
            lock(&self.turn).wanted = cwnd;
        }
        py.detach(|| {
            let simulation = self.simulation.try_lock();
            let mut simulation =
                simulation.map_err(|_| BentpipeError::new_err("another thread makes a step of this episode"))?;
            let mut events = 0;
            loop {
                let stopped = self.advance(&mut simulation);
                if let Some(limit) = stopped.and_then(Stopped::limit) {
                    return Err(LimitError::new_err(format!("the run stopped at {limit}")));
                }
                events += 1;
                let looks = events % EVENTS_AT_ONCE == 0;
                let mut turn = lock(&self.turn);
                if turn.is_due || stopped.is_some() || looks {
                    let ended_s = if turn.may_be_over() { self.ended(&simulation, &turn) } else { None };
                    let is_over = stopped.is_some() || ended_s.is_some();
                    if turn.is_due || is_over {
                        let now_s = simulation.now().as_secs_f64();
                        // Time after the flow's end is not part of its last step.
                        let end_s = if turn.is_due { now_s } else { ended_s.unwrap_or(now_s).max(turn.begun_s) };
                        return Ok(turn.observation(end_s, is_over));
                    }
                }
                drop(turn);
                if looks {
                    Python::attach(|py| py.check_signals())?;
                }
            }
        })
    }
}

impl Episode {
    /// Handles an event; returns why the run ended. If a run ends with the receiver's last byte, the acknowledgements of the last data
    /// are still on their way: they are part of the episode.
    fn advance(&self, simulation: &mut Simulation) -> Option<Stopped> {
        let stopped = simulation.run_for(1);
        let is_complete = |simulation: &Simulation| simulation.report().flows[self.flow].complete;
        let goes_on = stopped == Some(Stopped::Complete)
            && *self.is_complete.get_or_init(|| is_complete(simulation))
            && simulation.close_for(1);
        stopped.filter(|_| !goes_on)
    }

    /// When the flow ended, if it has: it is complete and all is acknowledged, has failed, or has stopped with nothing in flight any more.
    fn ended(&self, simulation: &Simulation, turn: &Turn) -> Option<f64> {
        let step = &turn.so_far;
        let report = simulation.report();
        let flow = &report.flows[self.flow];
        let until_s = flow.until_s?;
        let stop_s = simulation.flows()[self.flow].stop.map(Instant::as_secs_f64);
        let stopped_s = if flow.complete { stop_s } else { Some(until_s) };
        let has_stopped = stopped_s.is_some_and(|at| at < report.end_s) && (self.is_bulk || step.in_flight == 0);
        // What was in flight at the last acknowledgement lacks what was sent since.
        let is_acknowledged = if turn.is_due { step.in_flight == 0 } else { turn.acknowledged >= flow.bytes };
        // A timeout shows that acknowledgements were lost: the data have arrived.
        let is_complete = flow.complete && (is_acknowledged || step.timeouts > 0);
        (is_complete || flow.failure.is_some() || has_stopped).then_some(until_s)
    }
}

impl Turn {
    /// Whether the flow may have ended: while data are in flight, acknowledgements follow.
    fn may_be_over(&self) -> bool {
        !self.is_due || self.so_far.in_flight == 0 || self.so_far.timeouts > 0
    }

    /// What has happened in the step, at the end of which it is `now_s`; the next begins.
    fn observation(&mut self, now_s: f64, is_over: bool) -> Observation {
        let Step { mss, cwnd, srtt_s, min_rtt_s, delivered, lost, in_flight, timeouts } = self.so_far;
        let elapsed_s = now_s - self.begun_s;
        self.begun_s = now_s;
        self.is_due = false;
        self.so_far = Step { delivered: 0, lost: 0, timeouts: 0, ..self.so_far };
        Observation {
            time_s: now_s,
            elapsed_s,
            mss,
            cwnd,
            srtt_s,
            min_rtt_s,
            delivered_bytes: delivered,
            lost_bytes: lost,
            in_flight_bytes: in_flight,
            timeouts,
            is_over,
        }
    }
}
