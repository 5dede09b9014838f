//! What happens next to one relayed connection: a TCP connection at this gateway, a stream of the satellite transport
//! towards the other gateway, and the two directions between them, which end independently of one another.
//!
//! The machine never turns an unclean end into a clean one: a reset on one side becomes a reset on the other, and TCP is
//! closed in order only after the FIN of both directions has been passed on behind the last byte. Once the server has accepted, a
//! host's reset overtakes nothing that the host sent before it, as end to end: a server that answers, and closes with part of the
//! request unread, sends its answer and a reset (RFC 9293, section 3.6.1).
//!
//! ```text
//! near, immediate:  Requested --------Answered-----------------------> Established
//!                       `--TcpFin--> RequestedEnded --Answered--> TcpEnded
//! near, confirmed:  Confirming --Answered--> Released --Accepted--> Established
//! far:              Opening --RequestValid--> Connecting --TcpConnected--> Established
//! both:             Established --TcpFin--> TcpEnded --StreamFin--> Closed
//!                       `-------StreamFin--> StreamEnded --TcpFin--> Closed
//! both:             Established, TcpEnded, StreamEnded --StreamResetUnacked--> Resetting --HostHasAll--> Closed
//! any:              --reset, failure, timeout, shutdown--> Closed
//! ```

use peering::ResetReason;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Near gateway, `confirmed`: the stream is open, the client's SYN is held, the server has not answered.
    Confirming,
    /// Near gateway, `confirmed`: the server has answered and the SYN has been let go; TCP has not been accepted yet.
    Released,
    /// Near gateway: TCP is accepted and its data flow to the far gateway, which has not answered yet.
    Requested,
    /// As [`State::Requested`], and the client's FIN has been passed on.
    RequestedEnded,
    /// Far gateway: the connect request has not arrived in full.
    Opening,
    /// Far gateway: connecting to the server.
    Connecting,
    /// Both directions flow.
    Established,
    /// TCP's FIN has been passed to the stream; the stream still flows to TCP.
    TcpEnded,
    /// The stream's FIN has been passed to TCP; TCP still flows to the stream.
    StreamEnded,
    /// The stream is gone. TCP is reset as soon as its host has acknowledged what the stream brought before.
    Resetting,
    /// Over: nothing is left of the TCP socket or the stream.
    Closed,
}

/// What has happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The far gateway says that the server has accepted.
    Answered,
    /// TCP has been accepted after its SYN was released.
    Accepted,
    /// The connect request is complete and the policy allows the connection.
    RequestValid,
    /// The connect request is malformed or names what the peer may not use.
    RequestDenied(ResetReason),
    /// The server has accepted.
    TcpConnected,
    /// The server cannot be reached, or refuses.
    TcpFailed(ResetReason),
    /// TCP has ended in order, and every byte before its FIN is in the stream.
    TcpFin,
    /// TCP was reset or has failed.
    TcpReset,
    /// The stream has ended in order, and every byte before its FIN has been written to TCP.
    StreamFin,
    /// The stream was reset, by the other gateway or by the transport.
    StreamReset,
    /// As [`Event::StreamReset`], while TCP's host has not acknowledged all that the stream brought.
    StreamResetUnacked,
    /// TCP's host has acknowledged all that the stream brought, or has had its time for that.
    HostHasAll,
    /// The other gateway breaks the protocol.
    ProtocolError,
    /// The state has lasted too long.
    Timeout,
    /// This gateway stops.
    Shutdown,
}

/// What the daemon must do; in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Let the held SYN go on to the listener.
    ReleaseSyn,
    /// Answer the held SYN with a reset.
    RefuseSyn,
    /// Connect to the server.
    Connect,
    /// Write [`crate::connect::CONNECTED`] as the stream's first byte.
    Reply,
    /// Send FIN on the stream, behind everything written.
    FinishStream,
    /// Abort the stream in both directions.
    ResetStream(ResetReason),
    /// Abort the stream in both directions once everything written has arrived.
    ResetStreamBehindData,
    /// Send FIN on TCP, behind everything written, and go on reading.
    ShutdownTcp,
    /// Close TCP so that its peer sees a reset.
    ResetTcp,
    /// Close TCP in order: both FINs have been passed on.
    CloseTcp,
}

