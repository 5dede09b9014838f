//! Changes of the firewall, and looks at the host's addresses, run on a thread of their own: starting `nft` or `ip` takes
//! milliseconds that the relay must not lose.

use crate::rules::{Installed, Rules};
use ipnet::IpNet;
use kernel::{Error, routes};
use std::net::IpAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long to wait after `nft` has failed.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// How often the host's addresses are looked at, at least.
const ADDRESSES_PERIOD: Duration = Duration::from_secs(5);

/// Names the destinations to intercept; the last word counts. Dropping it removes the rules.
#[derive(Debug)]
pub(crate) struct Steering {
    wishes: Option<mpsc::Sender<Wish>>,
    thread: Option<JoinHandle<()>>,
}

struct Wish {
    /// What to intercept from now on; `None` leaves it as it is.
    prefixes: Option<Vec<IpNet>>,
    done: Option<mpsc::SyncSender<()>>,
}

impl Steering {
    /// Installs `rules` in the network namespace of the calling thread; nothing is intercepted yet. `on_addresses` is told
    /// when the addresses of the host are no longer `addresses`.
    pub(crate) fn new(
        rules: Rules,
        addresses: Vec<IpAddr>,
        on_addresses: impl Fn(Vec<IpAddr>) + Send + 'static,
    ) -> Result<Self, Error> {
        let installed = Installed::new(rules)?;
        let follower = Follower { installed, wished: None, addresses, on_addresses: Box::new(on_addresses) };
        let (wishes, received) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("steering".into())
            .spawn(move || follower.run(&received))
            .map_err(|source| Error::Failed { doing: "starting a thread".into(), source })?;
        Ok(Self { wishes: Some(wishes), thread: Some(thread) })
    }

    /// Intercepts new connections to `prefixes`, and to nothing else, as soon as possible.
    pub(crate) fn intercept(&self, prefixes: Vec<IpNet>) {
        self.send(Wish { prefixes: Some(prefixes), done: None });
    }

    /// Looks at the host's addresses without waiting for the next period.
    pub(crate) fn look_at_addresses(&self) {
        self.send(Wish { prefixes: None, done: None });
    }

    /// Intercepts nothing any more; returns when that is so, or `nft` has refused.
    pub(crate) fn stop(&self) {
        let (done, is_done) = mpsc::sync_channel(1);
        self.send(Wish { prefixes: Some(Vec::new()), done: Some(done) });
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

/// What the thread works on.
struct Follower {
    installed: Installed,
    /// The destinations that `nft` has yet to be told of.
    wished: Option<Vec<IpNet>>,
    addresses: Vec<IpAddr>,
    on_addresses: Box<dyn Fn(Vec<IpAddr>) + Send>,
}

impl Follower {
    /// Works until the sender of wishes is dropped.
    fn run(mut self, wishes: &mpsc::Receiver<Wish>) {
        loop {
            let period = if self.wished.is_some() { RETRY_PERIOD } else { ADDRESSES_PERIOD };
            let mut dones = Vec::new();
            match wishes.recv_timeout(period) {
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Ok(first) => {
                    for wish in std::iter::once(first).chain(wishes.try_iter()) {
                        self.wished = wish.prefixes.or(self.wished.take());
                        dones.extend(wish.done);
                    }
                }
            }
            self.intercept();
            for done in dones {
                // Nobody need be waiting any more.
                let _ = done.send(());
            }
            self.look_at_addresses();
        }
    }

    fn intercept(&mut self) {
        let Some(prefixes) = &self.wished else { return };
        let text = prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.installed.intercept(prefixes.clone()) {
            Ok(()) if text.is_empty() => tracing::info!("new connections go end to end"),
            Ok(()) => tracing::info!(destinations = text, "new connections are accelerated"),
            Err(error) => {
                tracing::error!(%error, "the destinations to intercept could not be changed; trying again");
                return;
            }
        }
        self.wished = None;
    }

    fn look_at_addresses(&mut self) {
        match routes::own_addresses() {
            Ok(addresses) if addresses == self.addresses => {}
            Ok(addresses) => {
                (self.on_addresses)(addresses.clone());
                self.addresses = addresses;
            }
            Err(error) => tracing::warn!(%error, "this host's addresses could not be read; the last ones known count"),
        }
    }
}
