//! Recomputes the guide's advice on the published runs, and what stands beside it, from the runs'
//! numbers by the rule that the page prints. It reads `results.json` and has a t distribution of
//! its own, so that it doesn't repeat a mistake of the guide or of the decision behind it.

mod take;

use schema::model::Models;
use schema::registry::{Build, Registry};
use schema::run::Run;
use schema::run_files::SUFFIX;
use schema::scenario::Scenario;
use serde_json::Value;
use site::page::guide;
use site::view::{Shown, paths, place};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice::from_ref;
use take::{cheapest, tied};

/// A kind of work, with the rule that the page states for it.
struct Rule {
    anchor: &'static str,
    scenario: &'static str,
    largest: bool,
    metrics: &'static [&'static str],
    more_is_better: bool,
}

const RULES: [Rule; 5] = [
    Rule {
        anchor: "interactive",
        scenario: "single_request",
        largest: true,
        metrics: &["e2e_ns"],
        more_is_better: false,
    },
    Rule {
        anchor: "batch",
        scenario: "sustained",
        largest: true,
        metrics: &["output_tok_per_s"],
        more_is_better: true,
    },
    Rule {
        anchor: "long-documents",
        scenario: "long_context",
        largest: true,
        metrics: &["ttft_ns"],
        more_is_better: false,
    },
    Rule {
        anchor: "many-users",
        scenario: "concurrent",
        largest: true,
        metrics: &["e2e_ns"],
        more_is_better: false,
    },
    Rule {
        anchor: "little-memory",
        scenario: "memory",
        largest: false,
        metrics: &["peak_gpu_memory_bytes", "peak_rss_bytes"],
        more_is_better: false,
    },
];

/// Whether a target is a candidate.
type Admits<'f> = &'f dyn Fn(&str) -> bool;

/// A run with its published numbers.
struct Read<'r> {
    run: &'r Run,
    results: Value,
    /// Its machine, model and profile.
    place: String,
}

/// The deciding case of a run.
struct Deciding {
    metric: &'static str,
    /// Its value on the scenario's axis.
    size: i64,
    /// Its cells with a number.
    cells: Vec<Measured>,
}

/// A cell of the deciding case.
#[derive(Clone)]
struct Measured {
    target: String,
    value: f64,
    /// The statistic of each launch, in block order.
    launches: Vec<f64>,
}

