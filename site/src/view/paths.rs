//! The path of each page from the root of the site, and which optional pages exist.

use crate::html::slug;
use schema::kernels::TracedLaunch;
use schema::key::CellKey;
use schema::run::Run;

/// The index: the answer and the leaders.
pub const INDEX: &str = "index.html";
/// The changelog of the methodology.
pub const CHANGELOG: &str = "changelog.html";
/// The comparison of all pairs of targets.
pub const COMPARE: &str = "compare.html";
/// The coverage page: which cells have numbers, and why others have none.
pub const COVERAGE: &str = "coverage.html";
/// The methodology.
pub const METHODOLOGY: &str = "methodology.html";
/// The page of all engines.
pub const ENGINES: &str = "engines.html";
/// The cost page.
pub const COST: &str = "cost.html";
/// The feed of runs, for feed readers.
pub const FEED: &str = "feed.xml";
/// The data page: downloads and formats.
pub const DATA: &str = "data.html";
/// The glossary.
pub const GLOSSARY: &str = "glossary.html";
/// The deployment guide.
pub const GUIDE: &str = "guide.html";
/// The predictions, with verdicts.
pub const HYPOTHESES: &str = "hypotheses.html";
/// The kernel traces.
pub const KERNELS: &str = "kernels.html";
/// The micro suites.
pub const MICRO: &str = "micro.html";
/// The search page.
pub const SEARCH: &str = "search.html";
/// The roadmap: what there is to gain.
pub const ROADMAP: &str = "roadmap.html";

/// Path of a scenario's page, from the root.
pub fn scenario_path(id: &str) -> String {
    format!("scenario/{}.html", slug(id))
}

/// The prefix of the paths of a page's charts as files of their own; a chart's id and `.svg`
/// follow.
pub fn chart_prefix(page: &str) -> String {
    format!(
        "chart/{}.",
        page.trim_end_matches(".html").replace('/', ".")
    )
}

/// Path of an engine's page.
pub fn engine_path(id: &str) -> String {
    format!("engine/{}.html", slug(id))
}

/// Path of a micro suite's page.
pub fn suite_path(suite: &str) -> String {
    format!("{}/{}.html", schema::micro::DIR, slug(suite))
}

/// Path of a run's page.
pub fn run_path(id: &str) -> String {
    format!("run/{}.html", slug(id))
}

/// Path and fragment of the reason why a cell has no number.
pub fn reason_path(cell: &CellKey) -> String {
    format!("{COVERAGE}#{}", reason_id(cell))
}

/// The fragment of [`reason_path`].
pub fn reason_id(cell: &CellKey) -> String {
    let names = [&cell.scenario, &cell.case, &cell.target].map(|name| slug(name));
    format!("why.{}", names.join("."))
}

/// Whether the run has a kernel trace that was measured, and so a page of them.
pub fn has_kernels(run: &Run) -> bool {
    let measured = |launch: &TracedLaunch| {
        let trace = launch.trace.as_ref();
        trace.is_ok_and(|trace| !trace.header.synthetic)
    };
    run.kernels.iter().any(measured)
}

/// The run that the pages of micro suites are about: the first that has any suite, which need not
/// be the one that the report shows.
pub fn micro_run(runs: &[Run]) -> Option<&Run> {
    runs.iter().find(|run| !run.header.plan.micro.is_empty())
}
