//! An engine's page: what it is, what its program reports of itself, in which scope it is verified,
//! all its results, what its project claims, and the other runs that measured it.

mod beyond;
mod claims;
mod elsewhere;
mod notes;
mod standing;

use crate::chart::{Figure, Table};
use crate::html::slug;
use crate::markdown::safe_href;
use crate::page::micro;
use crate::view::cells::{CellView, swatch, view};
use crate::view::frame::Frame;
use crate::view::paths::{engine_path, scenario_path};
use crate::view::place::{RunLine, publishable};
use crate::view::reported::{
    batching_words, build_facts, in_run, instruction_limits_of, logs_of, other_kv,
    reported_kv_bits, reporting_run, verified_scope,
};
use crate::view::speed_up::speed_up;
use crate::view::{Shown, case_label, maturity};
use crate::words::join;
use schema::record::{Ready, Status};
use schema::registry::{Build, Target};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// An engine's page.
#[derive(Serialize)]
pub struct EnginePage {
    frame: Frame,
    /// The work for which the guide takes the engine; empty if there is none.
    taken: String,
    /// Whether it was measured with small models only, in a sentence; empty if not.
    only_small: String,
    answer: String,
    about: String,
    homepage: String,
    homepage_links: bool,
    build: String,
    versions: Vec<String>,
    batching: Vec<String>,
    notes: Vec<notes::Note>,
    /// The run that versions, batching and notes come from, in words; empty if it is the run shown.
    reported_in: String,
    build_facts: Vec<(String, String)>,
    adoption: Option<Table>,
    beyond: Option<beyond::Beyond>,
    claims: Option<claims::Said>,
    chart: Option<Figure>,
    /// The versions of the engine and of the baseline's.
    compared: Option<Table>,
    targets: Vec<TargetView>,
    /// Whether a target has a number in this run.
    measured: bool,
    /// The numbers of another run, where this one has none.
    elsewhere: Option<elsewhere::Elsewhere>,
    unplanned: Vec<String>,
    other_runs: Vec<RunLine>,
    below: Vec<micro::Below>,
    /// Id of the run that `below` is of.
    below_run: String,
}

#[derive(Serialize)]
struct TargetView {
    swatch: String,
    target: Target,
    /// The number format of keys and values, where it isn't that of the weights.
    other_kv: Option<String>,
    kv_bits: Option<String>,
    verified: String,
    verified_ok: bool,
    reason: String,
    isa: Vec<String>,
    results: Vec<Result>,
}

#[derive(Serialize)]
struct Result {
    scenario: String,
    path: String,
    case: String,
    metric: String,
    cell: CellView,
}

