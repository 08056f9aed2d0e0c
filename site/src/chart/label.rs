//! Direct labels without collisions.

/// Positions near `wanted`, in the order of `wanted`, at least `gap` apart and
/// inside `low..=high` where they fit; labels keep their vertical order.
pub fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    let mut placed: Vec<f64> = Vec::with_capacity(wanted.len());
    for &index in &order {
        let least = placed.last().map_or(low, |above| above + gap);
        placed.push(wanted[index].max(least));
    }
    let mut limit = high;
    for position in placed.iter_mut().rev() {
        *position = position.min(limit);
        limit = *position - gap;
    }
    let mut result = vec![0.0; wanted.len()];
    for (&index, &position) in order.iter().zip(&placed) {
        result[index] = position;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_apart_stay_where_they_are() {
        assert_eq!(spread(&[10.0, 50.0], 12.0, 0.0, 100.0), [10.0, 50.0]);
    }

    #[test]
    fn labels_that_would_collide_are_moved_in_order() {
        let placed = spread(&[99.0, 98.0, 99.5, 3.0], 12.0, 0.0, 100.0);
        assert_eq!(placed, [88.0, 76.0, 100.0, 3.0]);
    }
}
