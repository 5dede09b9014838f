//! Leaves out points of lines that no picture resolves.

type Point = (f64, f64);

/// The line through `points` where, of those in a row that `column` puts into one column, the first, the lowest, the highest and the
/// last remain.
pub(super) fn line(points: &[Point], column: impl Fn(f64) -> i64) -> Vec<Point> {
    let columns = points.chunk_by(|one, other| column(one.0) == column(other.0));
    columns.flat_map(|points| corners(points).into_iter().map(|at| points[at])).collect()
}

/// The places of those that remain of `points`, which are in one column.
fn corners(points: &[Point]) -> Vec<usize> {
    let by_height = |one: &usize, other: &usize| points[*one].1.total_cmp(&points[*other].1);
    let (lowest, highest) = ((0..points.len()).min_by(by_height), (0..points.len()).max_by(by_height));
    let mut places: Vec<_> = [Some(0), lowest, highest, points.len().checked_sub(1)].into_iter().flatten().collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_keeps_its_ends_and_extremes_in_their_order() {
        let points = [(0.1, 2.0), (0.2, 9.0), (0.3, 3.0), (0.4, 1.0), (0.5, 3.0), (1.5, 4.0), (2.5, 5.0), (2.6, 6.0)];
        let thinned = line(&points, |x| x as i64);
        assert_eq!(thinned, [&points[..2], &points[3..]].concat());
        assert_eq!(line(&[], |x| x as i64), []);
    }
}
