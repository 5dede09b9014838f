//! Explicit congestion notification between the two ends: who has been told of which marks (RFC 3168, section 6.1).

/// What the receiving half knows of the peer's marked packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Echo {
    /// Acknowledgements say that congestion was experienced.
    pub(crate) is_on: bool,
}

impl Echo {
    /// A data segment arrives, marked or not, with CWR or without. Echoes go on until the sender says that it has acted.
    pub(crate) fn on_data(&mut self, is_marked: bool, has_cwr: bool) {
        self.is_on = is_marked || self.is_on && !has_cwr;
    }

    /// The same where the sender wants to know the share of marked bytes: the echo is the state of what arrived last (RFC 8257,
    /// section 3.2).
    pub(crate) fn on_data_exactly(&mut self, is_marked: bool) {
        self.is_on = is_marked;
    }
}

/// What the sending half has done about echoes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answer {
    /// The window was lowered for marks on data before this offset.
    answered_to: u64,
    /// The next new data segment says so.
    pub(crate) owes_cwr: bool,
}

impl Answer {
    /// Whether echoes on an acknowledgement up to `una` are of a window of data for which nothing was done yet.
    pub(crate) fn is_news(&self, una: u64) -> bool {
        una > self.answered_to
    }

    /// The window is lowered while `nxt` is the end of what was sent.
    pub(crate) fn on_reduced(&mut self, nxt: u64) {
        self.answered_to = nxt;
        self.owes_cwr = true;
    }

    /// Takes what the next new data segment owes.
    pub(crate) fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.owes_cwr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_go_on_until_the_window_was_reduced_and_begin_again_with_a_mark() {
        let mut echo = Echo::default();
        let mut states = Vec::new();
        for (is_marked, has_cwr) in
            [(false, false), (true, false), (false, false), (false, true), (true, true), (false, false)]
        {
            echo.on_data(is_marked, has_cwr);
            states.push(echo.is_on);
        }
        assert_eq!(states, [false, true, true, false, true, true]);
    }

    #[test]
    fn a_window_of_data_is_answered_once() {
        let mut answer = Answer::default();
        assert!(answer.is_news(1_000));
        answer.on_reduced(20_000);
        assert!(!answer.is_news(20_000) && answer.is_news(20_001));
        assert!(answer.take_cwr() && !answer.take_cwr());
    }
}
