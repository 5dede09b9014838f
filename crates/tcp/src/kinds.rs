//! The variants that a configuration names: loss recoveries, congestion controls, and the agents of ns-2 that stand for some pairs of
//! them. What builds them is above: `recovery/registry.rs`, `control/registry.rs`, `ns2/agent.rs`.

/// A congestion control that can be chosen by name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ControlKind {
    /// Its name in scenarios and results.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    pub(crate) id: ControlId,
}

/// Segments that LEDBAT and LEDBAT++ begin with (2 to INIT_CWND in RFC 6817, section 2.4.2).
pub(crate) const LEDBAT_WINDOW: f64 = 2.0;

/// Tells congestion controls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlId {
    Reno,
    Vegas,
    Westwood,
    WestwoodPlus,
    Tibet,
    Hybla,
    Cubic,
    Bbr1,
    Bbr3,
    Dctcp,
    Prague,
    Ledbat,
    LedbatPlusPlus,
    CrossLayer,
    Assigned,
}

/// Additive increase, multiplicative decrease.
pub(crate) const RENO: ControlKind = ControlKind {
    name: "reno",
    about: "slow start, one segment more each round trip, half at a loss (RFC 5681)",
    id: ControlId::Reno,
};

/// The peer's window on a hop of SaTPEP.
pub(crate) const ASSIGNED: ControlKind = ControlKind {
    name: "assigned",
    about: "the advertised window is the window, a loss changes nothing (SaTPEP)",
    id: ControlId::Assigned,
};

/// Every congestion control, by name.
pub const CONTROLS: &[ControlKind] = &[
    RENO,
    ControlKind {
        name: "vegas",
        about: "keeps alpha to beta segments queued, judged by the round-trip time (Brakmo and Peterson 1995)",
        id: ControlId::Vegas,
    },
    ControlKind {
        name: "westwood",
        about: "Reno's growth; a loss sets ssthresh to bandwidth times smallest round-trip time (Mascolo et al. 2001)",
        id: ControlId::Westwood,
    },
    ControlKind {
        name: "westwood-plus",
        about: "Westwood with one bandwidth sample each round trip, as in Linux (Grieco and Mascolo 2004)",
        id: ControlId::WestwoodPlus,
    },
    ControlKind {
        name: "tibet",
        about: "Reno's growth; a loss sets ssthresh to the used bandwidth times smallest round-trip time (Capone et al. 2004)",
        id: ControlId::Tibet,
    },
    ControlKind {
        name: "hybla",
        about: "grows as fast as Reno would at 25 ms, whatever the round-trip time (Caini and Firrincieli 2004)",
        id: ControlId::Hybla,
    },
    ControlKind {
        name: "cubic",
        about: "a cubic function of the time since the last loss (RFC 9438; in Linux's profile with its constants and HyStart)",
        id: ControlId::Cubic,
    },
    ControlKind {
        name: "bbr1",
        about: "paces at the measured bandwidth, losses do not count (BBR version 1 as in Linux)",
        id: ControlId::Bbr1,
    },
    ControlKind {
        name: "bbr3",
        about: "paces at the measured bandwidth within bounds that losses lower (BBR version 3, draft-ietf-ccwg-bbr)",
        id: ControlId::Bbr3,
    },
    ControlKind {
        name: "dctcp",
        about: "lowers the window by the share of marked packets; needs ECN on the path (RFC 8257)",
        id: ControlId::Dctcp,
    },
    ControlKind {
        name: "prague",
        about: "DCTCP for the Internet: paced, independent of short round-trip times; needs L4S on the path (draft-briscoe-iccrg-prague-congestion-control)",
        id: ControlId::Prague,
    },
    ControlKind {
        name: "ledbat",
        about: "in the background: keeps at most 100 ms queued, and gives way to others (RFC 6817)",
        id: ControlId::Ledbat,
    },
    ControlKind {
        name: "ledbat-plus-plus",
        about: "LEDBAT with 60 ms, a gain by the path and slowdowns (draft-irtf-iccrg-ledbat-plus-plus)",
        id: ControlId::LedbatPlusPlus,
    },
    ControlKind {
        name: "cross-layer",
        about: "the share of the link's capacity in a round trip, as the layer below tells it (Kim et al.)",
        id: ControlId::CrossLayer,
    },
    ASSIGNED,
];

/// A loss recovery that can be chosen by name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecoveryKind {
    /// Its name in scenarios and results.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether it needs the SACK option.
    pub needs_sack: bool,
    /// Whether it needs transmissions in order of time.
    pub by_time: bool,
    pub(crate) id: RecoveryId,
}

