//! The search page: everything that can be searched for in one table. The page's script filters it
//! while the reader types; without a script the table is an index.

use crate::authored::GLOSSARY;
use crate::fmt;
use crate::html::{escape, slug};
use crate::page::compare::{AllPairs, target_page_path};
use crate::page::{glossary, guide};
use crate::view::frame::Frame;
use crate::view::nav::{self, engines_of};
use crate::view::paths::{self, engine_path, run_path, scenario_path};
use crate::view::place;
use crate::view::{Shown, case_label};
use crate::words::plural;
use schema::plan::Case;
use schema::registry::Target;
use serde::Serialize;
use stats::analysis::MetricId;

/// Maximum number of pairs of targets whose comparisons are linked one by one. With more, only the
/// comparison page of each target is.
const PAIRS_MAX: usize = 300;

/// The search page.
#[derive(Serialize)]
pub struct SearchPage {
    frame: Frame,
    /// Searches that find a row.
    examples: Vec<String>,
    entries: Vec<Entry>,
}

/// A row of the table: something to find on the site.
#[derive(Clone, Debug, Serialize)]
struct Entry {
    kind: &'static str,
    name: String,
    path: String,
    /// A description, as HTML.
    about: String,
}

/// Make the search page from everything that the pages show; `all` are the runs, the one shown
/// among them.
pub fn page(shown: &Shown, all: &[Shown], pairs: &AllPairs) -> SearchPage {
    let mut entries = kinds_of_work();
    entries.extend(engines(shown));
    entries.extend(scenarios(shown));
    entries.extend(all.iter().map(run));
    let others = pages(shown, &entries);
    entries.extend(others);
    entries.extend(facts(shown));
    entries.extend(metrics());
    entries.extend(terms(shown));
    entries.extend(comparisons(pairs));
    SearchPage {
        frame: shown.frame(
            paths::SEARCH,
            "Search",
            "Every kind of work, engine, target, scenario, run, metric, term and comparison of \
             these pages.",
        ),
        examples: examples(shown),
        entries,
    }
}

/// A target by two parts of its id, a case, and a word of the glossary.
fn examples(shown: &Shown) -> Vec<String> {
    let target = shown.targets().first();
    let target = target.map(|target| format!("{} {}", target.engine, target.precision));
    let case = shown.cases().last();
    let case = case.map(|(scenario, case)| case_label(scenario, case));
    let all = [target, case, Some("interval".to_owned())];
    all.into_iter().flatten().collect()
}

impl Entry {
    /// Make a row; `about` is plain text.
    fn new(kind: &'static str, name: String, path: String, about: &str) -> Self {
        Self {
            kind,
            name,
            path,
            about: escape(about),
        }
    }
}

fn kinds_of_work() -> Vec<Entry> {
    let works = guide::WORKLOADS.iter().map(|work| {
        let path = format!("{}#{}", paths::GUIDE, work.id);
        let about = format!("{} Other words for it: {}.", work.about, work.also);
        Entry::new("work", work.title.into(), path, &about)
    });
    works.collect()
}

/// The engines, each with its targets.
fn engines(shown: &Shown) -> Vec<Entry> {
    let mut entries = Vec::new();
    for id in engines_of(shown.input, shown.run) {
        let known = shown.input.registry.engine(&id);
        let name = shown.input.engine_name(&id);
        let about = known.map_or("", |engine| engine.about.as_str());
        entries.push(Entry::new("engine", name.into(), engine_path(&id), about));
        entries.extend(shown.targets_of(&id).map(|target| {
            let path = format!("{}#{}", engine_path(&id), slug(&target.id));
            let (backend, precision) = (&target.backend, &target.precision);
            let how = shown.comes_as(&target.id);
            let how = how.map_or(String::new(), |how| format!("; {how}"));
            let about = format!("{name} on {backend}, with weights in {precision}{how}");
            Entry::new("target", target.id.clone(), path, &about)
        }));
    }
    entries
}

fn scenarios(shown: &Shown) -> Vec<Entry> {
    let mut entries = Vec::new();
    for scenario in shown.scenarios() {
        let title = shown.title(scenario);
        let path = scenario_path(&scenario.id);
        let text = shown.text(scenario);
        let question = text.map_or("", |text| text.question.as_str());
        entries.push(Entry::new("scenario", title.into(), path.clone(), question));
        for case in &scenario.cases {
            let name = format!("{title}, {}", case_label(scenario, case));
            let path = format!("{path}#{}", slug(&case.id));
            entries.push(Entry::new("case", name, path, &lengths(case)));
        }
    }
    entries
}