#[test]
fn the_advice_on_published_runs_follows_from_their_numbers() {
    let models = Models::load(&root().join("data/models.toml")).unwrap();
    let runs = eligible(&root().join("data/results"), &models);
    let all = follows(&runs, &models);
    assert!(all.advised > 0, "no published run carries advice");
    assert!(
        all.besides > 0,
        "no published run adds a target to another's"
    );
    assert!(all.narrow > 0, "no published run adds a target of a kind");
    // What a run lacks, another may have, so each is also read alone.
    let alone = runs.iter().map(|run| follows(from_ref(run), &models));
    let other_sizes: usize = alone.map(|seen| seen.other_sizes).sum();
    assert!(
        other_sizes > 0,
        "no published run has a target at another size"
    );
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// How often each kind of advice was compared with the rule.
struct Seen {
    /// Choices.
    advised: usize,
    /// Choices beside which a target of another run stands.
    besides: usize,
    /// Choices of a kind beside which one stands.
    narrow: usize,
    /// Choices of a kind at another size.
    other_sizes: usize,
}

/// Compare the advice on these runs with the rule, recomputed from their published numbers.
fn follows(runs: &[Run], models: &Models) -> Seen {
    let registry = Registry::load(&root().join("engines/engines.toml")).unwrap();
    let scenarios = Scenario::load_all(&root().join("data/scenarios")).unwrap();
    let authored = site::authored::Authored::default();
    let input = site::Input {
        runs,
        scenarios: &scenarios,
        suites: &[],
        registry: &registry,
        models,
        shipped: &[],
        profiles: &[],
        parity: None,
        simulation: None,
        adapters: None,
        hypotheses: None,
        prices: None,
        maturity: None,
        claims: None,
        publishing: site::Publishing::default(),
        authored: &authored,
    };
    let baseline = |run: &Run| registry.baseline_of(&run.header.plan.targets).to_owned();
    let analyse = |run: &Run| stats::analyse(run, &scenarios, &baseline(run));
    let analyses: Vec<_> = runs.iter().map(analyse).collect();
    let shown = runs.iter().zip(&analyses);
    let shown: Vec<Shown> = shown
        .map(|(run, analysis)| Shown::new(&input, run, analysis))
        .collect();
    let page = serde_json::to_value(guide::page(&input, &shown)).unwrap();
    let read = shown.iter().map(|shown| {
        let text = site::results::results_json(shown.run, shown.analysis, &baseline(shown.run));
        Read {
            run: shown.run,
            results: serde_json::from_str(&text.unwrap()).unwrap(),
            place: place::place(shown),
        }
    });
    let all: Vec<Read> = read.collect();
    let engine = |target: &str| registry.engine(target.split(['.', '+']).next().unwrap());
    let is_ours = |target: &str| engine(target).is_some_and(|engine| engine.ours);
    let is_in_rust = |target: &str| engine(target).is_some_and(|engine| engine.in_rust);
    let is_crate = |target: &str| {
        let engine = engine(target);
        engine.is_some_and(|engine| {
            matches!(engine.build, Build::Cargo(_)) && !engine.unpublished && !engine.hidden
        })
    };

    let (mut advised, mut besides, mut narrow) = (0, 0, 0);
    let other_sizes = std::cell::Cell::new(0);
    for rule in &RULES {
        let said = of_anchor(&page, rule.anchor);
        let mut answerable = BTreeSet::new();
        for read in &all {
            let Some(asked) = deciding(&read.results, rule) else {
                continue;
            };
            let candidates = without_our_own(&registry, asked.cells.clone());
            if candidates.len() < 2 {
                continue; // one candidate is no choice
            }
            let path = paths::run_path(&read.run.header.id);
            answerable.insert(path.clone());
            let Some(advice) = said.iter().find(|r| r["run_path"] == *path) else {
                continue; // another run of this machine and model was chosen
            };
            let tied = tied(&read.results, rule, candidates);
            let choice = cheapest(read.run, &tied);
            let place = format!("{} of {path}", rule.anchor);
            assert_eq!(advice["choice"], *choice, "{place}");
            let grouped = |group: &str| -> BTreeSet<&str> {
                let all = advice["candidates"].as_array().unwrap().iter();
                all.filter(|c| c["group"] == group)
                    .map(|c| c["target"].as_str().unwrap())
                    .collect()
            };
            let with_it = tied.iter().filter(|target| **target != choice);
            let with_it: BTreeSet<&str> = with_it.map(String::as_str).collect();
            assert_eq!(grouped("chosen"), BTreeSet::from([&*choice]), "{place}");
            assert_eq!(grouped("tied with it"), with_it, "{place}");

            let beside = |is_of_kind: Admits| {
                let of = |target: &str| is_of_kind(target) && !is_ours(target);
                elsewhere(&all, read, rule, &asked, &choice, &of)
            };
            // A target, and the path of the run that has it; the path is empty for the choice's
            // run.
            let narrower = |is_of_kind: Admits| {
                let of = |target: &str| is_of_kind(target) && !is_ours(target);
                if is_of_kind(&choice) {
                    return None;
                }
                let here = take(read, rule, &asked.cells, &of);
                let here = here.map(|target| (target, String::new()));
                here.or_else(|| beside(is_of_kind)).or_else(|| {
                    let smaller = at_another_size(read, rule, &asked, &of);
                    other_sizes.set(other_sizes.get() + usize::from(smaller.is_some()));
                    smaller.map(|target| (target, String::new()))
                })
            };
            let in_rust = narrower(&is_in_rust);
            let of_crates = narrower(&is_crate);
            let best_in_rust = in_rust.as_ref().map(|found| found.0.clone());
            let of_crates = of_crates.filter(|found| Some(&found.0) != best_in_rust.as_ref());
            // A target that this run left out is named beside one that this run has.
            let kinds: [(_, _, Admits); 2] = [
                ("in_rust", &in_rust, &is_in_rust),
                ("of_crates", &of_crates, &is_crate),
            ];
            for (key, found, is_of_kind) in kinds {
                let is_here = found.as_ref().is_some_and(|found| found.1.is_empty());
                let left_out = is_here.then(|| beside(is_of_kind)).flatten();
                narrow += usize::from(left_out.is_some());
                let said = named(&advice[key]["elsewhere"], "words");
                assert_eq!(said, left_out.unwrap_or_default(), "{key}: {place}");
            }
            let found = named(&advice["in_rust"], "choice");
            assert_eq!(found, in_rust.unwrap_or_default(), "{place}");
            let found = named(&advice["of_crates"], "choice");
            assert_eq!(found, of_crates.unwrap_or_default(), "{place}");
            let found = named(&advice["elsewhere"], "words");
            let left_out = beside(&|_: &str| true);
            besides += usize::from(left_out.is_some());
            assert_eq!(found, left_out.unwrap_or_default(), "{place}");
            advised += 1;
        }
        let answers = said.iter().map(|r| r["run_path"].as_str().unwrap());
        let answers: BTreeSet<String> = answers.map(str::to_owned).collect();
        assert!(answers.is_subset(&answerable), "{}", rule.anchor);
        assert_eq!(answers.is_empty(), answerable.is_empty(), "{}", rule.anchor);
    }
    Seen {
        advised,
        besides,
        narrow,
        other_sizes: other_sizes.get(),
    }
}

/// The target that a field of a part of the advice begins with, and the path of the part's run.
fn named(part: &Value, field: &str) -> (String, String) {
    let text = |name: &str| part[name].as_str().unwrap();
    let target = text(field).split(' ').next().unwrap();
    (target.to_owned(), text("run_path").to_owned())
}

/// The published runs that advice may rest on, newest first.
fn eligible(dir: &Path, models: &Models) -> Vec<Run> {
    let files = std::fs::read_dir(dir).unwrap().flatten();
    let files = files.map(|file| file.path());
    let is_run = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(SUFFIX);
    let mut files: Vec<_> = files.filter(is_run).collect();
    files.sort();
    let runs = files.iter().rev().map(|path| Run::load(path).unwrap());
    runs.filter(|run| {
        let plan = &run.header.plan;
        let model = models.get(&plan.model);
        plan.publishable && model.is_some_and(|m| m.parameters >= 1_000_000_000)
    })
    .collect()
}

pub(crate) fn of_anchor<'v>(page: &'v Value, anchor: &str) -> Vec<&'v Value> {
    let mut works = page["workloads"].as_array().unwrap().iter();
    let work = works.find(|work| work["anchor"] == anchor).unwrap();
    let all = work["recommendations"].as_array().unwrap();
    all.iter().collect()
}

