//! Why a relayed connection was given up. Both transports send the reason as the same code (`docs/protocol.md`, section 7.4).

/// Why a stream was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResetReason {
    /// The server refused the connection.
    Refused,
    /// There is no way to the server.
    Unreachable,
    /// The server did not answer.
    TimedOut,
    /// The far gateway's policy forbids the connection.
    Denied,
    /// One end of the TCP connection reset it.
    Aborted,
    /// The peer's gateway lost its state.
    PeerRestarted,
    /// The satellite link was away for too long.
    Outage,
    /// Too many streams at once.
    StreamLimit,
    /// The peer broke the protocol.
    Protocol,
    /// The gateway stops.
    Shutdown,
}

impl ResetReason {
    const CODES: [(ResetReason, u64, &'static str); 10] = [
        (ResetReason::Refused, 1, "connection refused by the server"),
        (ResetReason::Unreachable, 2, "server unreachable"),
        (ResetReason::TimedOut, 3, "server did not answer"),
        (ResetReason::Denied, 4, "denied by the far gateway's policy"),
        (ResetReason::Aborted, 5, "connection reset"),
        (ResetReason::PeerRestarted, 6, "gateway restarted"),
        (ResetReason::Outage, 7, "satellite link lost for too long"),
        (ResetReason::StreamLimit, 8, "too many streams"),
        (ResetReason::Protocol, 9, "protocol violation"),
        (ResetReason::Shutdown, 10, "gateway stopped"),
    ];

    /// The code on the wire.
    pub fn code(self) -> u64 {
        Self::CODES.iter().find(|(reason, ..)| *reason == self).map_or(5, |(_, code, _)| *code)
    }

    /// The reason with this code; one from a later version reads as [`ResetReason::Aborted`].
    pub fn from_code(code: u64) -> Self {
        Self::CODES.iter().find(|(_, known, _)| *known == code).map_or(ResetReason::Aborted, |(reason, ..)| *reason)
    }
}

impl std::fmt::Display for ResetReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(Self::CODES.iter().find(|(reason, ..)| reason == self).map_or("connection reset", |(.., text)| text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_code_and_a_text_of_its_own() {
        let mut seen = Vec::new();
        for (reason, code, text) in ResetReason::CODES {
            assert_eq!(
                (reason.code(), ResetReason::from_code(code), reason.to_string().as_str()),
                (code, reason, text)
            );
            assert!(!seen.contains(&(code, text)) && (1..64).contains(&code), "{reason:?}");
            seen.push((code, text));
        }
    }

    #[test]
    fn a_reason_of_a_later_version_reads_as_a_reset() {
        assert_eq!([0, 63, 1 << 40].map(ResetReason::from_code), [ResetReason::Aborted; 3]);
    }
}
