//! Many comparisons at once: p-values corrected as a family, and ranks with ties.
//!
//! Holm's step-down correction holds the probability of even one false finding in the family under
//! α, whatever the dependence of the tests, and is always at least as powerful as Bonferroni's. It
//! is not the false discovery rate (Benjamini–Hochberg): a table of verdicts should hold no wrong
//! one, not few.
//!
//! Ranks say which target is detectably behind which. They don't order targets by their means: two
//! targets whose difference could not be detected share a rank, whatever their means.

/// Return the adjusted p-values, in the order given: with `p₍₁₎ ≤ … ≤ p₍ₘ₎`,
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

/// Return the adjusted p-values ([`holm`]) of those tests that have one, each in its place.
pub(crate) fn holm_of(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let known: Vec<f64> = p.iter().flatten().copied().collect();
    let mut adjusted = holm(&known).unwrap_or_default().into_iter();
    p.iter().map(|p| p.and_then(|_| adjusted.next())).collect()
}

/// Return the ranks of `count` items that are sorted best first.
///
/// The best item leads the first group, of rank 1. Going down the list, an item that is not
/// detectably worse than its group's leader shares the leader's rank. The first item that is
/// detectably worse leads the next group, and its rank is its place in the list (1, 1, 3:
/// competition ranking). `worse(leader, rest)` says for each of `rest` whether it is detectably
/// worse than `leader`; it is called once per group, so that it can correct for the whole family.
///
/// "No detectable difference" is not transitive, so every definition of tie groups has a drawback.
/// This one keeps ranks monotone in the order given, and every group's first item detectably behind
/// the leader of the group above. Its drawback: a noisy item far down may be in a later group
/// although it can't be told from the first leader either. Its comparison with the leader says so.
pub fn tie_ranks(
    count: usize,
    mut worse: impl FnMut(usize, std::ops::Range<usize>) -> Vec<bool>,
) -> Vec<u32> {
    let mut ranks = vec![0; count];
    let mut leader = 0;
    while leader < count {
        let rest = leader + 1..count;
        let behind = worse(leader, rest.clone());
        let next = rest
            .zip(behind)
            .find_map(|(item, behind)| behind.then_some(item))
            .unwrap_or(count);
        for rank in &mut ranks[leader..next] {
            *rank = leader as u32 + 1;
        }
        leader = next;
    }
    ranks
}
