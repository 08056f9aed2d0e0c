//! The index: the answer, the leaders, every target on every scenario, and links to everything
//! else; without a run, what to do first. The page of all engines is made here too.

pub mod engines;
mod history;
mod sentence;

use crate::Input;
use crate::chart::Figure;
use crate::fmt;
use crate::page::guide::{GuidePage, WorkloadView};
use crate::view::answer::{Answer, answers};
use crate::view::cells::{CellView, swatch, view, words_of};
use crate::view::frame::Frame;
use crate::view::nav::engines_of;
use crate::view::paths::{INDEX, chart_prefix, engine_path, run_path, scenario_path};
use crate::view::place::{RunLine, machine, publishable, target_path};
use crate::view::primary::{LegendEntry, legend};
use crate::view::speed_up::speed_up;
use crate::view::{Shown, case_label, standing};
use crate::words::{join, plural};
use history::history;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use schema::registry::Target;
use sentence::sentence;
use serde::Serialize;
use stats::analysis::MetricId;
use stats::metrics::Better;
use std::collections::{BTreeMap, BTreeSet};

/// The index page.
#[derive(Serialize)]
pub struct Index {
    frame: Frame,
    answer: String,
    /// What stands beside the answer.
    beside: Vec<String>,
    /// What the run of this page says, where the answer rests on other runs; else empty.
    of_this_run: String,
    workloads: Vec<WorkloadView>,
    /// What the estimates in the table of choices are; empty where there are none.
    longer_note: String,
    /// The place of all choices; empty if they were made in several.
    place: String,
    /// Heading of the column of what tokens cost.
    cost_heading: String,
    /// Whether no publishable run has a number of a GPU.
    lacks_gpu: bool,
    answers: Vec<Answer>,
    sizes: String,
    unranked: Vec<Card>,
    own_engine: String,
    baseline: String,
    baseline_precision: String,
    machine: String,
    model: String,
    model_about: String,
    profile: String,
    revision: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    legend: Vec<LegendEntry>,
    alone: String,
    chart: Figure,
    history: Option<Figure>,
    scenarios: Vec<Card>,
    engines: Vec<Card>,
    measured: String,
    /// The number of cells without numbers of each status.
    gaps: Vec<(&'static str, String)>,
    other_runs: Vec<RunLine>,
}

#[derive(Serialize)]
struct Column {
    title: String,
    path: String,
    case: String,
    metric: String,
    better: &'static str,
}

#[derive(Serialize)]
struct Row {
    swatch: String,
    target: String,
    path: String,
    baseline: bool,
    cells: Vec<CellView>,
}

/// A thing that has a page of its own, with a few words on it.
#[derive(Serialize)]
pub struct Card {
    /// Its title.
    pub title: String,
    /// Path of its page; empty where it has none yet.
    pub path: String,
    /// The words.
    pub text: String,
}

/// The index before anything was measured.
#[derive(Serialize)]
pub struct Empty {
    frame: Frame,
    scenarios: Vec<Card>,
    engines: Vec<Card>,
}

impl Index {
    /// All charts of the page.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        std::iter::once(&self.chart).chain(&self.history)
    }
}

/// Make the index of a site without a run.
pub fn empty(input: &Input) -> Empty {
    let about = "No run has been recorded yet.";
    let card = |title: &str, text: &str| Card {
        title: title.into(),
        path: String::new(),
        text: text.into(),
    };
    Empty {
        frame: Frame::new(input, None, INDEX, "No results yet", about),
        scenarios: input
            .scenarios
            .iter()
            .map(|s| card(&s.title, &s.question))
            .collect(),
        engines: input
            .registry
            .engines
            .iter()
            .filter(|engine| !engine.hidden)
            .map(|engine| card(&engine.name, &engine.about))
            .collect(),
    }
}

/// Make the index of a run; `all` are the runs that the site has, this one first.
pub fn index(shown: &Shown, all: &[Shown], guide: &GuidePage) -> Index {
    let input = shown.input;
    let plan = &shown.run.header.plan;
    let provenance = &shown.run.header.provenance;
    let answers = answers(shown);
    let lead = guide.lead();
    // A run that the lead rests on isn't summarised again.
    let rests_here = guide.rests_on(&run_path(&shown.run.header.id));
    let (answer, of_this_run) = match (lead.is_empty(), rests_here) {
        (true, _) => (sentence(shown, &answers), String::new()),
        (false, true) => (lead, String::new()),
        (false, false) => (lead, sentence(shown, &answers)),
    };
    let model = input.models.get(&plan.model);
    let headlines: Vec<Headline> = shown.headlines().collect();
    let targets = shown.targets().iter();
    let baseline_precision = shown
        .target(shown.baseline())
        .map(|target| target.precision.clone());
    Index {
        frame: shown.frame(
            INDEX,
            "Which LLM inference engine should a Rust team run?",
            &answer,
        ),
        answer,
        beside: guide.beside(),
        of_this_run,
        workloads: guide.workloads().to_vec(),
        longer_note: guide.longer_note().to_owned(),
        place: guide.one_place().to_owned(),
        cost_heading: guide.cost_heading(),
        lacks_gpu: lacks_gpu(all),
        sizes: sizes(shown),
        unranked: unranked(shown),
        own_engine: own_engine(shown, &answers),
        answers,
        baseline: shown.baseline().into(),
        baseline_precision: baseline_precision.unwrap_or_default(),
        machine: machine(shown.run),
        model: model.map_or(plan.model.clone(), |model| model.name.clone()),
        model_about: model.map(|model| model.about.clone()).unwrap_or_default(),
        profile: plan.profile.clone(),
        revision: provenance.git_revision.clone().unwrap_or_default(),
        columns: headlines.iter().map(|h| column(shown, h)).collect(),
        rows: targets.map(|t| row(shown, &headlines, t)).collect(),
        legend: legend(shown),
        alone: chart_prefix(INDEX),
        chart: speed_up(shown, None),
        history: history(all),
        scenarios: shown
            .scenarios()
            .iter()
            .map(|scenario| {
                let text = shown.text(scenario);
                let question = text.map(|text| text.question.clone());
                scenario_card(shown, scenario, question.unwrap_or_default())
            })
            .collect(),
        engines: engine_cards(shown),
        measured: measured(shown),
        gaps: gaps(shown),
        other_runs: all
            .iter()
            .skip(1)
            .map(|run| RunLine::new(run, not_publishable(run)))
            .collect(),
    }
}

