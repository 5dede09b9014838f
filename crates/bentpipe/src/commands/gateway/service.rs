//! The gateway as a service of systemd (sd_notify(3)): that it is ready, that it still works, that it stops. Without systemd,
//! nothing happens.

use gateway::Handle;
use sd_notify::NotifyState;

/// Reports that the gateway takes connections.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports that the gateway stops because it has been asked to.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports to systemd's watchdog (`WatchdogSec=`) as long as the gateway's loop answers. A loop that hangs is not reported, and
/// systemd starts the gateway again.
///
/// # Errors
/// If no thread can be started.
pub fn feed_watchdog(handle: Handle) -> std::io::Result<()> {
    let Some(within) = sd_notify::watchdog_enabled() else { return Ok(()) };
    let feed = move || {
        while handle.is_responding() {
            notify(&[NotifyState::Watchdog]);
            // Two reports fit into the time, as sd_watchdog_enabled(3) advises.
            std::thread::sleep(within / 2);
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(feed).map(drop)
}

fn notify(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd is not notified");
    }
}
