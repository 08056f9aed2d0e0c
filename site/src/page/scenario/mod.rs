//! A scenario's page: its question, what its numbers mean, charts along its axis, and all metrics
//! and comparisons of every case.

mod exhibits;
mod figures;
mod fits;
mod model_size;
mod promises;
mod reuse;
mod roofline;
mod stamps;
mod tables;

use crate::chart::{Figure, Table};
use crate::html::slug;
use crate::markdown;
use crate::view::frame::Frame;
use crate::view::paths::{chart_prefix, scenario_path};
use crate::view::primary::{LegendEntry, legend};
use crate::view::{Shown, case_label, maturity, noise, standing};
use figures::{along_axis, distribution};
use fits::ScalingTable;
use promises::promises;
use reuse::ReuseTable;
use schema::plan::{Case, PlannedScenario};
use schema::scenario::LoadShape;
use serde::Serialize;
use stamps::Stamps;
use stats::analysis::MetricId;
use stats::metrics::{Better, Sample};
use tables::{ComparisonGroup, FailedRow, MetricRows};

/// A scenario's page.
#[derive(Serialize)]
pub struct ScenarioPage {
    frame: Frame,
    id: String,
    version: u32,
    answer: String,
    model: String,
    question: String,
    analysis: String,
    prompts: String,
    load: &'static str,
    axis: &'static str,
    /// The versions of the engines that have a target here.
    versions: Option<Table>,
    metrics: Vec<MetricWords>,
    legend: Vec<LegendEntry>,
    alone: String,
    figures: Vec<Figure>,
    scaling: Option<ScalingTable>,
    reuse: Option<ReuseTable>,
    cases: Vec<CaseView>,
}

/// A metric with its definition and how to read it.
#[derive(Clone, Serialize)]
pub struct MetricWords {
    /// Title of the metric.
    pub title: &'static str,
    /// Name of the metric in exports, ending in its unit.
    pub id: &'static str,
    /// Definition of the metric.
    pub definition: &'static str,
    /// Which way is better, in words.
    pub better: &'static str,
    /// What n counts, in words.
    pub counts: &'static str,
}

#[derive(Serialize)]
struct CaseView {
    anchor: String,
    label: String,
    work: String,
    promises: Vec<String>,
    metrics: Vec<MetricRows>,
    /// Headings of percentiles and MAD.
    shape_heads: Vec<&'static str>,
    drifting: String,
    in_flight: u32,
    /// The targets whose batches had fewer requests than `in_flight`, and how many they had.
    small_batches: String,
    below_zero: bool,
    has_range: bool,
    /// What requests took in the pilot, for targets that the case had no time for; empty if nothing
    /// is known.
    by_pilot: String,
    failures: Vec<FailedRow>,
    comparisons: Vec<ComparisonGroup>,
    comparison_metric: String,
    noise: String,
    /// How far stamps may be off; `None` where none were checked.
    stamps: Option<Stamps>,
    figures: Vec<Figure>,
}

impl ScenarioPage {
    /// All charts of the page, those of its cases last.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        let of_cases = self.cases.iter().flat_map(|case| &case.figures);
        self.figures.iter().chain(of_cases)
    }
}

/// Describe a metric.
pub fn words(id: MetricId) -> MetricWords {
    let about = id.describe();
    MetricWords {
        title: about.title,
        id: about.name,
        definition: about.definition,
        better: direction(about.better),
        counts: counts(about.sample),
    }
}

/// Say which way is better.
fn direction(better: Better) -> &'static str {
    match better {
        Better::Lower => "less is better",
        Better::Higher => "more is better",
        Better::Neither => "neither way is better",
    }
}

/// Say what a metric's n counts.
fn counts(sample: Sample) -> &'static str {
    match sample {
        Sample::Request => "requests",
        Sample::Gap => "gaps between tokens",
        Sample::Invocation => "launches",
        Sample::Reading => "readings",
    }
}

