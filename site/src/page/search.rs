//! The search page: everything that can be searched for in one table. The page's script filters it
//! while the reader types; without a script the table is an index.

use crate::authored::GLOSSARY;
use crate::html::slug;
use crate::page::compare;
use crate::page::glossary;
use crate::view::frame::Frame;
use crate::view::nav::{self, engines_of};
use crate::view::paths::{self, engine_path, scenario_path};
use crate::view::{Shown, case_label};
use serde::Serialize;
use stats::analysis::MetricId;

/// Maximum number of pairs of targets that are listed one by one. With more, only the comparison
/// page of each target is listed.
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

/// Make the search page from everything that the pages of a run show.
pub fn page(shown: &Shown, pairs: &compare::AllPairs) -> SearchPage {
    let mut entries = comparisons(pairs);
    entries.extend(scenarios(shown));
    entries.extend(engines(shown));
    let pages = nav::pages(shown.input).into_iter();
    entries.extend(pages.map(|(path, name)| Entry::new("page", name, path)));
    entries.extend(MetricId::ALL.into_iter().map(|id| {
        let about = id.describe();
        Entry::new(
            "metric",
            about.title.into(),
            format!("{}#{}", paths::METHODOLOGY, about.name),
        )
    }));
    let terms = glossary::terms(GLOSSARY.text(shown.input.authored));
    entries.extend(terms.into_iter().map(|term| Entry {
        about: term.text,
        ..Entry::new(
            "term",
            term.name,
            format!("{}#{}", paths::GLOSSARY, term.id),
        )
    }));
    SearchPage {
        frame: shown.frame(
            paths::SEARCH,
            "Search",
            "Every engine, target, scenario, comparison, metric and term of these pages.",
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
    fn new(kind: &'static str, name: String, path: String) -> Self {
        Self {
            kind,
            name,
            path,
            about: String::new(),
        }
    }
}

/// List every pair of targets, or only the comparison page of each target where there are many.
fn comparisons(pairs: &compare::AllPairs) -> Vec<Entry> {
    let targets = pairs.paged();
    let page = |id: &str| compare::target_page_path(id);
    if targets.len() * targets.len() > PAIRS_MAX {
        let one = |target: &schema::registry::Target| {
            let name = format!("{} against every other target", target.id);
            Entry::new("comparison", name, page(&target.id))
        };
        return targets.iter().map(one).collect();
    }
    let mut entries = Vec::new();
    for target in targets {
        for other in targets.iter().filter(|other| other.id != target.id) {
            let name = format!("{} against {}", target.id, other.id);
            let path = format!("{}#{}", page(&target.id), slug(&other.id));
            entries.push(Entry::new("comparison", name, path));
        }
    }
    entries
}

fn scenarios(shown: &Shown) -> Vec<Entry> {
    let mut entries = Vec::new();
    for scenario in shown.scenarios() {
        let title = shown.title(scenario);
        let path = scenario_path(&scenario.id);
        entries.push(Entry::new("scenario", title.into(), path.clone()));
        for case in &scenario.cases {
            let label = case_label(scenario, case);
            let path = format!("{path}#{}", slug(&case.id));
            entries.push(Entry::new("case", format!("{title}, {label}"), path));
        }
    }
    entries
}

fn engines(shown: &Shown) -> Vec<Entry> {
    let mut entries = Vec::new();
    for id in engines_of(shown.input, shown.run) {
        let known = shown.input.registry.engine(&id);
        let name = known.map_or(id.clone(), |engine| engine.name.clone());
        let about = known.map_or("", |engine| engine.about.as_str());
        entries.push(Entry {
            about: crate::html::escape(about),
            ..Entry::new("engine", name, engine_path(&id))
        });
        let targets = shown.targets().iter().filter(|target| target.engine == id);
        entries.extend(targets.map(|target| {
            let path = format!("{}#{}", engine_path(&id), slug(&target.id));
            Entry::new("target", target.id.clone(), path)
        }));
    }
    entries
}
