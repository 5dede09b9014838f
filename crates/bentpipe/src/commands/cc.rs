//! `bentpipe cc`: congestion controls for the kernel's own TCP, loaded by this program.

use crate::output::{Failure, Output};
use crate::text::Text;
use clap::{Args as ClapArgs, Subcommand};
use congestion::{CONTROLS, Control, LinkEntry, LinkInForce, LinkTable, LoadedControl, Unpinned};
use results::listing::{Cell, Listing, text};
use serde::Serialize;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::{OsStr, OsString};
use std::process::{Command as Program, ExitStatus};
use units::{Duration, Rate};

const LONG_ABOUT: &str = "\
Loads congestion controls into the kernel's TCP. They are eBPF programs inside bentpipe and need neither a kernel
module nor a compiler. A loaded control is selected by name: by a program for its sockets (TCP_CONGESTION), by a route
for its connections (ip route ... congctl NAME), or for the whole host (sysctl net.ipv4.tcp_congestion_control).

bp_cross sets the window from the allocated capacity: RTT x rate / (8 (1 + K) segment connections). `bentpipe cc link`
sets the rate.";

const EXAMPLES: &str = "\
Examples:
  bentpipe cc list                                        # the controls of bentpipe, and those of the kernel
  bentpipe cc load bp_hybla bp_westwood                   # until `bentpipe cc unload` or a reboot
  bentpipe cc load bp_cross --rate 8Mbit/s                # with the capacity of the satellite terminal
  bentpipe cc link --rate 4Mbit/s                         # change the capacity
  bentpipe cc links                                       # capacity, expiry and connections for each mark
  bentpipe cc link --rate 4Mbit/s --valid-for 3s --fallback 256kbit/s   # 256 kbit/s unless updated within 3 s
  bentpipe cc load bp_vegas --run -- iperf3 -c 198.51.100.7 -C bp_vegas   # while the program runs
  bentpipe cc load bp_vegas --run                         # until Ctrl-C
  bentpipe cc unload                                      # all loaded controls

Needs Linux 6.4 or later with BTF (CONFIG_DEBUG_INFO_BTF), and root of the machine: root of a container or of a user
namespace is not enough. A control serves all network namespaces. Connections that use a control keep it until they end, also if
it is unloaded; `bentpipe cc link` still sets the capacity of those that use bp_cross.";

/// Load congestion controls into the kernel's TCP (eBPF)
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the controls of bentpipe, and those that the kernel has
    List,
    /// Load controls into the kernel
    Load(LoadArgs),
    /// Remove loaded controls from the kernel
    Unload(UnloadArgs),
    /// Set or remove a link's capacity for bp_cross
    Link(LinkArgs),
    /// List the capacities that bp_cross has
    Links,
}

#[derive(ClapArgs)]
struct LoadArgs {
    /// Controls to load (see `bentpipe cc list`)
    #[arg(required = true, value_parser = control)]
    names: Vec<&'static Control>,
    /// Keep the controls until Ctrl-C, or while COMMAND runs, instead of leaving them in the kernel; the kernel removes them
    /// when this process ends, also if it is killed
    #[arg(long)]
    run: bool,
    /// Program to run, and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "run")]
    command: Vec<OsString>,
    #[command(flatten)]
    link: LinkOptions,
}

#[derive(ClapArgs)]
struct UnloadArgs {
    /// Controls to remove [default: all]
    #[arg(value_parser = control)]
    names: Vec<&'static Control>,
}

#[derive(ClapArgs)]
struct LinkArgs {
    #[command(flatten)]
    link: LinkOptions,
    /// Remove the entry for this mark
    #[arg(long, conflicts_with = "rate")]
    remove: bool,
}