/// The next state and up to two actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Where the connection stands now.
    pub next: State,
    /// What to do, in this order.
    pub actions: [Option<Action>; 2],
}

/// An event that cannot happen in a state: a defect of the driver, to be logged and answered by resetting both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen in {state:?}")]
pub struct Unexpected {
    /// The state.
    pub state: State,
    /// The event.
    pub event: Event,
}

impl State {
    /// The transition for `event`.
    ///
    /// # Errors
    /// If `event` cannot happen in this state.
    pub fn on(self, event: Event) -> Result<Step, Unexpected> {
        use State::*;
        let step = match (self, event) {
            // Late events of a connection that is over change nothing.
            (Closed, _) => step(Closed, None, None),

            (Confirming, Event::Answered) => step(Released, Some(Action::ReleaseSyn), None),
            (Released, Event::Accepted) => step(Established, None, None),
            (Requested, Event::Answered) => step(Established, None, None),
            (Requested, Event::TcpFin) => step(RequestedEnded, Some(Action::FinishStream), None),
            (RequestedEnded, Event::Answered) => step(TcpEnded, None, None),
            // An end without an answer: the far gateway may finish only what it has connected.
            (Confirming | Requested | RequestedEnded | Opening, Event::StreamFin) => {
                self.abort(Some(ResetReason::Protocol))
            }

            (Opening, Event::RequestValid) => step(Connecting, Some(Action::Connect), None),
            (Opening, Event::RequestDenied(reason)) => self.abort(Some(reason)),
            (Connecting, Event::TcpConnected) => step(Established, Some(Action::Reply), None),
            (Connecting, Event::TcpFailed(reason)) => self.abort(Some(reason)),

            (Established, Event::TcpFin) => step(TcpEnded, Some(Action::FinishStream), None),
            (Established, Event::StreamFin) => step(StreamEnded, Some(Action::ShutdownTcp), None),
            (StreamEnded, Event::TcpFin) => step(Closed, Some(Action::FinishStream), Some(Action::CloseTcp)),
            (TcpEnded, Event::StreamFin) => step(Closed, Some(Action::CloseTcp), None),

            (Requested | RequestedEnded, Event::TcpReset) => self.abort(Some(ResetReason::Aborted)),
            (Established | TcpEnded | StreamEnded, Event::TcpReset) => {
                step(Closed, Some(Action::ResetTcp), Some(Action::ResetStreamBehindData))
            }
            (Established | TcpEnded | StreamEnded, Event::StreamResetUnacked) => step(Resetting, None, None),
            (Resetting, Event::StreamReset | Event::StreamResetUnacked | Event::StreamFin) => {
                step(Resetting, None, None)
            }
            (Resetting, Event::TcpReset | Event::HostHasAll) => self.abort(None),
            (_, Event::StreamReset) => self.abort(None),
            (_, Event::ProtocolError) => self.abort(Some(ResetReason::Protocol)),
            (_, Event::Timeout) => self.abort(Some(ResetReason::TimedOut)),
            (_, Event::Shutdown) => self.abort(Some(ResetReason::Shutdown)),

            (state, event) => return Err(Unexpected { state, event }),
        };
        Ok(step)
    }

    /// Ends both sides uncleanly; the stream only if it is not already gone.
    fn abort(self, stream: Option<ResetReason>) -> Step {
        let tcp = match self {
            State::Confirming => Some(Action::RefuseSyn),
            State::Released | State::Opening | State::Closed => None,
            _ => Some(Action::ResetTcp),
        };
        step(State::Closed, tcp, stream.map(Action::ResetStream))
    }

    /// Whether bytes that TCP offers are to be written to the stream.
    pub fn reads_tcp(self) -> bool {
        matches!(self, State::Requested | State::Established | State::StreamEnded)
    }

