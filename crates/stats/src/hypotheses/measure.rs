//! The numbers that settle a prediction: the cells that it is about, what is measured in each, and
//! whether that lies within the bounds.

use super::{Evidence, LEADING, Measure, Suite, Verdict};
use crate::analysis::{Analysis, Cell, Metric, MetricId};
use crate::ci::{CONFIDENCE, mean_interval_at};
use crate::describe::{cv, cv_interval, times_more_varied};
use crate::metrics::{Better, leading_of};
use crate::ratio::paired_ratio_at;
use schema::hypothesis::{CaseSelector, Claim, Hypothesis, NamedCases, Place, Selector};
use schema::key::CaseKey;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use schema::registry::Target;
use schema::run::Run;
use schema::scenario::{Axis, Scenario};

/// The numbers that a prediction is judged by.
pub(super) struct Items<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// Number of cells that have no number but could have had one: see `Scope::is_open`.
    pub(super) missing: u32,
}

/// One number before it is judged: the values by launch that it is computed from, and its bounds.
pub(super) struct Item<'a> {
    cell: &'a Cell,
    against: Option<&'a Cell>,
    measure: Measure,
    /// Values of `cell`, by launch.
    own: &'a [f64],
    /// Values of the cell that `cell` is compared with, by launch.
    other: &'a [f64],
    /// Load of `own` ÷ load of `other`, for growth; 1 otherwise.
    loads: f64,
    /// Least number that agrees with the prediction.
    min: f64,
    /// Greatest number that agrees with the prediction.
    max: f64,
    /// Factor by which the error of a ratio between targets is enlarged.
    inflation: f64,
    /// Smallest ratio that matters: a number nearer to 1 neither agrees nor disagrees. `None` where
    /// every number counts.
    matters: Option<f64>,
}

impl<'a> Item<'a> {
    /// Create the number of a cell by itself.
    fn new((cell, metric): Measured<'a>, measure: Measure, min: f64, max: f64) -> Self {
        Self {
            cell,
            against: None,
            measure,
            own: &metric.by_invocation,
            other: &[],
            loads: 1.0,
            min,
            max,
            inflation: 1.0,
            matters: None,
        }
    }

    /// Compare it with another cell.
    fn compared_with(self, (cell, metric): Measured<'a>, inflation: f64) -> Self {
        Self {
            against: Some(cell),
            other: &metric.by_invocation,
            inflation,
            ..self
        }
    }

    /// Return the value and its interval at a confidence.
    fn estimate(&self, confidence: f64) -> Option<(f64, Option<(f64, f64)>)> {
        let ratio = |a: &[f64], b: &[f64]| {
            let found = paired_ratio_at(a, b, confidence, self.inflation)?;
            Some((found.ratio, found.ci95))
        };
        match self.measure {
            Measure::Value(_) => {
                let mean = crate::describe::mean(self.own)?;
                let interval = mean_interval_at(self.own, confidence);
                Some((mean, interval.map(|i| (i.low, i.high))))
            }
            Measure::TimesBetter(id) if id.describe().better == Better::Lower => {
                ratio(self.other, self.own)
            }
            Measure::TimesLower(_) => ratio(self.other, self.own),
            Measure::TimesBetter(_) | Measure::TimesHigher(_) => ratio(self.own, self.other),
            Measure::Variation(_) => Some((cv(self.own)?, cv_interval(self.own, confidence))),
            Measure::TimesSteadier(_) => {
                let (times, interval) = times_more_varied(self.other, self.own, confidence)?;
                Some((times, Some(interval)))
            }
            Measure::Requests => {
                let n = self.cell.requests as f64;
                Some((n, Some((n, n))))
            }
            Measure::OfLinear(_) => {
                let (growth, ci) = ratio(self.own, self.other)?;
                let scaled = |x: f64| x / self.loads;
                Some((
                    scaled(growth),
                    ci.map(|(low, high)| (scaled(low), scaled(high))),
                ))
            }
        }
    }

    /// Return how far a value lies beyond the bound that it is closest to breaking, as a factor: 1
    /// is on the bound, less is within. Where bound and value are 0, the quotient is NaN, which
    /// `f64::max` ignores.
    fn beyond(&self, value: f64) -> f64 {
        let below = Some(self.min / value).filter(|_| self.min.is_finite());
        let above = Some(value / self.max).filter(|_| self.max.is_finite());
        below.unwrap_or(0.0).max(above.unwrap_or(0.0)).max(0.0)
    }