/// Tells loss recoveries apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryId {
    Tahoe,
    Reno,
    NewReno,
    Sack,
    Rack,
    Nack,
}

/// Recovery without SACK.
pub(crate) const NEWRENO: RecoveryKind = RecoveryKind {
    name: "newreno",
    about: "fast recovery that lasts until all that was outstanding is acknowledged (RFC 6582)",
    needs_sack: false,
    by_time: false,
    id: RecoveryId::NewReno,
};

/// Recovery by counts of what SACK reports.
pub(crate) const SACK: RecoveryKind = RecoveryKind {
    name: "sack",
    about: "selective acknowledgements: holes below three reported ranges are lost (RFC 6675)",
    needs_sack: true,
    by_time: false,
    id: RecoveryId::Sack,
};

/// A segment is lost when one sent sufficiently later has arrived.
pub(crate) const RACK: RecoveryKind = RecoveryKind {
    name: "rack",
    about: "a segment is lost when one sent later has arrived; probes the tail (RFC 8985)",
    needs_sack: true,
    by_time: true,
    id: RecoveryId::Rack,
};

/// Recovery on a hop of SaTPEP.
pub(crate) const NACK: RecoveryKind = RecoveryKind {
    name: "nack",
    about: "negative acknowledgements name holes, one in each duplicate (SaTPEP)",
    needs_sack: false,
    by_time: false,
    id: RecoveryId::Nack,
};

/// Every loss recovery, by name.
pub const RECOVERIES: &[RecoveryKind] = &[
    RecoveryKind {
        name: "tahoe",
        about: "fast retransmit, then slow start from the loss (Jacobson 1988)",
        needs_sack: false,
        by_time: false,
        id: RecoveryId::Tahoe,
    },
    RecoveryKind {
        name: "reno",
        about: "fast retransmit and fast recovery, one loss at a time (RFC 2581)",
        needs_sack: false,
        by_time: false,
        id: RecoveryId::Reno,
    },
    NEWRENO,
    SACK,
    RACK,
    NACK,
];

/// A sender of ns-2 2.35.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ns2Agent {
    /// `Agent/TCP`.
    Tahoe,
    /// `Agent/TCP/Reno`.
    Reno,
    /// `Agent/TCP/Newreno`.
    NewReno,
    /// `Agent/TCP/Sack1`.
    Sack,
    /// `Agent/TCP/Vegas`.
    Vegas,
}

impl Ns2Agent {
    /// The agent that stands for a control and a recovery, if ns-2 has one.
    pub(crate) fn of(control: &ControlKind, recovery: &RecoveryKind) -> Option<Self> {
        match (control.id, recovery.id) {
            (ControlId::Vegas, _) => Some(Self::Vegas),
            (ControlId::Reno, RecoveryId::Tahoe) => Some(Self::Tahoe),
            (ControlId::Reno, RecoveryId::Reno) => Some(Self::Reno),
            (ControlId::Reno, RecoveryId::NewReno) => Some(Self::NewReno),
            (ControlId::Reno, RecoveryId::Sack) => Some(Self::Sack),
            _ => None,
        }
    }
}

impl ControlKind {
    /// Whether it answers to the share of marked bytes, for which the receiver must report each change.
    pub fn reads_share_of_marks(&self) -> bool {
        matches!(self.id, ControlId::Dctcp | ControlId::Prague)
    }

    /// Whether it counts on a receiver that counts marked packets (RFC 9768), and on queues for ECT(1).
    pub fn needs_l4s(&self) -> bool {
        self.id == ControlId::Prague
    }

    /// Segments that it begins with at most, whatever the configuration says; `None` if it begins as configured.
    pub fn own_initial_window(&self) -> Option<f64> {
        matches!(self.id, ControlId::Ledbat | ControlId::LedbatPlusPlus).then_some(LEDBAT_WINDOW)
    }

    /// Whether it begins in slow start.
    pub fn begins_in_slow_start(&self) -> bool {
        self.id != ControlId::Ledbat
    }

    /// Whether it draws nothing at random.
    pub(crate) fn is_deterministic(&self) -> bool {
        use ControlId::{Assigned, CrossLayer, Cubic, Dctcp, Hybla, Reno, Tibet, Vegas, Westwood, WestwoodPlus};
        matches!(
            self.id,
            Reno | Vegas | Westwood | WestwoodPlus | Tibet | Hybla | Cubic | Dctcp | CrossLayer | Assigned
        )
    }

    /// The control of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        CONTROLS.iter().find(|kind| kind.name == name)
    }
}

impl RecoveryKind {
    /// The recovery of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        RECOVERIES.iter().find(|kind| kind.name == name)
    }
}

impl std::fmt::Debug for ControlKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl std::fmt::Debug for RecoveryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
