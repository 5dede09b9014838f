//! A flow of a scenario, as the kernel's TCP runs it.

use super::Emulated;
use super::settings::{problem, refuse_unapplied};
use crate::controls::Controls;
use crate::transfer::Checksum;
use crate::{Direction, Error, Family, RouteSettings, Workload};
use sim::{Application, FlowConfig, Network, Traffic, Transfer};
use tcp::Config;
use units::{Bytes, Duration};

/// The kernel's own initial window, in segments (RFC 6928).
const KERNEL_INITIAL_WINDOW: f64 = 10.0;
/// Payload of a full segment on an Ethernet, with timestamps.
const ETHERNET_MSS: u32 = 1448;
/// The largest packet of an Ethernet.
const ETHERNET_MTU: u32 = 1500;
/// Headers around a segment, IPv4 and TCP, and what timestamps add.
const HEADERS: u32 = 40;
const TIMESTAMPS: u32 = 12;
/// A SYN offers segments of at least so many bytes, options included (`net.ipv4.route.min_adv_mss`).
const LEAST_OFFER: u32 = 256;
/// What a packet of up to 1500 bytes takes of the receive buffer when it comes over the emulated link, in bytes: 2048 and
/// the kernel's own 256 (Linux 6.18).
const PACKET_MEMORY: u64 = 2304;
/// Buffers of so many windows have room for small segments, whose bookkeeping takes more memory than their data.
const WINDOWS_OF_SMALL_SEGMENTS: u64 = 4;
/// Buffers above this are nobody's: the scenario leaves them to the kernel.
const LARGEST_BUFFER: Bytes = Bytes::new((1 << 30) - 1);

/// The hub, or a terminal by its number.
pub(super) type Place = Option<usize>;

#[derive(Debug)]
pub(super) struct RealFlow {
    pub(super) name: String,
    pub(super) start: Duration,
    /// Where the client is.
    pub(super) client: Place,
    /// Where the server is: flows go between a terminal and the hub.
    pub(super) server: Place,
    pub(super) workload: Workload,
    /// It sends until it is cut off, whatever the workload's size.
    pub(super) is_endless: bool,
    /// Of the end that sends.
    pub(super) route: RouteSettings,
    /// Of the end that receives: its segments, and its largest window where the route is to set that.
    pub(super) receiver_route: RouteSettings,
    /// Whether segments carry timestamps.
    pub(super) timestamps: bool,
    /// Whether the sender's windows are wanted.
    pub(super) is_recorded: bool,
}

impl RealFlow {
    /// Where the data leave.
    pub(super) fn sender(&self) -> Place {
        if self.workload.direction == Direction::Up { self.client } else { self.server }
    }

    /// Where they arrive.
    pub(super) fn receiver(&self) -> Place {
        if self.workload.direction == Direction::Up { self.server } else { self.client }
    }

    /// `flow` of a scenario. With `is_split`, gateways split its connection.
    ///
    /// # Errors
    /// If the kernel cannot run it as the scenario describes it.
    pub(super) fn new(
        network: &Network,
        emulated: &Emulated,
        flow: &FlowConfig,
        is_split: bool,
        controls: &mut Controls,
    ) -> Result<Self, Error> {
        let named = |error: Error| error.preceded_by(format!("flow `{}`", flow.name));
        let refused = |problem: String| named(Error::Input(problem));
        let file = File::of(flow).map_err(refused)?;
        let (client, server) = places(network, emulated, flow).map_err(refused)?;
        let (direction, sender, receiver) = match file.transfer {
            Transfer::Upload => (Direction::Up, file.client, file.server),
            Transfer::Download { .. } => (Direction::Down, file.server, file.client),
        };
        refuse_growth(receiver).map_err(refused)?;
        let timestamps = sender.options.timestamps && receiver.options.timestamps;
        let segments = Segments::new(sender.mss, receiver.mss, timestamps, is_split).map_err(refused)?;
        let window = ReceiveWindow::new(receiver, &segments);
        Ok(Self {
            name: flow.name.clone(),
            start: flow.start.at.since(units::Instant::ZERO),
            client,
            server,
            workload: Workload {
                direction,
                size: file.size.unwrap_or(Bytes::ZERO),
                checksum: Checksum::Sha256,
                family: Family::V4,
                congestion_control: Some(kernel_control(sender, controls).map_err(named)?),
                // The kernel doubles this option, too (`sock_setsockopt`).
                send_buffer: given(sender.send_buffer).map(|buffer| Bytes::new(buffer.as_u64() / 2)),
                receive_buffer: window.buffer,
                timeout: Duration::from_secs(60),
                seed: 1,
            },
            is_endless: file.size.is_none(),
            route: RouteSettings {
                initial_window: (sender.initial_window != KERNEL_INITIAL_WINDOW)
                    .then_some(sender.initial_window as u32),
                mtu: segments.sender_mtu,
                window: None,
            },
            receiver_route: RouteSettings { initial_window: None, mtu: segments.receiver_mtu, window: window.of_route },
            timestamps,
            is_recorded: flow.record,
        })
    }
}

/// What a flow transfers, and the TCP of its ends.
struct File<'a> {
    client: &'a Config,
    server: &'a Config,
    /// Without one, the transfer has no end.
    size: Option<Bytes>,
    transfer: Transfer,
}

