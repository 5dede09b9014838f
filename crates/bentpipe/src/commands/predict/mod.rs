//! `bentpipe predict`: what a link allows a transfer, by formula.

mod plot;
mod report;
mod sweep;

use super::direction::DirectionArg;
use crate::output::{Failure, Output};
use clap::{Args as ClapArgs, ValueEnum};
use model::prediction::{self, Control, Link, Transfer};
use report::Document;
use scenario::QueueSize;
use std::path::PathBuf;
use sweep::Sweep;
use units::{Bytes, Duration, Probability, Rate};

const LONG_ABOUT: &str = "\
Predicts the time of a transfer over a link, and the limit that binds: line rate, window, slow start, losses, a short
queue or round trips. A table below the prediction has the result of each model, and the reason if the model does not
hold. docs/models.md describes the models and the accuracy of the prediction.

The command sends nothing and reads nothing of this host. With --plot, it draws the prediction against one parameter.";

const EXAMPLES: &str = "\
Examples:
  bentpipe predict --rate 6Mbit/s --rtt 550ms --size 1MB
  bentpipe predict --rate 20Mbit/s --rtt 600ms --size 50MB --window 64KiB           # the window binds
  bentpipe predict --loss 1e-3 --size 20MB --congestion-control reno --json
  bentpipe predict --size 20MB --plot loss=1e-6..1e-1                               # in this terminal
  bentpipe predict --size 20MB --plot loss=1e-6..1e-1 --out loss.svg                # as a picture
  bentpipe predict --plot initial-window=1..50 --show time --out window.html

--plot takes rate, rtt, loss, size, window, receive-buffer, queue, initial-window, ack-every, mss or rto.
Exit codes: 0 done; 2 wrong usage or input.";

/// Predict the throughput and time of a transfer, and what limits it
#[derive(ClapArgs, Clone)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Rate of the link, in bits of IP packets
    #[arg(long, default_value = "6Mbit/s")]
    rate: Rate,
    /// Round-trip time of propagation
    #[arg(long, value_name = "TIME", default_value = "550ms")]
    rtt: Duration,
    /// Probability that a packet is lost: 0 or more, below 1
    #[arg(long, value_name = "PROBABILITY", default_value = "0", allow_negative_numbers = true)]
    loss: Probability,
    /// Limit of the queue at the link, such as 1BDP, 320KiB or 100packets
    #[arg(long, value_name = "SIZE", default_value = "unlimited")]
    queue: QueueSize,
    /// Bytes to transfer
    #[arg(long, default_value = "1MB")]
    size: Bytes,
    /// Largest window that the receiver advertises [default: unlimited]
    #[arg(long, value_name = "SIZE")]
    window: Option<Bytes>,
    /// Receive buffer, of which --window-share is advertised
    #[arg(long, value_name = "SIZE")]
    receive_buffer: Option<Bytes>,
    /// Share of the receive buffer that is advertised; 0.5 is Linux's default
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    window_share: f64,
    /// Initial window, in segments
    #[arg(long, value_name = "SEGMENTS", default_value_t = 10)]
    initial_window: u32,
    /// Congestion control of the sender
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ControlArg::Cubic)]
    congestion_control: ControlArg,
    /// Segments that one acknowledgement covers: 2 with delayed acknowledgements, 1 without
    #[arg(long, visible_alias = "delayed-acks", value_name = "N", default_value_t = 2)]
    ack_every: u32,
    /// Payload of a segment
    #[arg(long, value_name = "SIZE", default_value = "1448B")]
    mss: Bytes,
    /// Header bytes of a packet; 52 are IPv4, TCP and timestamps
    #[arg(long, value_name = "SIZE", default_value = "52B")]
    header: Bytes,
    /// First retransmission timeout [default: the round-trip time plus 200ms]
    #[arg(long, value_name = "TIME")]
    rto: Option<Duration>,
    /// Who sends: the client (up), or the server after the client's request (down)
    #[arg(long, value_enum, default_value_t = DirectionArg::Up)]
    direction: DirectionArg,
    /// Number of flows that share the link, for the windows that a gateway assigns (cross-layer, SaTPEP)
    #[arg(long, value_name = "N", default_value_t = 1)]
    flows: u32,
    /// Draw against this parameter, such as loss=1e-6..1e-1
    #[arg(long, value_name = "PARAMETER=FROM..TO", help_heading = "Plot")]
    plot: Option<Sweep>,
    /// Quantity to draw
    #[arg(long, value_enum, default_value_t = Shown::Throughput, requires = "plot", help_heading = "Plot")]
    show: Shown,
    /// Whether the parameter's axis is logarithmic [default: if it spans more than a factor of 20]
    #[arg(long, value_enum, requires = "plot", help_heading = "Plot")]
    axis: Option<AxisArg>,
    /// Write the picture to this file: with its table as a page (.html), or alone (.svg, .pdf, .png)
    #[arg(long, value_name = "FILE", requires = "plot", help_heading = "Plot")]
    out: Option<PathBuf>,
}