/// Make the page of one scenario; `all` are the runs that the site has.
pub fn page(shown: &Shown, all: &[Shown], scenario: &PlannedScenario) -> ScenarioPage {
    let plan = &shown.run.header.plan;
    let text = shown.text(scenario);
    let title = shown.title(scenario);
    let question = text.map(|text| text.question.clone()).unwrap_or_default();
    let metrics = shown.metrics(scenario);
    ScenarioPage {
        frame: shown.frame(&scenario_path(&scenario.id), title, &question),
        id: scenario.id.clone(),
        version: scenario.version,
        answer: standing::of_scenario(shown, scenario),
        model: plan.model.clone(),
        question,
        analysis: text.map_or_else(
            || {
                "<p>The text of this version of the scenario is no longer in the repository.</p>"
                    .into()
            },
            |text| markdown::render(&text.analysis, 3),
        ),
        prompts: plan.prompts_words(scenario).unwrap_or_default(),
        load: match scenario.load {
            LoadShape::Serial if scenario.turns => {
                "one request, then the next; the targets of a block take turns, a few requests each, and are stopped meanwhile"
            }
            LoadShape::Serial if scenario.reuses_prompts() => {
                "one request, then the next, in a process that is asked to keep what it computed of prompts"
            }
            LoadShape::Serial => "one request, then the next",
            LoadShape::ClosedLoop if scenario.turns => {
                "closed loop: every answer is followed at once by the next request; the targets of a block take turns, a few requests of each user, and are stopped meanwhile"
            }
            LoadShape::ClosedLoop => {
                "closed loop: every answer is followed at once by the next request"
            }
            LoadShape::Batch => "a whole batch at once, the next when all are answered",
            LoadShape::Poisson => {
                "open loop: requests come at random (Poisson) at a share of the capacity that this run measured, whether or not earlier ones are answered"
            }
            LoadShape::ConstantRate => {
                "open loop: requests come at equal gaps at a share of the capacity that this run measured, whether or not earlier ones are answered"
            }
        },
        axis: scenario.axis.label(),
        versions: maturity::compared(shown, |target| {
            let mut cases = scenario.cases.iter();
            cases.any(|case| {
                let key = scenario.cell_key(case, &target.id);
                shown.cell(&key).is_some()
            })
        }),
        legend: legend(shown),
        alone: chart_prefix(&scenario_path(&scenario.id)),
        figures: exhibits::memory(shown, scenario)
            .into_iter()
            .chain(
                metrics
                    .iter()
                    .filter(|&&id| charted(scenario.load, id))
                    .filter_map(|&id| along_axis(shown, scenario, id)),
            )
            .chain(model_size::memory(shown, all, scenario))
            .chain(exhibits::strips(shown, scenario))
            .chain(roofline::roofline(shown, scenario))
            .collect(),
        scaling: fits::scaling_table(shown, scenario),
        reuse: reuse::table(shown, scenario),
        metrics: metrics
            .iter()
            .map(|&id| MetricWords {
                title: shown.metric_title(scenario, id),
                ..words(id)
            })
            .collect(),
        cases: scenario
            .cases
            .iter()
            .map(|case| case_view(shown, scenario, case))
            .collect(),
    }
}

fn work(case: &Case) -> String {
    let (from, to, users) = (case.prompt_tokens, case.new_tokens, case.concurrency);
    let from = match case.prompt_tokens_mean {
        None => format!("{from}"),
        Some(mean) => format!("up to {from} (on average {mean})"),
    };
    let size = format!("{from} prompt tokens → {to} new tokens");
    let measured = case.measured_by.as_ref().map_or_else(String::new, |by| {
        format!(
            "; the same load as {} of {}, measured once for both",
            by.case, by.scenario
        )
    });
    if let Some(percent) = case.shared_percent {
        return format!(
            "{size}, {users} in flight; {percent} % of the prompt, {} tokens, are the same in all prompts",
            case.shared_tokens()
        );
    }
    match case.load_percent {
        None => format!("{size}, {users} in flight{measured}"),
        Some(percent) => format!(
            "{size}, offered at {percent} % of what the same target served with {users} in flight"
        ),
    }
}

fn case_view(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> CaseView {
    let serial = scenario.load == LoadShape::Serial;
    let at = scenario.case_key(case);
    let leading = shown.leading(scenario);
    let mut metrics = tables::metrics(shown, scenario, case);
    let shape_heads = tables::leave_out_empty_tail(&mut metrics);
    CaseView {
        anchor: slug(&case.id),
        label: case_label(scenario, case),
        work: work(case),
        promises: promises(shown, scenario, case),
        drifting: tables::drifting(&metrics),
        in_flight: case.concurrency,
        small_batches: tables::small_batches(shown, scenario, case),
        below_zero: tables::below_zero(&metrics),
        has_range: tables::has_range(&metrics),
        metrics,
        shape_heads,
        by_pilot: tables::by_pilot(shown, scenario, case),
        failures: tables::failures(shown, scenario, case),
        comparisons: tables::comparisons(shown, &at),
        comparison_metric: leading
            .map(|id| id.describe().title.to_lowercase())
            .unwrap_or_default(),
        noise: leading
            .map(|id| noise::sentence(shown, &at, id) + &noise::power(shown, &at))
            .unwrap_or_default(),
        stamps: Stamps::new(shown, &at),
        // Under load, latency depends on what other users do: its distribution would invite
        // comparing engines that were offered different work. Of several cases, only the one that
        // stands for the scenario has it, to keep the page small.
        figures: [MetricId::TtftNs, MetricId::ItlNs]
            .into_iter()
            .filter(|_| serial && shown.headline(scenario).is_some_and(|h| h.id == case.id))
            .filter(|id| shown.metrics(scenario).contains(id))
            .filter_map(|id| distribution(shown, scenario, case, id))
            .collect(),
    }
}

/// Whether a chart along the axis tells more than the tables. It doesn't for a value that is fixed
/// per process, for one that is arithmetic and so the same line for most targets, or for one that
/// follows from other metrics, as the end-to-end latency of a lone request does.
fn charted(load: LoadShape, id: MetricId) -> bool {
    let alone = load == LoadShape::Serial && id == MetricId::E2eNs;
    !alone
        && !matches!(
            id,
            MetricId::WeightBytes
                | MetricId::KvBytes
                | MetricId::BatchRequests
                | MetricId::ColdStartNs
                | MetricId::LoadNs
                | MetricId::TpotNs
                | MetricId::RequestsPerS
                | MetricId::CpuPerTokenNs
                | MetricId::CpuUtilizationPercent
                | MetricId::OfferedPerS
                | MetricId::ShortfallPercent
                | MetricId::ScheduleLagNs
        )
}
