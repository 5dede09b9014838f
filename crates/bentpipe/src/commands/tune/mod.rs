//! `bentpipe tune`: the settings that make TCP fast over a link, what they gain, and how this host stands.

mod report;
mod script;
mod verify;

use super::direction::DirectionArg;
use super::shell::{exact, quoted};
use crate::output::{Failure, Output};
use clap::{Args as ClapArgs, ValueEnum};
use host::{Blame, Journal, Network, Plan, Present, Target};
use lab::transfer::has_congestion_control;
use model::tuning::{self, Choices, Control, Host, Link, Place, Profile, Purpose, Recommendation, Setting, Workload};
use report::{Applied, Document};
use scenario::QueueSize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Probability, Rate};
use verify::Verification;

const LONG_ABOUT: &str = "\
Recommends the initial window, the buffers and the congestion control for transfers over a link, predicts their gain
over Linux defaults, and prints the settings as a script to review, each with its reason. Both hosts of a transfer
need them.

Transfers of up to 70 MB are simulated as well, with the settings before and after, and a recommendation that is slower
is rejected; --verify simulates larger ones. --check compares with this host's settings instead of Linux defaults; it
reports the present limit of a transfer and the cost of each setting. --apply applies the settings in the network namespace of the process, all or none; --undo restores the old
ones.

Settings of net.core belong to the whole host, not to a network namespace: they are printed, and applied only with
--host-wide.";

const EXAMPLES: &str = "\
Examples:
  bentpipe tune --rate 6Mbit/s --rtt 550ms --size 1MB --direction down        # settings, and their gain
  bentpipe tune --rate 50Mbit/s --rtt 550ms --loss 1e-3 --size 100MB --verify # simulate a long one, too
  bentpipe tune --rate 6Mbit/s --rtt 550ms --shared --script tune.sh          # others use the link; the script as a file
  bentpipe tune --rate 6Mbit/s --rtt 550ms --check --to 198.51.100.0/24               # what limits this host on that route
  bentpipe tune --rate 6Mbit/s --rtt 550ms --apply --to 198.51.100.0/24               # apply the settings (root)
  bentpipe tune --undo                                                        # restore the old settings
  bentpipe tune --rate 2.048Mbit/s --rtt 570ms --profile linux2.2             # by the rule of Marchese's study";

