//! What is said: one document, as JSON or as text.

use super::Task;
use super::script::{self, Command};
use super::state_option;
use super::verify::Verification;
use crate::text::Text;
use host::{Present, Undone};
use model::tuning::{Cost, Course, Direction, Host, Knob, Place, Profile, Recommendation, Setting, costs};
use results::listing::{Cell, Listing, figure, text};
use serde::Serialize;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Quantity, Rate};

/// The result of `bentpipe tune`.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The command that does this again.
    pub command: String,
    link: LinkReport,
    workload: WorkloadReport,
    initial_window_segments: u32,
    window_bytes: u64,
    window_scale: u32,
    buffer_bytes: u64,
    tcp_rmem: String,
    tcp_wmem: String,
    congestion_control: &'static str,
    /// The gain: simulated, or else predicted.
    gain_percent: f64,
    predicted: Prediction,
    simulated: Option<Verification>,
    commands: Vec<String>,
    settings: Vec<SettingReport>,
    warnings: Vec<String>,
    present: Option<PresentReport>,
    applied: Option<Applied>,
    #[serde(skip)]
    rows: Vec<Row>,
    #[serde(skip)]
    before_name: &'static str,
}

#[derive(Debug, Serialize)]
struct LinkReport {
    rate_bps: u64,
    rtt_s: f64,
    loss: f64,
    queue_bytes: u64,
    shared: bool,
}

#[derive(Debug, Serialize)]
struct WorkloadReport {
    size_bytes: u64,
    flows: u32,
    direction: &'static str,
}

#[derive(Debug, Serialize)]
struct Prediction {
    before_s: f64,
    after_s: f64,
    gain_percent: f64,
    /// What limits the transfer before, and after.
    before_limited_by: &'static str,
    after_limited_by: &'static str,
    /// Physical limit for any protocol.
    limit_s: f64,
}

#[derive(Debug, Serialize)]
struct SettingReport {
    name: &'static str,
    value: String,
    /// `route`, `namespace`, `host` or `interface`.
    scope: &'static str,
    why: String,
}

/// How this host stands.
#[derive(Debug, Serialize)]
struct PresentReport {
    route: String,
    congestion_control: String,
    limited_by: &'static str,
    /// Where the time of a transfer goes.
    time: Spent,
    settings: Vec<Row>,
    remarks: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Spent {
    round_trips_s: f64,
    line_s: f64,
    slow_start_s: f64,
    receive_window_s: f64,
    send_buffer_s: f64,
    loss_s: f64,
}

/// A setting as it is and as it should be.
#[derive(Debug, Clone, Serialize)]
struct Row {
    setting: &'static str,
    now: String,
    recommended: String,
    /// How much longer a transfer takes if it stays as it is and all else is as recommended.
    costs_s: f64,
}

/// What was set.
#[derive(Debug, Serialize)]
pub struct Applied {
    /// The file that says what was there before; null if nothing had to be changed.
    pub state: Option<PathBuf>,
    /// What was changed.
    pub changes: Vec<String>,
    /// What was not, and why.
    pub left_out: Vec<String>,
}

impl Document {
    /// Puts together what was found.
    #[expect(clippy::too_many_arguments, reason = "it is where everything comes together")]
    pub fn new(
        task: &Task,
        now: &Host,
        found: &Recommendation,
        simulated: Option<Verification>,
        settings: &[Setting],
        commands: &[Command],
        present: Option<&Present>,
        applied: Option<Applied>,
    ) -> Self {
        let rows = rows(task, now, found, present);
        Self {
            command: task.command.clone(),
            link: LinkReport {
                rate_bps: task.link.rate.as_bps(),
                rtt_s: task.link.rtt.as_secs_f64(),
                loss: task.link.loss.as_f64(),
                queue_bytes: task.link.queue.as_u64(),
                shared: task.link.shared,
            },
            workload: WorkloadReport {
                size_bytes: task.workload.size.as_u64(),
                flows: task.workload.flows,
                direction: direction(task),
            },
            initial_window_segments: found.host.initial_window,
            window_bytes: found.window.as_u64(),
            window_scale: found.host.window_scale(),
            buffer_bytes: found.buffer.as_u64(),
            tcp_rmem: found.host.receive.to_string(),
            tcp_wmem: found.host.send.to_string(),
            congestion_control: found.host.control.name(),
            gain_percent: simulated.as_ref().map_or(found.gain_percent(), |simulated| simulated.gain_percent),
            predicted: Prediction {
                before_s: found.before.time().as_secs_f64(),
                after_s: found.after.time().as_secs_f64(),
                gain_percent: found.gain_percent(),
                before_limited_by: found.before.binding().name(),
                after_limited_by: found.after.binding().name(),
                limit_s: limit(task).as_secs_f64(),
            },
            simulated,
            commands: commands.iter().map(|command| command.line.clone()).collect(),
            settings: settings.iter().map(SettingReport::new).collect(),
            warnings: found.warnings.clone(),
            present: present.map(|present| PresentReport::new(present, &found.before, rows.clone())),
            applied,
            rows,
            before_name: match (present, task.purpose.profile) {
                (Some(_), _) => "now",
                (None, Profile::Linux) => "Linux defaults",
                (None, Profile::Linux22) => "Linux 2.2 as it came",
            },
        }
    }