/// Make the page of one engine from the run that the report shows; `all` are the runs of the site,
/// `below` is the run whose micro suites the site shows, and `taken` says for which work the guide
/// takes the engine.
pub fn page(
    shown: &Shown,
    all: &[Shown],
    below: Option<&Shown>,
    taken: String,
    id: &str,
) -> EnginePage {
    let engine = shown.input.registry.engine(id);
    let name = shown.input.engine_name(id);
    let about = engine.map(|e| e.about.clone()).unwrap_or_default();
    let homepage = engine.map(|e| e.homepage.clone()).unwrap_or_default();
    let planned: Vec<&Target> = shown.targets_of(id).collect();
    let ids: BTreeSet<&str> = planned.iter().map(|target| target.id.as_str()).collect();
    let measured = ids.iter().any(|id| shown.has_numbers(id));
    let reporting = reporting_run(shown, all, id);
    let said = |what: &dyn Fn(&Ready) -> Vec<String>| {
        let logs = reporting.into_iter().flat_map(|run| logs_of(run, id));
        let ready = logs.flat_map(|log| log.ready.iter());
        let distinct: BTreeSet<String> = ready.flat_map(what).collect();
        distinct.into_iter().collect::<Vec<_>>()
    };
    EnginePage {
        frame: shown.frame(&engine_path(id), name, &about),
        taken,
        only_small: standing::only_small(all, id),
        answer: standing::of_engine(shown, id, "the run on this page"),
        below: below.map_or_else(Vec::new, |run| micro::below(run, id)),
        below_run: below.map_or_else(String::new, |run| run.run.header.id.clone()),
        about,
        homepage_links: homepage.starts_with("http") && safe_href(&homepage),
        homepage,
        build: match engine.map(|engine| &engine.build) {
            Some(Build::Cargo(how)) => {
                format!("Cargo package {}, program {}", how.package, how.bin)
            }
            Some(Build::Python { script, .. }) => format!("Python program {script}"),
            Some(Build::Prebuilt { path, .. }) => format!("the program {path}, as found"),
            None => "not in the registry any more".into(),
        },
        beyond: beyond::of_engine(shown, all, id),
        claims: claims::of_engine(shown, all, id),
        versions: said(&|ready| vec![ready.version.clone()]),
        batching: said(&|ready| vec![batching_words(&ready.batching).to_owned()]),
        notes: reporting.map_or_else(Vec::new, |run| notes::of_engine(run, id)),
        reported_in: reporting.map_or_else(String::new, |run| in_run(shown, run)),
        build_facts: build_facts_of_all(shown, all, id),
        adoption: beyond::cost_table(shown, id),
        chart: ids
            .iter()
            .any(|target| *target != shown.baseline())
            .then(|| speed_up(shown, Some(id))),
        compared: maturity::compared(shown, |target| {
            target.engine == id || target.id == shown.baseline()
        }),
        elsewhere: match measured {
            true => None,
            false => elsewhere::of_engine(shown, all, id),
        },
        measured,
        targets: planned
            .iter()
            .map(|target| target_view(shown, target))
            .collect(),
        unplanned: shown
            .input
            .registry
            .targets()
            .into_iter()
            .filter(|t| t.engine == id && !t.hidden && !ids.contains(t.id.as_str()))
            .map(|target| target.id)
            .collect(),
        other_runs: other_runs(shown, all, id),
    }
}

/// The facts that the engine's programs report in the run shown. A fact that is missing there comes
/// from the newest other run that has it, with that run's id.
fn build_facts_of_all(shown: &Shown, all: &[Shown], engine: &str) -> Vec<(String, String)> {
    let of = |run: &Shown| build_facts(logs_of(run, engine));
    let mut facts: BTreeMap<String, String> = of(shown).into_iter().collect();
    let mut others: Vec<&Shown> = all.iter().collect();
    others.sort_by_key(|run| Reverse(&run.run.header.started));
    for run in others {
        for (fact, value) in of(run) {
            let elsewhere = || value + &in_run(shown, run);
            facts.entry(fact).or_insert_with(elsewhere);
        }
    }
    facts.into_iter().collect()
}

/// List the other publishable runs in which a target of an engine has a measured cell, each with
/// the names of these targets as its remark.
fn other_runs(shown: &Shown, all: &[Shown], engine: &str) -> Vec<RunLine> {
    let runs = publishable(all).into_iter();
    let others = runs.filter(|run| run.run.header.id != shown.run.header.id);
    let line = |run: &Shown| {
        let measured = run
            .targets_of(engine)
            .filter(|target| run.has_numbers(&target.id));
        let names: Vec<String> = measured.map(|target| target.id.clone()).collect();
        (!names.is_empty()).then(|| RunLine::new(run, join(&names)))
    };
    others.filter_map(line).collect()
}

fn target_view(shown: &Shown, target: &Target) -> TargetView {
    let verify = shown.run.verify.get(&target.id);
    let mut results = Vec::new();
    for scenario in shown.scenarios() {
        let Some(id) = shown.leading(scenario) else {
            continue;
        };
        for case in &scenario.cases {
            results.push(Result {
                scenario: shown.title(scenario).into(),
                path: format!("{}#{}", scenario_path(&scenario.id), slug(&case.id)),
                case: case_label(scenario, case),
                metric: id.describe().title.into(),
                cell: view(shown, &scenario.cell_key(case, &target.id), id),
            });
        }
    }
    TargetView {
        swatch: swatch(shown, &target.id),
        target: target.clone(),
        other_kv: other_kv(shown, target),
        kv_bits: reported_kv_bits(shown, &target.id),
        verified: match verify {
            Some(record) => verified_scope(record),
            None => "not verified in this run".into(),
        },
        verified_ok: verify.is_some_and(|v| v.status == Status::Ok),
        reason: verify.map(|v| v.reason.clone()).unwrap_or_default(),
        isa: instruction_limits_of(shown, &target.id),
        results,
    }
}
