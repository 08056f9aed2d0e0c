//! Helps pages that are about several runs: ranks runs, names the place of each (machine, model,
//! profile), and makes the links into it. Only the run that the report shows has a page for every
//! scenario; the others have one page.

use crate::html::slug;
use crate::view::Shown;
use crate::view::frame::{Frame, published};
use crate::view::paths::{self, engine_path, run_path, scenario_path, suite_path};
use crate::words::plural;
use crate::{Input, fmt};
use schema::key::CaseKey;
use schema::micro::{PlannedSuite, scenario_id};
use schema::model::Models;
use schema::processor;
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;

/// Maximum number of kinds of run (machine, model and profile) that pages over several runs show:
/// enough for a few machines and models, few enough to read.
const KINDS_MAX: usize = 6;

/// A run in a list of runs.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine {
    /// Id of the run.
    pub id: String,
    /// When the run started, RFC 3339.
    pub started: String,
    /// Machine, model and profile in words.
    pub place: String,
    /// A remark on the run, or empty.
    pub note: String,
}

impl RunLine {
    /// Name a run, with a remark on it.
    pub fn new(shown: &Shown, note: String) -> Self {
        let header = &shown.run.header;
        Self {
            id: header.id.clone(),
            started: header.started.clone(),
            place: place(shown),
            note,
        }
    }
}

/// Choose the runs that pages over several runs are about: of publishable runs with the same
/// machine, model and profile, the one with the most measured cells, because a newer run of few
/// cells doesn't replace one of many. Of equals the first given, which is the run that the report
/// shows or the newest.
pub fn representative_runs<'s, 'a>(shown: &'s [Shown<'a>]) -> Vec<&'s Shown<'a>> {
    let mut kinds: Vec<&Shown> = Vec::new();
    for run in publishable(shown) {
        match kinds.iter_mut().find(|known| place(known) == place(run)) {
            None => kinds.push(run),
            Some(known) if measured(run) > measured(known) => *known = run,
            Some(_) => {}
        }
    }
    kinds.truncate(KINDS_MAX);
    kinds
}

/// The runs that may be published and have a measured cell, in the order given.
pub fn publishable<'s, 'a>(shown: &'s [Shown<'a>]) -> Vec<&'s Shown<'a>> {
    let all = shown.iter().filter(|run| run.run.header.plan.publishable);
    all.filter(|run| measured(run) > 0).collect()
}

/// The number of a run's cells with numbers.
fn measured(run: &Shown) -> usize {
    let cells = run.analysis.cells.iter();
    cells.filter(|cell| cell.status == Status::Ok).count()
}

/// Return how much of the benchmark a run covers: whether it may be published, its number of
/// scenarios that rank targets, its model's number of parameters, and its number of scenarios. A run
/// of one scenario must not hide a run of all, nor a tiny model's run a large model's with as many
/// scenarios.
pub fn coverage_rank(run: &Run, models: &Models) -> (bool, usize, u64, usize) {
    let header = &run.header;
    let brought = header.provenance.model.as_ref();
    let model = brought.or_else(|| models.get(&header.plan.model));
    let scenarios = header.plan.scenarios.iter();
    let ranking = scenarios.filter(|scenario| !scenario.has_own_loads());
    (
        header.plan.publishable,
        ranking.count(),
        model.map_or(0, |model| model.parameters),
        header.plan.scenarios.len(),
    )
}

/// List all runs, each with a remark: the chosen ones (`chosen`) with what `of_chosen` says,
/// the others with the reason why they are left out.
pub fn run_lines(
    shown: &[Shown],
    chosen: &[&Shown],
    of_chosen: impl Fn(&Shown) -> String,
) -> Vec<RunLine> {
    let is = |run: &Shown, other: &Shown| run.run.header.id == other.run.header.id;
    let line = |run: &Shown| {
        let note = if chosen.iter().any(|other| is(run, other)) {
            of_chosen(run)
        } else if !run.run.header.plan.publishable {
            "left out, since it has too few samples to be published".into()
        } else if measured(run) == 0 {
            "left out: none of its cells was measured".into()
        } else if chosen.iter().any(|other| place(other) == place(run)) {
            "left out: another run of this machine, model and profile has at least as many measured cells"
                .into()
        } else {
            format!("left out: {KINDS_MAX} kinds of run are enough for a page")
        };
        RunLine::new(run, note)
    };
    shown.iter().map(line).collect()
}