    /// For people.
    pub fn text(&self, commands: &[Command], columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        text.lines(self.title()).blank();
        text.listing(&self.settings_table()).blank().listing(&self.times_table());
        let Prediction { before_limited_by, after_limited_by, limit_s, .. } = &self.predicted;
        text.lines(format!("Limited by: {before_limited_by} before, {after_limited_by} after."));
        text.lines(format!("Physical limit: {} for any protocol.", Quantity::Time.text(*limit_s)));
        if let Some(present) = &self.present {
            text.lines(format!("Route: {}", present.route));
            text.lines(present.time.text());
            text.each(present.remarks.iter().map(mind));
        }
        text.each(self.warnings.iter().map(mind));
        text.blank();
        match &self.applied {
            Some(applied) => applied.write(&mut text),
            None if commands.is_empty() => _ = text.lines("Everything is as recommended."),
            None => _ = text.verbatim(script::text(commands, &self.command, &[])),
        }
        text
    }

    fn title(&self) -> String {
        let LinkReport { rate_bps, rtt_s, loss, queue_bytes, shared } = &self.link;
        let many = if self.workload.flows > 1 { format!("{} x ", self.workload.flows) } else { String::new() };
        format!(
            "{many}{} {} over {}, {} round-trip time, {}, queue {}{}",
            Bytes::new(self.workload.size_bytes),
            self.workload.direction,
            Rate::from_bps(*rate_bps),
            Duration::from_secs_f64(*rtt_s),
            if *loss > 0.0 { format!("{loss:e} of the packets lost") } else { "no losses".to_owned() },
            Bytes::new(*queue_bytes),
            if *shared { ", shared" } else { "" },
        )
    }

    fn settings_table(&self) -> Listing {
        let has_costs = self.present.is_some();
        let columns = [text("setting"), text(self.before_name), text("recommended")];
        let mut listing = Listing::new(columns.into_iter().chain(has_costs.then(|| figure("costs", Quantity::Time))));
        for row in &self.rows {
            let cells = [row.setting.into(), row.now.as_str().into(), row.recommended.as_str().into()];
            listing.add(cells.into_iter().chain(has_costs.then(|| row.costs_s.into())));
        }
        listing
    }

