//! Changes of the firewall, and looks at it and at the host's interfaces and addresses, run on a thread of their own: starting `nft` takes
//! milliseconds that the relay must not lose.

mod repairs;

use crate::conntrack::{Conntrack, FullTable};
use crate::filtered_bridges::FilteredBridges;
use crate::missing_interfaces::MissingInterfaces;
use crate::other_clients::OtherClients;
use crate::relays::log_limit::LineLimit;
use crate::reverse_path::DroppingInterfaces;
use crate::rules::{Bypass, Installed, Preceding, Rules};
use crate::sysctls::EarlyDemux;
use ipnet::IpNet;
use kernel::interfaces::Interfaces;
use kernel::{Error, clock, routes};
use relay::engine::Intercepted;
use repairs::Repairs;
use status::MissingInterface;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait after `nft` has failed.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// How often it is looked whether others have removed rules or put theirs before them, and at the host's interfaces and addresses,
/// should no news of that arrive.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// Lines of each kind that the log has in a minute of what is intercepted: peers come up, and announce what they let through, one after the
/// other.
const LINES: u32 = 8;

/// The least time between two looks, however many others change at the host. It is longer while they remove rules again and again.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Names the connections to intercept; the last word counts. Dropping it removes the rules.
#[derive(Debug)]
pub(crate) struct Steering {
    wishes: Option<mpsc::Sender<Wish>>,
    thread: Option<JoinHandle<()>>,
}

/// What has changed, or been asked for.
#[derive(Debug)]
pub(crate) enum News {
    /// The addresses of the host.
    OwnAddresses(Vec<IpNet>),
    /// The configured interfaces that the host does not have.
    MissingInterfaces(Vec<MissingInterface>),
    /// How many connections have gone end to end, by the reason.
    Bypassed(Vec<(String, u64)>),
}

#[derive(Default)]
struct Wish {
    /// What to intercept from now on; `None` leaves it as it is.
    accelerated: Option<Vec<Intercepted>>,
    /// What never to intercept from now on.
    exempt: Option<Vec<Bypass>>,
    /// Whether to read the counters.
    count: bool,
    /// Whether this process answers for the rules from now on, or another one.
    is_owner: Option<bool>,
    done: Option<mpsc::SyncSender<()>>,
}

impl Wish {
    /// Whether nothing is wished but a look.
    fn is_look(&self) -> bool {
        let changes = self.accelerated.is_some() || self.exempt.is_some() || self.is_owner.is_some();
        !changes && !self.count && self.done.is_none()
    }
}

impl Steering {
    /// Installs `rules` in the network namespace of the calling thread; nothing is intercepted yet, and nothing that is `exempt` ever.
    /// `on_news` is called when the addresses of the host or the interfaces that are missing are no longer those of `seen`, and what the
    /// counters say when that was asked.
    pub(crate) fn new(
        rules: Rules,
        exempt: Vec<Bypass>,
        seen: Seen,
        on_news: impl Fn(News) + Send + 'static,
    ) -> Result<Self, Error> {
        let mut installed = Installed::new(rules)?;
        installed.exempt(exempt)?;
        Self::follow(installed, Vec::new(), seen, on_news)
    }

    /// The same in the place of a process that leaves its rules, which intercept what is `accelerated`. If the rules cannot be put in
    /// force, that process's go on, and it is tried again.
    pub(crate) fn adopt(
        rules: Rules,
        (accelerated, exempt): (Vec<Intercepted>, Vec<Bypass>),
        seen: Seen,
        on_news: impl Fn(News) + Send + 'static,
    ) -> Result<Self, Error> {
        Self::follow(Installed::adopt(rules, accelerated.clone(), exempt), accelerated, seen, on_news)
    }

    fn follow(
        installed: Installed,
        wanted: Vec<Intercepted>,
        seen: Seen,
        on_news: impl Fn(News) + Send + 'static,
    ) -> Result<Self, Error> {
        let (wished, on_news) = (Wish::default(), Box::new(on_news));
        let interfaces = Interfaces::new()?;
        let mut lines = LineLimit::of(LINES);
        lines.note(Interception::of(&wanted), !wanted.is_empty());
        let (warned, repairs) = (Warned::default(), Repairs::default());
        let mut follower =
            Follower { installed, wished, wanted, lines, seen, interfaces, is_broken: false, repairs, warned, on_news };
        follower.repair();
        follower.look_at_interfaces();
        let (wishes, received) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("steering".into())
            .spawn(move || follower.run(&received))
            .map_err(|source| Error::Failed { doing: "starting a thread".into(), source })?;
        Ok(Self { wishes: Some(wishes), thread: Some(thread) })
    }

    /// Intercepts the new connections that are `accelerated`, and no others, as soon as possible.
    pub(crate) fn intercept(&self, accelerated: Vec<Intercepted>) {
        self.send(Wish { accelerated: Some(accelerated), ..Wish::default() });
    }

