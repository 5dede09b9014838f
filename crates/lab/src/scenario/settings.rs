//! Settings of TCP that the kernel is not given: a scenario that changes one has no counterpart for real.

use tcp::{Config, MinRto, Profile, SlowStartExit};
use units::{Duration, Ecn};

/// Refuses an endpoint with a setting that would not be applied and is not the default of its profile and control.
///
/// # Errors
/// Names the key and its value.
pub(super) fn refuse_unapplied(config: &Config) -> Result<(), String> {
    if config.profile == Profile::Ns2 {
        return Err(problem("profile", "ns2"));
    }
    let is_changed = |(ours, default): &((_, String), (_, String))| ours.1 != default.1;
    let defaults = unapplied(&defaults(config));
    match unapplied(config).into_iter().zip(defaults).find(is_changed) {
        Some(((key, value), _)) => Err(problem(key, &value)),
        None => Ok(()),
    }
}

/// Refuses a pair of gateways with a setting that real gateways are not given: of TCP between them, all but the control; of TCP towards
/// hosts, all. `untouched` is TCP towards hosts by default, whose buffers are the kernel's, and which TCP between them may have, too.
///
/// # Errors
/// Names the key and its value.
pub(super) fn refuse_unapplied_of_gateways(hosts: &Config, between: &Config, untouched: &Config) -> Result<(), String> {
    let hosts_have = |config: &Config| {
        let chosen = vec![("recovery", config.recovery.name.to_owned()), ("control", config.control.name.to_owned())];
        [chosen, sizes(config), unapplied(config)].concat()
    };
    let mut changed = hosts_have(hosts).into_iter().zip(hosts_have(untouched));
    if let Some(((key, value), _)) = changed.find(|(ours, default)| ours.1 != default.1) {
        return Err(problem(&format!("hosts_tcp: {key}"), &value));
    }
    refuse_unapplied(between)?;
    let kernels = sizes(&defaults(between)).into_iter().zip(sizes(untouched));
    let mut changed = sizes(between).into_iter().zip(kernels);
    match changed.find(|(ours, (plain, gateways))| ours.1 != plain.1 && ours.1 != gateways.1) {
        Some(((key, value), _)) => Err(problem(key, &value)),
        None => Ok(()),
    }
}

/// Keys that flows give to the kernel, and gateways do not, with their values.
fn sizes(config: &Config) -> Vec<(&'static str, String)> {
    vec![
        ("initial_window", format!("{}segments", config.initial_window)),
        ("mss", format!("{}B", config.mss)),
        ("send_buffer", config.send_buffer.to_string()),
        ("receive_buffer", config.receive_buffer.size.to_string()),
        ("receive_buffer_max", config.receive_buffer.most.to_string()),
        ("timestamps", config.options.timestamps.to_string()),
    ]
}

/// What is wrong with a key that would have no effect.
pub(super) fn problem(key: &str, value: &str) -> String {
    format!(
        "{key} = {value}: the kernel is not given this: leave the key out, or run the scenario by `bentpipe simulate`"
    )
}

/// The endpoint of the same profile and control with nothing else set.
fn defaults(config: &Config) -> Config {
    let defaults = Config { control: config.control, ..Config::new(config.profile) };
    // Prague comes with its ECN (presets of scenarios).
    if config.control.needs_l4s() { Config { ecn: Ecn::Ect1, accurate_ecn: true, ..defaults } } else { defaults }
}

/// Keys that have no effect on the kernel, with their values.
fn unapplied(config: &Config) -> Vec<(&'static str, String)> {
    [options(config), window(config), timers(config), tuning(config)].concat()
}

fn options(config: &Config) -> Vec<(&'static str, String)> {
    let ecn = match config.ecn {
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        _ => "off",
    };
    vec![
        ("window_scaling", config.options.window_scaling.to_string()),
        ("sack", config.options.sack.to_string()),
        ("dsack", config.options.dsack.to_string()),
        ("ecn", ecn.to_owned()),
        ("accurate_ecn", config.accurate_ecn.to_string()),
        ("accurate_ecn_option", config.accurate_ecn_option.to_string()),
        ("bare", config.bare.to_string()),
    ]
}

fn window(config: &Config) -> Vec<(&'static str, String)> {
    let segments = |count: f64| if count.is_finite() { format!("{count}segments") } else { "unlimited".to_owned() };
    let path = |path: tcp::SavedPath| format!("{{ window = {}, rtt = {} }}", path.cwnd, path.rtt);
    vec![
        ("initial_ssthresh", segments(config.initial_ssthresh)),
        ("max_window", segments(config.max_window)),
        ("slow_start_limit", segments(config.slow_start_limit_in_force())),
        ("pacing", config.pacing.to_string()),
        ("limited_transmit", config.limited_transmit.to_string()),
        ("proportional_rate_reduction", config.proportional_rate_reduction.to_string()),
        ("restart_after_idle", config.restart_after_idle.to_string()),
        ("growth_counts_acks", config.growth_counts_acks.to_string()),
        ("grow_when_not_limited", config.grow_when_not_limited.to_string()),
        ("resume", config.resume.map(path).unwrap_or_default()),
    ]
}

fn timers(config: &Config) -> Vec<(&'static str, String)> {
    let (MinRto::Total(least) | MinRto::VarianceTerm(least)) = config.rtt.min_rto;
    vec![
        ("delayed_ack.every", config.acks.every.to_string()),
        ("delayed_ack.delay", config.acks.delay.to_string()),
        ("delayed_ack.quick", config.acks.quick.to_string()),
        ("initial_rto", config.rtt.initial_rto.to_string()),
        ("min_rto", least.to_string()),
        ("max_rto", config.rtt.max_rto.to_string()),
        ("max_expiries", config.max_expiries.to_string()),
    ]
}

/// Those of controls that have any in the kernel; `header_share` is given to the cross-layer window.
fn tuning(config: &Config) -> Vec<(&'static str, String)> {
    let tuning = &config.tuning;
    let given = |time: Option<Duration>| time.map(|time| time.to_string()).unwrap_or_default();
    let exit = tuning.slow_start_exit.map_or("", |exit| match exit {
        SlowStartExit::None => "none",
        SlowStartExit::LinuxHyStart => "hystart",
        SlowStartExit::HyStartPlusPlus => "hystart++",
    });
    vec![
        ("tuning.vegas", format!("{:?}", tuning.vegas)),
        ("tuning.vegas_base_window", given(tuning.vegas_base_window)),
        ("tuning.slow_start_exit", exit.to_owned()),
        ("tuning.westwood_tau", tuning.westwood_tau.to_string()),
        ("tuning.tibet_pole", tuning.tibet.0.to_string()),
        ("tuning.tibet_time", tuning.tibet.1.to_string()),
        ("tuning.hybla_rtt0", tuning.hybla_rtt0.to_string()),
        ("tuning.clock_phase", given(tuning.clock_phase)),
    ]
}
