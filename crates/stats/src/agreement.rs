//! The agreement of two runs about the differences between their targets. It tests the verdicts on
//! real measurements, which no simulation can replace.
//!
//! Every pair of targets in every case is judged in each run by itself, by the function that judges
//! pairs on the site. Two verdicts contradict each other where one is *better* and the other
//! *worse*, or one of these and the other *equal*; *undecided* contradicts nothing.
//!
//! The interval of a ratio is about the true ratio. It is too narrow for the ratio of another run,
//! which has an error of its own. So two ratios are compared by Welch's t on their logarithms, with
//! the errors that their intervals were made from (see [`crate::ratio`]). Where nothing changed,
//! 95 % of the ratios agree, or more where A/A pairs enlarge the errors. Pairs of one case share
//! targets, so this share varies more than that of independent pairs.

use crate::analysis::{Analysis, MetricId, Verdict};
use crate::ci::{CONFIDENCE, t_quantile, t_two_sided_p};
use crate::compare::ALPHA;
use crate::pairs::{Compared, pairs};
use crate::ratio::{Logs, welch};
use schema::key::CaseKey;
use serde::Serialize;

/// Numbers of pairs of targets, by how far two runs agree on them. `compare` writes them as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Agreement {
    /// Number of pairs that both runs judge, in the same case.
    pub pairs: usize,
    /// Number of `pairs` that are different or equal in both runs.
    pub decided: usize,
    /// Number of `decided` pairs whose verdicts contradict each other.
    pub contradictory: usize,
    /// Number of `pairs` whose ratios have an interval in both runs.
    pub with_intervals: usize,
    /// Number of `with_intervals` pairs whose ratios don't differ by Welch's t at 5 %.
    pub within_errors: usize,
    /// Number of `with_intervals` pairs whose first ratio lies in the second run's interval.
    pub held: usize,
    /// Expected value of `held`, where nothing changed and both runs have equal errors.
    pub held_expected: f64,
}

impl Agreement {
    /// Count the pairs of `targets` in a case.
    pub(crate) fn add(
        &mut self,
        (a, b): (&Analysis, &Analysis),
        at: &CaseKey,
        metric: MetricId,
        targets: &[&str],
    ) {
        let (before, after) = (pairs(a, at, metric, targets), pairs(b, at, metric, targets));
        for (before, after) in before.into_iter().zip(after) {
            if let (Ok(before), Ok(after)) = (before.outcome, after.outcome) {
                self.add_pair(&before, &after);
            }
        }
    }

    fn add_pair(&mut self, before: &Compared, after: &Compared) {
        let judged = |pair: &Compared| pair.verdict != Verdict::Unknown;
        if !judged(before) || !judged(after) {
            return;
        }
        self.pairs += 1;
        let decided = |pair: &Compared| pair.verdict != Verdict::Undecided;
        if decided(before) && decided(after) {
            self.decided += 1;
            self.contradictory += usize::from(before.verdict != after.verdict);
        }
        let both = logs(before).zip(logs(after)).zip(after.ci95);
        if let Some(((first, second), (low, high))) = both {
            let differs = welch(&first, &second, 1.0).is_some_and(|(_, p)| p < ALPHA);
            self.with_intervals += 1;
            self.within_errors += usize::from(!differs);
            self.held += usize::from(low <= before.ratio && before.ratio <= high);
            // The difference of two values with equal errors has √2 times the error of one.
            let p = t(second.degrees).and_then(|t| t_two_sided_p(t / 2f64.sqrt(), second.degrees));
            self.held_expected += 1.0 - p.unwrap_or(0.0);
        }
    }
}

/// Compute the mean and error of a pair's log ratio from its interval.
fn logs(compared: &Compared) -> Option<Logs> {
    let (low, high) = compared.ci95?;
    let degrees = compared.blocks as f64 - 1.0;
    let half = (high / low).ln() / 2.0;
    Some(Logs {
        mean: compared.ratio.ln(),
        squared_error: (half / t(degrees)?).powi(2),
        degrees,
    })
}

/// Return the number of standard errors in half the width of an interval.
fn t(degrees: f64) -> Option<f64> {
    t_quantile(0.5 + CONFIDENCE / 2.0, degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(ratio: f64, times: f64, verdict: Verdict) -> Compared {
        Compared {
            ratio,
            blocks: 5,
            ci95: Some((ratio / times, ratio * times)),
            p_holm: Some(0.01),
            inflation: None,
            matters: 1.02,
            verdict,
            disturbed: vec![],
        }
    }

    fn agreement(all: &[(Compared, Compared)]) -> Agreement {
        let mut agreement = Agreement::default();
        for (before, after) in all {
            agreement.add_pair(before, after);
        }
        agreement
    }

    #[test]
    fn only_decided_verdicts_contradict() {
        let said = |verdict| compared(1.0, 1.1, verdict);
        let pair = |a, b| (said(a), said(b));
        let found = agreement(&[
            pair(Verdict::Better, Verdict::Better),
            pair(Verdict::Better, Verdict::Worse),
            pair(Verdict::Equal, Verdict::Better),
            pair(Verdict::Undecided, Verdict::Better),
            pair(Verdict::Unknown, Verdict::Better),
        ]);
        assert_eq!((found.pairs, found.decided, found.contradictory), (4, 3, 2));
    }

    #[test]
    fn two_runs_err_more_than_one() {
        let pair = |ratio| {
            let better = Verdict::Better;
            (compared(2.0, 1.1, better), compared(ratio, 1.1, better))
        };
        // A factor of 1.1 to either side is 2.78 standard errors, at four degrees of freedom each.
        // Both together have eight, at which 2.31 standard errors are a factor of 1.12.
        let found = agreement(&[pair(2.1), pair(2.22), pair(2.26)]);
        assert_eq!(
            (found.with_intervals, found.within_errors, found.held),
            (3, 2, 1)
        );
        // P(|t₄| < 2.776 / √2) = 0.879.
        assert!((found.held_expected / 3.0 - 0.879).abs() < 1e-3);
        let mut without = pair(2.0);
        without.0.ci95 = None;
        assert_eq!(agreement(&[without]).with_intervals, 0);
    }
}
