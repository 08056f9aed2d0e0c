//! A case of a micro suite: every variant's time, rate and rank, and the variants without numbers.

use super::{SuiteView, call_ns};
use crate::fmt::{NONE, Unit, quantity};
use crate::view::cells::{self, CellView, chip, status_words};
use crate::view::noise;
use schema::micro::{SuiteCase, Variant, Work};
use schema::record::Status;
use serde::Serialize;
use stats::analysis::{Cell, Metric, MetricId};

#[derive(Serialize)]
pub(super) struct CaseView<'a> {
    case: &'a SuiteCase,
    rate: &'static str,
    noise: String,
    rows: Vec<VariantRow>,
    failures: Vec<Failure>,
}

#[derive(Serialize)]
struct VariantRow {
    swatch: String,
    id: String,
    /// Id of its engine, or empty.
    engine: String,
    cell: CellView,
    rate: String,
    first_call: String,
    memory: String,
    error: String,
}

#[derive(Serialize)]
struct Failure {
    swatch: String,
    id: String,
    status: &'static str,
    reason: String,
}

impl SuiteView<'_> {
    pub(super) fn case<'c>(&self, case: &'c SuiteCase) -> CaseView<'c> {
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
        CaseView {
            case,
            rate: rate_unit(self.planned.work).0,
            noise: self.noise(case),
            rows: measured
                .into_iter()
                .map(|(variant, cell, metric)| self.row(variant, cell, metric))
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
    fn uncompared(&self, case: &str) -> String {
        let baseline = &self.planned.baseline;
        match self.suite.cell(case, baseline) {
            None => format!("no ratio: {baseline} was not run"),
            Some(cell) if cell.status != Status::Ok => {
                let status = status_words(cell.status);
                format!("no ratio: {baseline} has no value ({status})")
            }
            Some(_) => format!("no ratio: no block in common with {baseline}"),
        }
    }

    fn row(&self, variant: &Variant, cell: &Cell, metric: &Metric) -> VariantRow {
        let per = rate_unit(self.planned.work).1;
        let rate = self.suite.rate(cell);
        let key = (cell.case.clone(), cell.target.clone());
        let facts = self.suite.facts.get(&key);
        let of = |id: MetricId| {
            cell.metric(id)
                .map_or(NONE.into(), |m| quantity(Unit::from_metric(id), m.value))
        };
        VariantRow {
            swatch: chip(self.style(variant)),
            id: variant.id.clone(),
            engine: variant.engine.clone(),
            cell: self.cell(cell, metric),
            rate: rate.map_or(NONE.into(), |rate| quantity(Unit::Plain, rate / per)),
            first_call: of(MetricId::FirstCallNs),
            memory: of(MetricId::PeakRssBytes),
            error: match facts.map(|facts| facts.error_max) {
                None => NONE.into(),
                Some(0.0) => "none".into(),
                Some(error) => format!("{error:.1e}"),
            },
        }
    }

    /// Make the view of a measured cell, with a reason where it is not compared with the baseline.
    fn cell(&self, cell: &Cell, metric: &Metric) -> CellView {
        let baseline = Some(self.planned.baseline.as_str());
        let mut view = cells::measured(&self.suite.analysis, baseline, cell, metric);
        if view.verdict.is_empty() {
            view.verdict = self.uncompared(&cell.case);
        }
        view
    }

    /// A row about a variant in a case, for the page of its engine; `None` where it wasn't
    /// measured.
    pub(super) fn below_row(&self, variant: &Variant, case: &SuiteCase) -> Option<Vec<String>> {
        let cell = self.suite.cell(&case.id, &variant.id)?;
        let view = self.cell(cell, call_ns(cell)?);
        let or_none = |text: String| match text.is_empty() {
            true => NONE.to_owned(),
            false => text,
        };
        Some(vec![
            variant.id.clone(),
            case.label.clone(),
            view.value,
            or_none(view.interval),
            or_none(view.ratio),
            or_none(view.ratio_interval),
            view.verdict,
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