/// The cells with a number at the most extreme size at which at least half of the cells that have
/// one at any size do; `None` where no case decides.
fn deciding(results: &Value, rule: &Rule) -> Option<Deciding> {
    for &metric in rule.metrics {
        let mut sizes = by_size(results, rule, metric);
        let most = sizes.values().map(Vec::len).max().unwrap_or(0);
        sizes.retain(|_, cells| 2 * cells.len() >= most);
        let chosen = match rule.largest {
            true => sizes.pop_last(),
            false => sizes.pop_first(),
        };
        if let Some((size, cells)) = chosen {
            let one_launch = cells.iter().any(|cell| cell.launches.len() < 2);
            return (cells.len() == 1 || !one_launch).then_some(Deciding {
                metric,
                size,
                cells,
            });
        }
    }
    None
}

/// The cells with a number of a metric, by size.
fn by_size(results: &Value, rule: &Rule, metric: &str) -> BTreeMap<i64, Vec<Measured>> {
    let mut sizes: BTreeMap<i64, Vec<Measured>> = BTreeMap::new();
    for cell in results["cells"].as_array().unwrap() {
        let found = &cell["metrics"][metric];
        if cell["scenario"] != rule.scenario || cell["status"] != "ok" || found.is_null() {
            continue;
        }
        let launches = found["by_invocation"].as_array().unwrap().iter();
        let size = cell["axis_value"].as_i64().unwrap();
        sizes.entry(size).or_default().push(Measured {
            target: cell["target"].as_str().unwrap().into(),
            value: found["value"].as_f64().unwrap(),
            launches: launches.map(|v| v.as_f64().unwrap()).collect(),
        });
    }
    sizes
}