/// Recommend TCP settings for a link, predict their gain, check or tune this host
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Rate of the link
    #[arg(long, required_unless_present = "undo", help_heading = "Link")]
    rate: Option<Rate>,
    /// Round-trip time of the link without queues
    #[arg(long, value_name = "TIME", required_unless_present = "undo", help_heading = "Link")]
    rtt: Option<Duration>,
    /// Probability that a packet is lost, in each direction
    #[arg(long, value_name = "PROBABILITY", default_value = "0", allow_negative_numbers = true, help_heading = "Link")]
    loss: Probability,
    /// Limit of the queue at the link: a size, 300packets or 1BDP
    #[arg(long, value_name = "SIZE", default_value = "1BDP", help_heading = "Link")]
    queue: QueueSize,
    /// Other traffic shares the link, or the path continues beyond it: recommend only settings that are safe there
    #[arg(long, help_heading = "Link")]
    shared: bool,
    /// Size of each transfer
    #[arg(long, default_value = "1MB", help_heading = "Transfers")]
    size: Bytes,
    /// Number of transfers at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Transfers")]
    flows: u32,
    /// Who sends: the client (up), or the server after the client's request (down)
    #[arg(long, value_enum, default_value_t = DirectionArg::Down, help_heading = "Transfers")]
    direction: DirectionArg,
    /// Linux version that the rules assume
    #[arg(long, value_enum, default_value_t = ProfileArg::Linux, help_heading = "Rules")]
    profile: ProfileArg,
    /// Congestion controls that may be recommended [default: cubic, and bbr on a link that is not shared]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum, help_heading = "Rules")]
    controls: Option<Vec<ControlArg>>,
    /// Use this initial window instead of the rules'
    #[arg(long, value_name = "SEGMENTS", help_heading = "Rules")]
    initial_window: Option<u32>,
    /// Keep few unsent bytes in sockets, too (tcp_notsent_lowat)
    #[arg(long, help_heading = "Rules")]
    latency: bool,
    /// Simulate before and after, and reject a recommendation that is slower [default: for up to 70 MB in all]
    #[arg(long, help_heading = "What to do")]
    verify: bool,
    /// Do not simulate: print the prediction alone
    #[arg(long, conflicts_with_all = ["verify", "seeds"], help_heading = "What to do")]
    no_verify: bool,
    /// Number of seeds to simulate
    #[arg(long, value_name = "N", default_value_t = SEEDS, value_parser = clap::value_parser!(u64).range(1..=10_000),
          help_heading = "What to do")]
    seeds: u64,
    /// Compare with this host's settings, and report their cost
    #[arg(long, conflicts_with_all = ["apply", "undo"], help_heading = "What to do")]
    check: bool,
    /// Apply the settings in this network namespace
    #[arg(long, conflicts_with = "undo", help_heading = "What to do")]
    apply: bool,
    /// Restore the settings from before --apply; settings that others have changed since stay as they are
    #[arg(long, help_heading = "What to do")]
    undo: bool,
    /// Restore what others have changed since, too
    #[arg(long, requires = "undo", help_heading = "What to do")]
    force: bool,
    /// Tune the route to this address or network [default: the default route]
    #[arg(long, value_name = "ADDRESS[/LENGTH]", help_heading = "What to do")]
    to: Option<Network>,
    /// Tune the default route of IPv6
    #[arg(short = '6', long, conflicts_with = "to", help_heading = "What to do")]
    ipv6: bool,
    /// Change settings of the whole host, too (net.core)
    #[arg(long, requires = "apply", help_heading = "What to do")]
    host_wide: bool,
    /// File in which --apply records the old settings [default: one file for each network namespace in
    /// $XDG_STATE_HOME/bentpipe, for root in /var/lib/bentpipe, else in ~/.local/state/bentpipe]
    #[arg(long, value_name = "FILE", help_heading = "What to do")]
    state: Option<PathBuf>,
    /// Write the script to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "undo"], help_heading = "What to do")]
    script: Option<PathBuf>,
}

/// [`Profile`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProfileArg {
    /// Present Linux, with buffers that grow
    Linux,
    /// Linux 2.2, as in Marchese's study: half of a buffer is window
    #[value(name = "linux2.2")]
    Linux22,
}

/// [`Control`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ControlArg {
    Reno,
    Cubic,
    Bbr,
    Hybla,
}

impl From<ControlArg> for Control {
    fn from(control: ControlArg) -> Self {
        match control {
            ControlArg::Reno => Self::Reno,
            ControlArg::Cubic => Self::Cubic,
            ControlArg::Bbr => Self::Bbr,
            ControlArg::Hybla => Self::Hybla,
        }
    }
}

/// Everything that was asked for.
struct Task {
    link: Link,
    workload: Workload,
    choices: Choices,
    purpose: Purpose,
    target: Target,
    /// The command that does this again.
    command: String,
}

impl From<host::Error> for Failure {
    /// With the option that mends it.
    fn from(error: host::Error) -> Self {
        let remedy = match &error {
            host::Error::AlreadyApplied(file) => {
                format!(" (undo them first: bentpipe tune --undo{})", state_option(file))
            }
            host::Error::OnlyLeft(file) => format!(" (--undo --force{} restores it, too)", state_option(file)),
            host::Error::Advertised(_) => " (tune a part of what it leads to, such as --to 2000::/3)".to_owned(),
            host::Error::NotApplied(_) => " (or --state names another file)".to_owned(),
            host::Error::NoStateDirectory | host::Error::Record { .. } => " (--state FILE)".to_owned(),
            _ => String::new(),
        };
        let problem = format!("{error}{remedy}");
        match error.blame() {
            Blame::Input => Self::usage(problem),
            Blame::Machine => Self::missing(problem),
            Blame::Failure => Self::failed(problem),
        }
    }
}

