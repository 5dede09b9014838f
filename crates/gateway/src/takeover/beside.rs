//! What a process has to know that shares its UDP port with the old process of an upgrade.
//!
//! The process that takes over hears it from the old one. Should it end first, the next one is started while the old one still finishes its
//! connections: it has to take the same place, and finds it in a note beside the control socket.

use crate::config::Settings;
use crate::privileges::Plan;
use crate::takeover::Heir;
use crate::udp::Udp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use satpep::Run;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The place beside an old process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// The old process, if it is known.
    pid: Option<u32>,
    /// The generation that is not the old process's.
    generation: u32,
    /// Peers that had a session at the upgrade, and where.
    pub(crate) peers: Vec<(String, SocketAddr)>,
}

impl Beside {
    /// The place of a process that takes over, which is to be [noted](Self::note), or of one that has nobody to take over from and finds the
    /// port taken. `None` if it has the port to itself.
    pub(crate) fn find(settings: &Settings, heir: Option<&Heir>) -> io::Result<Option<Self>> {
        match heir {
            Some(heir) => {
                let (offer, generation) = (&heir.offer, heir.run().generation());
                Ok(Some(Self { pid: Some(offer.pid), generation, peers: offer.peers.clone() }))
            }
            None if Udp::is_taken(settings.listen)? => Ok(Some(Self::noted(settings))),
            None => {
                Self::forget(settings);
                Ok(None)
            }
        }
    }

    /// The run of a process in this place.
    pub(crate) fn run(&self) -> Run {
        Run::Beside { generation: self.generation & 1 }
    }

    fn path(settings: &Settings) -> PathBuf {
        let mut path = settings.control.clone().into_os_string();
        path.push(".upgrade");
        path.into()
    }

    /// Notes the place for processes that are started later, and for the user as whom this one goes on.
    pub(crate) fn note(&self, settings: &Settings, plan: &Plan) -> io::Result<()> {
        let path = Self::path(settings);
        // Replaced, and neither followed nor written to: who owns the directory may not be who starts the gateway.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        plan.give_file(&file)?;
        Ok(serde_json::to_writer(file, self)?)
    }

    /// What is noted; without a note, the place at a first upgrade.
    fn noted(settings: &Settings) -> Self {
        let noted = fs::read(Self::path(settings)).ok().and_then(|note| serde_json::from_slice(&note).ok());
        noted.unwrap_or(Self { pid: None, generation: 1, peers: Vec::new() })
    }

    /// Removes the note: the old process has ended, and the next one to start has none beside it.
    pub(crate) fn forget(settings: &Settings) {
        // Left behind it does no harm.
        let _ = fs::remove_file(Self::path(settings));
    }
}

/// The old process of an upgrade that still runs beside one which has not taken over from it itself. The descriptor tells it from another process
/// that is given its number later.
#[derive(Debug)]
pub(crate) struct OldProcess {
    pub(crate) pid: u32,
    descriptor: OwnedFd,
}

impl OldProcess {
    /// The one that the note names, if it runs.
    pub(crate) fn noted(settings: &Settings) -> Option<Self> {
        let place: Beside = serde_json::from_slice(&fs::read(Beside::path(settings)).ok()?).ok()?;
        let pid = place.pid.filter(|pid| *pid != std::process::id())?;
        let descriptor = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, descriptor })
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
    }
}
