//! The analysis of a run's records: every planned cell with its status, metrics and rank, and the
//! comparisons. Everything is in the order of the plan, so that equal records give equal bytes.

use crate::analysis::{Analysis, Cell, Course, Metric, MetricId, Shape};
use crate::canary::Bands;
use crate::ci::{mean_interval, percentile_interval};
use crate::compare::{Contender, Contest, settle};
use crate::describe::{cv, describe_sorted, mean, median};
use crate::disturbance;
use crate::evidence::Evidence;
use crate::judge::judge;
use crate::metrics::{Sample, leading_of};
use crate::noise::noise;
use crate::percentile::{percentile_of_sorted, printable, quantiles_of_sorted, sorted};
use crate::samples::samples;
use crate::scaling::scaling;
use crate::stationarity::{drift, effective_size, lag1};
use crate::utilization::{Limits, withdraw};
use crate::witness;
use schema::key::twin_name;
use schema::plan::{Case, PlannedScenario};
use schema::run::Run;
use schema::scenario::Scenario;

/// Derive all cells and comparisons from a run's records.
///
/// `scenarios` say which metric leads ([`crate::metrics::validate`] finds names that are
/// no metric; such a scenario has cells but no comparisons and no ranks). A scenario that the run
/// measured in another version has none either.
/// `baseline` is a target id; where it was not measured, there are no comparisons
/// with it. Where each target is offered a share of its own capacity, targets aren't compared
/// or ranked: a ratio would compare what was asked of them, not how fast they are.
pub fn analyse(run: &Run, scenarios: &[Scenario], baseline: &str) -> Analysis {
    let plan = &run.header.plan;
    let facts = &run.header.provenance.facts;
    let bands = Bands::new(run);
    let mut analysis = Analysis {
        unfelt: bands.unfelt.clone(),
        matters: plan.matters(),
        ..Analysis::default()
    };
    let runs_twice = |target: &str| {
        let mut twins = run.budget.iter().flat_map(|budget| &budget.twins);
        twins.any(|twin| twin.target == target)
    };
    let mut twins = Vec::new();
    let mut contests = Vec::new();
    for scenario in &plan.scenarios {
        let first_of_scenario = analysis.cells.len();
        let leading = leading_of(scenario, scenarios);
        for case in &scenario.cases {
            let mut contenders = Vec::new();
            let first = analysis.cells.len();
            for target in plan.targets.iter().filter(|t| scenario.runs(&t.id)) {
                let limits = Limits::new(facts, &target.backend, &target.precision);
                let measured = |name: &str, leading| {
                    measure(run, &bands, name, scenario, case, leading, &limits)
                };
                let (cell, contender) = measured(&target.id, leading);
                analysis.cells.push(cell);
                contenders.extend(contender);
                if runs_twice(&target.id) {
                    twins.push(measured(&twin_name(&target.id), None).0);
                }
            }
            let Some(metric) = leading.filter(|_| !scenario.has_own_loads()) else {
                continue;
            };
            let contest = Contest {
                at: scenario.case_key(case),
                metric,
                inflation: None,
                matters: plan.matters(),
                contenders,
            };
            contests.push((first..analysis.cells.len(), contest));
        }
        let cells = &analysis.cells[first_of_scenario..];
        let scalings = plan.targets.iter().filter_map(|target| {
            let of_target: Vec<&Cell> = cells.iter().filter(|c| c.target == target.id).collect();
            scaling(scenario, &of_target)
        });
        analysis.scalings.extend(scalings);
    }
    analysis.exceeded = withdraw(&mut analysis.cells, &plan.targets);
    // A metric's errors depend on the A/A pairs of all cases, so they are known only now.
    analysis.noise = noise(&analysis.cells, &twins, analysis.matters);
    analysis.comparisons = settle(contests, &analysis.noise, &mut analysis.cells, baseline);
    analysis
}

/// Measure one cell; return it, and its contender in the contest on the leading metric. `target` is
/// an id, or a twin's name.
fn measure(
    run: &Run,
    bands: &Bands,
    target: &str,
    scenario: &PlannedScenario,
    case: &Case,
    leading: Option<MetricId>,
    limits: &Limits,
) -> (Cell, Option<Contender>) {
    let evidence = Evidence::gather(run, target, scenario, case);
    let mut cell = Cell {
        requests: evidence.requests(),
        invocations: evidence.complete.len() as u32,
        blocks: evidence.complete.iter().map(|a| a.invocation).collect(),
        ..Cell::new(
            scenario.cell_key(case, target),
            case.axis_value(scenario.axis),
        )
    };
    if let Err((status, reason)) = judge(run, target, scenario, case, &evidence) {
        cell.status = status;
        cell.reason = reason;
        return (cell, None);
    }
    let judged = disturbance::judge(&evidence.complete, bands);
    cell.disturbances = judged.disturbances;
    cell.unwatched = judged.unwatched;
    cell.unseen = judged.unseen;
    cell.audit = witness::audit(&evidence.complete);
    let metric = |id| metric(id, scenario, case, &evidence, limits);
    let metrics = MetricId::ALL.into_iter().filter_map(metric);
    let contender = add_metrics(&mut cell, metrics, leading);
    (cell, contender)
}