/// The option by which an undo finds `file`, with a space before it; empty if that is the file without the option.
pub(crate) fn state_option(file: &Path) -> String {
    match Journal::default_file() {
        Ok(default) if default == file => String::new(),
        _ => format!(" --state {}", quoted(&file.display().to_string())),
    }
}

/// Advises, checks, applies or undoes.
///
/// # Errors
/// If the input is wrong (2), the simulation shows the recommendation to be slower or a change fails (1), or a right, a setting
/// or a program is missing (3).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    if args.undo {
        let file = args.state_file()?;
        let undone = Journal::undo(&file, args.force)?;
        return output.result(&undone, |columns| report::undone(&undone, &file, columns));
    }
    let task = args.task()?;
    if args.apply {
        // Before a simulation finds that the settings which are applied cannot be bettered.
        Journal::check_not_applied(&args.state_file()?)?;
    }
    let present = if args.check || args.apply { Some(Present::read(task.target)?) } else { None };
    let now = match (&present, task.purpose.profile) {
        (Some(present), _) => present.host,
        (None, Profile::Linux) => Host::LINUX,
        (None, Profile::Linux22) => Host::LINUX_2_2,
    };
    let mut found = tuning::recommend(&task.link, &task.workload, &now, &task.choices)?;
    let is_verified = args.verify || (!args.no_verify && args.is_verified_by_default(&task));
    let verified = if is_verified { Some(args.verify(&task, &now, &mut found, output)?) } else { None };
    let all = tuning::settings(&task.link, &task.workload, &found.host, task.purpose);
    let settings = needed(&all, present.as_ref());
    let applied = match &present {
        Some(present) if args.apply => Some(args.apply(&settings, present)?),
        _ => None,
    };
    let commands = script::commands(&settings, task.target);
    let document = Document::new(&task, &now, &found, verified, &settings, &commands, present.as_ref(), applied);
    if let Some(file) = &args.script {
        write_script(file, &script::text(&commands, &document.command, &found.warnings))?;
    }
    output.result(&document, |columns| document.text(&commands, columns))
}

/// Seeds that are simulated by default.
const SEEDS: u64 = 5;

/// The shares of a recommended initial window that are simulated when it gains less than predicted.
const SMALLER_WINDOWS: [f64; 5] = [0.85, 0.7, 0.55, 0.4, 0.25];

/// The settings that differ from the wanted ones: of this host, or of the Linux defaults.
fn needed(settings: &[Setting], present: Option<&Present>) -> Vec<Setting> {
    let is_there = |setting: &Setting| match present {
        Some(present) => match (setting.place, present.value(setting.place)) {
            // The route's attributes can also be larger than wanted by another's choice; limits only too small.
            (Place::HostSysctl(_), now) => host::is_enough(now.as_deref(), &setting.value),
            (_, now) => now.as_ref() == Some(&setting.value),
        },
        None => setting.default.as_ref() == Some(&setting.value),
    };
    settings.iter().filter(|setting| !is_there(setting)).cloned().collect()
}

fn write_script(file: &std::path::Path, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o755).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.map_err(|error| Failure::unwritable(format!("--script {}", file.display()), &error))
}

/// Of a control that the kernel does not have: that it has a module of it, which a process without privilege does not cause to be
/// loaded. Empty if there is none.
fn unloaded(control: Control) -> String {
    let modules = kernel::sysctl::read("kernel.osrelease")
        .ok()
        .and_then(|release| std::fs::read_to_string(format!("/lib/modules/{release}/modules.dep")).ok())
        .unwrap_or_default();
    if has_module(&modules, control) {
        format!(" yet: its module is not loaded (as root: modprobe tcp_{})", control.name())
    } else {
        String::new()
    }
}

/// Whether `modules`, as modules.dep has them, are one of `control`: a module to a line, its path before a colon.
fn has_module(modules: &str, control: Control) -> bool {
    let start = format!("/tcp_{}.ko", control.name());
    modules.lines().filter_map(|line| line.split(':').next()).any(|path| path.contains(&start))
}

