//! What several pages share: a run with lookups by name, cells, figures, paths, and words. A part of
//! one page alone stands beside it, in [`page`](crate::page). Everything here is pure.

pub mod answer;
pub mod batches;
pub mod cells;
pub mod eligible;
pub mod frame;
pub mod instrument;
pub mod maturity;
pub mod nav;
pub mod noise;
pub mod paths;
pub mod pilot;
pub mod place;
pub mod primary;
pub mod reported;
pub mod speed_up;
pub mod standing;

use crate::Input;
use crate::chart::style::Style;
use crate::words::by_key;
use frame::Frame;
use schema::key::CellKey;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use schema::registry::{Build, Engine, Target};
use schema::run::Run;
use schema::scenario::{Axis, Scenario};
use stats::analysis::{Analysis, Cell, Metric, MetricId};
use stats::micro::SuiteAnalysis;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// One run and its analysis, with lookups by name.
pub struct Shown<'a> {
    /// The input that the site is made from.
    pub input: &'a Input<'a>,
    /// The run.
    pub run: &'a Run,
    /// The analysis of the run.
    pub analysis: &'a Analysis,
    /// The analyses of the run's micro suites.
    pub micro: Vec<SuiteAnalysis>,
    cells: BTreeMap<CellKey, &'a Cell>,
    styles: BTreeMap<&'a str, Style>,
}

impl<'a> Shown<'a> {
    /// Build the lookups of a run.
    pub fn new(input: &'a Input<'a>, run: &'a Run, analysis: &'a Analysis) -> Self {
        let cells = analysis
            .cells
            .iter()
            .map(|cell| (cell.key(), cell))
            .collect();
        Self {
            input,
            run,
            analysis,
            micro: stats::micro::analyse(run),
            cells,
            styles: styles(&run.header.plan.targets),
        }
    }

    /// Make the frame of the page at `path` about the run.
    pub fn frame(&self, path: &str, title: &str, about: &str) -> Frame {
        Frame::new(self.input, Some(self.run), path, title, about)
    }