/// Say how long the prompts and the answers of a case are.
fn lengths(case: &Case) -> String {
    let up_to = if case.has_mixed_lengths() {
        "up to "
    } else {
        ""
    };
    let tokens = |n: u32| plural(u64::from(n), "token", "tokens");
    format!(
        "Prompts of {up_to}{}, answers of {}",
        tokens(case.prompt_tokens),
        tokens(case.new_tokens)
    )
}

fn run(run: &Shown) -> Entry {
    let header = &run.run.header;
    let about = format!(
        "{}, started {}",
        place::place(run),
        fmt::moment(&header.started)
    );
    let name = format!("Run {}", header.id);
    Entry::new("run", name, run_path(&header.id), &about)
}

/// The pages of the navigation that no row of `known` leads to.
fn pages(shown: &Shown, known: &[Entry]) -> Vec<Entry> {
    let is_new = |path: &str| known.iter().all(|entry| entry.path != path);
    let pages = nav::pages(shown.input).into_iter();
    let pages = pages.filter(|(path, _)| is_new(path));
    let entry = |(path, name): (String, String)| {
        let about = about_page(&path);
        Entry::new("page", name, path, about)
    };
    pages.map(entry).collect()
}

/// What a page has that is no scenario's, engine's or run's.
fn about_page(path: &str) -> &'static str {
    match path {
        paths::INDEX => "What to run for each kind of work, and who leads each scenario",
        paths::COMPARE => "The verdicts on every pair of targets, counted over all cases",
        paths::COST => "What a million output tokens cost, at a price by the hour of yours too",
        paths::MICRO => "Parts of engines measured by themselves",
        paths::KERNELS => "Which kernels ran on the GPU, and for how long",
        paths::GUIDE => "The target to take for each kind of work, with its costs and settings",
        paths::HYPOTHESES => "What was predicted, and what the runs say of it",
        paths::ROADMAP => "How far the engines are from what the machine can do",
        paths::ENGINES => "All engines, the age of their versions, and engines not measured",
        paths::METHODOLOGY => "How everything is measured, checked and compared",
        paths::GLOSSARY => "Every term of these pages, each defined once",
        paths::CHANGELOG => "Changes of the method, by date",
        paths::DATA => "Records and results to download, and their formats",
        paths::COVERAGE => "Which cells have a number, and why others have none",
        _ => "",
    }
}

/// What was read of engines beyond their speed, and the engines that are not measured.
fn facts(shown: &Shown) -> Vec<Entry> {
    let Some(known) = shown.input.maturity else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    for id in engines_of(shown.input, shown.run) {
        let facts = known.dossier(&id).map_or(&[][..], |all| &all.facts);
        entries.extend(facts.iter().map(|fact| {
            let name = format!("{}: {}", shown.input.engine_name(&id), fact.topic.title());
            let path = format!("{}#beyond", engine_path(&id));
            Entry::new("fact", name, path, &fact.says)
        }));
    }
    let others = format!("{}#others", paths::ENGINES);
    entries.extend(known.not_measured.iter().map(|other| {
        let (name, path) = (other.name.clone(), others.clone());
        Entry::new("not measured", name, path, &other.why)
    }));
    entries
}

fn metrics() -> impl Iterator<Item = Entry> {
    MetricId::ALL.into_iter().map(|id| {
        let metric = id.describe();
        let path = format!("{}#{}", paths::METHODOLOGY, metric.name);
        Entry::new("metric", metric.title.into(), path, metric.definition)
    })
}

fn terms(shown: &Shown) -> Vec<Entry> {
    let terms = glossary::terms(GLOSSARY.text(shown.input.authored));
    let entry = |term: glossary::Term| Entry {
        kind: "term",
        name: term.name,
        path: format!("{}#{}", paths::GLOSSARY, term.id),
        about: term.text,
    };
    terms.into_iter().map(entry).collect()
}

/// The comparison page of each target, with a link to each pair unless there are too many.
fn comparisons(pairs: &AllPairs) -> Vec<Entry> {
    let targets = pairs.paged();
    let are_few = targets.len() * targets.len() <= PAIRS_MAX;
    let entry = |target: &Target| {
        let path = target_page_path(&target.id);
        let others = targets.iter().filter(|other| other.id != target.id);
        let link = |other: &Target| {
            let (place, name) = (slug(&other.id), escape(&other.id));
            format!("<a href=\"{path}#{place}\">{name}</a>")
        };
        let about = match are_few {
            true => others.map(link).collect::<Vec<_>>().join(", "),
            false => plural(others.count() as u64, "other target", "other targets"),
        };
        Entry {
            kind: "comparison",
            name: format!("{} against every other target", target.id),
            about: format!("Case by case against {about}"),
            path,
        }
    };
    targets.iter().map(entry).collect()
}