impl Args {
    fn state_file(&self) -> Result<PathBuf, Failure> {
        Ok(self.state.clone().map_or_else(Journal::default_file, Ok)?)
    }

    /// What is asked for, checked as far as types do not.
    fn task(&self) -> Result<Task, Failure> {
        // clap has seen to it that they are there.
        let (rate, rtt) = (self.rate.unwrap_or_default(), self.rtt.unwrap_or_default());
        let queue = self
            .queue
            .bytes(rate, rtt, Bytes::new(1500))
            .ok_or_else(|| Failure::usage("--queue unlimited: say how much waits before the link, such as 1BDP"))?;
        let profile = match self.profile {
            ProfileArg::Linux => Profile::Linux,
            ProfileArg::Linux22 if self.check || self.apply => {
                return Err(Failure::usage(
                    "--profile linux2.2 is for advice alone: --check and --apply are for this host",
                ));
            }
            ProfileArg::Linux22 if self.controls.is_some() || self.latency => {
                return Err(Failure::usage(
                    "--profile linux2.2 sizes buffers alone: Linux 2.2 has no choice of --controls, and nothing for --latency",
                ));
            }
            ProfileArg::Linux22 => Profile::Linux22,
        };
        Ok(Task {
            command: self.command(rate, rtt, queue),
            link: Link { rate, rtt, loss: self.loss, queue, shared: self.shared },
            workload: Workload { size: self.size, flows: self.flows, direction: self.direction.into() },
            choices: Choices { controls: self.controls()?, initial_window: self.initial_window, profile },
            purpose: Purpose { profile, latency: self.latency },
            target: match self.to {
                Some(network) => Target::Network(network),
                None => Target::Default { is_ipv6: self.ipv6 },
            },
        })
    }

    /// The command line that does this again, but for the files that it writes.
    fn command(&self, rate: Rate, rtt: Duration, queue: Bytes) -> String {
        let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let mut command = format!(
            "bentpipe tune --rate {} --rtt {} --loss {} --queue {} --size {} --flows {} --direction {}",
            exact(&rate),
            exact(&rtt),
            self.loss,
            exact(&queue),
            exact(&self.size),
            self.flows,
            name(&|| self.direction.to_possible_value()),
        );
        let mut add = |is_given: bool, option: &dyn std::fmt::Display| {
            if is_given {
                command.push_str(&format!(" {option}"));
            }
        };
        add(self.shared, &"--shared");
        add(matches!(self.profile, ProfileArg::Linux22), &"--profile linux2.2");
        add(self.latency, &"--latency");
        if let Some(controls) = &self.controls {
            let names: Vec<_> = controls.iter().map(|control| name(&|| control.to_possible_value())).collect();
            add(true, &format_args!("--controls {}", names.join(",")));
        }
        if let Some(window) = self.initial_window {
            add(true, &format_args!("--initial-window {window}"));
        }
        add(self.verify, &"--verify");
        add(self.no_verify, &"--no-verify");
        add(self.seeds != SEEDS, &format_args!("--seeds {}", self.seeds));
        add(self.check, &"--check");
        add(self.apply, &"--apply");
        add(self.host_wide, &"--host-wide");
        if let Some(network) = self.to {
            add(true, &format_args!("--to {network}"));
        }
        add(self.ipv6, &"--ipv6");
        command
    }