/// Whether no publishable run has a number of a backend that needs a device beside the processor.
fn lacks_gpu(all: &[Shown]) -> bool {
    let has_one = |run: &Shown| {
        let needed = &run.input.registry.backends;
        let targets = run.targets().iter();
        let mut on_gpu = targets.filter(|target| needed.contains_key(&target.backend));
        on_gpu.any(|target| run.has_numbers(&target.id))
    };
    !publishable(all).into_iter().any(has_one)
}

/// Why a run may not be published, as a remark in a list; empty where it may.
fn not_publishable(shown: &Shown) -> String {
    let header = &shown.run.header;
    match (header.plan.publishable, header.origin.stopped) {
        (true, _) => String::new(),
        (false, None) => "not publishable: too few samples".into(),
        (false, Some(stopped)) => format!(
            "not publishable: stopped after {} of {} blocks, too few samples",
            stopped.whole, stopped.planned
        ),
    }
}

fn engine_cards(shown: &Shown) -> Vec<Card> {
    let card = |id: String| {
        let engine = shown.input.registry.engine(&id);
        Card {
            title: shown.input.engine_name(&id).to_owned(),
            path: engine_path(&id),
            text: engine.map(|e| e.about.clone()).unwrap_or_default(),
        }
    };
    engines_of(shown.input, shown.run)
        .into_iter()
        .map(card)
        .collect()
}

/// Say which size of each scenario the page shows.
fn sizes(shown: &Shown) -> String {
    let several: Vec<_> = shown
        .scenarios()
        .iter()
        .filter(|scenario| scenario.cases.len() > 1 && !scenario.has_own_loads())
        .collect();
    let smallest = several.iter().all(|&scenario| {
        let value = |case: &Case| case.axis_value(scenario.axis);
        shown.headline(scenario).map(value) == scenario.cases.iter().map(value).min()
    });
    let here = match smallest && !several.is_empty() {
        true => "; here that is the smallest size of every scenario",
        false => "",
    };
    format!(
        "Each scenario at the size that the most targets had time for, the largest if several \
         tie{here}."
    )
}

/// Make a card for each scenario in which no target can lead, because loads differ.
fn unranked(shown: &Shown) -> Vec<Card> {
    let own = shown.scenarios().iter().filter(|s| s.has_own_loads());
    own.map(|own| scenario_card(shown, own, standing::of_scenario(shown, own)))
        .collect()
}

fn scenario_card(shown: &Shown, scenario: &PlannedScenario, text: String) -> Card {
    Card {
        title: shown.title(scenario).into(),
        path: scenario_path(&scenario.id),
        text,
    }
}

/// The leaders that are of this project's own engines; empty where there are none.
fn own_engine(shown: &Shown, answers: &[Answer]) -> String {
    let leaders = answers.iter().flat_map(|answer| answer.leaders.clone());
    let own: BTreeSet<String> = leaders.filter(|leader| shown.is_ours(leader)).collect();
    join(&Vec::from_iter(own))
}

/// The case that stands for a scenario, with the metric that the scenario is ranked by.
type Headline<'a> = (&'a PlannedScenario, &'a Case, MetricId);

fn column(shown: &Shown, &(scenario, case, metric): &Headline) -> Column {
    let about = metric.describe();
    Column {
        title: shown.title(scenario).into(),
        path: scenario_path(&scenario.id),
        case: case_label(scenario, case),
        metric: about.title.into(),
        better: match about.better {
            _ if scenario.has_own_loads() => "loads differ by target: not ranked",
            Better::Lower => "less is better",
            Better::Higher => "more is better",
            Better::Neither => "",
        },
    }
}

fn row(shown: &Shown, headlines: &[Headline], target: &Target) -> Row {
    let cells = headlines.iter();
    let cells = cells.map(|(s, case, id)| view(shown, &s.cell_key(case, &target.id), *id));
    Row {
        swatch: swatch(shown, &target.id),
        target: target.id.clone(),
        path: target_path(shown, &target.id),
        baseline: target.id == shown.baseline(),
        cells: cells.collect(),
    }
}

fn measured(shown: &Shown) -> String {
    let cells = &shown.analysis.cells;
    let ok = cells.iter().filter(|cell| cell.status == Status::Ok);
    format!(
        "{} of {} {} measured",
        fmt::count(ok.count() as u64),
        plural(cells.len() as u64, "planned cell", "planned cells"),
        if cells.len() == 1 { "was" } else { "were" }
    )
}

/// Count the cells without numbers by status.
fn gaps(shown: &Shown) -> Vec<(&'static str, String)> {
    let mut counts: BTreeMap<(Status, &str), u64> = BTreeMap::new();
    for cell in &shown.analysis.cells {
        if cell.status != Status::Ok {
            let said = (cell.status, words_of(cell));
            *counts.entry(said).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|((_, words), count)| (words, fmt::count(count)))
        .collect()
}
