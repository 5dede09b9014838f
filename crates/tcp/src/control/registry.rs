//! From the name of a congestion control to what implements it.

use super::slow_start::Exit;
use super::westwood_plus;
use super::{
    Control, assigned, bbr1, bbr3, careful_resume, cross_layer, cubic, dctcp, hybla, ledbat, prague, reno, tibet,
    vegas, westwood,
};
use crate::config::{Config, SlowStartExit};
use crate::kinds::{ControlId, ControlKind};

impl ControlKind {
    /// Makes one for a new connection.
    pub fn build(&self, config: &Config) -> Box<dyn Control> {
        match self.id {
            ControlId::Reno => Box::new(reno::Reno::new(config)),
            ControlId::Vegas => Box::new(vegas::Vegas::new(config)),
            ControlId::Westwood => Box::new(westwood::Westwood::new(config)),
            ControlId::WestwoodPlus => Box::new(westwood_plus::WestwoodPlus::new(config)),
            ControlId::Tibet => Box::new(tibet::Tibet::new(config)),
            ControlId::Hybla => Box::new(hybla::Hybla::new(config)),
            ControlId::Cubic => Box::new(cubic::Cubic::new(config)),
            ControlId::Bbr1 => Box::new(bbr1::Bbr1::new(config)),
            ControlId::Bbr3 => Box::new(bbr3::Bbr3::new(config)),
            ControlId::Prague => Box::new(prague::Prague::new(config)),
            ControlId::Ledbat => Box::new(ledbat::Ledbat::new(config)),
            ControlId::LedbatPlusPlus => Box::new(ledbat::LedbatPlusPlus::new(config)),
            ControlId::Dctcp => Box::new(dctcp::Dctcp::new(config)),
            ControlId::CrossLayer => Box::new(cross_layer::CrossLayer::new(config)),
            ControlId::Assigned => Box::new(assigned::Assigned),
        }
    }
}

/// The control of a new connection: the configured one, under Careful Resume where an earlier connection is remembered.
pub(crate) fn start(config: &Config) -> Box<dyn Control> {
    under_resume(config.control.build(config), config)
}

/// `control`, under Careful Resume where an earlier connection is remembered.
pub(crate) fn under_resume(control: Box<dyn Control>, config: &Config) -> Box<dyn Control> {
    match config.resume {
        Some(saved) => Box::new(careful_resume::CarefulResume::new(control, saved, config)),
        None => control,
    }
}

/// Segments by which one acknowledgement may open the window in slow start, by what ends the slow start of the control.
pub(crate) fn slow_start_limit(config: &Config) -> f64 {
    let exit = match config.control.id {
        ControlId::Cubic => cubic::slow_start_exit(config),
        _ => SlowStartExit::None,
    };
    Exit::new(config.tuning.slow_start_exit.unwrap_or(exit), config).slow_start_limit(config)
}
