//! How this host is set up now.

use crate::Error;
use crate::target::{Target, TargetRoute};
use kernel::sysctl;
use model::tuning::{Buffer, Control, Host, Place};
use std::collections::BTreeMap;

/// This host's settings, in the network namespace of the process.
#[derive(Debug, Clone)]
pub struct Present {
    /// What decides the course of a transfer.
    pub host: Host,
    /// The congestion control in use on the route, which may be one without a model.
    pub control: String,
    /// The route.
    pub found: TargetRoute,
    /// What the models do not know.
    pub remarks: Vec<String>,
    sysctls: BTreeMap<&'static str, String>,
}

/// What decides the course of a transfer.
const DECISIVE: [&str; 5] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_congestion_control",
];

impl Present {
    /// Reads the settings of the route to `target` and the sysctls.
    ///
    /// # Errors
    /// If there is no such route, or this kernel lacks a setting.
    pub fn read(target: Target) -> Result<Self, Error> {
        let found = target.route()?;
        let mut sysctls = BTreeMap::new();
        for key in DECISIVE {
            sysctls.insert(key, sysctl::read(key)?);
        }
        let of_route = |key: &str| found.route.metric(key);
        let control = of_route("congctl").unwrap_or_else(|| sysctls["net.ipv4.tcp_congestion_control"].clone());
        let mut remarks = Vec::new();
        let modelled = Control::by_name(&control).unwrap_or_else(|| {
            remarks.push(format!("there is no model of {control}: predicted as cubic"));
            Control::Cubic
        });
        let is_on = |key: &str| sysctls[key] != "0";
        let host = Host {
            initial_window: of_route("initcwnd").and_then(|value| value.parse().ok()).unwrap_or(10),
            initial_receive_window: of_route("initrwnd")
                .and_then(|value| value.parse().ok())
                .filter(|limit| *limit > 0),
            receive: buffer("net.ipv4.tcp_rmem", &sysctls)?,
            grows: is_on("net.ipv4.tcp_moderate_rcvbuf"),
            share: share(),
            send: buffer("net.ipv4.tcp_wmem", &sysctls)?,
            scales_windows: is_on("net.ipv4.tcp_window_scaling"),
            control: modelled,
        };
        Ok(Self { host, control, found, remarks, sysctls })
    }

    /// What is set at `place`; `None` if that is nothing, or this kernel has no such setting.
    pub fn value(&self, place: Place) -> Option<String> {
        match place {
            Place::Route("congctl") => Some(self.control.clone()),
            Place::Route("initcwnd") => Some(self.host.initial_window.to_string()),
            Place::Route(key) => self.found.route.metric(key),
            Place::Sysctl(key) | Place::HostSysctl(key) => {
                self.sysctls.get(key).cloned().or_else(|| sysctl::read(key).ok())
            }
            Place::RootQdisc => {
                let device = self.found.route.device()?;
                kernel::qdisc::root(device).ok().map(|root| root.common_kind().to_owned())
            }
        }
    }
}

fn buffer(key: &'static str, sysctls: &BTreeMap<&'static str, String>) -> Result<Buffer, Error> {
    let value = &sysctls[key];
    let sizes: Option<Vec<u64>> = value.split(' ').map(|size| size.parse().ok()).collect();
    match sizes.as_deref() {
        Some(&[least, start, most]) => Ok(Buffer::new(least, start, most)),
        _ => Err(Error::Unreadable { key, value: value.clone() }),
    }
}

/// The part of a receive buffer that is sure to be advertised. Kernels before 6.6 take it from a setting; later ones start
/// from a half and then measure.
fn share() -> f64 {
    let release = sysctl::read("kernel.osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(u32::MAX), numbers.next().unwrap_or(0));
    let scale = sysctl::read("net.ipv4.tcp_adv_win_scale").ok().and_then(|scale| scale.parse::<i32>().ok());
    match scale {
        Some(scale) if version < (6, 6) && scale > 0 => 1.0 - 0.5_f64.powi(scale),
        Some(scale) if version < (6, 6) => 0.5_f64.powi(-scale),
        _ => Host::LINUX.share,
    }
}
