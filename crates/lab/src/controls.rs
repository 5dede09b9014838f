//! The kernel's congestion control for each of the simulator's: its own, or one that is loaded into it.

use crate::Error;
use crate::transfer::has_congestion_control;
use congestion::{Control, LinkEntry, LoadedControl};
use std::sync::atomic::{AtomicU32, Ordering};
use tcp::{Capacity, Config};

/// Those of a scenario. What was loaded for it is in the kernel as long as this exists.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    loaded: Vec<Loaded>,
}

/// Loaded under a name of its own, so that nobody else has it.
#[derive(Debug)]
struct Loaded {
    twin: &'static str,
    capacity: Option<Capacity>,
    held: LoadedControl,
}

/// Controls that this process has loaded so far.
static LOADED: AtomicU32 = AtomicU32::new(0);

impl Controls {
    /// The name that the control of `config` has in the kernel, into which it is loaded if it is missing there.
    ///
    /// # Errors
    /// [`Error::Missing`] if the kernel neither has it nor takes it from this process.
    pub(crate) fn name(&mut self, config: &Config) -> Result<String, Error> {
        let twin = config.control.name;
        if let Some(name) = own(twin)
            && has_congestion_control(name).map_err(|error| {
                Error::Failed(format!("cannot query the kernel for the congestion control {name}: {error}"))
            })?
        {
            return Ok(name.to_owned());
        }
        // Only the cross-layer control learns the capacity.
        let capacity = config.capacity.filter(|_| twin == "cross-layer");
        if let Some(loaded) = self.loaded.iter().find(|loaded| loaded.twin == twin && loaded.capacity == capacity) {
            return Ok(loaded.held.name().to_owned());
        }
        let absent = format!("the kernel of this machine has no congestion control {twin}");
        let control = Control::by_twin(twin).ok_or_else(|| Error::Missing(absent.clone()))?;
        let name = format!("bp{}_{}", std::process::id(), LOADED.fetch_add(1, Ordering::Relaxed));
        let held = LoadedControl::load_as(control, &name)
            .map_err(|error| Error::from(error).preceded_by(format!("{absent}, and it cannot be loaded")))?;
        if let Some(links) = held.links() {
            let capacity = capacity
                .ok_or_else(|| Error::Input("the cross-layer window needs the link's `capacity`".to_owned()))?;
            let entry = LinkEntry {
                capacity: capacity.allocation.rate,
                header_share: config.tuning.header_share,
                connections: Some(capacity.allocation.connections),
                target_queue: capacity.target_queue,
                expiry: None,
            };
            links.set(0, entry)?;
        }
        self.loaded.push(Loaded { twin, capacity, held });
        Ok(name)
    }
}

/// The kernel's own name of a control.
fn own(twin: &'static str) -> Option<&'static str> {
    match twin {
        // The kernel's BBR is version 1.
        "bbr1" => Some("bbr"),
        "bbr3" => None,
        "westwood-plus" => Some("westwood"),
        // What the kernel calls so is Westwood+.
        "westwood" => None,
        name => Some(name),
    }
}