impl<'a> File<'a> {
    /// That of `flow`.
    ///
    /// # Errors
    /// If the kernel cannot run the flow.
    fn of(flow: &'a FlowConfig) -> Result<Self, String> {
        let Traffic::Tcp { client, server, application } = &flow.traffic else {
            return Err("only TCP flows run for real".to_owned());
        };
        for config in [client, server] {
            refuse_unapplied(config)?;
        }
        if let Some(stop) = flow.stop {
            return Err(problem("stop", &stop.since(units::Instant::ZERO).to_string()));
        }
        let Application::Bulk { size, transfer } = *application else {
            return Err("only files (`bulk`) run for real".to_owned());
        };
        if size.is_none() && transfer != Transfer::Upload {
            return Err("without an end only an upload runs for real".to_owned());
        }
        if !flow.start.spread.is_zero() {
            return Err("its start is random: give it a time".to_owned());
        }
        Ok(Self { client, server, size, transfer })
    }
}

/// Where the client and the server of `flow` are.
///
/// # Errors
/// If it does not go between one terminal and the hub.
fn places(network: &Network, emulated: &Emulated, flow: &FlowConfig) -> Result<(Place, Place), String> {
    let path = network.path(flow.from, flow.to).unwrap_or_default();
    let crossed = |terminal: usize| {
        let to_hub = emulated.to_hub(terminal);
        path.iter().find_map(|way| match *way {
            way if way == to_hub => Some((Some(terminal), None)),
            way if way == to_hub.reverse() => Some((None, Some(terminal))),
            _ => None,
        })
    };
    let crossings: Vec<_> = (0..emulated.terminals()).filter_map(crossed).collect();
    match crossings[..] {
        [places] => Ok(places),
        [] => Err("it does not cross the emulated link".to_owned()),
        _ => Err("it goes from terminal to terminal: for real, one end is beyond the hub".to_owned()),
    }
}

/// What bounds the receiver's window.
struct ReceiveWindow {
    /// The option of its socket; `None` leaves the buffer to the kernel.
    buffer: Option<Bytes>,
    /// The largest window on its route, in bytes.
    of_route: Option<u32>,
}

impl ReceiveWindow {
    fn new(receiver: &Config, segments: &Segments) -> Self {
        let buffer = receiver.receive_buffer;
        // A buffer that grows is left to the kernel, whose own does.
        if buffer.size != buffer.most || given(buffer.size).is_none() {
            return Self { buffer: None, of_route: None };
        }
        let window = (buffer.size.as_u64() as f64 * buffer.share) as u64;
        // The kernel doubles the option, and offers of that the share that packets have of their memory. For small
        // segments there is more than that, and the route sets the window.
        if segments.received < ETHERNET_MSS / 2 {
            let small = Bytes::new(window * WINDOWS_OF_SMALL_SEGMENTS);
            Self { buffer: Some(small), of_route: Some(window as u32) }
        } else {
            let plain = Bytes::new(window * PACKET_MEMORY / u64::from(segments.received) / 2);
            Self { buffer: Some(plain), of_route: None }
        }
    }
}

/// The sizes of a flow's segments.
struct Segments {
    /// The largest packets of the two hosts' routes, where these are not the Ethernet's.
    sender_mtu: Option<u32>,
    receiver_mtu: Option<u32>,
    /// Payload of a full segment as it comes to the receiver.
    received: u32,
}

impl Segments {
    /// Those between ends with these largest segments. Neither end sends longer ones than the other takes; gateways that split the
    /// connection have the Ethernet's towards both.
    ///
    /// # Errors
    /// If they do not fit into packets of an Ethernet.
    fn new(sender: u32, receiver: u32, timestamps: bool, is_split: bool) -> Result<Self, String> {
        let headers = HEADERS + if timestamps { TIMESTAMPS } else { 0 };
        let largest = ETHERNET_MTU - headers;
        let sent = if is_split { sender.min(ETHERNET_MSS) } else { sender.min(receiver) };
        if sent > largest {
            return Err(format!(
                "mss = {sender}B: for real, packets have up to {ETHERNET_MTU}B: at most {largest}B fit in"
            ));
        }
        let mtu = |payload: u32| (payload < largest).then_some(payload + headers);
        let received = if is_split { receiver.min(ETHERNET_MSS) } else { sent };
        // The receiver's SYN bounds what is sent, unless that is less than any kernel offers.
        let sending = if receiver + headers - HEADERS < LEAST_OFFER { sent } else { sender };
        Ok(Self { sender_mtu: mtu(sending), receiver_mtu: mtu(receiver), received })
    }
}

/// Refuses a receive buffer that grows otherwise than the kernel's, to which a buffer that grows is left.
fn refuse_growth(config: &Config) -> Result<(), String> {
    let (buffer, default) = (config.receive_buffer, Config::new(config.profile).receive_buffer);
    if buffer.size == buffer.most {
        return Ok(());
    }
    if (buffer.size, buffer.most) != (default.size, default.most) {
        return Err(problem("receive_buffer_max", &buffer.most.to_string()));
    }
    if buffer.share != default.share {
        return Err(problem("receive_buffer_share", &buffer.share.to_string()));
    }
    Ok(())
}

/// A buffer that the scenario sets.
fn given(buffer: Bytes) -> Option<Bytes> {
    (buffer <= LARGEST_BUFFER).then_some(buffer)
}

/// The kernel's name of an endpoint's congestion control.
pub(super) fn kernel_control(config: &Config, controls: &mut Controls) -> Result<String, Error> {
    if !matches!(config.recovery.name, "sack" | "rack") {
        return Err(Error::Input(format!(
            "recovery {}: the kernel recovers by SACK and time (`sack` or `rack`)",
            config.recovery.name
        )));
    }
    controls.name(config)
}