    /// The controls to choose from: on this host none that its kernel lacks.
    fn controls(&self) -> Result<Option<Vec<Control>>, Failure> {
        let given: Option<Vec<Control>> =
            self.controls.as_ref().map(|controls| controls.iter().map(|control| (*control).into()).collect());
        if !(self.check || self.apply) {
            return Ok(given);
        }
        let known = |control: &Control| {
            let name = control.name();
            has_congestion_control(name)
                .map_err(|error| Failure::missing(format!("asking the kernel for {name}: {error}")))
        };
        if let Some(controls) = &given {
            for control in controls {
                if !known(control)? {
                    let (name, why) = (control.name(), unloaded(*control));
                    return Err(Failure::missing(format!("--controls {name}: this kernel has no {name}{why}")));
                }
            }
            return Ok(given);
        }
        if !known(&Control::Cubic)? {
            tracing::warn!("this kernel has no cubic{}: reno is recommended instead", unloaded(Control::Cubic));
            return Ok(Some(vec![Control::Reno]));
        }
        let has_bbr = known(&Control::Bbr)?;
        let why = unloaded(Control::Bbr);
        if !has_bbr && !why.is_empty() && !self.shared {
            tracing::warn!("this kernel has no bbr{why}: it is not considered");
        }
        // Without a list the rules decide.
        Ok((!has_bbr).then(|| vec![Control::Cubic]))
    }

    /// Whether simulations take about a second: an idle processor simulates half a million segments in that time. There is no
    /// simulation of Linux 2.2.
    fn is_verified_by_default(&self, task: &Task) -> bool {
        const SEGMENTS: u64 = 500_000;
        const SEGMENT: u64 = 1448;
        let flows = task.workload.size * u64::from(task.workload.flows);
        let segments = (flows.as_u64() / SEGMENT).saturating_mul(2 * self.seeds);
        segments <= SEGMENTS && task.purpose.profile == Profile::Linux
    }

    /// Simulates what was found. If that does not confirm the predicted gain, smaller initial windows are tried, and the best one is
    /// taken: whether a flight just fits into the queue decides more than a few segments are worth.
    fn verify(
        &self,
        task: &Task,
        now: &Host,
        found: &mut Recommendation,
        output: &Output,
    ) -> Result<Verification, Failure> {
        let simulated =
            |found: &Recommendation| verify::run(&task.link, &task.workload, now, found, self.seeds, output);
        let mut verified = simulated(found)?;
        let is_confirmed =
            |verified: &Verification, found: &Recommendation| verified.confirms(found.gain_percent()) && verified.holds;
        let window = found.host.initial_window;
        if task.choices.initial_window.is_none() && !is_confirmed(&verified, found) {
            let smaller = SMALLER_WINDOWS.map(|share| (f64::from(window) * share) as u32);
            for window in smaller.into_iter().filter(|window| *window >= Host::LINUX.initial_window) {
                let choices = Choices { initial_window: Some(window), ..task.choices.clone() };
                let other = tuning::recommend(&task.link, &task.workload, now, &choices)?;
                let of_other = simulated(&other)?;
                if of_other.after_s < verified.after_s {
                    (*found, verified) = (other, of_other);
                }
                if is_confirmed(&verified, found) {
                    break;
                }
            }
        }
        if verified.holds {
            return Ok(verified);
        }
        Err(Failure::failed(format!(
            "not recommended: simulated with {} seeds it takes {:.2} s instead of {:.2} s (predicted: {:.2} s instead of {:.2} s)",
            self.seeds,
            verified.after_s,
            verified.before_s,
            found.after.time().as_secs_f64(),
            found.before.time().as_secs_f64(),
        )))
    }

    fn apply(&self, settings: &[Setting], present: &Present) -> Result<Applied, Failure> {
        let plan = Plan::new(settings, present, self.host_wide)?;
        let mut left_out = plan.left_out;
        if plan.changes.is_empty() {
            return Ok(Applied { state: None, changes: Vec::new(), left_out });
        }
        let file = self.state_file()?;
        let (made, impossible) = Journal::apply(plan.changes, &file)?;
        left_out.extend(impossible);
        Ok(Applied { state: Some(file), changes: made.iter().map(ToString::to_string).collect(), left_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_by_its_own_line() {
        let modules = "kernel/net/ipv4/tcp_bbr.ko.xz:\nkernel/x.ko: kernel/net/ipv4/tcp_hybla.ko\n";
        assert!(has_module(modules, Control::Bbr));
        assert!(!has_module(modules, Control::Hybla) && !has_module("", Control::Bbr));
    }
}
