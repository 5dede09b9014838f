//! From the name of a loss recovery to what implements it.

use super::{Recovery, nack, newreno, rack, reno, sack, tahoe};
use crate::config::Config;
use crate::kinds::{RecoveryId, RecoveryKind};

impl RecoveryKind {
    /// Makes one for a new connection.
    pub fn build(&self, config: &Config) -> Box<dyn Recovery> {
        match self.id {
            RecoveryId::Tahoe => Box::new(tahoe::Tahoe::new()),
            RecoveryId::Reno => Box::new(reno::Reno::new()),
            RecoveryId::NewReno => Box::new(newreno::NewReno::new()),
            RecoveryId::Sack => Box::new(sack::Sack::new(config)),
            RecoveryId::Rack => Box::new(rack::Rack::new(config)),
            RecoveryId::Nack => Box::new(nack::Nack::new(config)),
        }
    }
}