    /// The planned targets, in the registry's order.
    pub fn targets(&self) -> &'a [Target] {
        &self.run.header.plan.targets
    }

    /// The planned targets of an engine.
    pub fn targets_of(&self, engine: &str) -> impl Iterator<Item = &'a Target> {
        let targets = self.targets().iter();
        targets.filter(move |target| target.engine == engine)
    }

    /// The planned scenarios.
    pub fn scenarios(&self) -> &'a [PlannedScenario] {
        &self.run.header.plan.scenarios
    }

    /// Find a planned target by its id.
    pub fn target(&self, id: &str) -> Option<&'a Target> {
        self.run.header.plan.target(id)
    }

    /// Find a planned scenario by its id.
    pub fn scenario(&self, id: &str) -> Option<&'a PlannedScenario> {
        self.run.header.plan.scenario(id)
    }

    /// The text of a scenario; `None` where its file is gone or has another version than the run's,
    /// because its words might not be true of the run.
    pub fn text(&self, scenario: &PlannedScenario) -> Option<&'a Scenario> {
        self.input.text(scenario)
    }

    /// A scenario's title, or its id without a text.
    pub fn title(&self, scenario: &'a PlannedScenario) -> &'a str {
        self.text(scenario).map_or(&scenario.id, |text| &text.title)
    }

    /// The metrics a scenario reports, the leading one first. Without its text, those that its
    /// cells have.
    pub fn metrics(&self, scenario: &PlannedScenario) -> Vec<MetricId> {
        if let Some(text) = self.text(scenario) {
            let named = text.reports.iter();
            return named.filter_map(|name| MetricId::from_id(name)).collect();
        }
        let cells = self.analysis.cells.iter();
        let all: BTreeSet<MetricId> = cells
            .filter(|cell| cell.scenario == scenario.id)
            .flat_map(|cell| cell.metrics.iter().map(|metric| metric.id))
            .collect();
        all.into_iter().collect()
    }

    /// The title of a metric in a scenario. Where a process serves several scenarios, its peak
    /// memory is counted anew for each case, so loading is not in it and the title says so.
    pub fn metric_title(&self, scenario: &PlannedScenario, id: MetricId) -> &'static str {
        match self.leaves_loading_out(scenario, id) {
            true => "Peak resident memory after loading",
            false => id.describe().title,
        }
    }

    /// Whether a metric in a scenario is a peak that is counted anew for each case.
    pub fn leaves_loading_out(&self, scenario: &PlannedScenario, id: MetricId) -> bool {
        self.run.header.plan.shares_process(scenario) && id == MetricId::PeakRssBytes
    }

    /// The metric a scenario is ranked by.
    pub fn leading(&self, scenario: &PlannedScenario) -> Option<MetricId> {
        self.metrics(scenario).first().copied()
    }

    /// The case that stands for its scenario on the index: of the cases for which the most targets
    /// had time, the largest, because engines differ most and fail there.
    pub fn headline(&self, scenario: &'a PlannedScenario) -> Option<&'a Case> {
        let had_no_time = |case: &Case| {
            let cells = self.cells.values();
            let of_case = cells.filter(|c| c.scenario == scenario.id && c.case == case.id);
            of_case.filter(|c| c.status == Status::OverBudget).count()
        };
        scenario
            .cases
            .iter()
            .max_by_key(|case| (Reverse(had_no_time(case)), case.axis_value(scenario.axis)))
    }

    /// The case that stands for each scenario, with the metric that the scenario is ranked by.
    pub fn headlines(&self) -> impl Iterator<Item = (&'a PlannedScenario, &'a Case, MetricId)> {
        let scenarios = self.scenarios().iter();
        scenarios.filter_map(move |s| Some((s, self.headline(s)?, self.leading(s)?)))
    }

    /// All planned cases, each with its scenario, in plan order.
    pub fn cases(&self) -> impl Iterator<Item = (&'a PlannedScenario, &'a Case)> {
        let scenarios = self.scenarios().iter();
        scenarios.flat_map(|scenario| scenario.cases.iter().map(move |case| (scenario, case)))
    }

    /// The cells of a case, in the order of the targets.
    pub fn cells_of(
        &self,
        scenario: &PlannedScenario,
        case: &Case,
    ) -> impl Iterator<Item = &'a Cell> {
        let at = scenario.case_key(case);
        let targets = self.targets().iter();
        targets.filter_map(move |target| self.cell(&at.cell(&target.id)))
    }

    /// The cells of a case that have a metric, each with it, in the order of the targets.
    pub fn measured(
        &self,
        scenario: &PlannedScenario,
        case: &Case,
        id: MetricId,
    ) -> impl Iterator<Item = (&'a Cell, &'a Metric)> {
        let cells = self.cells_of(scenario, case);
        cells.filter_map(move |cell| Some((cell, cell.metric(id)?)))
    }

    /// The launches of a target.
    pub fn logs(&self, target: &str) -> impl Iterator<Item = &'a LaunchLog> {
        let launches = self.run.launches.iter();
        launches.filter(move |log| log.launch.target == target)
    }

    /// Whether a target has a measured cell.
    pub fn has_numbers(&self, target: &str) -> bool {
        let mut cells = self.analysis.cells.iter();
        cells.any(|cell| cell.target == target && cell.status == Status::Ok)
    }

    /// Look up a cell.
    pub fn cell(&self, key: &CellKey) -> Option<&'a Cell> {
        self.cells.get(key).copied()
    }

    /// Whether each target has a load of its own in a scenario, so that targets aren't ranked.
    pub fn has_own_loads(&self, scenario: &str) -> bool {
        let planned = self.scenario(scenario);
        planned.is_some_and(PlannedScenario::has_own_loads)
    }

    /// Whether a target's engine is this project's own.
    pub fn is_ours(&self, target: &str) -> bool {
        self.engine(target).is_some_and(|engine| engine.ours)
    }

    /// Whether a target's engine is written in Rust.
    pub fn is_in_rust(&self, target: &str) -> bool {
        self.engine(target).is_some_and(|engine| engine.in_rust)
    }

    /// Whether a target's engine comes as a crate of a registry, whatever language it computes in.
    pub fn is_crate(&self, target: &str) -> bool {
        let engine = self.engine(target);
        engine.is_some_and(|engine| {
            matches!(engine.build, Build::Cargo(_)) && !engine.unpublished && !engine.hidden
        })
    }

    /// Say how a target's engine came into the measurement, for readers who would use it from Rust;
    /// `None` where the registry has it no more.
    pub fn comes_as(&self, target: &str) -> Option<&'static str> {
        let engine = self.engine(target)?;
        Some(match (&engine.build, engine.in_rust) {
            (Build::Cargo(_), true) => "in Rust",
            (Build::Cargo(_), false) => "a crate",
            (Build::Python { .. }, true) => "in Rust, as a Python package",
            (Build::Python { .. }, false) => "a Python package",
            (Build::Prebuilt { .. }, _) => "a program",
        })
    }

    /// The registry's entry of a planned target's engine.
    fn engine(&self, target: &str) -> Option<&'a Engine> {
        let planned = self.target(target)?;
        self.input.registry.engine(&planned.engine)
    }

    /// The look of a target in charts.
    pub fn style(&self, target: &str) -> Style {
        self.styles.get(target).copied().unwrap_or_default()
    }

    /// Id of the baseline target.
    pub fn baseline(&self) -> &'a str {
        let planned = &self.run.header.plan.targets;
        self.input.registry.baseline_of(planned)
    }
}

/// Label of a case, e.g. `8 users`.
pub fn case_label(scenario: &PlannedScenario, case: &Case) -> String {
    axis_label(scenario.axis, case.axis_value(scenario.axis))
}

/// Label of a value on an axis.
pub fn axis_label(axis: Axis, value: u32) -> String {
    match axis {
        Axis::PromptTokens => format!("{value} prompt tokens"),
        Axis::InFlight => format!("{value} in flight"),
        Axis::Users if value == 1 => "1 user".into(),
        Axis::Users => format!("{value} users"),
        Axis::Batch => format!("batch {value}"),
        Axis::LoadPercent => format!("{value} % of its own capacity"),
        Axis::SharedPercent => format!("{value} % of the prompt shared"),
    }
}

/// Number the engines and each engine's targets in plan order.
fn styles(targets: &[Target]) -> BTreeMap<&str, Style> {
    let of_engine = targets.iter().map(|t| (t.engine.as_str(), t.id.as_str()));
    let mut styles = BTreeMap::new();
    for (engine, (_, ids)) in by_key(of_engine).into_iter().enumerate() {
        let looks = (0..).map(|target| Style { engine, target });
        styles.extend(ids.into_iter().zip(looks));
    }
    styles
}
