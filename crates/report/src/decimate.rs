//! Fewer points, same picture.

/// Thins ascending `points` to at most about two for each of `columns` columns of equal width: the lowest and
/// the highest of each, in the order they came, so that no spike is lost.
pub fn decimate(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= 2 * columns || last.0 <= first.0 {
        return points.to_vec();
    }
    let width = (last.0 - first.0) / columns as f64;
    let column = |p: &(f64, f64)| (((p.0 - first.0) / width) as usize).min(columns - 1);
    let mut kept = vec![*first];
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        kept.extend(extremes(group));
    }
    kept.push(*last);
    kept.dedup();
    kept
}

fn extremes(group: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
    let low = *group.iter().min_by(by_value).expect("a group has points");
    let high = *group.iter().max_by(by_value).expect("a group has points");
    let (one, two) = if low.0 <= high.0 { (low, high) } else { (high, low) };
    std::iter::once(one).chain((one != two).then_some(two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_survive() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[77_777].1 = 50.0;
        points[12_345].1 = -3.0;
        let kept = decimate(&points, 400);
        assert!(kept.len() <= 802, "{}", kept.len());
        assert!(kept.contains(&(77_777.0, 50.0)) && kept.contains(&(12_345.0, -3.0)));
        assert_eq!((kept[0], kept[kept.len() - 1]), ((0.0, 1.0), (99_999.0, 1.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (0.0, 2.0), (1.0, 3.0)];
        assert_eq!(decimate(&points, 400), points);
        assert_eq!(decimate(&[], 400), []);
    }
}
