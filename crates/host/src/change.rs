//! One change of a host, and its way back.

use crate::{Error, Present};
use kernel::route::Route;
use kernel::{qdisc, sysctl};
use model::tuning::{Place, Setting};
use serde::{Deserialize, Serialize};

/// A change and what was there before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A sysctl.
    Sysctl {
        /// Its dotted name.
        key: String,
        /// Its value before the change.
        before: String,
        /// Its value after the change.
        after: String,
    },
    /// A route as `ip` takes it.
    Route {
        /// Of IPv6 rather than IPv4.
        ipv6: bool,
        /// The route before the change; null if there was none to this destination.
        before: Option<String>,
        /// The route after the change.
        after: String,
    },
    /// A root queue discipline in place of the kernel's own.
    RootQdisc {
        /// The interface.
        device: String,
        /// The queue discipline's kind.
        after: String,
    },
}

/// The changes that lead to some settings, and what is left out.
#[derive(Debug, Default)]
pub struct Plan {
    /// What to do, in this order.
    pub changes: Vec<Change>,
    /// What is not done, and why.
    pub left_out: Vec<String>,
}

impl Plan {
    /// What makes this host as `settings` say. Settings of the whole host are changed only if `host_wide`.
    ///
    /// # Errors
    /// If this host lacks a setting or the route has no one interface.
    pub fn new(settings: &[Setting], present: &Present, host_wide: bool) -> Result<Self, Error> {
        let mut plan = Self::default();
        let mut route = present.found.route.clone();
        for setting in settings {
            let now = present.value(setting.place);
            if now.as_ref() == Some(&setting.value) {
                continue;
            }
            match setting.place {
                Place::Route(key) => route = route.with(key, &setting.value),
                Place::Sysctl(key) => plan.set(key, &setting.value)?,
                Place::HostSysctl(key) if is_enough(now.as_deref(), &setting.value) => {
                    tracing::debug!(key, "large enough");
                }
                Place::HostSysctl(key) if host_wide => plan.set(key, &setting.value)?,
                Place::HostSysctl(key) => plan.left_out.push(format!(
                    "{key} = {}: it belongs to the whole host, not to this network namespace (--host-wide changes it)",
                    setting.value
                )),
                Place::RootQdisc => plan.set_qdisc(&setting.value, present)?,
            }
        }
        if route != present.found.route {
            let before = present.found.exists.then(|| present.found.route.to_string());
            let ipv6 = route.is_ipv6();
            // First, since it needs the right to change the network and nothing else.
            plan.changes.insert(0, Change::Route { ipv6, before, after: route.to_string() });
        }
        Ok(plan)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let before = sysctl::read(key)?;
        self.changes.push(Change::Sysctl { key: key.to_owned(), before, after: value.to_owned() });
        Ok(())
    }

    fn set_qdisc(&mut self, kind: &str, present: &Present) -> Result<(), Error> {
        let Some(device) = present.found.route.device() else {
            self.left_out.push(format!("qdisc {kind}: the route has several next hops"));
            return Ok(());
        };
        let root = qdisc::root(device)?;
        if root.is_default {
            self.changes.push(Change::RootQdisc { device: device.to_owned(), after: kind.to_owned() });
        } else {
            self.left_out.push(format!(
                "qdisc {kind}: {device} has been given {}, which cannot be put back as it was; bbr keeps the time itself",
                root.kind
            ));
        }
        Ok(())
    }
}

/// The words of a route in an order that does not depend on who wrote it.
fn words(route: &str) -> Vec<&str> {
    let mut words: Vec<_> = route.split_whitespace().collect();
    words.sort_unstable();
    words
}

/// Whether a limit is as high as wanted.
pub fn is_enough(now: Option<&str>, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    now.and_then(number) >= number(wanted)
}

impl Change {
    /// Fails if it could not be made, as far as that is known without making it.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn check(&self) -> Result<(), kernel::Error> {
        match self {
            Self::Sysctl { key, .. } => sysctl::check_writable(key),
            Self::Route { .. } | Self::RootQdisc { .. } => Ok(()),
        }
    }

    /// Makes it; false if this kernel cannot, where that does no harm.
    ///
    /// # Errors
    /// If the process may not, or the kernel refuses.
    pub fn make(&self) -> Result<bool, kernel::Error> {
        match self {
            Self::Sysctl { key, after, .. } => sysctl::write(key, after).map(|()| true),
            Self::Route { ipv6, after, .. } => Route::parse(after, *ipv6).replace().map(|()| true),
            Self::RootQdisc { device, after } => qdisc::set_root(device, after),
        }
    }

    /// Puts back what was there before.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn undo(&self) -> Result<(), kernel::Error> {
        match self {
            Self::Sysctl { key, before, .. } => sysctl::write(key, before),
            Self::Route { ipv6, before: Some(before), .. } => Route::parse(before, *ipv6).replace(),
            Self::Route { ipv6, before: None, after } => {
                let route = Route::parse(after, *ipv6);
                match Route::exactly(route.destination(), *ipv6)? {
                    Some(present) => present.delete(),
                    None => Ok(()),
                }
            }
            Self::RootQdisc { device, .. } => {
                if qdisc::root(device)?.is_default {
                    return Ok(());
                }
                qdisc::reset_root(device)
            }
        }
    }

    /// What is there now, if that is neither what was before nor what this change made.
    pub fn touched_by_others(&self) -> Option<String> {
        let (now, known) = match self {
            Self::Sysctl { key, before, after } => (sysctl::read(key).ok(), vec![before, after]),
            Self::Route { ipv6, before, after } => {
                let destination = Route::parse(after, *ipv6).destination().to_owned();
                let now = Route::exactly(&destination, *ipv6).ok().flatten().map(|route| route.to_string());
                // The kernel has an order of its own.
                let is_known = |now: &String| before.iter().chain([after]).any(|known| words(known) == words(now));
                return now.filter(|now| !is_known(now));
            }
            Self::RootQdisc { device, after } => {
                let root = qdisc::root(device).ok().filter(|root| !root.is_default);
                (root.map(|root| root.kind), vec![after])
            }
        };
        now.filter(|now| !known.contains(&now))
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sysctl { key, before, after } => write!(f, "{key} = {after} (was {before})"),
            Self::Route { before: Some(before), after, .. } => write!(f, "route {after} (was {before})"),
            Self::Route { before: None, after, .. } => write!(f, "route {after} (new)"),
            Self::RootQdisc { device, after } => write!(f, "qdisc {after} on {device} (was the kernel's own)"),
        }
    }
}