    /// Leaves new connections alone that one of `exempt` names, and no others for that reason, as soon as possible.
    pub(crate) fn exempt(&self, exempt: Vec<Bypass>) {
        self.send(Wish { exempt: Some(exempt), ..Wish::default() });
    }

    /// Reads how many connections have gone end to end.
    pub(crate) fn count(&self) {
        self.send(Wish { count: true, ..Wish::default() });
    }

    /// Looks at the rules, and at the host's interfaces and addresses, without waiting for the next period.
    pub(crate) fn look(&self) {
        self.send(Wish::default());
    }

    /// Leaves the rules to another process, as they are; returns when that is so.
    pub(crate) fn release(&self) {
        self.set_owner(false);
    }

    /// Answers for the rules again, which another process has left; returns when that is so.
    pub(crate) fn reclaim(&self) {
        self.set_owner(true);
    }

    fn set_owner(&self, is_owner: bool) {
        let (done, is_done) = mpsc::sync_channel(1);
        self.send(Wish { is_owner: Some(is_owner), done: Some(done), ..Wish::default() });
        // An error means that the thread, and with it the rules, has gone.
        let _ = is_done.recv();
    }

    /// Intercepts nothing any more; returns when that is so, or `nft` has refused.
    pub(crate) fn stop(&self) {
        let (done, is_done) = mpsc::sync_channel(1);
        self.send(Wish { accelerated: Some(Vec::new()), done: Some(done), ..Wish::default() });
        // An error means that the thread, and with it the rules, has gone.
        let _ = is_done.recv();
    }

