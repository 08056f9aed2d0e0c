//! The navigation: five destinations, and below them the pages of the open one.

use crate::Input;
use crate::view::paths::{self, engine_path, run_path, scenario_path};
use schema::run::Run;
use serde::Serialize;

/// The navigation as one page shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Nav {
    /// The destinations at which the site can be entered.
    pub destinations: Vec<NavItem>,
    /// The pages of the destination that the current page belongs to; empty where it has only one.
    pub pages: Vec<NavItem>,
}

/// A link of the navigation.
#[derive(Clone, Debug, Serialize)]
pub struct NavItem {
    /// Path from the root of the site.
    pub path: String,
    /// The text of the link.
    pub label: String,
    /// The value of `aria-current`: `page` for the link to the current page, `true` for the
    /// destination that the page belongs to, else empty.
    pub current: &'static str,
}

/// A destination: its label, and its pages (path, label). Its link leads to the first.
struct Destination {
    label: &'static str,
    pages: Vec<(String, String)>,
}

impl Nav {
    /// Make the navigation of the page at `path`.
    pub fn new(input: &Input, path: &str) -> Self {
        let all = destinations(input);
        let here = all.iter().position(|destination| destination.has(path));
        let item = |at: &str, label: &str, elsewhere| NavItem {
            path: at.to_owned(),
            label: label.to_owned(),
            current: if at == path { "page" } else { elsewhere },
        };
        let destinations = all.iter().enumerate().map(|(index, destination)| {
            let elsewhere = if here == Some(index) { "true" } else { "" };
            item(&destination.pages[0].0, destination.label, elsewhere)
        });
        let page = |(at, label): &(String, String)| item(at, label, "");
        Self {
            destinations: destinations.collect(),
            pages: match here.map_or(&[][..], |index| &all[index].pages) {
                [_] => Vec::new(),
                pages => pages.iter().map(page).collect(),
            },
        }
    }
}

impl Destination {
    /// Whether a page belongs to the destination: it is one of its pages or lies below one, as a
    /// target's comparison page lies below the comparison (`compare/…` below `compare.html`).
    fn has(&self, path: &str) -> bool {
        let below = |(own, _): &(String, String)| {
            let folder = own.trim_end_matches(".html");
            own == path
                || path
                    .strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        self.pages.iter().any(below)
    }
}

/// Path and label of every page in the navigation except the search.
pub fn pages(input: &Input) -> Vec<(String, String)> {
    let pages = destinations(input).into_iter().flat_map(|d| d.pages);
    pages.filter(|(path, _)| path != paths::SEARCH).collect()
}

fn destinations(input: &Input) -> Vec<Destination> {
    let newest = input.runs.first();
    let mut all = Vec::new();
    let mut add = |label, pages| all.push(Destination { label, pages });
    add("Results", results(input, newest));
    add("Guide", guide(input));
    if let Some(run) = newest {
        let mut pages = vec![(paths::ENGINES.into(), "All engines".into())];
        for id in engines_of(input, run) {
            pages.push((engine_path(&id), input.engine_name(&id).to_owned()));
        }
        add("Engines", pages);
    }
    let method = vec![
        (paths::METHODOLOGY.into(), "Methodology".into()),
        (paths::GLOSSARY.into(), "Glossary".into()),
        (paths::CHANGELOG.into(), "Changelog".into()),
    ];
    add("Method", method);
    if let Some(newest) = newest {
        let mut pages = vec![
            (paths::DATA.into(), "Downloads".into()),
            (paths::SEARCH.into(), "Search".into()),
            (paths::COVERAGE.into(), "Coverage".into()),
        ];
        for run in input.runs {
            let id = &run.header.id;
            let label = match *id == newest.header.id {
                true => "This run".to_owned(),
                false => format!("Run {id}"),
            };
            pages.push((run_path(id), label));
        }
        add("Data", pages);
    }
    all
}

fn results(input: &Input, newest: Option<&Run>) -> Vec<(String, String)> {
    let mut pages = vec![(paths::INDEX.into(), "Overview".into())];
    let Some(run) = newest else {
        return pages;
    };
    for planned in &run.header.plan.scenarios {
        let title = input.text(planned).map_or(&planned.id, |text| &text.title);
        pages.push((scenario_path(&planned.id), title.clone()));
    }
    pages.push((paths::COMPARE.into(), "Compare".into()));
    pages.push((paths::COST.into(), "Cost".into()));
    if paths::micro_run(input.runs).is_some() {
        pages.push((paths::MICRO.into(), "Micro-benchmarks".into()));
    }
    if paths::has_kernels(run) {
        pages.push((paths::KERNELS.into(), "Kernels".into()));
    }
    pages
}

fn guide(input: &Input) -> Vec<(String, String)> {
    let mut pages = vec![(paths::GUIDE.into(), "Which engine".into())];
    if input.hypotheses.is_some() {
        pages.push((paths::HYPOTHESES.into(), "Predictions".into()));
    }
    pages.push((paths::ROADMAP.into(), "What there is to gain".into()));
    pages
}

/// Ids of the engines with a page: those of the registry that aren't hidden, and any other that the
/// run planned.
pub fn engines_of(input: &Input, run: &Run) -> Vec<String> {
    let registry = input.registry.engines.iter();
    let mut ids: Vec<String> = registry
        .filter(|engine| !engine.hidden)
        .map(|engine| engine.id.clone())
        .collect();
    for target in &run.header.plan.targets {
        if !ids.contains(&target.engine) {
            ids.push(target.engine.clone());
        }
    }
    ids
}
