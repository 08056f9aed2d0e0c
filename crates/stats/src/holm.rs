//! Holm's step-down correction of a family of p-values.
//!
//! It holds the chance of even one false finding in the family under α, whatever
//! the dependence, and beats Bonferroni everywhere. Not the false discovery rate
//! (Benjamini–Hochberg): a table of verdicts should hold no wrong one, not few.

/// Adjusted p-values, in the order given: with `p₍₁₎ ≤ … ≤ p₍ₘ₎`,
/// `p̃₍ᵢ₎ = max over j ≤ i of min(1, (m − j + 1)·p₍ⱼ₎)`.
///
/// Source: S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure",
/// Scandinavian Journal of Statistics 6 (1979); the adjusted form as in R's
/// `p.adjust`. `None` where a value lies outside 0…1 or is NaN.
pub fn holm(p: &[f64]) -> Option<Vec<f64>> {
    if !p.iter().all(|p| (0.0..=1.0).contains(p)) {
        return None;
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0_f64;
    for (step, &index) in order.iter().enumerate() {
        least = least.max((p.len() - step) as f64 * p[index]).min(1.0);
        adjusted[index] = least;
    }
    Some(adjusted)
}
