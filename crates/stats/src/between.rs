//! The comparison of two runs, cell by cell: what became faster, what slower, and what can't be
//! compared, with the reason.
//!
//! A cell is compared on its scenario's leading metric, where both runs measured it and asked the
//! same of it: the same model files, prompts and sizes. Other differences (the machine, the
//! programs) are what the comparison is about, and no reason to refuse it. The whole table is one
//! family for Holm's correction.

use crate::agreement::Agreement;
use crate::analyse::analyse;
use crate::analysis::{Analysis, Cell, MetricId, Verdict};
use crate::compare::verdict;
use crate::family::holm_of;
use crate::metrics::leading_of;
use crate::micro::SuiteAnalysis;
use crate::ratio::{UnpairedRatio, unpaired_ratio};
use crate::sameness;
use schema::key::CaseKey;
use schema::micro::{is_micro, scenario_id};
use schema::record::Status;
use schema::run::Run;
use schema::scenario::Scenario;
use std::collections::BTreeMap;

/// A cell as compared between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Metric of the comparison; `None` where no metric leads the scenario.
    pub metric: Option<MetricId>,
    /// Value in the first run; `None` where it has none.
    pub before: Option<f64>,
    /// Value in the second run; `None` where it has none.
    pub after: Option<f64>,
    /// How many times better the second run is (> 1 is better, whichever direction
    /// the metric has): ratio of geometric means over invocations.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, by Welch's t.
    pub ci95: Option<(f64, f64)>,
    /// Two-sided p, Holm-adjusted over all cells that could be compared.
    pub p_holm: Option<f64>,
    /// Factor by which the error is enlarged: the larger of the two that the runs' A/A pairs
    /// require; `None` where no target ran twice in either.
    pub inflation: Option<f64>,
    /// Verdict on the second run's cell.
    pub verdict: Verdict,
    /// Reason why the cell can't be compared; else empty.
    pub reason: String,
    /// Whether the first run measured the cell and the engine failed at it in the second.
    pub broken: bool,
    /// Numbers of invocations of the first run and of the second during which something else was at
    /// work (see [`crate::disturbance`]): it may have caused the change.
    pub disturbed: (usize, usize),
}

impl Change {
    /// Whether the second run is worse than the first.
    pub fn is_regression(&self) -> bool {
        self.verdict == Verdict::Worse || self.broken
    }
}

/// The result of comparing two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    /// Changes of every cell that either run planned, in the first run's order, then the second's.
    pub changes: Vec<Change>,
    /// Agreement of the two runs about the differences between targets.
    pub agreement: Agreement,
}

/// Compare the second run with the first.
///
/// `metric` replaces the scenarios' leading metrics. The smallest difference that matters is the
/// larger of the two runs'.
pub fn between(a: &Run, b: &Run, scenarios: &[Scenario], metric: Option<MetricId>) -> Between {
    let matters = a.header.plan.matters().max(b.header.plan.matters());
    let before = Side::new(a, scenarios, matters);
    let after = Side::new(b, scenarios, matters);
    let only_after = after.cells().filter(|cell| before.find(cell).is_none());
    let mut changes: Vec<Change> = before
        .cells()
        .chain(only_after)
        .map(|cell| {
            let planned = [a, b]
                .into_iter()
                .flat_map(|run| &run.header.plan.scenarios);
            let mut planned = planned.filter(|s| s.id == cell.scenario);
            let of_scenario = || match is_micro(&cell.scenario) {
                true => Some(crate::micro::METRICS[0]),
                false => planned.find_map(|planned| leading_of(planned, scenarios)),
            };
            let metric = metric.or_else(of_scenario);
            let sides = (before.find(cell), after.find(cell));
            let value = |cell: Option<&Cell>| Some(cell?.metric(metric?)?.value);
            let inflations = [&before, &after].map(|side| side.inflation(cell, metric?));
            let inflation = inflations.into_iter().flatten().reduce(f64::max);
            let tested = test(a, b, metric, sides, inflation.unwrap_or(1.0));
            let ratio = tested.as_ref().ok();
            Change {
                target: cell.target.clone(),
                scenario: cell.scenario.clone(),
                case: cell.case.clone(),
                metric,
                before: value(sides.0),
                after: value(sides.1),
                ratio: ratio.map(|tested| tested.ratio),
                ci95: ratio.map(|tested| tested.ci95),
                // This p is corrected below, where those of all cells are known.
                p_holm: ratio.map(|tested| tested.p),
                inflation,
                verdict: Verdict::Unknown,
                reason: tested.err().unwrap_or_default(),
                broken: sides.0.is_some_and(|cell| cell.status == Status::Ok)
                    && sides.1.is_some_and(|cell| cell.status.is_engines_fault()),
                disturbed: (disturbed(sides.0), disturbed(sides.1)),
            }
        })
        .collect();
    let p: Vec<Option<f64>> = changes.iter().map(|change| change.p_holm).collect();
    for (change, p_holm) in changes.iter_mut().zip(holm_of(&p)) {
        change.p_holm = p_holm;
        change.verdict = verdict(p_holm, change.ci95, matters);
    }
    Between {
        agreement: agreement(&changes, (&before.scenarios, &after.scenarios)),
        changes,
    }
}

