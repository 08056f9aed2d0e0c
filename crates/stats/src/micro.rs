//! The analysis of a run's micro suites: cells, comparisons with the baseline and the leader, ranks
//! and noise, by the same functions that judge engines.
//!
//! A cell is a variant and a case. Its leading metric is the time of a call. The baseline runs
//! twice in every block, and the differences between its two launches in the suite's cases show how
//! large errors are.

use crate::analyse::{add_metrics, from_samples};
use crate::analysis::{Analysis, Cell, MetricId};
use crate::compare::{Contender, Contest, settle};
use crate::noise::noise;
use schema::key::{CellKey, twin_name};
use schema::micro::{MicroLog, MicroSample, PlannedSuite, case_key};
use schema::record::Status;
use schema::run::Run;
use std::collections::BTreeMap;

/// The metrics of a micro cell, the leading one first.
pub const METRICS: [MetricId; 3] = [
    MetricId::CallNs,
    MetricId::FirstCallNs,
    MetricId::PeakRssBytes,
];

/// The analysis of one suite.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteAnalysis {
    /// Suite id, without `micro/`.
    pub id: String,
    /// Cells, comparisons and noise; `scenario` is `micro/<suite>`, `target` the variant. The noise
    /// is that of the baseline's second launches.
    pub analysis: Analysis,
    /// Cells of the baseline's second launches, one per case; a cell that failed says why the case
    /// has no A/A pair.
    pub twins: Vec<Cell>,
    /// Facts of each measured cell, by (case, variant).
    pub facts: BTreeMap<(String, String), MicroFacts>,
}

/// Facts of a measured cell beside its metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MicroFacts {
    /// Work of one call, in the suite's unit.
    pub work: f64,
    /// Largest relative error of any output value over all launches.
    pub error_max: f64,
}

impl SuiteAnalysis {
    /// Find the cell of a case and a variant.
    pub fn cell(&self, case: &str, variant: &str) -> Option<&Cell> {
        self.analysis.cell(&case_key(&self.id, case).cell(variant))
    }

    /// Return the work per second of a measured cell: the work of a call ÷ its time.
    pub fn rate(&self, cell: &Cell) -> Option<f64> {
        let facts = self.facts.get(&(cell.case.clone(), cell.target.clone()))?;
        let time = cell.metric(MetricId::CallNs)?;
        Some(facts.work / time.value * 1e9).filter(|rate| rate.is_finite())
    }
}

/// Analyse every suite of a run.
pub fn analyse(run: &Run) -> Vec<SuiteAnalysis> {
    let suites = run.header.plan.micro.suites.iter();
    suites.map(|suite| of_suite(run, suite)).collect()
}

fn of_suite(run: &Run, suite: &PlannedSuite) -> SuiteAnalysis {
    let mut analysis = Analysis {
        matters: run.header.plan.matters(),
        ..Analysis::default()
    };
    let (mut twins, mut facts) = (Vec::new(), BTreeMap::new());
    let baseline = &suite.baseline;
    let mut contests = Vec::new();
    for case in &suite.cases {
        let at = case_key(&suite.id, &case.id);
        let first = analysis.cells.len();
        let mut contenders = Vec::new();
        for variant in &suite.variants {
            let evidence = Evidence::gather(run, &suite.id, &variant.id, &case.id);
            let (cell, contender) = evidence.cell(at.cell(&variant.id));
            if let Some(of_cell) = evidence.facts().filter(|_| cell.status == Status::Ok) {
                let key = (case.id.clone(), variant.id.clone());
                facts.insert(key, of_cell);
            }
            analysis.cells.push(cell);
            contenders.extend(contender);
        }
        let twin = twin_name(baseline);
        let second = Evidence::gather(run, &suite.id, &twin, &case.id);
        twins.push(second.cell(at.cell(&twin)).0);
        let contest = Contest {
            at,
            metric: METRICS[0],
            inflation: None,
            matters: analysis.matters,
            contenders,
        };
        contests.push((first..analysis.cells.len(), contest));
    }
    analysis.noise = noise(&analysis.cells, &twins, analysis.matters);
    analysis.comparisons = settle(contests, &analysis.noise, &mut analysis.cells, baseline);
    SuiteAnalysis {
        id: suite.id.clone(),
        analysis,
        twins,
        facts,
    }
}

