//! Surveys: what the path to a peer carries, on request.

use super::output::seal;
use super::overhead::ip_overhead;
use super::{Endpoint, Transmit};
use crate::event::{PeerId, PeerState};
use crate::payload::Payload;
use crate::survey::{Survey, SurveyReport};
use crate::wire::packet::{DATA_HEADER, TAG};
use peering::dscp::Dscp;
use units::{Instant, Rate};

impl<P: Payload> Endpoint<P> {
    /// Begins to find out what the path to `peer`, which is thought to be `rate`, carries; one peer at a time. What it sends
    /// takes from what connections may send. `false` if the peer is not up, or another survey is in progress.
    ///
    /// [`survey_cost`](crate::survey_cost) says what it sends at most; [`survey_report`](Self::survey_report) shows when it is
    /// over and what was found.
    pub fn survey(&mut self, now: Instant, peer: PeerId, rate: Rate) -> bool {
        if self.peer_state(peer) != PeerState::Up || self.surveyed.is_some() {
            return false;
        }
        let Some(best) = self.best(peer) else { return false };
        let Some(session) = self.peers[best.index()].session.as_mut() else { return false };
        session.feedback.survey = Some(Box::new(Survey::new(now, rate)));
        self.surveyed = Some(best);
        true
    }

    /// What the latest survey of the path to `peer` has found; `None` if there was none in the session.
    pub fn survey_report(&self, peer: PeerId) -> Option<SurveyReport> {
        self.best_session(peer)?.feedback.survey.as_ref().map(|survey| survey.report())
    }

    /// When the survey in progress will have something to do.
    pub(super) fn survey_timeout(&self) -> Option<Instant> {
        let peer = self.peers.get(self.surveyed?.index())?;
        // Without a key it waits for the next handshake.
        peer.session.as_ref().filter(|_| peer.can_seal())?.feedback.survey.as_ref()?.next_timeout()
    }

    /// The survey's next datagrams, of one size.
    pub(super) fn transmit_survey(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let id = self.surveyed?;
        let position = self.capacity.position(now);
        let peer = &mut self.peers[id.index()];
        let session = peer.session.as_mut().filter(|session| session.feedback.survey.is_some());
        let (Some(to), Some(session)) = (peer.address, session) else {
            self.surveyed = None;
            return None;
        };
        let (rtt, ip_size) = (session.rtt(), session.mtu());
        let survey = session.feedback.survey.as_mut()?;
        let count = survey.poll(now, rtt);
        if survey.report().is_done {
            self.surveyed = None;
        }
        let from = peer.called;
        let segment_size = usize::from(ip_size) - ip_overhead(&to);
        let mut transmit = Transmit { to, from, size: 0, segment_size, dscp: Dscp::default() };
        for datagram in buffer.chunks_exact_mut(segment_size).take(count) {
            let peer = &mut self.peers[id.index()];
            if !peer.can_seal() {
                break;
            }
            let session = peer.session.as_mut()?;
            let filled = session.fill_sample(now, position, &mut datagram[DATA_HEADER..segment_size - TAG], ip_size);
            seal(peer, &mut self.sealer, filled, datagram);
            let _ = self.sent(now, Some(id), Transmit { size: segment_size, ..transmit });
            transmit.size += segment_size;
        }
        (transmit.size > 0).then_some(transmit)
    }
}
