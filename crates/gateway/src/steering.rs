//! Changes of the firewall run on a thread of their own: starting `nft` takes milliseconds that the relay must not lose.

use crate::rules::{Installed, Rules};
use ipnet::IpNet;
use kernel::Error;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Names the destinations to intercept; the last word counts. Dropping it removes the rules.
#[derive(Debug)]
pub(crate) struct Steering {
    wishes: Option<mpsc::Sender<Wish>>,
    thread: Option<JoinHandle<()>>,
}

struct Wish {
    prefixes: Vec<IpNet>,
    done: Option<mpsc::SyncSender<()>>,
}

impl Steering {
    /// Installs `rules` in the network namespace of the calling thread; nothing is intercepted yet.
    pub(crate) fn new(rules: Rules) -> Result<Self, Error> {
        let installed = Installed::new(rules)?;
        let (wishes, received) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("steering".into())
            .spawn(move || follow(installed, &received))
            .map_err(|source| Error::Failed { doing: "starting a thread".into(), source })?;
        Ok(Self { wishes: Some(wishes), thread: Some(thread) })
    }

    /// Intercepts new connections to `prefixes`, and to nothing else, as soon as possible.
    pub(crate) fn intercept(&self, prefixes: Vec<IpNet>) {
        self.send(Wish { prefixes, done: None });
    }

    /// Intercepts nothing any more; returns when that is so.
    pub(crate) fn stop(&self) {
        let (done, is_done) = mpsc::sync_channel(1);
        self.send(Wish { prefixes: Vec::new(), done: Some(done) });
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

fn follow(mut installed: Installed, wishes: &mpsc::Receiver<Wish>) {
    while let Ok(first) = wishes.recv() {
        let mut dones: Vec<_> = first.done.into_iter().collect();
        let mut prefixes = first.prefixes;
        for later in wishes.try_iter() {
            prefixes = later.prefixes;
            dones.extend(later.done);
        }
        let text = prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match installed.intercept(prefixes) {
            Ok(()) if text.is_empty() => tracing::info!("new connections go end to end"),
            Ok(()) => tracing::info!(destinations = text, "new connections are accelerated"),
            Err(error) => tracing::error!(%error, "the destinations to intercept could not be changed"),
        }
        for done in dones {
            // Nobody need be waiting any more.
            let _ = done.send(());
        }
    }
}
