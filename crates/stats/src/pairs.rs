//! Comparisons of every target with every other in one case, on its leading metric.
//!
//! All pairs of the case are one Holm family. It is larger, and its correction stricter, than the
//! family of [`crate::analysis::Comparison`], which compares only with the baseline and the leader;
//! a pair may be called different there and not here. Rejected: a family per target, in which a
//! pair could be told apart seen from one target and not from the other.

use crate::analysis::{Analysis, Cell, Metric, MetricId, Verdict};
use crate::ci::CONFIDENCE;
use crate::compare::verdict;
use crate::family::holm_of;
use crate::ratio::{PairedRatio, paired_ratio_at};
use schema::key::CaseKey;
use schema::record::Status;
use std::collections::BTreeSet;

/// Comparison of two targets in one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Id of the target that comes first in the plan.
    pub a: String,
    /// Id of the other target.
    pub b: String,
    /// Result of the comparison, or why the targets can't be compared.
    pub outcome: Result<Compared, NotComparable>,
}

/// Result of comparing two targets by paired blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// How many times better `a` is than `b` (> 1 is better, whichever direction the
    /// metric has): geometric mean over blocks.
    pub ratio: f64,
    /// Number of blocks in which both were measured.
    pub blocks: usize,
    /// 95 % interval of the ratio: t on block-paired log ratios, the error enlarged by `inflation`;
    /// `None` with one block.
    pub ci95: Option<(f64, f64)>,
    /// Two-sided p of the same t-test, Holm-adjusted over all pairs of the case; `None` with one
    /// block.
    pub p_holm: Option<f64>,
    /// Factor by which A/A pairs require the error to be enlarged; `None` where no target ran
    /// twice.
    pub inflation: Option<f64>,
    /// The smallest difference that matters to the verdict, as a ratio.
    pub matters: f64,
    /// Verdict on `a`.
    pub verdict: Verdict,
    /// Blocks in which one of the two was disturbed.
    pub disturbed: Vec<u32>,
}

impl Compared {
    /// Return the comparison as seen from `b`.
    pub fn reversed(&self) -> Self {
        Self {
            ratio: 1.0 / self.ratio,
            ci95: self.ci95.map(|(low, high)| (1.0 / high, 1.0 / low)),
            verdict: match self.verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                same => same,
            },
            ..self.clone()
        }
    }
}

/// Why two targets can't be compared in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotComparable {
    /// One of the targets has no numbers in the case.
    NoNumbers {
        /// Id of the target without numbers.
        target: String,
        /// Status of that target's cell; `None` where the plan has no such cell.
        status: Option<Status>,
    },
    /// The targets were not measured in the same blocks, or a value of 0 has no ratio.
    NoRatio,
    /// The metric has no better direction.
    NoDirection,
}

/// Compare all pairs of `targets` (in plan order) in a case, `a` before `b`.
pub fn pairs(analysis: &Analysis, at: &CaseKey, metric: MetricId, targets: &[&str]) -> Vec<Pair> {
    let cells: Vec<Option<&Cell>> = targets
        .iter()
        .map(|target| analysis.cell(&at.cell(target)))
        .collect();
    let inflation = analysis.noise(metric).map(|noise| noise.inflation);
    let (mut pairs, mut p) = (Vec::new(), Vec::new());
    for (i, a) in cells.iter().enumerate() {
        for (j, b) in cells.iter().enumerate().skip(i + 1) {
            let outcome = measured(*a, targets[i], metric)
                .and_then(|a| Ok((a, measured(*b, targets[j], metric)?)))
                .and_then(|(a, b)| Ok((disturbed(a.0, b.0), ratio(metric, a.1, b.1, inflation)?)));
            p.push(outcome.as_ref().ok().and_then(|(_, ratio)| ratio.p));
            pairs.push((targets[i], targets[j], outcome));
        }
    }
    pairs
        .into_iter()
        .zip(holm_of(&p))
        .map(|((a, b, outcome), p_holm)| Pair {
            a: a.to_owned(),
            b: b.to_owned(),
            outcome: outcome.map(|(disturbed, ratio)| Compared {
                ratio: ratio.ratio,
                blocks: ratio.blocks,
                ci95: ratio.ci95,
                p_holm,
                inflation,
                matters: analysis.matters,
                verdict: verdict(p_holm, ratio.ci95, analysis.matters),
                disturbed,
            }),
        })
        .collect()
}