    /// Judge the number: it agrees if it lies within the bounds at the confidence `inside`, and
    /// disagrees if it lies outside at the confidence `outside`. `None` where it has no value.
    pub(super) fn judge(&self, inside: f64, outside: f64) -> Option<Evidence> {
        let (value, ci95) = self.estimate(CONFIDENCE)?;
        let interval = |confidence| self.estimate(confidence).and_then(|(_, ci)| ci);
        let is_inside = interval(inside).is_some_and(|(low, high)| {
            let beyond = self.matters.is_none_or(|matters| low > matters);
            low >= self.min && high <= self.max && beyond
        });
        let is_outside = interval(outside).is_some_and(|(low, high)| {
            let below = high < self.min && self.matters.is_none_or(|by| high < 1.0 / by);
            below || low > self.max
        });
        Some(Evidence {
            target: self.cell.target.clone(),
            against: self.against.map(|cell| cell.target.clone()),
            scenario: self.cell.scenario.clone(),
            case: self.cell.case.clone(),
            measure: self.measure,
            value,
            ci95: ci95.filter(|_| self.measure != Measure::Requests),
            beyond: self.beyond(value),
            verdict: match (is_inside, is_outside) {
                (true, _) => Verdict::Confirmed,
                (_, true) => Verdict::Refuted,
                _ => Verdict::Inconclusive,
            },
        })
    }
}

/// Collect all numbers of a prediction, in plan order.
pub(super) fn items<'a>(
    hypothesis: &Hypothesis,
    place: &Place,
    run: &'a Run,
    analysis: &'a Analysis,
    scenarios: &[Scenario],
    suites: &'a [Suite],
) -> Items<'a> {
    let mut found = Items {
        items: Vec::new(),
        missing: 0,
    };
    let plan = &run.header.plan;
    let named = |s: &&PlannedScenario| {
        hypothesis.scenarios.is_empty() || hypothesis.scenarios.contains(&s.id)
    };
    let of_run = plan.scenarios.iter().filter(named);
    let of_run = of_run.filter_map(|scenario| {
        let metric = match &hypothesis.metric {
            Some(name) => MetricId::from_id(name),
            None => leading_of(scenario, scenarios),
        };
        Some(Scope {
            hypothesis,
            place,
            targets: &plan.targets,
            analysis,
            scenario,
            metric: metric?,
        })
    });
    let by_name = hypothesis.metric.as_deref().and_then(MetricId::from_id);
    let of_suites = suites.iter().map(|suite| Scope {
        hypothesis,
        place,
        targets: &suite.targets,
        analysis: &suite.analysis,
        scenario: &suite.scenario,
        metric: by_name.unwrap_or(LEADING),
    });
    for scope in of_run.chain(of_suites) {
        if let Claim::Linear { min } = hypothesis.claim {
            scope.growth(min, &mut found);
            continue;
        }
        for case in cases(scope.scenario, hypothesis.at) {
            scope.case(case, &mut found);
        }
    }
    found
}

fn cases(scenario: &PlannedScenario, at: CaseSelector) -> Vec<&Case> {
    let value = |case: &&Case| case.axis_value(scenario.axis);
    let all = scenario.cases.iter();
    match at {
        CaseSelector::Word(NamedCases::Every) => all.collect(),
        CaseSelector::Word(NamedCases::Largest) => all.max_by_key(value).into_iter().collect(),
        CaseSelector::Word(NamedCases::Smallest) => all.min_by_key(value).into_iter().collect(),
        CaseSelector::Value(wanted) => all.filter(|case| value(case) == wanted).collect(),
    }
}

/// A prediction applied to one scenario of a run.
struct Scope<'a, 'h> {
    hypothesis: &'h Hypothesis,
    place: &'h Place,
    targets: &'a [Target],
    analysis: &'a Analysis,
    scenario: &'a PlannedScenario,
    metric: MetricId,
}

/// A cell that has the metric, and the metric's values.
type Measured<'a> = (&'a Cell, &'a Metric);