/// Add metrics, each with its pooled samples, to a cell; return the cell's contender in the contest
/// on the leading one.
pub(crate) fn add_metrics(
    cell: &mut Cell,
    metrics: impl Iterator<Item = (Metric, Vec<f64>)>,
    leading: Option<MetricId>,
) -> Option<Contender> {
    let mut contender = None;
    for (metric, pooled) in metrics {
        if leading == Some(metric.id) {
            let values = metric.by_invocation.iter().copied();
            contender = Some(Contender {
                target: cell.target.clone(),
                value: metric.value,
                by_block: cell.blocks.iter().copied().zip(values).collect(),
                disturbed: cell.disturbances.iter().map(|d| d.invocation).collect(),
                pooled,
            });
        }
        cell.metrics.push(metric);
    }
    contender
}

/// Compute one metric of a cell, with its pooled, sorted samples; `None` unless every invocation
/// has it, so that `by_invocation` always lists all blocks.
fn metric(
    id: MetricId,
    scenario: &PlannedScenario,
    case: &Case,
    evidence: &Evidence,
    limits: &Limits,
) -> Option<(Metric, Vec<f64>)> {
    let in_order: Vec<Vec<f64>> = evidence
        .complete
        .iter()
        .map(|attempt| samples(id, scenario, case, attempt, limits))
        .collect();
    from_samples(id, &in_order, evidence.requests())
}

/// Compute a metric from its samples, by invocation and in order of time; `None` unless each
/// invocation has some. The number of `requests` decides which percentiles are given.
pub(crate) fn from_samples(
    id: MetricId,
    in_order: &[Vec<f64>],
    requests: u64,
) -> Option<(Metric, Vec<f64>)> {
    let per_request = id.describe().sample != Sample::Invocation;
    // An invocation with one value has this value as its median.
    let medians = in_order.iter().map(|samples| median(samples));
    let by_invocation: Vec<f64> = medians.collect::<Option<_>>()?;
    let pooled = sorted(&in_order.concat())?;
    let shape = if per_request {
        Some(shape(in_order, &pooled, requests)?)
    } else {
        None
    };
    let metric = Metric {
        id,
        n: pooled.len() as u64,
        value: mean(&by_invocation)?,
        ci95: mean_interval(&by_invocation).map(|i| (i.low, i.high)),
        cv_invocations: cv(&by_invocation),
        by_invocation,
        shape,
        course: per_request.then(|| course(in_order)),
    };
    Some((metric, pooled))
}

/// Describe the autocorrelation, the effective size and the drift of samples within invocations.
fn course(invocations: &[Vec<f64>]) -> Course {
    let each = |of: fn(&[f64]) -> Option<f64>| -> Option<Vec<f64>> {
        invocations.iter().map(|samples| of(samples)).collect()
    };
    Course {
        lag1: each(lag1).and_then(|values| mean(&values)),
        effective: each(effective_size).map(|sizes| sizes.iter().sum()),
        drift: drift(invocations),
    }
}

/// Describe the pooled samples of all launches; the number of requests decides which percentiles
/// are given.
fn shape(launches: &[Vec<f64>], ascending: &[f64], requests: u64) -> Option<Shape> {
    let all = describe_sorted(ascending)?;
    let tail = |p: u8| {
        printable(p, requests.min(ascending.len() as u64))
            .then(|| percentile_of_sorted(ascending, f64::from(p)))
            .flatten()
    };
    Some(Shape {
        mean: all.mean,
        p5: percentile_of_sorted(ascending, 5.0)?,
        mad: all.mad,
        min: all.min,
        p50: all.median,
        p90: tail(90),
        p95: tail(95),
        p99: tail(99),
        intervals: [50.0, 90.0, 95.0, 99.0].map(|p| percentile_interval(launches, ascending, p)),
        max: all.max,
        quantiles: quantiles_of_sorted(ascending),
    })
}