fn measured<'a>(
    cell: Option<&'a Cell>,
    target: &str,
    metric: MetricId,
) -> Result<(&'a Cell, &'a Metric), NotComparable> {
    cell.and_then(|cell| Some((cell, cell.metric(metric)?)))
        .ok_or_else(|| NotComparable::NoNumbers {
            target: target.to_owned(),
            status: cell.map(|cell| cell.status),
        })
}

/// Return how many times better `a` is than `b`. A cell with numbers has one value for each of its
/// planned blocks, in order, so equal lengths mean equal blocks.
fn ratio(
    metric: MetricId,
    a: &Metric,
    b: &Metric,
    inflation: Option<f64>,
) -> Result<PairedRatio, NotComparable> {
    let values = (&a.by_invocation, &b.by_invocation);
    let quotient = metric.describe().better.quotient(values.0, values.1);
    let (over, under) = quotient.ok_or(NotComparable::NoDirection)?;
    let ratio = paired_ratio_at(over, under, CONFIDENCE, inflation.unwrap_or(1.0));
    ratio.ok_or(NotComparable::NoRatio)
}

fn disturbed(a: &Cell, b: &Cell) -> Vec<u32> {
    let of =
        |cell: &Cell| -> BTreeSet<u32> { cell.disturbances.iter().map(|d| d.invocation).collect() };
    of(a).union(&of(b)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Noise;
    use crate::compare::MATTERS;
    use crate::ratio::paired_ratio;
    use schema::key::CellKey;

    fn cell(target: &str, values: &[f64]) -> Cell {
        let metric = |&value: &f64| Metric::of(MetricId::TtftNs, value, values.to_vec());
        Cell {
            status: match values {
                [] => Status::Oom,
                _ => Status::Ok,
            },
            metrics: values.iter().take(1).map(metric).collect(),
            ..Cell::new(CellKey::new(target, "s", "c"), 1)
        }
    }

    fn at() -> CaseKey {
        CaseKey::new("s", "c")
    }

    fn analysis(cells: Vec<Cell>, inflation: Option<f64>) -> Analysis {
        let noise = inflation.map(|inflation| Noise {
            metric: MetricId::TtftNs,
            inflation,
            measured: 0,
            pairs: vec![],
        });
        Analysis {
            cells,
            noise: noise.into_iter().collect(),
            matters: MATTERS,
            ..Analysis::default()
        }
    }

    const FAST: [f64; 5] = [10.0, 10.1, 9.9, 10.05, 9.95];
    const SLOW: [f64; 5] = [20.0, 20.3, 19.9, 20.0, 20.1];

    #[test]
    fn the_ratio_is_the_paired_one_and_holm_counts_every_pair() {
        let near: Vec<f64> = FAST.iter().map(|v| v * 1.03).collect();
        let of = analysis(
            vec![cell("a", &FAST), cell("b", &SLOW), cell("d", &near)],
            None,
        );
        let all = pairs(&of, &at(), MetricId::TtftNs, &["a", "b", "d"]);
        let names: Vec<(&str, &str)> = all.iter().map(|p| (&*p.a, &*p.b)).collect();
        assert_eq!(names, [("a", "b"), ("a", "d"), ("b", "d")]);
        let first = all[0].outcome.as_ref().unwrap();
        let alone = paired_ratio(&SLOW, &FAST).unwrap();
        assert_eq!(first.ratio, alone.ratio);
        assert_eq!(first.verdict, Verdict::Better);
        // Equal log ratios have p = 0 and come first in Holm's order, so the smaller p of the other
        // two is multiplied by 2.
        let raw = [
            alone.p.unwrap(),
            paired_ratio(&near, &SLOW).unwrap().p.unwrap(),
        ];
        let expected = 2.0 * raw[0].min(raw[1]);
        let adjusted = first
            .p_holm
            .unwrap()
            .min(all[2].outcome.as_ref().unwrap().p_holm.unwrap());
        assert!((adjusted - expected).abs() < 1e-12, "{adjusted} {expected}");
    }

    #[test]
    fn seen_from_the_other_side_it_is_the_opposite() {
        let of = analysis(vec![cell("a", &FAST), cell("b", &SLOW)], None);
        let ab = pairs(&of, &at(), MetricId::TtftNs, &["a", "b"])[0].clone();
        let ba = pairs(&of, &at(), MetricId::TtftNs, &["b", "a"])[0].clone();
        let (ab, ba) = (ab.outcome.unwrap(), ba.outcome.unwrap());
        let turned = ab.reversed();
        assert!((turned.ratio - ba.ratio).abs() < 1e-12);
        let (low, high) = turned.ci95.unwrap();
        let (its_low, its_high) = ba.ci95.unwrap();
        assert!((low - its_low).abs() < 1e-9 && (high - its_high).abs() < 1e-9);
        assert_eq!(
            (turned.verdict, ba.verdict),
            (Verdict::Worse, Verdict::Worse)
        );
    }

    #[test]
    fn errors_that_the_pairs_enlarge_hide_a_small_difference() {
        let near = [10.6, 10.7, 10.5, 10.6, 10.6];
        let compared = |inflation| {
            let of = analysis(vec![cell("a", &FAST), cell("d", &near)], inflation);
            let all = pairs(&of, &at(), MetricId::TtftNs, &["a", "d"]);
            all[0].outcome.clone().unwrap()
        };
        assert_eq!(compared(None).verdict, Verdict::Better);
        assert_eq!(compared(Some(1.0)).verdict, Verdict::Better);
        let enlarged = compared(Some(20.0));
        assert_eq!((enlarged.verdict, enlarged.blocks), (Verdict::Undecided, 5));
        let width = |c: &Compared| c.ci95.map(|(low, high)| (high / low).ln()).unwrap();
        assert!((width(&enlarged) / width(&compared(None)) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn what_matters_is_the_runs_to_say() {
        let near = [10.3, 10.4, 10.2, 10.35, 10.25];
        let said = |matters| {
            let of = Analysis {
                matters,
                ..analysis(vec![cell("a", &FAST), cell("d", &near)], None)
            };
            let all = pairs(&of, &at(), MetricId::TtftNs, &["a", "d"]);
            let compared = all[0].outcome.clone().unwrap();
            (compared.verdict, compared.reversed().verdict)
        };
        assert_eq!(said(MATTERS), (Verdict::Better, Verdict::Worse));
        assert_eq!(said(1.05), (Verdict::Equal, Verdict::Equal));
        assert_eq!(said(1.03), (Verdict::Undecided, Verdict::Undecided));
    }

    #[test]
    fn what_cannot_be_compared_says_why() {
        let of = analysis(
            vec![
                cell("a", &FAST),
                cell("oom", &[]),
                cell("short", &FAST[..3]),
            ],
            None,
        );
        let why = |b: &str| {
            let all = pairs(&of, &at(), MetricId::TtftNs, &["a", b]);
            all[0].outcome.clone().unwrap_err()
        };
        let no_numbers = |target: &str, status| NotComparable::NoNumbers {
            target: target.into(),
            status,
        };
        assert_eq!(why("oom"), no_numbers("oom", Some(Status::Oom)));
        assert_eq!(why("gone"), no_numbers("gone", None));
        assert_eq!(why("short"), NotComparable::NoRatio);
        let single = analysis(vec![cell("a", &FAST[..1]), cell("b", &SLOW[..1])], None);
        let all = pairs(&single, &at(), MetricId::TtftNs, &["a", "b"]);
        let unknown = all[0].outcome.as_ref().unwrap();
        assert_eq!((unknown.verdict, unknown.p_holm), (Verdict::Unknown, None));
    }
}
