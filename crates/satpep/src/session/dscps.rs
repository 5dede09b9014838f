//! How packets are marked: with the DSCP of the stream data in them, and their acknowledgements with that of the data that they are about.

use peering::dscp::Dscp;

/// The DSCPs in use.
#[derive(Debug, Default)]
pub(super) struct Dscps {
    /// Whether any stream has another than the default.
    in_use: bool,
    /// That of the latest data sent.
    sent: Dscp,
    /// The most urgent of data that arrived since the last acknowledgement.
    received: Option<Dscp>,
}

impl Dscps {
    /// A stream is of this DSCP from now on.
    pub(super) fn on_stream(&mut self, dscp: Dscp) {
        self.in_use |= dscp != Dscp::default();
    }

    pub(super) fn in_use(&self) -> bool {
        self.in_use
    }

    /// That of the latest data sent, which repair symbols have too.
    pub(super) fn sent(&self) -> Dscp {
        self.sent
    }

    /// Data of this DSCP was sent.
    pub(super) fn on_sent(&mut self, dscp: Dscp) {
        self.sent = dscp;
    }

    /// Data of this DSCP arrived.
    pub(super) fn on_received(&mut self, dscp: Dscp) {
        self.received = Some(self.received.map_or(dscp, |before| before.more_urgent(dscp)));
    }

    /// Takes that of an acknowledgement which is sent now; none if it is about no data.
    pub(super) fn take_for_ack(&mut self) -> Option<Dscp> {
        self.received.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_has_the_most_urgent_dscp_of_what_it_is_about() {
        let dscp = |name: &str| name.parse::<Dscp>().expect("a code point");
        let mut dscps = Dscps::default();
        assert_eq!(dscps.take_for_ack(), None);
        for name in ["default", "ef", "af11"] {
            dscps.on_received(dscp(name));
        }
        assert_eq!((dscps.take_for_ack(), dscps.take_for_ack()), (Some(dscp("ef")), None));
    }

    #[test]
    fn the_default_alone_is_no_use_of_dscps() {
        let mut dscps = Dscps::default();
        dscps.on_stream(Dscp::default());
        assert!(!dscps.in_use());
        dscps.on_stream("ef".parse().expect("a code point"));
        assert!(dscps.in_use());
    }
}
