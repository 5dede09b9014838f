//! How often the log repeats what any request of a peer may cause.

use std::collections::HashMap;
use std::mem::Discriminant;
use units::{Duration, Instant};

/// Lets a line through once a minute, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    next: Option<Instant>,
    not_logged: u64,
}

impl LogLimit {
    /// The shortest time between two lines.
    pub(super) const PERIOD: Duration = Duration::from_secs(60);

    /// Whether there may be a line at `now`: how many were left out since the last one.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.not_logged += 1;
            return None;
        }
        self.next = Some(now + Self::PERIOD);
        Some(std::mem::take(&mut self.not_logged))
    }
}

/// Lets a shortage through once a minute, with its end, and leaves out those that come and go in between. One that lasts is let through
/// when the minute is over.
#[derive(Debug)]
pub(crate) struct ShortageLimit<N> {
    next: Option<Instant>,
    is_logged: bool,
    withheld: Option<N>,
}

impl<N> Default for ShortageLimit<N> {
    fn default() -> Self {
        Self { next: None, is_logged: false, withheld: None }
    }
}

impl<N> ShortageLimit<N> {
    /// A shortage begins, as `notice` says: what is to be logged at `now`.
    pub(crate) fn begin(&mut self, now: Instant, notice: N) -> Option<N> {
        self.withheld = Some(notice);
        self.overdue(now)
    }

    /// It is over, as `notice` says.
    pub(crate) fn end(&mut self, notice: N) -> Option<N> {
        self.withheld = None;
        std::mem::take(&mut self.is_logged).then_some(notice)
    }

    /// What was withheld and still lasts, once it is time.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<N> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let notice = self.withheld.take()?;
        (self.next, self.is_logged) = (Some(now + LogLimit::PERIOD), true);
        Some(notice)
    }
}

/// Lets a line of each kind, which is a variant of `L`, through once a minute, or some of them, and counts the others. A line that says that all is well again
/// follows at once the line that says what was not. The last one that was left out is let through when it is time, unless the log says
/// the same already.
#[derive(Debug)]
pub(crate) struct LineLimit<L> {
    /// Lines of each kind that may be logged in a minute.
    most: u32,
    /// When the minute of each kind ends, and how many lines it has had.
    minutes: HashMap<Discriminant<L>, (Instant, u32)>,
    /// The latest line of the log, and whether it says that all is well.
    latest: Option<(L, bool)>,
    withheld: Option<(L, bool)>,
    not_logged: u64,
}

impl<L> Default for LineLimit<L> {
    fn default() -> Self {
        Self::of(1)
    }
}

impl<L> LineLimit<L> {
    /// Lets `most` lines of each kind through in a minute.
    pub(crate) fn of(most: u32) -> Self {
        Self { most, minutes: HashMap::new(), latest: None, withheld: None, not_logged: 0 }
    }
}

impl<L: Clone + PartialEq> LineLimit<L> {
    /// What is to be logged at `now` for `line`, with the number of lines that were left out since the latest one, if there are any.
    pub(crate) fn admit(&mut self, now: Instant, line: L, is_well: bool) -> Option<(L, Option<u64>)> {
        self.not_logged += 1;
        let is_said = self.latest() == Some(&line);
        self.withheld = Some((line, is_well));
        let admitted = self.overdue(now);
        self.withheld.take_if(|_| is_said);
        admitted
    }

    /// The latest line of the log, or what was noted since.
    pub(crate) fn latest(&self) -> Option<&L> {
        self.latest.as_ref().map(|(line, _)| line)
    }

    /// Whether the latest line says the same, and none is withheld.
    pub(crate) fn says(&self, line: &L) -> bool {
        self.withheld.is_none() && self.latest() == Some(line)
    }

    /// `line` holds now, without a word in the log.
    pub(crate) fn note(&mut self, line: L, is_well: bool) {
        (self.latest, self.withheld) = (Some((line, is_well)), None);
    }

