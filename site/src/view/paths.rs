//! Where each page lies, from the root of the site, and whether it is there.

use crate::html::slug;
use schema::kernels::TracedLaunch;
use schema::key::CellKey;
use schema::run::Run;

/// The answer, and who leads.
pub const INDEX: &str = "index.html";
/// What changed.
pub const CHANGELOG: &str = "changelog.html";
/// Any two targets.
pub const COMPARE: &str = "compare.html";
/// Which cells have numbers, and why others have none.
pub const COVERAGE: &str = "coverage.html";
/// How it is measured.
pub const METHODOLOGY: &str = "methodology.html";
/// All engines.
pub const ENGINES: &str = "engines.html";
/// What tokens cost.
pub const COST: &str = "cost.html";
/// The runs, for feed readers.
pub const FEED: &str = "feed.xml";
/// The records, and what they mean.
pub const DATA: &str = "data.html";
/// The terms.
pub const GLOSSARY: &str = "glossary.html";
/// The deployment guide.
pub const GUIDE: &str = "guide.html";
/// Predictions, judged.
pub const HYPOTHESES: &str = "hypotheses.html";
/// What ran on the GPU.
pub const KERNELS: &str = "kernels.html";
/// What lies below the engines.
pub const MICRO: &str = "micro.html";
/// All that can be looked for.
pub const SEARCH: &str = "search.html";
/// What there is to gain.
pub const ROADMAP: &str = "roadmap.html";

/// Path of a scenario's page, from the root.
pub fn scenario_path(id: &str) -> String {
    format!("scenario/{}.html", slug(id))
}

/// What the path of every chart of a page begins with, where it is a file of its own; the
/// chart's id and `.svg` follow.
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

/// Path of a run's page.
pub fn run_path(id: &str) -> String {
    format!("run/{}.html", slug(id))
}

/// Path and fragment of the place that says why a cell has no number.
pub fn reason_path(cell: &CellKey) -> String {
    format!("{COVERAGE}#{}", reason_id(cell))
}

/// The fragment of [`reason_path`].
pub fn reason_id(cell: &CellKey) -> String {
    let names = [&cell.scenario, &cell.case, &cell.target].map(|name| slug(name));
    format!("why.{}", names.join("."))
}

/// Whether there is anything to show: a trace that was measured.
pub fn has_kernels(run: &Run) -> bool {
    let measured = |launch: &TracedLaunch| {
        let trace = launch.trace.as_ref();
        trace.is_ok_and(|trace| !trace.header.synthetic)
    };
    run.kernels.iter().any(measured)
}

/// The run that the pages speak of: the first that has any suite, which need not be
/// the one that the site shows first.
pub fn micro_run(runs: &[Run]) -> Option<&Run> {
    runs.iter().find(|run| !run.header.plan.micro.is_empty())
}