/// A link of bp_cross.
#[derive(ClapArgs)]
struct LinkOptions {
    /// Capacity allocated to all connections together, headers included
    #[arg(long, help_heading = "Link (bp_cross)")]
    rate: Option<Rate>,
    /// Number of active connections that share the capacity [default: counted: those with data in flight or to send]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "rate",
          help_heading = "Link (bp_cross)")]
    connections: Option<u32>,
    /// Header bytes for each byte of payload
    #[arg(long, value_name = "K", default_value_t = 0.0505, value_parser = header_share, help_heading = "Link (bp_cross)")]
    header_share: f64,
    /// Target queue, added to the round-trip time: 0s gives the equation's window, 20ms keeps a link busy if packets arrive in bunches
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = target_queue, help_heading = "Link (bp_cross)")]
    target_queue: Duration,
    /// The sockets' mark (SO_MARK), decimal or hexadecimal (0x7); sockets whose mark has no entry use the entry for mark 0
    #[arg(long, default_value = "0", value_parser = mark, help_heading = "Link (bp_cross)")]
    mark: u32,
    /// Time after which --fallback replaces the capacity, unless the capacity is set again
    #[arg(long, value_name = "TIME", requires = "rate", requires = "fallback", help_heading = "Link (bp_cross)")]
    valid_for: Option<Duration>,
    /// Capacity after --valid-for
    #[arg(long, value_name = "RATE", requires = "valid_for", help_heading = "Link (bp_cross)")]
    fallback: Option<Rate>,
}

fn control(name: &str) -> Result<&'static Control, String> {
    Control::by_name(name).ok_or_else(|| {
        let names: Vec<_> = CONTROLS.iter().map(|control| control.name).collect();
        format!("there are {}", names.join(", "))
    })
}

fn mark(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "a number from 0 to 0xffffffff, such as 7 or 0x7".to_owned())
}

fn target_queue(text: &str) -> Result<Duration, String> {
    let queue: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if queue <= Duration::from_secs(1) { Ok(queue) } else { Err("at most 1s".to_owned()) }
}

fn header_share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "a number, as 0.0505".to_owned())?;
    if (0.0..=10.0).contains(&share) { Ok(share) } else { Err("from 0 to 10".to_owned()) }
}

impl LinkOptions {
    fn entry(&self) -> Option<LinkEntry> {
        Some(LinkEntry {
            capacity: self.rate?,
            header_share: self.header_share,
            connections: self.connections,
            target_queue: self.target_queue,
            expiry: self.valid_for.zip(self.fallback),
        })
    }
}

/// The control that has a table of links.
fn cross() -> Result<&'static Control, Failure> {
    Control::by_name("bp_cross").ok_or_else(|| Failure::missing("there is no bp_cross"))
}

/// Lists, loads or unloads.
///
/// # Errors
/// If a name or the link is wrong (2), the kernel or the process lacks something (3), or the command that was to be run fails (1).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    match &args.action {
        Action::List => list(output),
        Action::Load(args) => load(args, output),
        Action::Unload(args) => unload(args, output),
        Action::Link(args) => link(args, output),
        Action::Links => links(output),
    }
}

/// A control, and where it is.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    /// The simulator's name of it.
    simulated_as: &'static str,
    /// Whether programs can choose it now.
    available: bool,
    /// Whether it stays until it is unloaded; `None` if this process may not look.
    pinned: Option<bool>,
}

#[derive(Serialize)]
struct List {
    controls: Vec<Listed>,
    /// Others that the kernel has.
    others: Vec<String>,
}

fn list(output: &Output) -> Result<(), Failure> {
    let present = present()?;
    let listed = CONTROLS.iter().map(|control| Listed {
        name: control.name,
        about: control.about,
        simulated_as: control.twin,
        available: present.iter().any(|name| name == control.name),
        pinned: congestion::is_pinned(control).ok(),
    });
    let controls = listed.collect();
    let others = present.into_iter().filter(|name| Control::by_name(name).is_none()).collect();
    let list = List { controls, others };
    output.result(&list, |columns| {
        let mut listing = Listing::new(["name", "in the kernel", "what it is"].map(text));
        for control in &list.controls {
            let place = match (control.available, control.pinned) {
                (true, Some(true)) => "loaded",
                // By a process, or by a pin in a BPF file system that is mounted elsewhere.
                (true, Some(false)) => "held elsewhere",
                (true, None) => "yes",
                (false, _) => "no",
            };
            listing.add([control.name, place, control.about].map(Cell::from));
        }
        let mut text = Text::new(columns);
        text.listing(&listing).blank().lines(format!("Others in the kernel: {}", list.others.join(", ")));
        text
    })
}

/// The names of the controls that the kernel has.
fn present() -> Result<Vec<String>, Failure> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let names = std::fs::read_to_string(path).map_err(|error| Failure::missing(format!("{path}: {error}")))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

