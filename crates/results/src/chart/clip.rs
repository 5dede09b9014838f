//! Cuts lines at the edges of a plot.

use std::ops::Range;

type Point = (f64, f64);

/// The pieces of the line through `points` that lie within the ranges. A point that is not finite interrupts the line.
pub(super) fn line(points: &[Point], x: &Range<f64>, y: &Range<f64>) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    for ends in points.windows(2) {
        let Some((from, to)) = segment(ends[0], ends[1], x, y) else { continue };
        match pieces.last_mut() {
            Some(piece) if piece.last() == Some(&from) && from == ends[0] => piece.push(to),
            _ => pieces.push(vec![from, to]),
        }
    }
    pieces
}

/// Whether `point` lies within the ranges.
pub(super) fn contains(point: Point, x: &Range<f64>, y: &Range<f64>) -> bool {
    (x.start..=x.end).contains(&point.0) && (y.start..=y.end).contains(&point.1)
}

/// The part of a segment within the ranges (Liang and Barsky, ACM TOG 3(1), 1984).
fn segment(from: Point, to: Point, x: &Range<f64>, y: &Range<f64>) -> Option<(Point, Point)> {
    let step = (to.0 - from.0, to.1 - from.1);
    if !(step.0.is_finite() && step.1.is_finite()) {
        return None;
    }
    let (mut first, mut last) = (0.0_f64, 1.0_f64);
    let edges =
        [(-step.0, from.0 - x.start), (step.0, x.end - from.0), (-step.1, from.1 - y.start), (step.1, y.end - from.1)];
    for (outwards, room) in edges {
        if outwards == 0.0 && room < 0.0 {
            return None;
        } else if outwards < 0.0 {
            first = first.max(room / outwards);
        } else if outwards > 0.0 {
            last = last.min(room / outwards);
        }
    }
    let at = |share: f64| match share {
        0.0 => from,
        1.0 => to,
        _ => (from.0 + share * step.0, from.1 + share * step.1),
    };
    (first <= last).then(|| (at(first), at(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Range<f64> = 0.0..1.0;

    #[test]
    fn what_lies_inside_stays_one_piece() {
        let points = [(0.0, 0.0), (0.5, 1.0), (1.0, 0.5)];
        assert_eq!(line(&points, &UNIT, &UNIT), [points.to_vec()]);
    }

    #[test]
    fn a_peak_above_the_edge_leaves_two_pieces() {
        let pieces = line(&[(0.0, 0.0), (0.5, 2.0), (1.0, 0.0)], &UNIT, &UNIT);
        assert_eq!(pieces, [vec![(0.0, 0.0), (0.25, 1.0)], vec![(0.75, 1.0), (1.0, 0.0)]]);
    }

    #[test]
    fn what_is_outside_or_unknown_is_not_drawn() {
        assert!(line(&[(0.0, 2.0), (1.0, 3.0)], &UNIT, &UNIT).is_empty());
        assert!(line(&[(0.0, 0.5), (0.5, f64::NAN), (1.0, 0.5)], &UNIT, &UNIT).is_empty());
        assert!(!contains((f64::NAN, 0.5), &UNIT, &UNIT));
    }
}