/// [`Control`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ControlArg {
    /// Reno, NewReno, SACK
    Reno,
    /// CUBIC, the default of Linux
    Cubic,
    /// Hybla, designed for long round trips
    Hybla,
    /// BBR, which does not reduce its rate at single losses
    Bbr,
}

/// What a plot shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// Bytes divided by the time of the transfer
    Throughput,
    /// The time of the transfer
    Time,
}

/// The axis of a plot's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AxisArg {
    /// Equal steps
    Linear,
    /// Equal factors
    Log,
}

impl From<model::Invalid> for Failure {
    fn from(invalid: model::Invalid) -> Self {
        Self::usage(format!(
            "--{} {} is not allowed; allowed: {}",
            option(invalid.parameter),
            invalid.value,
            invalid.allowed
        ))
    }
}

/// What the command line calls a model's parameter.
fn option(parameter: &str) -> String {
    parameter.replace(' ', "-")
}

/// Predicts and shows.
///
/// # Errors
/// If a parameter is wrong, or the picture cannot be written.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    if let Some(sweep) = &args.plot {
        return plot::run(args, sweep, output);
    }
    let (link, transfer) = args.case()?;
    let prediction = prediction::predict(&link, &transfer)?.shared_by(args.flows);
    let rows = prediction::table(&link, &transfer, args.flows)?;
    let steady = prediction::without_end(&link, &transfer)?;
    let document = Document::new((&link, &transfer), &prediction, steady, &rows);
    output.result(&document, |columns| document.text(columns))
}

impl Args {
    /// The link and the transfer, checked as far as the models do not.
    fn case(&self) -> Result<(Link, Transfer), Failure> {
        let of_buffer =
            self.receive_buffer.map(|buffer| Bytes::new((buffer.as_u64() as f64 * self.window_share) as u64));
        for (wrong, problem) in [
            (self.rtt > Duration::from_secs(3600), "--rtt must not be above 1h"),
            (!(self.window_share > 0.0 && self.window_share <= 1.0), "--window-share must be above 0, at most 1"),
            (self.receive_buffer == Some(Bytes::ZERO), "--receive-buffer must be above 0B"),
            (of_buffer == Some(Bytes::ZERO), "--receive-buffer times --window-share must be a byte or more"),
            (self.header > Bytes::new(1000), "--header must not be above 1kB"),
            (self.mss + self.header > Bytes::new(65_535), "--mss and --header must not be above 65535B together"),
            (self.size > Bytes::new(1 << 50), "--size must not be above 1048576GiB"),
            (self.initial_window > 1_000_000, "--initial-window must not be above 1000000"),
            (self.rto.is_some_and(|rto| rto < self.rtt), "--rto must not be below --rtt"),
        ] {
            if wrong {
                return Err(Failure::usage(problem));
            }
        }
        let window = [self.window, of_buffer].into_iter().flatten().min();
        if let Some(window) = window.filter(|window| *window < self.mss) {
            let option = if self.window == Some(window) { "--window" } else { "--receive-buffer times --window-share" };
            return Err(Failure::usage(format!("{option} is {window}; allowed: {} (--mss) or more", self.mss)));
        }
        let queue = self.queue.bytes(self.rate, self.rtt, self.mss + self.header);
        let link = Link { rate: self.rate, rtt: self.rtt, loss: self.loss, queue };
        let transfer = Transfer {
            size: self.size,
            mss: self.mss,
            header: self.header,
            window,
            initial_window: self.initial_window.into(),
            ack_every: self.ack_every,
            rto: self.rto.unwrap_or(self.rtt + Duration::from_millis(200)),
            control: match self.congestion_control {
                ControlArg::Reno => Control::Reno,
                ControlArg::Cubic => Control::Cubic,
                ControlArg::Hybla => Control::Hybla,
                ControlArg::Bbr => Control::Bbr,
            },
            direction: self.direction.into(),
        };
        Ok((link, transfer))
    }
}
