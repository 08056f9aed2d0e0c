//! A case of a micro suite: every variant's time, rate and rank, and the variants without numbers.

use super::{SuiteView, call_ns};
use crate::fmt::{self, NONE, Unit, quantity};
use crate::html::slug;
use crate::view::cells::{chip, rests_on, status_words, verdict};
use crate::view::noise;
use crate::view::paths::engine_path;
use schema::micro::{SuiteCase, Variant, Work};
use schema::record::Status;
use serde::Serialize;
use stats::analysis::{Cell, Metric, MetricId};

#[derive(Serialize)]
pub(super) struct CaseView {
    anchor: String,
    label: String,
    params: String,
    rate: &'static str,
    noise: String,
    rows: Vec<VariantRow>,
    failures: Vec<Failure>,
}

#[derive(Serialize)]
pub(super) struct VariantRow {
    swatch: String,
    id: String,
    path: String,
    time: String,
    interval: String,
    rate: String,
    rank: String,
    ratio: String,
    ratio_interval: String,
    verdict: String,
    tone: &'static str,
    first_call: String,
    memory: String,
    error: String,
    rests_on: String,
}

#[derive(Serialize)]
struct Failure {
    swatch: String,
    id: String,
    status: &'static str,
    reason: String,
}

impl SuiteView<'_> {
    pub(super) fn case(&self, case: &SuiteCase) -> CaseView {
        let mut measured: Vec<(&Variant, &Cell, &Metric)> = Vec::new();
        let mut failures = Vec::new();
        for variant in &self.planned.variants {
            let cell = self.suite.cell(&case.id, &variant.id);
            match cell.and_then(|cell| Some((cell, call_ns(cell)?))) {
                Some((cell, metric)) => measured.push((variant, cell, metric)),
                None => failures.push(Failure {
                    swatch: chip(self.style(variant)),
                    id: variant.id.clone(),
                    status: cell.map_or("not planned", |cell| status_words(cell.status)),
                    reason: cell.map(|cell| cell.reason.clone()).unwrap_or_default(),
                }),
            }
        }
        measured.sort_by(|a, b| a.2.value.total_cmp(&b.2.value));
        let params = case
            .params
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        CaseView {
            anchor: slug(&case.id),
            label: case.label.clone(),
            params: params.collect::<Vec<_>>().join(", "),
            rate: rate_unit(self.planned.work).0,
            noise: self.noise(case),
            rows: measured
                .into_iter()
                .map(|(variant, cell, metric)| self.row(case, variant, cell, metric))
                .collect(),
            failures,
        }
    }

    fn noise(&self, case: &SuiteCase) -> String {
        let baseline = &self.planned.baseline;
        let noise = self.suite.analysis.noise(MetricId::CallNs);
        let here: Vec<_> = noise
            .iter()
            .flat_map(|n| &n.pairs)
            .filter(|p| p.case == case.id)
            .collect();
        if let (Some(noise), false) = (noise, here.is_empty()) {
            return format!("{} {}", noise::pairs(&here), noise::enlarged(noise));
        }
        let mut twins = self.suite.twins.iter();
        let lost = twins.find(|twin| twin.case == case.id && twin.status != Status::Ok);
        let why = lost.map_or(String::new(), |twin| {
            format!(
                " (second launches of {baseline}: {}, {})",
                status_words(twin.status),
                twin.reason
            )
        });
        format!("{baseline} was not measured twice here{why}: errors are what launches show.")
    }

    /// Say why a measured variant is not compared with the baseline.
    fn uncompared(&self, case: &SuiteCase) -> String {
        let baseline = &self.planned.baseline;
        match self.suite.cell(&case.id, baseline) {
            None => format!("no ratio: {baseline} was not run"),
            Some(cell) if cell.status != Status::Ok => {
                let status = status_words(cell.status);
                format!("no ratio: {baseline} has no value ({status})")
            }
            Some(_) => format!("no ratio: no block in common with {baseline}"),
        }
    }

    pub(super) fn row(
        &self,
        case: &SuiteCase,
        variant: &Variant,
        cell: &Cell,
        metric: &Metric,
    ) -> VariantRow {
        let (time, interval) = fmt::metric(metric);
        let per = rate_unit(self.planned.work).1;
        let rate = self.suite.rate(cell);
        let key = (case.id.clone(), variant.id.clone());
        let facts = self.suite.facts.get(&key);
        let of = |id: MetricId| {
            cell.metric(id)
                .map_or(NONE.into(), |m| quantity(Unit::from_metric(id), m.value))
        };
        let same_rank = self.suite.analysis.cells.iter();
        let same_rank = same_rank.filter(|c| c.case == cell.case && c.rank == cell.rank);
        let shared = if same_rank.count() > 1 { "=" } else { "" };
        let mut row = VariantRow {
            swatch: chip(self.style(variant)),
            id: variant.id.clone(),
            path: match variant.engine.as_str() {
                "" => String::new(),
                engine => engine_path(engine),
            },
            time,
            interval: interval.unwrap_or_else(|| NONE.into()),
            rate: rate.map_or(NONE.into(), |rate| quantity(Unit::Plain, rate / per)),
            rank: cell
                .rank
                .map_or(NONE.into(), |rank| format!("{rank}{shared}")),
            ratio: NONE.into(),
            ratio_interval: NONE.into(),
            verdict: self.uncompared(case),
            tone: "even",
            first_call: of(MetricId::FirstCallNs),
            memory: of(MetricId::PeakRssBytes),
            error: match facts.map(|facts| facts.error_max) {
                None => NONE.into(),
                Some(0.0) => "none".into(),
                Some(error) => format!("{error:.1e}"),
            },
            rests_on: rests_on(cell, metric),
        };
        if variant.id == self.planned.baseline {
            row.ratio = "1×".into();
            row.verdict = "the baseline".into();
        } else if let Some(comparison) = self.comparison(&case.id, &variant.id) {
            let (ratio, interval) = fmt::ratio(comparison.ratio, comparison.ci95);
            row.ratio = ratio;
            row.ratio_interval = interval.unwrap_or_else(|| NONE.into());
            (row.verdict, row.tone) = verdict(comparison);
        }
        row
    }

    /// A row about a variant in a case, for the page of its engine; `None` where it wasn't
    /// measured.
    pub(super) fn below_row(&self, variant: &Variant, case: &SuiteCase) -> Option<Vec<String>> {
        let cell = self.suite.cell(&case.id, &variant.id)?;
        let row = self.row(case, variant, cell, call_ns(cell)?);
        Some(vec![
            row.id,
            case.label.clone(),
            row.time,
            row.interval,
            row.ratio,
            row.ratio_interval,
            row.verdict,
        ])
    }
}

/// The heading of a rate's column, and the divisor to its unit.
fn rate_unit(work: Work) -> (&'static str, f64) {
    match work {
        Work::Bytes => ("MB/s", 1e6),
        Work::Flop => ("GFLOP/s", 1e9),
        Work::Tokens => ("tok/s", 1.0),
    }
}
