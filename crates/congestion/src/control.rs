//! The controls that there are.

/// The longest name under which the kernel takes a control, without the byte that ends it (`TCP_CA_NAME_MAX`).
pub(crate) const LONGEST_NAME: usize = 15;

/// A congestion control that can be loaded.
#[derive(Debug)]
pub struct Control {
    /// Its name for `TCP_CONGESTION`.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// The simulator's name of the same.
    pub twin: &'static str,
    /// The compiled programs.
    #[cfg_attr(not(feature = "ebpf"), expect(dead_code, reason = "nothing loads them"))]
    pub(crate) object: &'static [u8],
}

macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!("../bpf/objects/", $name, ".bpf.o"))
    };
}

/// All of them.
pub const CONTROLS: &[Control] = &[
    Control {
        name: "bp_cross",
        about: "the window from the allocated link capacity (Kim et al.)",
        twin: "cross-layer",
        object: object!("cross"),
    },
    Control {
        name: "bp_hybla",
        about: "grows as fast as Reno would at 25 ms, whatever the round-trip time (Caini and Firrincieli 2004)",
        twin: "hybla",
        object: object!("hybla"),
    },
    Control {
        name: "bp_westwood",
        about: "Westwood+: a loss leaves the window that the measured bandwidth fills (Grieco and Mascolo 2004)",
        twin: "westwood-plus",
        object: object!("westwood"),
    },
    Control {
        name: "bp_vegas",
        about: "keeps 2 to 4 segments queued, judged by the round-trip time (Brakmo and Peterson 1995)",
        twin: "vegas",
        object: object!("vegas"),
    },
    Control {
        name: "bp_tibet",
        about: "a loss leaves the window that the bandwidth in use fills (Capone et al. 2004)",
        twin: "tibet",
        object: object!("tibet"),
    },
];

impl Control {
    /// The control of this name.
    pub fn by_name(name: &str) -> Option<&'static Control> {
        CONTROLS.iter().find(|control| control.name == name)
    }

    /// The control that does what the simulator's control `twin` does.
    pub fn by_twin(twin: &str) -> Option<&'static Control> {
        CONTROLS.iter().find(|control| control.twin == twin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_and_are_found() {
        for control in CONTROLS {
            assert!(control.name.len() <= 15, "{}", control.name);
            assert!(Control::by_name(control.name).is_some_and(|found| found.twin == control.twin));
            assert!(Control::by_twin(control.twin).is_some_and(|found| found.name == control.name));
        }
        assert!(Control::by_name("reno").is_none());
    }
}