impl<'a> Scope<'a, '_> {
    /// Return the planned cells of the targets that are selected.
    fn cells(&self, of: &Selector, case: &str) -> impl Iterator<Item = (&'a Target, &'a Cell)> {
        let meant = |t: &&Target| self.place.has(t) && of.has(t);
        let targets: Vec<&'a Target> = self.targets.iter().filter(meant).collect();
        let (analysis, at) = (self.analysis, CaseKey::new(&self.scenario.id, case));
        targets
            .into_iter()
            .filter_map(move |target| Some((target, analysis.cell(&at.cell(&target.id))?)))
    }

    fn measured(&self, cell: &'a Cell) -> Option<Measured<'a>> {
        Some((cell, cell.metric(self.metric)?))
    }

    fn inflation(&self) -> f64 {
        self.analysis.inflation(self.metric)
    }

    /// Whether a cell has no number although it could have one: its counter wasn't read, or it
    /// wasn't measured. A cell that failed doesn't count.
    fn is_open(&self, cell: &'a Cell) -> bool {
        let unknown = matches!(
            cell.status,
            Status::Ok | Status::OverBudget | Status::NotRun | Status::Unavailable
        );
        unknown && self.measured(cell).is_none()
    }

    /// Return the cells that a prediction is judged by in a case, and the number of cells that have
    /// no number but could have had one. If the prediction is per engine, these are the best cell
    /// of each engine, and the number of engines without a number.
    fn judged_cells(&self, case: &str, high: bool) -> (Vec<Measured<'a>>, u32) {
        let all: Vec<(&Target, &Cell)> = self.cells(&self.hypothesis.of, case).collect();
        if !self.hypothesis.per_engine {
            let missing = all.iter().filter(|(_, cell)| self.is_open(cell)).count() as u32;
            let measured = all.iter().filter_map(|(_, cell)| self.measured(cell));
            return (measured.collect(), missing);
        }
        let mut engines: Vec<&str> = Vec::new();
        for (target, _) in &all {
            if !engines.contains(&target.engine.as_str()) {
                engines.push(&target.engine);
            }
        }
        let (mut best, mut missing) = (Vec::new(), 0);
        for engine in engines {
            let of_engine = || all.iter().filter(|(t, _)| t.engine == engine);
            let measured = of_engine().filter_map(|(_, cell)| self.measured(cell));
            match best_of(measured, high) {
                Some(found) => best.push(found),
                None => missing += u32::from(of_engine().any(|(_, cell)| self.is_open(cell))),
            }
        }
        (best, missing)
    }

    fn case(&self, case: &Case, found: &mut Items<'a>) {
        let high = self.metric.describe().better == Better::Higher;
        let (judged_cells, missing) = self.judged_cells(&case.id, high);
        let bounds = |min: &Option<f64>, max: &Option<f64>| {
            (
                min.unwrap_or(f64::NEG_INFINITY),
                max.unwrap_or(f64::INFINITY),
            )
        };
        match &self.hypothesis.claim {
            Claim::Range { min, max } => {
                let (min, max) = bounds(min, max);
                let one = |s| Item::new(s, Measure::Value(self.metric), min, max);
                found.items.extend(judged_cells.into_iter().map(one));
                found.missing += missing;
            }
            Claim::Variation { max } => {
                let one = |s| Item::new(s, Measure::Variation(self.metric), 0.0, *max);
                found.items.extend(judged_cells.into_iter().map(one));
            }
            Claim::Samples { min } => {
                let one = |s| Item::new(s, Measure::Requests, *min as f64, f64::INFINITY);
                found.items.extend(judged_cells.into_iter().map(one));
            }
            Claim::Ratio { against, min, max } => {
                let (min, max) = bounds(min, max);
                self.against(case, against, judged_cells, (min, max), missing, found);
            }
            Claim::Highest { among } => self.ahead(case, among, Measure::TimesHigher, found),
            Claim::Lowest { among } => self.ahead(case, among, Measure::TimesLower, found),
            Claim::LeastVariation { among } => {
                self.ahead(case, among, Measure::TimesSteadier, found);
            }
            Claim::Linear { .. } | Claim::Unmeasured { .. } => {}
        }
    }

    /// Compare each of `judged_cells` with the first target of `against` that is planned.
    fn against(
        &self,
        case: &Case,
        against: &[String],
        judged_cells: Vec<Measured<'a>>,
        (min, max): (f64, f64),
        missing: u32,
        found: &mut Items<'a>,
    ) {
        let planned = |id: &&String| self.targets.iter().any(|t| t.id == **id);
        let one = Selector {
            targets: against.iter().find(planned).into_iter().cloned().collect(),
            ..Selector::default()
        };
        if one.targets.is_empty() {
            return;
        }
        let other = self.cells(&one, &case.id).next();
        let Some(other) = other.and_then(|(_, cell)| self.measured(cell)) else {
            found.missing += missing + judged_cells.len() as u32;
            return;
        };
        found.missing += missing;
        let (measure, inflation) = (Measure::TimesBetter(self.metric), self.inflation());
        let one = |own| Item::new(own, measure, min, max).compared_with(other, inflation);
        found.items.extend(judged_cells.into_iter().map(one));
    }

    /// Compare the best of the prediction's targets with each of the others.
    fn ahead(
        &self,
        case: &Case,
        among: &Selector,
        measure: fn(MetricId) -> Measure,
        found: &mut Items<'a>,
    ) {
        let own = || self.cells(&self.hypothesis.of, &case.id);
        let measured = own().filter_map(|(_, cell)| self.measured(cell));
        let best = match measure(self.metric) {
            Measure::TimesSteadier(_) => steadiest(measured),
            Measure::TimesHigher(_) => best_of(measured, true),
            _ => best_of(measured, false),
        };
        let Some(best) = best else {
            found.missing += own().filter(|(_, cell)| self.is_open(cell)).count() as u32;
            return;
        };
        for (target, rival) in self.cells(among, &case.id) {
            if self.hypothesis.of.has(target) {
                continue;
            }
            let Some(other) = self.measured(rival) else {
                found.missing += u32::from(self.is_open(rival));
                continue;
            };
            let measure = measure(self.metric);
            let steadier = matches!(measure, Measure::TimesSteadier(_));
            let lead = Item::new(best, measure, 1.0, f64::INFINITY);
            found.items.push(Item {
                // The smallest difference that matters is one of values, not of their variation.
                matters: Some(if steadier { 1.0 } else { self.analysis.matters }),
                ..lead.compared_with(other, self.inflation())
            });
        }
    }

    /// Add the growth of each target from the least load to the greatest.
    fn growth(&self, min: f64, found: &mut Items<'a>) {
        let axis = self.scenario.axis;
        if !matches!(axis, Axis::InFlight | Axis::Users | Axis::Batch) {
            return;
        }
        let at = |word| {
            cases(self.scenario, CaseSelector::Word(word))
                .first()
                .copied()
        };
        let (Some(least), Some(most)) = (at(NamedCases::Smallest), at(NamedCases::Largest)) else {
            return;
        };
        let loads = f64::from(most.axis_value(axis)) / f64::from(least.axis_value(axis));
        if loads.is_nan() || loads <= 1.0 {
            return;
        }
        let few: Vec<_> = self.cells(&self.hypothesis.of, &least.id).collect();
        for (target, cell) in self.cells(&self.hypothesis.of, &most.id) {
            let start = few.iter().find(|(other, _)| other.id == target.id);
            let start = start.and_then(|(_, cell)| self.measured(cell));
            match (self.measured(cell), start) {
                (Some(grown), Some((_, start))) => found.items.push(Item {
                    other: &start.by_invocation,
                    loads,
                    ..Item::new(grown, Measure::OfLinear(self.metric), min, f64::INFINITY)
                }),
                _ => found.missing += u32::from(self.is_open(cell)),
            }
        }
    }
}

fn best_of<'a>(of: impl Iterator<Item = Measured<'a>>, high: bool) -> Option<Measured<'a>> {
    of.min_by(|(_, a), (_, b)| match high {
        true => b.value.total_cmp(&a.value),
        false => a.value.total_cmp(&b.value),
    })
}

fn steadiest<'a>(of: impl Iterator<Item = Measured<'a>>) -> Option<Measured<'a>> {
    let varies = |(_, metric): &Measured| metric.cv_invocations.unwrap_or(f64::INFINITY);
    of.min_by(|a, b| varies(a).total_cmp(&varies(b)))
}