    fn send(&self, wish: Wish) {
        if let Some(wishes) = &self.wishes {
            // The thread ends only when this sender is dropped.
            let _ = wishes.send(wish);
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.wishes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is known of the host's interfaces and settings.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) interfaces: MissingInterfaces,
    pub(crate) bridges: FilteredBridges,
    pub(crate) early_demux: EarlyDemux,
}

/// What the thread works on.
struct Follower {
    installed: Installed,
    /// Changes not yet passed to `nft`.
    wished: Wish,
    /// What is to be intercepted, where it can be.
    wanted: Vec<Intercepted>,
    /// How often the log has what is intercepted, which follows the announcements of peers.
    lines: LineLimit<Interception>,
    seen: Seen,
    interfaces: Interfaces,
    /// The rules could not be set up again, which has been said.
    is_broken: bool,
    repairs: Repairs,
    warned: Warned,
    on_news: Box<dyn Fn(News) + Send>,
}

/// What has been logged of what other programs do to the host.
#[derive(Debug, Default)]
struct Warned {
    preceding: Preceding,
    dropping: DroppingInterfaces,
    full_table: FullTable,
    other_clients: OtherClients,
}

impl Follower {
    /// Works until the sender of wishes is dropped.
    fn run(mut self, wishes: &mpsc::Receiver<Wish>) {
        // When it was last looked, and whether another look was asked for too soon.
        let (mut looked_at, mut waits) = (Instant::now(), false);
        loop {
            let is_late = self.wished.accelerated.is_some() || self.wished.exempt.is_some();
            let period = if is_late { RETRY_PERIOD } else { LOOK_PERIOD };
            let pause = self.repairs.pause(clock::now());
            let period = if waits { pause.saturating_sub(looked_at.elapsed()) } else { period };
            let (mut dones, mut is_look) = (Vec::new(), false);
            match wishes.recv_timeout(period) {
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Ok(first) => {
                    is_look = true;
                    for wish in std::iter::once(first).chain(wishes.try_iter()) {
                        is_look &= wish.is_look();
                        let wished = &mut self.wished;
                        wished.accelerated = wish.accelerated.or(wished.accelerated.take());
                        wished.exempt = wish.exempt.or(wished.exempt.take());
                        wished.count |= wish.count;
                        if let Some(is_owner) = wish.is_owner {
                            self.installed.set_owned(is_owner);
                        }
                        dones.extend(wish.done);
                    }
                }
            }
            waits = is_look && looked_at.elapsed() < pause;
            if waits {
                continue;
            }
            looked_at = Instant::now();
            self.repair();
            self.exempt();
            self.intercept();
            self.log_overdue();
            self.count();
            for done in dones {
                // Nobody need be waiting any more.
                let _ = done.send(());
            }
            self.look_at_addresses();
            self.look_at_interfaces();
            self.look_at_clients();
            if self.installed.is_owned() {
                self.seen.early_demux.look(clock::now());
            }
            if let Some(table) = Conntrack::read() {
                self.warned.full_table.look(table);
            }
        }
    }

    /// Programs that manage a host's firewall or routes remove what they do not know.
    fn repair(&mut self) {
        match self.installed.repair() {
            Ok(repaired) => {
                for (what, not_logged) in self.repairs.note(clock::now(), &repaired) {
                    tracing::warn!(
                        what,
                        not_logged,
                        "another program has removed a rule of the gateway's; it is set up again"
                    );
                }
                self.is_broken = false;
                self.warned.preceding.look(self.installed.rules(), self.installed.astray());
            }
            Err(error) if !std::mem::replace(&mut self.is_broken, true) => {
                tracing::error!(%error, "the gateway's rules could not be checked or set up again; trying again");
            }
            Err(_) => {}
        }
    }

    fn intercept(&mut self) {
        let Some(wanted) = &self.wished.accelerated else { return };
        let accelerated = if self.seen.bridges.are_there() { Vec::new() } else { wanted.clone() };
        let interception = Interception::of(&accelerated);
        match self.installed.intercept(accelerated) {
            Ok(()) => self.log_interception(interception),
            Err(error) => {
                tracing::error!(%error, "the destinations to intercept could not be changed; trying again");
                return;
            }
        }
        self.wanted = self.wished.accelerated.take().unwrap_or_default();
    }

    /// Logs what is intercepted now, unless the log says so already or has had much of that.
    fn log_interception(&mut self, interception: Interception) {
        let is_well = matches!(interception, Interception::Accelerated(_));
        if !self.installed.is_owned() {
            self.lines.note(interception, is_well);
        } else if !self.lines.says(&interception)
            && let Some((interception, not_logged)) = self.lines.admit(clock::now(), interception, is_well)
        {
            interception.say(not_logged);
        }
    }

    /// Logs what was left out and holds still, once it is time.
    fn log_overdue(&mut self) {
        if let Some((interception, not_logged)) = self.lines.overdue(clock::now()) {
            interception.say(not_logged);
        }
    }

    fn exempt(&mut self) {
        let Some(exempt) = &self.wished.exempt else { return };
        match self.installed.exempt(exempt.clone()) {
            Ok(()) => self.wished.exempt = None,
            Err(error) => tracing::error!(%error, "the connections to leave alone could not be changed; trying again"),
        }
    }

    fn count(&mut self) {
        if !std::mem::take(&mut self.wished.count) {
            return;
        }
        match self.installed.counters() {
            Ok(counters) => (self.on_news)(News::Bypassed(counters)),
            Err(error) => tracing::debug!(%error, "the firewall's counters could not be read"),
        }
    }

    fn look_at_clients(&mut self) {
        if !self.installed.is_owned() {
            return;
        }
        match self.installed.of_other_clients() {
            Ok(counted) => self.warned.other_clients.look(clock::now(), counted, &self.wanted),
            Err(error) => tracing::debug!(%error, "the firewall's counters could not be read"),
        }
    }

    fn look_at_addresses(&mut self) {
        match routes::own_addresses() {
            Ok(addresses) if addresses == self.seen.addresses => {}
            Ok(addresses) => {
                (self.on_news)(News::OwnAddresses(addresses.clone()));
                self.seen.addresses = addresses;
            }
            Err(error) => tracing::warn!(%error, "this host's addresses could not be read; the last ones known count"),
        }
    }

    fn look_at_interfaces(&mut self) {
        match self.interfaces.all() {
            Ok(all) => {
                if self.seen.bridges.look(&all) {
                    self.wished.accelerated.get_or_insert_with(|| self.wanted.clone());
                }
                self.warned.dropping.look(self.installed.rules(), &all);
                let names: Vec<String> = all.into_iter().map(|interface| interface.name).collect();
                if let Some(missing) = self.seen.interfaces.look(&names) {
                    (self.on_news)(News::MissingInterfaces(missing));
                }
            }
            Err(error) => tracing::warn!(%error, "this host's interfaces could not be read; the last ones known count"),
        }
    }
}

/// What the log says of new connections.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Interception {
    /// Those to these destinations are accelerated.
    Accelerated(String),
    /// They go end to end.
    EndToEnd,
}

impl Interception {
    /// What it is where `accelerated` is intercepted. A gateway whose clients are all at the peers has nothing to intercept, whichever peers are up.
    fn of(accelerated: &[Intercepted]) -> Self {
        let text = shown(accelerated);
        if text.is_empty() { Self::EndToEnd } else { Self::Accelerated(text) }
    }

    /// Writes the line. Before it, `not_logged` lines were left out.
    fn say(&self, not_logged: Option<u64>) {
        match self {
            Self::Accelerated(destinations) => {
                tracing::info!(destinations, not_logged, "new connections are accelerated");
            }
            Self::EndToEnd => tracing::info!(not_logged, "new connections go end to end"),
        }
    }
}

/// The destinations of `accelerated`, as many as fit into a line of the log.
fn shown(accelerated: &[Intercepted]) -> String {
    const MAX: usize = 16;
    let servers: Vec<&IpNet> = accelerated.iter().flat_map(|group| &group.servers).collect();
    let mut text = servers.iter().take(MAX).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if servers.len() > MAX {
        text += &format!(" and {} more", servers.len() - MAX);
    }
    text
}