#[derive(Serialize)]
struct Loaded {
    loaded: Vec<&'static str>,
    /// Whether they stay when this process ends.
    pinned: bool,
}

fn load(args: &LoadArgs, output: &Output) -> Result<(), Failure> {
    let entry = args.link.entry();
    let needs_entry = args.names.iter().any(|control| control.name == "bp_cross");
    if needs_entry != entry.is_some() {
        return Err(Failure::usage(if needs_entry {
            "bp_cross needs the capacity of the link: --rate"
        } else {
            "--rate is for bp_cross, which is not among what is to be loaded"
        }));
    }
    // There is an entry for all other marks, whatever mark this one is for.
    let entries: Vec<_> = entry.into_iter().flat_map(|entry| [(0, entry), (args.link.mark, entry)]).collect();
    let loaded = Loaded { loaded: args.names.iter().map(|control| control.name).collect(), pinned: !args.run };
    if args.run {
        let mut held = Vec::new();
        for control in &args.names {
            let control = LoadedControl::load(control)?;
            for (table, (mark, entry)) in
                control.links().iter().flat_map(|table| entries.iter().map(move |entry| (table, entry)))
            {
                table.set(*mark, *entry)?;
            }
            held.push(control);
        }
        return hold(args, output, &loaded, held);
    }
    let names = loaded.loaded.join(", ");
    for (at, control) in args.names.iter().enumerate() {
        if let Err(error) = LoadedControl::load_pinned(control, &entries) {
            // All or none; the error is what there is to tell.
            args.names[..at].iter().for_each(|control| drop(congestion::unpin(control)));
            return Err(error.into());
        }
    }
    output.result(&loaded, |_| format!("{names}: loaded; `bentpipe cc unload` takes away what is loaded"))
}

/// Keeps `held` until a signal, or until the command ends.
fn hold(args: &LoadArgs, output: &Output, loaded: &Loaded, held: Vec<LoadedControl>) -> Result<(), Failure> {
    if let Some((program, arguments)) = args.command.split_first() {
        let status = run_command(program, arguments)?;
        drop(held);
        return ended(&program.to_string_lossy(), status);
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::failed)?;
    output.result(loaded, |_| format!("{}: loaded until Ctrl-C", loaded.loaded.join(", ")))?;
    signals.forever().next();
    drop(held);
    Ok(())
}

/// Runs a command until it ends. A Ctrl-C is for the command, which has it from the terminal; SIGTERM is passed on to it.
fn run_command(program: &OsStr, arguments: &[OsString]) -> Result<ExitStatus, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGCHLD]).map_err(Failure::failed)?;
    let mut child = Program::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| Failure::missing(format!("{}: {error}", program.to_string_lossy())))?;
    loop {
        if signals.wait().any(|signal| signal == SIGTERM) {
            kernel::process::terminate(&mut child).map_err(Failure::failed)?;
        }
        if let Some(status) = child.try_wait().map_err(Failure::failed)? {
            return Ok(status);
        }
    }
}

fn ended(program: &str, status: ExitStatus) -> Result<(), Failure> {
    if status.success() { Ok(()) } else { Err(Failure::failed(format!("{program}: {status}"))) }
}

#[derive(Serialize)]
struct Unloaded {
    unloaded: Vec<&'static str>,
    /// Those of them that connections use until they end.
    in_use: Vec<&'static str>,
    /// Network namespaces whose default is one of them, and its name.
    defaults: Vec<Default>,
}

#[derive(Serialize)]
struct Default {
    namespace: String,
    congestion_control: &'static str,
}

fn unload(args: &UnloadArgs, output: &Output) -> Result<(), Failure> {
    let wanted: Vec<_> = if args.names.is_empty() { CONTROLS.iter().collect() } else { args.names.clone() };
    let mut unloaded = Unloaded { unloaded: Vec::new(), in_use: Vec::new(), defaults: Vec::new() };
    for control in &wanted {
        let (name, default) = (control.name, congestion::namespaces_that_use(control.name));
        match congestion::unpin(control)? {
            Unpinned::Absent if args.names.is_empty() => continue,
            Unpinned::Absent => {
                return Err(Failure::usage(format!(
                    "{name}: `bentpipe cc load` has not left it in the kernel (see bentpipe cc list)"
                )));
            }
            Unpinned::Gone => {}
            Unpinned::InUse => unloaded.in_use.push(name),
        }
        unloaded.unloaded.push(name);
        unloaded.defaults.extend(default.into_iter().map(|namespace| Default { namespace, congestion_control: name }));
    }
    output.result(&unloaded, |columns| unloaded.text(columns))
}