    /// The line that was withheld, once it is time, with the number of those that were left out before it.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<(L, Option<u64>)> {
        if self.due()?.is_some_and(|due| now < due) {
            return None;
        }
        let (line, is_well) = self.withheld.take()?;
        let minute = self.minutes.entry(std::mem::discriminant(&line)).or_insert((now, 0));
        *minute = if now < minute.0 { (minute.0, minute.1 + 1) } else { (now + LogLimit::PERIOD, 1) };
        self.latest = Some((line.clone(), is_well));
        let before = std::mem::take(&mut self.not_logged).saturating_sub(1);
        Some((line, (before > 0).then_some(before)))
    }

    /// When the line that is withheld, if there is one, is to be logged: at once without a time.
    pub(crate) fn due(&self) -> Option<Option<Instant>> {
        let (line, is_well) = self.withheld.as_ref()?;
        let follows_trouble = *is_well && self.latest.as_ref().is_some_and(|(_, was_well)| !was_well);
        let minute = self.minutes.get(&std::mem::discriminant(line));
        Some(minute.filter(|(_, lines)| *lines >= self.most && !follows_trouble).map(|(end, _)| *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Line {
        Up,
        Down(u8),
        Restarted,
    }

    /// What is logged, and when, of what happens at the times `lines`, in seconds, and of what was withheld then.
    fn logged(lines: &[(u64, Line)]) -> Vec<(u64, Line, Option<u64>)> {
        let mut limit = LineLimit::default();
        let mut logged = Vec::new();
        for second in 0..200 {
            let now = Instant::ZERO + Duration::from_secs(second);
            let overdue = limit.overdue(now);
            let of_now = lines.iter().filter(|(at, _)| *at == second);
            let admitted = of_now.filter_map(|(_, line)| limit.admit(now, *line, *line == Line::Up));
            logged.extend(overdue.into_iter().chain(admitted.collect::<Vec<_>>()).map(|(line, n)| (second, line, n)));
        }
        logged
    }

    #[test]
    fn the_first_line_of_each_kind_and_the_end_of_a_trouble_are_logged_at_once() {
        let lines = [(1, Line::Up), (2, Line::Restarted), (2, Line::Up), (3, Line::Down(1)), (4, Line::Up)];
        assert_eq!(logged(&lines), lines.map(|(at, line)| (at, line, None)));
    }

    #[test]
    fn lines_without_end_are_few_and_their_number_is_said() {
        let toggled: Vec<_> = (0..200).flat_map(|second| [(second, Line::Up), (second, Line::Down(1))]).collect();
        let logged = logged(&toggled);
        let expected = [
            (0, Line::Up, None),
            (0, Line::Down(1), None),
            (1, Line::Up, None),
            (60, Line::Down(1), Some(116)),
            (60, Line::Up, None),
        ];
        assert_eq!((logged.len(), &logged[..5]), (9, &expected[..]), "{logged:?}");
        let said: u64 = logged.iter().map(|(_, _, not_logged)| 1 + not_logged.unwrap_or(0)).sum();
        assert_eq!(said, 361, "those until second 180, when the latest one was logged");
    }

    #[test]
    fn what_was_left_out_and_lasts_is_logged_once_it_is_time() {
        let lines = [(0, Line::Up), (1, Line::Down(1)), (2, Line::Up), (3, Line::Down(2))];
        let expected = [(0, Line::Up, None), (1, Line::Down(1), None), (2, Line::Up, None), (61, Line::Down(2), None)];
        assert_eq!(logged(&lines), expected);
        let over = [&lines[..], &[(4, Line::Up)]].concat();
        assert_eq!(logged(&over), expected[..3], "the log says so");
        let again = [&over[..], &[(100, Line::Down(1))]].concat();
        assert_eq!(logged(&again)[3..], [(100, Line::Down(1), Some(2))]);
    }

    #[test]
    fn some_lines_of_a_kind_go_at_once_where_they_may() {
        let mut limit = LineLimit::of(3);
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut admit = |second| limit.admit(at(second), Line::Down(second as u8), false).map(|(_, n)| n);
        assert_eq!([0, 1, 2, 3, 4].map(&mut admit), [Some(None), Some(None), Some(None), None, None]);
        assert_eq!(admit(60), Some(Some(2)));
        assert_eq!([61, 62, 63].map(&mut admit), [Some(None), Some(None), None]);
        assert_eq!((limit.overdue(at(119)), limit.overdue(at(120))), (None, Some((Line::Down(63), None))));
    }

    #[test]
    fn what_is_noted_is_not_logged_and_counts_as_the_latest() {
        let mut limit = LineLimit::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert!(limit.admit(at(0), Line::Up, true).is_some());
        limit.note(Line::Down(1), false);
        assert_eq!(limit.admit(at(1), Line::Up, true), Some((Line::Up, None)), "it is well again");
        assert_eq!(limit.admit(at(2), Line::Up, true), None);
        limit.note(Line::Up, true);
        assert_eq!((limit.due(), limit.overdue(at(100))), (None, None));
    }

    #[test]
    fn a_line_a_minute_says_how_many_were_not_logged() {
        let mut limit = LogLimit::default();
        let at = |milliseconds| Instant::ZERO + Duration::from_millis(milliseconds);
        assert_eq!(limit.admit(at(0)), Some(0), "the first one goes at once");
        for milliseconds in 1..=500 {
            assert_eq!(limit.admit(at(milliseconds)), None);
        }
        assert_eq!(limit.admit(at(59_999)), None);
        assert_eq!(limit.admit(at(60_000)), Some(501));
        assert_eq!(limit.admit(at(200_000)), Some(0), "none was left out since");
    }

    #[test]
    fn a_shortage_that_comes_and_goes_is_logged_once_a_minute_and_one_that_lasts_all_the_same() {
        let mut limit = ShortageLimit::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!((limit.begin(at(0), "short"), limit.end("again")), (Some("short"), Some("again")));
        for second in 1..59 {
            assert_eq!((limit.begin(at(second), "short"), limit.end("again")), (None, None), "{second}");
        }
        assert_eq!(limit.overdue(at(60)), None, "it is over");
        assert_eq!((limit.begin(at(61), "short"), limit.end("again")), (Some("short"), Some("again")));
        assert_eq!((limit.begin(at(70), "it lasts"), limit.overdue(at(120))), (None, None));
        assert_eq!(limit.overdue(at(121)), Some("it lasts"));
        assert_eq!((limit.overdue(at(500)), limit.end("again"), limit.end("again")), (None, Some("again"), None));
    }
}
