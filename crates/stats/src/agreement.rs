//! How far two runs agree on what lies between their targets: the test of the verdicts that no
//! simulation makes.
//!
//! Every pair of targets in every case is judged in each run by itself, by the function that
//! judges pairs on the site. Two verdicts contradict each other where one says *better* and the other
//! *worse*, or one of these and the other *equal*; *undecided* contradicts nothing.
//!
//! An interval is of the truth, not of another run's ratio, which errs as well. Where both err alike, the
//! second's 95 % interval holds the first's ratio in 83 % of pairs, and the difference lies within both
//! errors together in 95 %.

use crate::analysis::{Analysis, MetricId, Verdict};
use crate::pairs::{Compared, pairs};
use schema::key::CaseKey;

/// Counts of pairs of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// That both runs judge, in the same case.
    pub pairs: usize,
    /// Of these, those that are different or equal in both runs.
    pub decided: usize,
    /// Of these, those whose verdicts contradict each other.
    pub contradictory: usize,
    /// Whose ratios have an interval in both runs.
    pub with_intervals: usize,
    /// Of these, those whose ratios differ by no more than both intervals together allow.
    pub within_errors: usize,
    /// Of these, those of which the second run's interval holds the first's ratio.
    pub held: usize,
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
        if let (Some(of_before), Some(of_after)) = (before.ci95, after.ci95) {
            let half = |(low, high): (f64, f64)| (high / low).ln() / 2.0;
            let apart = (before.ratio / after.ratio).ln().abs();
            self.with_intervals += 1;
            self.within_errors += usize::from(apart <= half(of_before).hypot(half(of_after)));
            self.held += usize::from(of_after.0 <= before.ratio && before.ratio <= of_after.1);
        }
    }
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

    fn of(all: &[(Compared, Compared)]) -> Agreement {
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
        let found = of(&[
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
        // Of intervals of ±10 %: both together ±13.5 %.
        let found = of(&[pair(2.1), pair(2.25), pair(2.4)]);
        assert_eq!(
            (found.with_intervals, found.within_errors, found.held),
            (3, 2, 1)
        );
        let mut without = pair(2.0);
        without.0.ci95 = None;
        assert_eq!(of(&[without]).with_intervals, 0);
    }
}
