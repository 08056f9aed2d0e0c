//! Where a series settles: how much of its beginning is a ramp and not the steady state.
//!
//! MSER-5: cut where the standard error of the mean of what is left is least, on means
//! of five. Sources: White, "An effective truncation heuristic for bias reduction in
//! simulation output", Simulation 69 (1997); White, Cobb & Spratt, "A comparison of five
//! steady-state truncation heuristics for simulation", Winter Simulation Conference
//! (2000), for means of five. Rejected: a fixed number of warm-up requests, since how
//! long a queue takes to fill is what nobody knows before.

/// Values averaged into one.
const BATCH: usize = 5;
/// With fewer batches than this nothing is cut: there is nothing to compare.
const BATCHES_MIN: usize = 4;

/// How many values at the beginning of `series`, in order of time, are left out: a
/// multiple of five, and at most half of them. A cut at the very half means that the
/// series never settled.
pub fn truncation(series: &[f64]) -> usize {
    let means: Vec<f64> = series
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    if means.len() < BATCHES_MIN {
        return 0;
    }
    let statistic = |cut: &usize| mser(&means[*cut..]);
    let cuts = 0..=means.len() / 2;
    // Of equal ones the first: as little as possible is cut.
    let best = cuts.min_by(|a, b| statistic(a).total_cmp(&statistic(b)));
    best.unwrap_or(0) * BATCH
}

/// Whether a series of `length` values that was cut at `cut` settled at all.
pub fn settled(length: usize, cut: usize) -> bool {
    let batches = length / BATCH;
    batches < BATCHES_MIN || cut < batches / 2 * BATCH
}

/// Σ (x − mean)² / n²: the squared standard error of the mean, but for a factor.
fn mser(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic noise in −0.5 … 0.5.
    fn noise(i: usize) -> f64 {
        ((i * 7919 + 13) % 101) as f64 / 101.0 - 0.5
    }

    #[test]
    fn a_series_that_is_steady_from_the_start_keeps_almost_everything() {
        let flat = vec![3.0; 100];
        assert_eq!(truncation(&flat), 0);
        let noisy: Vec<f64> = (0..200).map(|i| 10.0 + noise(i)).collect();
        let cut = truncation(&noisy);
        assert!(cut <= 40 && settled(200, cut), "{cut}");
    }

    #[test]
    fn a_ramp_is_cut_where_it_ends() {
        // 40 values rise from 0 to 10, then it is steady.
        let ramp = |i: usize| (i as f64 / 40.0).min(1.0) * 10.0;
        let series: Vec<f64> = (0..200).map(|i| ramp(i) + noise(i)).collect();
        let cut = truncation(&series);
        assert!((30..=60).contains(&cut), "{cut}");
        assert!(settled(200, cut));
    }

    #[test]
    fn a_decaying_start_is_cut_too() {
        let series: Vec<f64> = (0..200)
            .map(|i| 10.0 + 30.0 * (-(i as f64) / 10.0).exp() + noise(i))
            .collect();
        let cut = truncation(&series);
        assert!((20..=60).contains(&cut), "{cut}");
    }

    #[test]
    fn what_grows_to_the_end_never_settled() {
        let series: Vec<f64> = (0..200).map(|i| i as f64).collect();
        let cut = truncation(&series);
        assert_eq!(cut, 100);
        assert!(!settled(200, cut));
    }

    #[test]
    fn too_few_values_are_kept_whole() {
        assert_eq!(truncation(&[9.0, 1.0, 1.0, 1.0, 1.0]), 0);
        assert!(settled(5, 0));
        assert_eq!(truncation(&[]), 0);
    }

    #[test]
    fn by_hand() {
        // Means of five: 9, 1, 1, 1. All: mean 3, Σ = 48, ÷ 16 = 3. From the second: 0.
        let series: Vec<f64> = [9.0, 1.0, 1.0, 1.0]
            .into_iter()
            .flat_map(|x| [x; 5])
            .collect();
        assert_eq!(mser(&[9.0, 1.0, 1.0, 1.0]), 3.0);
        assert_eq!(truncation(&series), 5);
    }
}
