//! A suite's page: its variants, how they compare with the baseline, and every case.

use super::SuiteView;
use super::case::CaseView;
use crate::chart::forest::{Forest, Group, Row};
use crate::chart::{Figure, Table};
use crate::fmt::{NONE, Unit, quantity};
use crate::markdown;
use crate::view::Shown;
use crate::view::frame::Frame;
use crate::view::noise;
use crate::view::paths::suite_path;
use crate::view::speed_up::times_better;
use crate::words::plural;
use schema::record::IsaLimit;
use serde::Serialize;
use stats::analysis::MetricId;

/// The page of a suite.
#[derive(Serialize)]
pub struct MicroPage<'a> {
    frame: Frame,
    id: String,
    version: u32,
    question: String,
    analysis: String,
    baseline: String,
    protocol: String,
    variants: Table,
    chart: Figure,
    cases: Vec<CaseView<'a>>,
    records: Vec<(String, String)>,
}

impl<'a> SuiteView<'a> {
    pub(super) fn page(&self, shown: &Shown) -> MicroPage<'a> {
        let planned = self.planned;
        let analysis = match self.text {
            Some(text) => markdown::render(&text.analysis, 3),
            None => "<p>The text of this version of the suite is no longer in the repository.</p>"
                .into(),
        };
        let path = suite_path(&planned.id);
        let question = self.question();
        MicroPage {
            frame: shown.frame(&path, self.title(), question),
            id: schema::micro::scenario_id(&planned.id),
            version: planned.version,
            question: question.into(),
            analysis,
            baseline: planned.baseline.clone(),
            protocol: format!(
                "{} of each variant in randomised blocks; in each, {} of about {} after {} of untimed \
                 calls",
                plural(
                    u64::from(shown.run.header.plan.invocations),
                    "launch",
                    "launches"
                ),
                plural(u64::from(planned.samples), "reading", "readings"),
                quantity(Unit::Ns, planned.sample_ns as f64),
                quantity(Unit::Ns, planned.warmup_ns as f64)
            ),
            variants: self.variants(shown),
            chart: self.chart(),
            cases: planned.cases.iter().map(|case| self.case(case)).collect(),
            records: self.records(shown),
        }
    }

    /// The suite's record files, with their hashes.
    fn records(&self, shown: &Shown) -> Vec<(String, String)> {
        let logs = shown.run.micro.iter();
        logs.filter(|log| log.launch.suite == self.planned.id)
            .map(|log| (log.file.display().to_string(), log.sha256.clone()))
            .collect()
    }

    /// The table of variants, with what their programs report of themselves.
    fn variants(&self, shown: &Shown) -> Table {
        let rows = self.planned.variants.iter().map(|variant| {
            let mut logs = shown.run.micro.iter().filter(|log| {
                log.launch.suite == self.planned.id && log.launch.variant == variant.id
            });
            let limit = logs.clone().find_map(|log| log.launch.isa_limit.as_ref());
            let ready = logs.find_map(|log| log.ready.as_ref());
            let said = |of: fn(&schema::micro::record::MicroReady) -> String| {
                ready.map(of).filter(|text| !text.is_empty())
            };
            vec![
                variant.id.clone(),
                variant.about.clone(),
                variant.backend.clone(),
                variant.precision.clone(),
                said(|r| r.version.clone()).unwrap_or_else(|| NONE.into()),
                notes(said(|r| r.notes.join("; ")), limit),
            ]
        });
        let head = [
            "Variant",
            "What it is",
            "Backend",
            "Precision",
            "Version",
            "Notes",
        ];
        Table::new(head, rows.collect())
    }

    fn chart(&self) -> Figure {
        let (baseline, analysis) = (&self.planned.baseline, &self.suite.analysis);
        let groups = self.planned.cases.iter().map(|case| {
            let others = self.planned.variants.iter().filter(|v| v.id != *baseline);
            let rows = others.map(|variant| {
                let cell = self.suite.cell(&case.id, &variant.id);
                let (order, outcome) = times_better(analysis, cell, MetricId::CallNs);
                let row = Row {
                    label: variant.id.clone(),
                    style: self.style(variant),
                    outcome,
                    shown: true,
                };
                (order, row)
            });
            let suffix = noise::suffix(analysis.inflation(MetricId::CallNs));
            let heading = format!("{}{suffix}", case.label);
            Group::sorted(heading, noise::band(analysis.matters), rows.collect())
        });
        Forest {
            id: "ratios".into(),
            finding: self.finding(),
            reading: format!(
                "Marker: geometric mean over blocks of how many times faster than {baseline}; whiskers: 95 % \
                 interval. The dashed line is {baseline} itself (1×). {} \
                 The axis is logarithmic.",
                noise::band_words(analysis.matters)
            ),
            axis_label: format!("times faster than {baseline}"),
            groups: groups.collect(),
            ..Forest::of_ratios()
        }
        .draw()
    }
}

/// Join what a program reports of itself and the instructions that its library was limited to.
fn notes(said: Option<String>, limit: Option<&IsaLimit>) -> String {
    let all: Vec<String> = said
        .into_iter()
        .chain(limit.map(IsaLimit::to_string))
        .collect();
    match all.is_empty() {
        true => NONE.into(),
        false => all.join("; "),
    }
}