/// Compute the agreement over all cases but those of micro suites, for targets whose cells can be
/// compared.
fn agreement(changes: &[Change], analyses: (&Analysis, &Analysis)) -> Agreement {
    let comparable =
        |change: &&Change| change.verdict != Verdict::Unknown && !is_micro(&change.scenario);
    let mut cases: BTreeMap<(CaseKey, MetricId), Vec<&str>> = BTreeMap::new();
    for change in changes.iter().filter(comparable) {
        let Some(metric) = change.metric else {
            continue;
        };
        let at = CaseKey::new(&change.scenario, &change.case);
        cases.entry((at, metric)).or_default().push(&change.target);
    }
    let mut agreement = Agreement::default();
    for ((at, metric), targets) in &cases {
        agreement.add(analyses, at, *metric, targets);
    }
    agreement
}

/// The analyses of one of the two runs.
struct Side {
    scenarios: Analysis,
    suites: Vec<SuiteAnalysis>,
}

impl Side {
    fn new(run: &Run, scenarios: &[Scenario], matters: f64) -> Self {
        Self {
            scenarios: Analysis {
                matters,
                // Comparisons inside the run aren't asked for, so no baseline is named.
                ..analyse(run, scenarios, "")
            },
            suites: crate::micro::analyse(run),
        }
    }

    /// Return the analysis that a cell of this scenario or suite is in.
    fn of(&self, scenario: &str) -> Option<&Analysis> {
        if !is_micro(scenario) {
            return Some(&self.scenarios);
        }
        let mut suites = self.suites.iter();
        let suite = suites.find(|suite| scenario_id(&suite.id) == scenario)?;
        Some(&suite.analysis)
    }

    /// Return the factor by which the errors of a cell's metric are enlarged.
    fn inflation(&self, cell: &Cell, metric: MetricId) -> Option<f64> {
        Some(self.of(&cell.scenario)?.noise(metric)?.inflation)
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let suites = self.suites.iter().flat_map(|suite| &suite.analysis.cells);
        self.scenarios.cells.iter().chain(suites)
    }

    fn find(&self, cell: &Cell) -> Option<&Cell> {
        self.of(&cell.scenario)?.cell(&cell.key())
    }
}

fn disturbed(cell: Option<&Cell>) -> usize {
    cell.map_or(0, |cell| cell.disturbances.len())
}

/// Compute how many times better the second run's cell is. `Err` is the reason why that can't be
/// said.
fn test(
    a: &Run,
    b: &Run,
    metric: Option<MetricId>,
    sides: (Option<&Cell>, Option<&Cell>),
    inflation: f64,
) -> Result<UnpairedRatio, String> {
    let metric = metric.ok_or("its scenario is not in data/scenarios, so no metric leads it")?;
    let about = metric.describe();
    let (before, after) = match sides {
        (Some(before), Some(after)) => (before, after),
        (Some(_), None) => return Err(format!("not in the plan of {}", b.header.id)),
        _ => return Err(format!("not in the plan of {}", a.header.id)),
    };
    if let Some(difference) = sameness::difference(a, b, before) {
        return Err(difference);
    }
    let values = |run: &Run, cell: &Cell| {
        let (id, name) = (&run.header.id, about.name);
        match (cell.status, cell.metric(metric)) {
            (Status::Ok, Some(metric)) => Ok(metric.by_invocation.clone()),
            (Status::Ok, None) => Err(format!("{id} has no {name} of it")),
            (status, _) => Err(format!("{} in {id}: {}", status.id(), cell.reason)),
        }
    };
    let (before, after) = (values(a, before)?, values(b, after)?);
    for (run, values) in [(a, &before), (b, &after)] {
        if values.len() < 2 {
            return Err(format!(
                "{} has only one invocation of it; a comparison needs at least two",
                run.header.id
            ));
        }
    }
    if !inflation.is_finite() {
        return Err(format!(
            "by {} half of the targets that ran twice differ from themselves, so nothing can be told apart",
            about.name
        ));
    }
    let quotient = about.better.quotient(&after, &before);
    let (over, under) =
        quotient.ok_or_else(|| format!("{} has no better direction", about.name))?;
    let ratio = unpaired_ratio(over, under, inflation);
    ratio.ok_or_else(|| format!("a {} of 0 has no ratio", about.name))
}