    fn times_table(&self) -> Listing {
        let times = [self.before_name, "recommended"].map(|name| figure(name, Quantity::Time));
        let columns = std::iter::once(text("time")).chain(times).chain([figure("gain", Quantity::Share)]);
        let mut listing = Listing::new(columns);
        let mut add = |name: Cell, before: f64, after: f64, gain_percent: Option<f64>| {
            let gain = gain_percent.map_or("–".into(), |gain| (gain / 100.0).into());
            listing.add([name, before.into(), after.into(), gain]);
        };
        let Prediction { before_s, after_s, gain_percent, .. } = self.predicted;
        // A gain that simulation does not confirm is none.
        let is_confirmed = self.simulated.as_ref().is_none_or(|simulated| simulated.confirms(gain_percent));
        add("predicted".into(), before_s, after_s, is_confirmed.then_some(gain_percent));
        if let Some(simulated) = &self.simulated {
            let Verification { before_s, after_s, gain_percent, runs, .. } = *simulated;
            add(format!("simulated, {runs} seeds").into(), before_s, after_s, Some(gain_percent));
        }
        listing
    }
}

fn mind(remark: &String) -> String {
    format!("Warning: {remark}.")
}

fn rows(task: &Task, now: &Host, found: &Recommendation, present: Option<&Present>) -> Vec<Row> {
    let costs = costs(&task.link, &task.workload, now, &found.host);
    let row = |cost: Cost| Row {
        setting: cost.knob.name(),
        now: match (cost.knob, present) {
            (Knob::Control, Some(present)) => present.control.clone(),
            (knob, _) => knob.of(now),
        },
        recommended: cost.knob.of(&found.host),
        costs_s: cost.time.as_secs_f64(),
    };
    costs.into_iter().map(row).collect()
}

fn limit(task: &Task) -> Duration {
    let rounds = task.workload.direction.rounds();
    let all = task.workload.size * u64::from(task.workload.flows);
    model::limit::time(rounds, all, task.link.rate, task.link.rtt, task.link.loss)
}

fn direction(task: &Task) -> &'static str {
    match task.workload.direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

impl SettingReport {
    fn new(setting: &Setting) -> Self {
        Self {
            name: setting.place.name(),
            value: setting.value.clone(),
            scope: match setting.place {
                Place::Route(_) => "route",
                Place::Sysctl(_) => "namespace",
                Place::HostSysctl(_) => "host",
                Place::RootQdisc => "interface",
            },
            why: setting.why.clone(),
        }
    }
}

impl PresentReport {
    fn new(present: &Present, before: &Course, settings: Vec<Row>) -> Self {
        Self {
            route: present.found.route.to_string(),
            congestion_control: present.control.clone(),
            limited_by: before.binding().name(),
            time: Spent {
                round_trips_s: before.round_trips,
                line_s: before.line,
                slow_start_s: before.slow_start,
                receive_window_s: before.receive_window,
                send_buffer_s: before.send_buffer,
                loss_s: before.loss,
            },
            settings,
            remarks: present.remarks.clone(),
        }
    }
}

impl Spent {
    fn text(&self) -> String {
        let parts = [
            (self.round_trips_s, "round trips to open, ask and arrive"),
            (self.line_s, "on the line"),
            (self.slow_start_s, "idle in slow start"),
            (self.receive_window_s, "idle for want of receive window"),
            (self.send_buffer_s, "idle for want of send buffer"),
            (self.loss_s, "idle after losses"),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter(|(time, _)| *time >= 0.005)
            .map(|(time, what)| format!("{} {what}", Quantity::Time.text(*time)))
            .collect();
        format!("Where the time goes now: {}.", parts.join(", "))
    }
}

impl Applied {
    fn write(&self, text: &mut Text) {
        text.each(self.changes.iter().map(|change| format!("Set {change}")));
        text.each(self.left_out.iter().map(|left_out| format!("Left out {left_out}")));
        match &self.state {
            Some(state) => text.lines(format!(
                "{} says what was there; --undo{} puts it back.",
                state.display(),
                state_option(state)
            )),
            None => text.lines("Nothing had to be changed."),
        };
    }
}

/// What an undo by the file `state` did, for people.
pub fn undone(undone: &Undone, state: &Path, columns: Option<usize>) -> Text {
    let mut text = Text::new(columns);
    text.each(undone.left.iter().map(|left| {
        let state = state_option(state);
        format!("Left, since others have changed it: {}; {} (--undo --force{state} restores it)", left.change, left.now)
    }));
    text.each(&undone.undone);
    text
}
