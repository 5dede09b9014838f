//! One change of a host, and its way back.

use crate::{Error, Present, RecordedRoute};
use kernel::interfaces::Interfaces;
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
    /// A route.
    Route {
        /// The route before the change; null if there was none to this destination.
        before: Option<RecordedRoute>,
        /// The route after the change.
        after: RecordedRoute,
    },
    /// A root queue discipline in place of the kernel's own.
    RootQdisc {
        /// The interface.
        device: String,
        /// Its number, which stays when it is renamed; `None` in records of earlier versions.
        index: Option<u32>,
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
    /// If this host lacks a setting, or router advertisements renew the route.
    pub fn new(settings: &[Setting], present: &Present, host_wide: bool) -> Result<Self, Error> {
        let mut plan = Self::default();
        let mut route = present.found.route.clone();
        for setting in settings {
            let now = present.value(setting.place);
            if now.as_ref() == Some(&setting.value) {
                continue;
            }
            match setting.place {
                Place::Route(key) => route = route.with_metric(key, Some(&setting.value))?,
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
            let before = present.found.exists.then(|| RecordedRoute(present.found.route.clone()));
            if let Some(RecordedRoute(advertised)) = &before
                && advertised.is_advertised()?
            {
                return Err(Error::Advertised(advertised.to_string()));
            }
            // First, since it needs the right to change the network and nothing else.
            plan.changes.insert(0, Change::Route { before, after: RecordedRoute(route) });
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
        if root.kind == qdisc::MULTI_QUEUE && root.is_default {
            self.left_out.push(format!(
                "qdisc {kind}: {device} has a queue discipline for each queue of the hardware ({}), which one {kind} would join behind \
                 one lock: `sysctl -w net.core.default_qdisc={kind}`, then `tc qdisc replace dev {device} root mq`, make them {kind}; bbr \
                 keeps the time itself",
                root.kind
            ));
        } else if root.is_default {
            let interface = Interfaces::new()?.get(device).map_err(asking(device))?;
            let index = interface.map(|interface| interface.index);
            self.changes.push(Change::RootQdisc { device: device.to_owned(), index, after: kind.to_owned() });
        } else {
            self.left_out.push(format!(
                "qdisc {kind}: {device} has been given {}, which cannot be put back as it was; bbr keeps the time itself",
                root.kind
            ));
        }
        Ok(())
    }
}

/// For `map_err`: the kernel has not answered about the interface `device`.
fn asking(device: &str) -> impl FnOnce(std::io::Error) -> kernel::Error {
    let doing = format!("asking for the interface {device}");
    move |source| kernel::Error::Failed { doing, source }
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
            Self::Route { after, .. } => after.0.replace().map(|()| true),
            Self::RootQdisc { device, after, .. } => qdisc::set_root(device, after),
        }
    }

    /// What is there again once it is undone.
    pub fn restored(&self) -> String {
        match self {
            Self::Sysctl { key, before, after } => format!("{key} is {before} again (was {after})"),
            Self::Route { before: Some(before), after } => format!("the route is {before} again (was {after})"),
            Self::Route { before: None, after } => format!("the route is gone again (was {after})"),
            Self::RootQdisc { device, index, after } => {
                // After an undo of an interface that has ended since, its old name is all there is.
                let now = present_name(device, *index).ok().flatten();
                let device = now.as_ref().unwrap_or(device);
                format!("the qdisc of {device} is the kernel's own again (was {after})")
            }
        }
    }

    /// Puts back what was there before, unless others have changed it since: then only what is still of this change is taken
    /// away. With `force`, puts it back whatever others did.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn undo(&self, force: bool) -> Result<Outcome, kernel::Error> {
        match self {
            Self::Sysctl { key, before, after } => {
                let now = sysctl::read(key)?;
                if now != *after && now != *before && !force {
                    return Ok(Outcome::Left(format!("it is {now} now")));
                }
                sysctl::write(key, before).map(|()| Outcome::Undone)
            }
            Self::Route { before, after } => undo_route(before.as_ref().map(|before| &before.0), &after.0, force),
            Self::RootQdisc { device, index, after } => undo_qdisc((device, *index), after, force),
        }
    }
}

/// What became of a change that was to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as before the change.
    Undone,
    /// Others have changed it since, as the text says: what they made stays, without the settings of this change.
    Left(String),
}

fn undo_route(before: Option<&Route>, after: &Route, force: bool) -> Result<Outcome, kernel::Error> {
    // A route ends with its interface, and nothing is left of the change.
    if !after.has_interfaces()? {
        return Ok(Outcome::Undone);
    }
    let now = after.in_its_place()?;
    if now.as_ref() == before {
        return Ok(Outcome::Undone);
    }
    if force || now.as_ref() == Some(after) {
        match (before, now) {
            (Some(before), _) => before.replace()?,
            (None, Some(now)) => now.delete()?,
            (None, None) => {}
        }
        return Ok(Outcome::Undone);
    }
    let Some(now) = now else {
        return Ok(Outcome::Left("it has been deleted".to_owned()));
    };
    let theirs = without_ours(&now, before, after)?;
    if theirs != now {
        theirs.replace()?;
    }
    Ok(Outcome::Left(format!("it is {theirs} now")))
}

/// The route `now` with the settings that led from `before` to `after` as before, where they still are as after.
fn without_ours(now: &Route, before: Option<&Route>, after: &Route) -> Result<Route, kernel::Error> {
    let mut route = now.clone();
    for name in after.metric_names() {
        let ours = after.metric(name);
        let theirs = before.and_then(|before| before.metric(name));
        if ours != theirs && now.metric(name) == ours {
            route = route.with_metric(name, theirs.as_deref())?;
        }
    }
    Ok(route)
}

fn undo_qdisc((device, index): (&str, Option<u32>), ours: &str, force: bool) -> Result<Outcome, kernel::Error> {
    // With its interface it has ended.
    let Some(now) = present_name(device, index)? else { return Ok(Outcome::Undone) };
    let root = qdisc::root(&now)?;
    if root.is_default {
        return Ok(Outcome::Undone);
    }
    if root.kind != ours && !force {
        let renamed = if now == device { String::new() } else { format!(", and {device} is called {now}") };
        return Ok(Outcome::Left(format!("it is {} now{renamed}", root.kind)));
    }
    qdisc::reset_root(&now).map(|()| Outcome::Undone)
}

/// What the interface is called now that was called `device` and has the number `index`, if that is recorded; `None` if it has ended.
fn present_name(device: &str, index: Option<u32>) -> Result<Option<String>, kernel::Error> {
    let mut interfaces = Interfaces::new()?;
    let now = match index {
        Some(index) => interfaces.name(index),
        None => interfaces.get(device).map(|interface| interface.map(|interface| interface.name)),
    };
    now.map_err(asking(device))
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sysctl { key, before, after } => write!(f, "{key} = {after} (was {before})"),
            Self::Route { before: Some(before), after, .. } => write!(f, "route {after} (was {before})"),
            Self::Route { before: None, after, .. } => write!(f, "route {after} (new)"),
            Self::RootQdisc { device, after, .. } => write!(f, "qdisc {after} on {device} (was the kernel's own)"),
        }
    }
}
