//! Where each page lies, from the root of the site, and whether it is there.

use crate::html::slug;
use schema::kernels::TracedLaunch;
use schema::run::Run;

/// What changed.
pub const CHANGELOG: &str = "changelog.html";
/// Any two targets.
pub const COMPARE: &str = "compare.html";
/// What tokens cost.
pub const COST: &str = "cost.html";
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
/// What there is to gain.
pub const ROADMAP: &str = "roadmap.html";

/// Path of a scenario's page, from the root.
pub fn scenario_path(id: &str) -> String {
    format!("scenario/{}.html", slug(id))
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
pub fn reason_path(scenario: &str, case: &str, target: &str) -> String {
    format!("coverage.html#{}", reason_id(scenario, case, target))
}

/// The fragment of [`reason_path`].
pub fn reason_id(scenario: &str, case: &str, target: &str) -> String {
    format!("why.{}.{}.{}", slug(scenario), slug(case), slug(target))
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