/// Return the target to take among those for which the run had no time at the deciding size, at the
/// nearest size at which one of them has a number.
fn at_another_size(read: &Read, rule: &Rule, asked: &Deciding, of: Admits) -> Option<String> {
    let sizes = by_size(&read.results, rule, asked.metric);
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(size, _)| (size - asked.size).abs());
    let is_left_out = |target: &str| of(target) && is_left_out(&read.results, rule, asked, target);
    let mut sizes = sizes.iter();
    sizes.find_map(|(_, cells)| take(read, rule, cells, &is_left_out))
}

/// Return the target to take among the cells that `of` admits, if there are any.
fn take(read: &Read, rule: &Rule, of_case: &[Measured], of: Admits) -> Option<String> {
    let admitted = of_case.iter().filter(|cell| of(&cell.target));
    let admitted: Vec<Measured> = admitted.cloned().collect();
    if admitted.is_empty() {
        return None;
    }
    Some(cheapest(read.run, &tied(&read.results, rule, admitted)))
}

/// Return the target to take among those that a run left out and another run of its place measured
/// beside the choice, and the path of that run. Of several runs, take the one in which the target
/// compares best with the choice.
fn elsewhere(
    all: &[Read],
    read: &Read,
    rule: &Rule,
    asked: &Deciding,
    choice: &str,
    of: Admits,
) -> Option<(String, String)> {
    let is_new = |target: &str| of(target) && is_left_out(&read.results, rule, asked, target);
    let mut best: Option<(f64, String, String)> = None;
    for other in all.iter().filter(|other| other.place == read.place) {
        let Some(there) = deciding(&other.results, rule) else {
            continue;
        };
        let is_same = there.metric == asked.metric
            && load(other.run, rule, there.size) == load(read.run, rule, asked.size);
        if !is_same {
            continue;
        }
        let Some(target) = take(other, rule, &there.cells, &is_new) else {
            continue;
        };
        let Some(ratio) = ratio(rule, &there.cells, &target, choice) else {
            continue;
        };
        if best.as_ref().is_none_or(|best| ratio > best.0) {
            best = Some((ratio, target, paths::run_path(&other.run.header.id)));
        }
    }
    best.map(|(_, target, path)| (target, path))
}

/// Whether a run has no cell of a target in the deciding case, or had no time for it.
fn is_left_out(results: &Value, rule: &Rule, asked: &Deciding, target: &str) -> bool {
    let mut cells = results["cells"].as_array().unwrap().iter();
    let cell = cells.find(|cell| {
        cell["scenario"] == rule.scenario
            && cell["axis_value"] == asked.size
            && cell["target"] == target
    });
    cell.is_none_or(|cell| cell["status"] == "over_budget" || cell["status"] == "not_run")
}

/// The case of a size, with the lengths of its prompts and answers.
fn load(run: &Run, rule: &Rule, size: i64) -> (String, u32, u32) {
    let scenario = run.header.plan.scenario(rule.scenario).unwrap();
    let mut cases = scenario.cases.iter();
    let case = cases.find(|case| i64::from(case.axis_value(scenario.axis)) == size);
    let case = case.unwrap();
    (case.id.clone(), case.prompt_tokens, case.new_tokens)
}

/// How many times better a target is than another, launch by launch; `None` where one has no
/// number.
fn ratio(rule: &Rule, cells: &[Measured], target: &str, other: &str) -> Option<f64> {
    let of = |target: &str| cells.iter().find(|cell| cell.target == target);
    let (a, b) = (of(target)?, of(other)?);
    assert_eq!(a.launches.len(), b.launches.len(), "whole blocks");
    let logs = a
        .launches
        .iter()
        .zip(&b.launches)
        .map(|(a, b)| (a / b).ln());
    let mean = logs.sum::<f64>() / a.launches.len() as f64;
    let sign = if rule.more_is_better { 1.0 } else { -1.0 };
    Some((sign * mean).exp())
}

/// The cells of engines that others maintain; all of them where there is none.
fn without_our_own(registry: &Registry, cells: Vec<Measured>) -> Vec<Measured> {
    let is_ours = |cell: &Measured| {
        let engine = cell.target.split(['.', '+']).next();
        registry
            .engine(engine.unwrap())
            .is_some_and(|engine| engine.ours)
    };
    let (ours, others): (Vec<_>, Vec<_>) = cells.into_iter().partition(is_ours);
    if others.is_empty() { ours } else { others }
}