/// Name machine, model and profile: `AMD EPYC (AVX2), 2 CPUs with Tiny Llama, profile cpu`.
pub fn place(shown: &Shown) -> String {
    format!("{}, profile {}", machine_and_model(shown), profile(shown))
}

/// Name machine and model.
pub fn machine_and_model(shown: &Shown) -> String {
    format!("{} with {}", machine(shown.run), model(shown))
}

/// Name the machine: its GPU, its processor, and the number of CPUs.
pub fn machine(run: &Run) -> String {
    let facts = &run.header.provenance.facts;
    let gpu = facts.get("gpu").cloned();
    let mut words: Vec<String> = gpu.into_iter().chain(processor::in_words(facts)).collect();
    if let Some(n) = facts.get("cpus").and_then(|cpus| cpus.parse().ok()) {
        words.push(plural(n, "CPU", "CPUs"));
    }
    if words.is_empty() {
        return "a machine whose processor could not be read".into();
    }
    words.join(", ")
}

/// The model's name, or its id where the model is unknown.
pub fn model(shown: &Shown) -> String {
    let id = &shown.run.header.plan.model;
    let known = shown.input.models.get(id);
    known.map_or(id.clone(), |model| model.name.clone())
}

/// Number of parameters of the model; `None` where the model is unknown.
pub fn parameters(shown: &Shown) -> Option<u64> {
    let model = shown.input.models.get(&shown.run.header.plan.model);
    model.map(|model| model.parameters)
}

fn profile<'a>(shown: &Shown<'a>) -> &'a str {
    &shown.run.header.plan.profile
}

/// Whether the report shows this run.
pub fn is_primary(shown: &Shown) -> bool {
    let first = shown.input.runs.first();
    first.is_some_and(|run| run.header.id == shown.run.header.id)
}

/// Path from the root to a case's numbers in full: on its scenario's page, its suite's or its
/// run's.
pub fn case_path(shown: &Shown, at: &CaseKey) -> String {
    let suite = |suite: &&PlannedSuite| scenario_id(&suite.id) == at.scenario;
    if let Some(suite) = shown.run.header.plan.micro.suites.iter().find(suite) {
        let speaks = paths::micro_run(shown.input.runs);
        if speaks.is_some_and(|run| run.header.id == shown.run.header.id) {
            return suite_path(&suite.id);
        }
    }
    let has_case = shown.run.header.plan.case(at).is_some();
    if is_primary(shown) && has_case {
        return format!("{}#{}", scenario_path(&at.scenario), slug(&at.case));
    }
    run_path(&shown.run.header.id)
}

/// Path from the root to a target's section: on its engine's page or its run's.
pub fn target_path(shown: &Shown, id: &str) -> String {
    match shown.target(id) {
        Some(target) if is_primary(shown) => {
            format!("{}#{}", engine_path(&target.engine), slug(id))
        }
        _ => run_path(&shown.run.header.id),
    }
}

/// Make the frame of a page about all runs, or about none: its banners are those of the first run,
/// but it names no run as the source of every number.
pub fn frame(input: &Input, path: &str, title: &str, about: &str) -> Frame {
    let mut frame = Frame::new(input, input.runs.first(), path, title, about);
    frame.run_id = String::new();
    frame
}

/// Name the source of a chart of the page at `path`, for readers who find the chart elsewhere.
pub fn source(shown: &Shown, path: &str) -> String {
    let header = &shown.run.header;
    let from = format!(
        "LLM inference in Rust, measured. {}; run {} of {}. {}",
        place(shown),
        header.id,
        fmt::moment(&header.started),
        published(shown.input, path)
    );
    from.trim_end().to_owned()
}