    /// Whether bytes that the stream offers are to be written to TCP.
    pub fn reads_stream(self) -> bool {
        matches!(self, State::Established | State::TcpEnded)
    }

    /// Whether the server has accepted, and the connection is between both hosts.
    pub fn has_answer(self) -> bool {
        matches!(self, State::Established | State::TcpEnded | State::StreamEnded)
    }

    /// Whether the stream's next byte is the far gateway's answer.
    pub fn awaits_answer(self) -> bool {
        matches!(self, State::Confirming | State::Requested | State::RequestedEnded)
    }
}

fn step(next: State, first: Option<Action>, second: Option<Action>) -> Step {
    Step { next, actions: [first, second] }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            State::Confirming => "confirming",
            State::Released => "released",
            State::Requested => "requested",
            State::RequestedEnded => "requested-ended",
            State::Opening => "opening",
            State::Connecting => "connecting",
            State::Established => "established",
            State::TcpEnded => "tcp-ended",
            State::StreamEnded => "stream-ended",
            State::Resetting => "resetting",
            State::Closed => "closed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::*;

    const STATES: [State; 11] = [
        Confirming,
        Released,
        Requested,
        RequestedEnded,
        Opening,
        Connecting,
        Established,
        TcpEnded,
        StreamEnded,
        Resetting,
        Closed,
    ];

    /// The whole machine, one row for each event, one column for each state in the order of [`STATES`]. `!` cannot
    /// happen, `.` changes nothing. Actions: L release SYN, N refuse SYN, C connect, A answer, F finish stream,
    /// S shut TCP down, R reset TCP, O close TCP in order; r and a letter: reset the stream with reason (a aborted,
    /// d denied, f refused, p protocol, s shutdown, t timed out), b behind what was written.
    const TABLE: &str = "
        event            Confirming Released    Requested        RequestedEnded Opening      Connecting    Established   TcpEnded   StreamEnded Resetting  Closed
        Answered         Released:L !           Established      TcpEnded       !            !             !             !          !           !          .
        Accepted         !          Established !                !              !            !             !             !          !           !          .
        RequestValid     !          !           !                !              Connecting:C !             !             !          !           !          .
        RequestDenied    !          !           !                !              Closed:rd    !             !             !          !           !          .
        TcpConnected     !          !           !                !              !            Established:A !             !          !           !          .
        TcpFailed        !          !           !                !              !            Closed:Rrf    !             !          !           !          .
        TcpFin           !          !           RequestedEnded:F !              !            !             TcpEnded:F    !          Closed:FO   !          .
        TcpReset         !          !           Closed:Rra       Closed:Rra     !            !             Closed:Rrb    Closed:Rrb Closed:Rrb  Closed:R   .
        StreamFin        Closed:Nrp !           Closed:Rrp       Closed:Rrp     Closed:rp    !             StreamEnded:S Closed:O   !           .          .
        StreamReset      Closed:N   Closed:     Closed:R         Closed:R       Closed:      Closed:R      Closed:R      Closed:R   Closed:R    .          .
        StreamResetUnacked !          !           !                !              !            !             Resetting     Resetting  Resetting   .          .
        HostHasAll       !          !           !                !              !            !             !             !          !           Closed:R   .
        ProtocolError    Closed:Nrp Closed:rp   Closed:Rrp       Closed:Rrp     Closed:rp    Closed:Rrp    Closed:Rrp    Closed:Rrp Closed:Rrp  Closed:Rrp .
        Timeout          Closed:Nrt Closed:rt   Closed:Rrt       Closed:Rrt     Closed:rt    Closed:Rrt    Closed:Rrt    Closed:Rrt Closed:Rrt  Closed:Rrt .
        Shutdown         Closed:Nrs Closed:rs   Closed:Rrs       Closed:Rrs     Closed:rs    Closed:Rrs    Closed:Rrs    Closed:Rrs Closed:Rrs  Closed:Rrs .
    ";

    fn events() -> Vec<(&'static str, Event)> {
        vec![
            ("Answered", Event::Answered),
            ("Accepted", Event::Accepted),
            ("RequestValid", Event::RequestValid),
            ("RequestDenied", Event::RequestDenied(ResetReason::Denied)),
            ("TcpConnected", Event::TcpConnected),
            ("TcpFailed", Event::TcpFailed(ResetReason::Refused)),
            ("TcpFin", Event::TcpFin),
            ("TcpReset", Event::TcpReset),
            ("StreamFin", Event::StreamFin),
            ("StreamReset", Event::StreamReset),
            ("StreamResetUnacked", Event::StreamResetUnacked),
            ("HostHasAll", Event::HostHasAll),
            ("ProtocolError", Event::ProtocolError),
            ("Timeout", Event::Timeout),
            ("Shutdown", Event::Shutdown),
        ]
    }

    fn letters(actions: [Option<Action>; 2]) -> String {
        let letter = |action| match action {
            Action::ReleaseSyn => "L",
            Action::RefuseSyn => "N",
            Action::Connect => "C",
            Action::Reply => "A",
            Action::FinishStream => "F",
            Action::ShutdownTcp => "S",
            Action::ResetTcp => "R",
            Action::CloseTcp => "O",
            Action::ResetStreamBehindData => "rb",
            Action::ResetStream(ResetReason::Aborted) => "ra",
            Action::ResetStream(ResetReason::Denied) => "rd",
            Action::ResetStream(ResetReason::Refused) => "rf",
            Action::ResetStream(ResetReason::Protocol) => "rp",
            Action::ResetStream(ResetReason::Shutdown) => "rs",
            Action::ResetStream(ResetReason::TimedOut) => "rt",
            Action::ResetStream(other) => panic!("{other:?} is not in the table"),
        };
        actions.into_iter().flatten().map(letter).collect()
    }

    #[test]
    fn every_pair_of_state_and_event_is_as_in_the_table() {
        let mut rows = TABLE.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(rows.next().unwrap()[1..], STATES.map(|state| format!("{state:?}")));
        let mut checked = 0;
        for (row, (name, event)) in rows.zip(events()) {
            assert_eq!((row[0], row.len()), (name, STATES.len() + 1), "{row:?}");
            for (cell, state) in row[1..].iter().zip(STATES) {
                let found = match state.on(event) {
                    Err(unexpected) => {
                        assert_eq!(unexpected, Unexpected { state, event });
                        "!".to_owned()
                    }
                    Ok(step) if step.next == state && step.actions == [None; 2] => ".".to_owned(),
                    Ok(step) => format!("{:?}:{}", step.next, letters(step.actions)),
                };
                assert_eq!(found.trim_end_matches(':'), cell.trim_end_matches(':'), "{state:?} on {event:?}");
                checked += 1;
            }
        }
        assert_eq!(checked, STATES.len() * events().len());
    }

    #[test]
    fn tcp_is_closed_in_order_only_after_both_fins() {
        for state in STATES {
            for (_, event) in events() {
                let Ok(step) = state.on(event) else { continue };
                if step.actions.contains(&Some(Action::CloseTcp)) {
                    assert!(matches!((state, event), (TcpEnded, Event::StreamFin) | (StreamEnded, Event::TcpFin)));
                }
                // What ends otherwise, ends TCP with a reset wherever there is TCP.
                let has_tcp = !matches!(state, Confirming | Released | Opening | Closed);
                if step.next == Closed && has_tcp && !step.actions.contains(&Some(Action::CloseTcp)) {
                    assert!(step.actions.contains(&Some(Action::ResetTcp)), "{state:?} {event:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_read_once_its_fin_has_passed() {
        assert!(!TcpEnded.reads_tcp() && TcpEnded.reads_stream());
        assert!(!StreamEnded.reads_stream() && StreamEnded.reads_tcp());
        assert!(Requested.reads_tcp() && Requested.awaits_answer() && !Requested.reads_stream());
        assert!(STATES.iter().all(|state| !(state.awaits_answer() && state.reads_stream())));
    }
}