/// The records of a cell.
struct Evidence<'a> {
    /// Samples of the first complete launch of each block.
    complete: BTreeMap<u32, &'a MicroSample>,
    /// Number of planned launches.
    planned: usize,
    /// Status and reason of the first launch without samples of the case.
    failed: Option<(Status, String)>,
}

impl<'a> Evidence<'a> {
    fn gather(run: &'a Run, suite: &str, variant: &str, case: &str) -> Self {
        let planned = run.header.plan.micro.launches.iter();
        let planned = planned.filter(|launch| launch.suite == suite && launch.variant == variant);
        let mut evidence = Self {
            complete: BTreeMap::new(),
            planned: planned.count(),
            failed: None,
        };
        let is_of = |log: &&MicroLog| log.launch.suite == suite && log.launch.variant == variant;
        for log in run.micro.iter().filter(is_of) {
            for sample in log.cases.iter().filter(|sample| sample.case == case) {
                let block = evidence.complete.entry(log.launch.invocation);
                block.or_insert(sample);
            }
            let failed = log.failed.iter().find(|failed| failed.case == case);
            let failed = failed.map(|failed| (failed.status, failed.reason.clone()));
            evidence.failed = evidence.failed.or(failed);
        }
        evidence
    }

    /// Make the cell, and its contender in the contest on the leading metric.
    fn cell(&self, key: CellKey) -> (Cell, Option<Contender>) {
        let readings = self.complete.values().map(|s| s.ns.len() as u64).sum();
        let mut cell = Cell {
            requests: readings,
            invocations: self.complete.len() as u32,
            blocks: self.complete.keys().copied().collect(),
            ..Cell::new(key, 0)
        };
        if let Err((status, reason)) = self.judge() {
            cell.status = status;
            cell.reason = reason;
            return (cell, None);
        }
        let metrics = METRICS.into_iter().filter_map(|id| {
            let samples: Vec<Vec<f64>> = self.complete.values().map(|s| samples(id, s)).collect();
            from_samples(id, &samples, readings)
        });
        let contender = add_metrics(&mut cell, metrics, Some(METRICS[0]));
        (cell, contender)
    }

    fn judge(&self) -> Result<(), (Status, String)> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.complete.is_empty() || self.complete.len() < self.planned {
            return Err((
                Status::NotRun,
                format!(
                    "{} of {} launches are complete",
                    self.complete.len(),
                    self.planned
                ),
            ));
        }
        let mut works = self.complete.values().map(|sample| sample.work);
        let first = works.next();
        if works.any(|work| Some(work) != first) {
            return Err((
                Status::WrongOutput,
                "its launches report different amounts of work per call".into(),
            ));
        }
        Ok(())
    }

    fn facts(&self) -> Option<MicroFacts> {
        let first = self.complete.values().next()?;
        let errors = self.complete.values().map(|sample| sample.error_max);
        Some(MicroFacts {
            work: first.work,
            error_max: errors.fold(0.0, f64::max),
        })
    }
}

fn samples(id: MetricId, sample: &MicroSample) -> Vec<f64> {
    match id {
        MetricId::CallNs => {
            let calls = sample.calls as f64;
            sample.ns.iter().map(|&ns| ns as f64 / calls).collect()
        }
        MetricId::FirstCallNs => vec![sample.first_call_ns as f64],
        MetricId::PeakRssBytes => sample
            .peak_rss_bytes_timed
            .map(|b| b as f64)
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}
