//! Pages that speak of several runs: where each was made, and the links into it. Only
//! the run that the site shows has a page for every scenario; the others have one page.

use super::Shown;
use super::frame::{Frame, published};
use super::micro;
use super::paths::{self, engine_path, run_path, scenario_path};
use crate::html::slug;
use crate::words::plural;
use crate::{Input, fmt};
use schema::key::CaseKey;
use schema::micro::{PlannedSuite, scenario_id};
use schema::processor;
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;

/// Kinds of run that the pages over several speak of: enough for a few machines and
/// models, few enough to read.
const KINDS_MAX: usize = 6;

/// A run in a list.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine {
    /// Its id.
    pub id: String,
    /// Path of its page.
    pub path: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// Machine and model in words.
    pub place: String,
    /// What else is to be said of it.
    pub note: String,
}

impl RunLine {
    fn new(shown: &Shown, note: String) -> Self {
        let header = &shown.run.header;
        Self {
            id: header.id.clone(),
            path: run_path(&header.id),
            started: header.started.clone(),
            place: place(shown),
            note,
        }
    }
}

/// The runs that pages over several speak of: of those that may be published and share machine,
/// model and profile the one with the most measured cells, because a newer run of few does not
/// speak for one of many; of equals the first given, which is the one that the site shows or the
/// newest.
pub fn speaking<'s, 'a>(shown: &'s [Shown<'a>]) -> Vec<&'s Shown<'a>> {
    let measured = |run: &Shown| {
        let cells = run.analysis.cells.iter();
        cells.filter(|cell| cell.status == Status::Ok).count()
    };
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

/// The runs that may be published, in the order given.
pub fn publishable<'s, 'a>(shown: &'s [Shown<'a>]) -> Vec<&'s Shown<'a>> {
    let all = shown.iter();
    all.filter(|run| run.run.header.plan.publishable).collect()
}

/// All runs with what is to be said of each: `of_speaking` of those that are `speaking`, of the
/// others why they are silent.
pub fn run_lines(
    shown: &[Shown],
    speaking: &[&Shown],
    of_speaking: impl Fn(&Shown) -> String,
) -> Vec<RunLine> {
    let is = |run: &Shown, other: &Shown| run.run.header.id == other.run.header.id;
    let line = |run: &Shown| {
        let note = if speaking.iter().any(|other| is(run, other)) {
            of_speaking(run)
        } else if !run.run.header.plan.publishable {
            "left out, since it has too few samples to be published".into()
        } else if speaking.iter().any(|other| place(other) == place(run)) {
            "left to another run of the same kind".into()
        } else {
            format!("left out: {KINDS_MAX} kinds of run are enough for a page")
        };
        RunLine::new(run, note)
    };
    shown.iter().map(line).collect()
}

/// `AMD EPYC (AVX2), 2 CPUs with Tiny Llama, profile cpu`.
pub fn place(shown: &Shown) -> String {
    format!("{}, profile {}", machine_and_model(shown), profile(shown))
}

/// The same without the profile.
pub fn machine_and_model(shown: &Shown) -> String {
    format!("{} with {}", machine(shown.run), model(shown))
}

/// The machine in words: a GPU, the processor, and how many CPUs of it.
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

/// The model's name, or its id.
pub fn model(shown: &Shown) -> String {
    let id = &shown.run.header.plan.model;
    let known = shown.input.models.get(id);
    known.map_or(id.clone(), |model| model.name.clone())
}

/// Its parameters, where it is known.
pub fn parameters(shown: &Shown) -> Option<u64> {
    let model = shown.input.models.get(&shown.run.header.plan.model);
    model.map(|model| model.parameters)
}

fn profile<'a>(shown: &Shown<'a>) -> &'a str {
    &shown.run.header.plan.profile
}

/// Whether the site shows this run on every page.
pub fn is_primary(shown: &Shown) -> bool {
    let first = shown.input.runs.first();
    first.is_some_and(|run| run.header.id == shown.run.header.id)
}

/// Where a case's numbers stand in full, from the root: on its scenario's page, on its suite's, or on
/// its run's.
pub fn case_path(shown: &Shown, at: &CaseKey) -> String {
    let suite = |suite: &&PlannedSuite| scenario_id(&suite.id) == at.scenario;
    if let Some(suite) = shown.run.header.plan.micro.suites.iter().find(suite) {
        let speaks = paths::micro_run(shown.input.runs);
        if speaks.is_some_and(|run| run.header.id == shown.run.header.id) {
            return micro::suite_path(&suite.id);
        }
    }
    let planned = shown.scenarios().iter().find(|s| s.id == at.scenario);
    let has_case = planned.is_some_and(|s| s.cases.iter().any(|c| c.id == at.case));
    if is_primary(shown) && has_case {
        return format!("{}#{}", scenario_path(&at.scenario), slug(&at.case));
    }
    run_path(&shown.run.header.id)
}

/// Where a target stands, from the root: on its engine's page, or on its run's.
pub fn target_path(shown: &Shown, id: &str) -> String {
    let planned = shown.targets().iter().find(|target| target.id == id);
    match planned {
        Some(target) if is_primary(shown) => {
            format!("{}#{}", engine_path(&target.engine), slug(id))
        }
        _ => run_path(&shown.run.header.id),
    }
}

/// The frame of a page that speaks of all runs, or of none: the banners are the first's,
/// but no one run is where every number comes from.
pub fn frame(input: &Input, path: &str, title: &str, about: &str) -> Frame {
    let mut frame = Frame::new(input, input.runs.first(), path, title, about);
    frame.run_id = String::new();
    frame
}

/// Where a chart of the page at `path` comes from, for those who meet it elsewhere.
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