impl Unloaded {
    fn text(&self, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        match self.unloaded.as_slice() {
            [] => text.lines("nothing was loaded"),
            names => text.lines(format!("{}: unloaded", names.join(", "))),
        };
        for name in &self.in_use {
            let capacity = if *name == "bp_cross" { "; `bentpipe cc link` still sets their capacity" } else { "" };
            text.lines(format!("{name}: connections use it until they end{capacity}"));
        }
        text.each(self.defaults.iter().map(|Default { namespace, congestion_control }| {
            format!(
                "Network namespace {namespace}: net.ipv4.tcp_congestion_control is still {congestion_control}; set another"
            )
        }));
        text
    }
}

/// An entry that bp_cross has.
#[derive(Serialize)]
struct ListedLink {
    mark: u32,
    rate_bps: u64,
    /// Whether the entry's own capacity holds, or the fallback since its validity has ended.
    source: &'static str,
    /// The rest of the validity.
    valid_for_s: Option<f64>,
    fallback_bps: Option<u64>,
    /// As the entry says, or as counted.
    connections: u64,
    are_connections_counted: bool,
    header_share: f64,
    target_queue_s: f64,
}

#[derive(Serialize)]
struct Links {
    links: Vec<ListedLink>,
}

impl From<LinkInForce> for ListedLink {
    fn from(link: LinkInForce) -> Self {
        Self {
            mark: link.mark,
            rate_bps: link.capacity.as_bps(),
            source: if link.has_expired { "fallback" } else { "set" },
            valid_for_s: link.expiry.map(|(rest, _)| rest.as_secs_f64()),
            fallback_bps: link.expiry.map(|(_, fallback)| fallback.as_bps()),
            connections: link.configured_connections.map_or(link.counted_connections, u64::from),
            are_connections_counted: link.configured_connections.is_none(),
            header_share: link.header_share,
            target_queue_s: link.target_queue.as_secs_f64(),
        }
    }
}

fn links(output: &Output) -> Result<(), Failure> {
    let entries = LinkTable::find(cross()?)?.entries();
    let links = Links { links: entries.into_iter().map(ListedLink::from).collect() };
    output.result(&links, |columns| {
        let mut listing = Listing::new(["mark", "capacity", "source", "expiry", "connections"].map(text));
        for link in &links.links {
            let expiry = match (link.valid_for_s, link.fallback_bps) {
                (Some(rest), Some(fallback)) => format!("in {rest:.1} s, then {}", Rate::from_bps(fallback)),
                _ => "none".to_owned(),
            };
            let counted = if link.are_connections_counted { "counted" } else { "given" };
            let connections = format!("{} ({counted})", link.connections);
            let (mark, capacity) = (format!("{:#x}", link.mark), Rate::from_bps(link.rate_bps).to_string());
            listing.add([mark, capacity, link.source.to_owned(), expiry, connections].map(Cell::from));
        }
        let mut text = Text::new(columns);
        text.listing(&listing);
        text
    })
}

#[derive(Serialize)]
struct Entry {
    mark: u32,
    rate_bps: Option<u64>,
    connections: Option<u32>,
}

fn link(args: &LinkArgs, output: &Output) -> Result<(), Failure> {
    let mark = args.link.mark;
    let entry = args.link.entry();
    if entry.is_none() && !args.remove {
        return Err(Failure::usage("which capacity? --rate, or --remove to remove its entry"));
    }
    let table = LinkTable::find(cross()?)?;
    match entry {
        Some(entry) => table.set(mark, entry)?,
        None => table.remove(mark)?,
    }
    let rate_bps = entry.map(|entry| entry.capacity.as_bps());
    let result = Entry { mark, rate_bps, connections: entry.and_then(|entry| entry.connections) };
    output.result(&result, |_| match entry {
        Some(entry) => format!("mark {mark:#x}: {}", entry.capacity),
        None => format!("mark {mark:#x}: removed"),
    })
}
