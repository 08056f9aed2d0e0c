//! How to build and configure a target as it was measured, what adopting it costs, and what to
//! watch for: all from the run's own record, the registry and the prices.

use crate::export::on_gpu;
use crate::fmt::{self, Unit};
use crate::page::cost::loads::UTILISATION;
use crate::page::cost::prices::{Machine, dollars, with_interval};
use crate::view::cells::{flag, why};
use crate::view::reported::{batching_words, build_facts, other_kv, verified_scope};
use crate::view::{Shown, batches, case_label, maturity};
use crate::words::{by_key, plural};
use schema::adoption::Adoption;
use schema::plan::{Case, PlannedScenario};
use schema::prices::{Kind, Offer};
use schema::record::{Ready, Status};
use schema::registry::{Build, Target};
use serde::Serialize;
use stats::analysis::{Cell, MetricId};
use stats::cost::{Range, tokens_per_part_h, usd_per_m_tokens};
use std::collections::BTreeSet;

/// Bytes that a team ships for a target: its binary, the libraries it names and its Python
/// packages. `None` where the run didn't measure them. Ties are broken by this size, because every
/// deployment pays for it and it was measured alike for every program.
pub fn shipped_bytes(shown: &Shown, target: &str) -> Option<u64> {
    let cost = adoption(shown, target)?.1;
    cost.stripped_bytes.or(cost.packages_bytes)?;
    let parts = [
        cost.stripped_bytes,
        cost.libraries_bytes,
        cost.packages_bytes,
    ];
    Some(parts.into_iter().flatten().sum())
}

fn adoption<'a>(shown: &Shown<'a>, target: &str) -> Option<(&'a str, &'a Adoption)> {
    let mut all = shown.run.header.provenance.adoption.iter();
    all.find(|(_, cost)| cost.targets.iter().any(|id| id == target))
        .map(|(program, cost)| (program.as_str(), cost))
}

/// The commands that build a target, each with a title.
pub fn commands(shown: &Shown, target: &Target) -> Vec<(String, String)> {
    let mut all = vec![(
        "As here, with everything it needs".to_owned(),
        format!("cargo xtask build {}", target.id),
    )];
    let engine = shown.input.registry.engine(&target.engine);
    match engine.map(|engine| engine.build_for(&target.backend)) {
        Some(Build::Cargo(how)) => {
            let (package, bin) = (&how.package, &how.bin);
            let mut command = format!("cargo build --release --package {package} --bin {bin}");
            if let Some(manifest) = &how.manifest {
                command.push_str(&format!(" --manifest-path {manifest}"));
            }
            for argument in how.feature_arguments() {
                command.push_str(&format!(" {argument}"));
            }
            all.push(("The program alone".into(), command));
        }
        Some(Build::Python {
            script,
            requirements,
            ..
        }) => all.push((
            "The environment alone".into(),
            format!(
                "pip install --require-hashes --only-binary=:all: --requirement {requirements}  # runs {script}"
            ),
        )),
        Some(Build::Prebuilt { .. }) | None => {}
    }
    all
}

/// The settings in force when a target was measured, as (name, value).
pub fn settings(shown: &Shown, target: &Target, case: &Case) -> Vec<(String, String)> {
    let plan = &shown.run.header.plan;
    let own = |key: &str, value: String| (key.to_owned(), value);
    let version = maturity::of_launches(shown, &target.engine, shown.logs(&target.id));
    let mut all = vec![
        own("Version", version.unwrap_or_default()),
        own("Backend", target.backend.clone()),
        own("Precision", target.precision.clone()),
        own(
            "Keys and values",
            other_kv(shown, target).unwrap_or_default(),
        ),
        own("Weight file", target.weights.clone()),
        own("Threads", plan.threads.to_string()),
        own("Batching", batching(shown, target)),
        own(
            "Work",
            format!(
                "{} prompt tokens → {} new tokens, {} in flight",
                case.prompt_tokens, case.new_tokens, case.concurrency
            ),
        ),
    ];
    let facts = build_facts(shown.logs(&target.id)).into_iter();
    all.extend(facts.map(|(key, value)| (format!("Build: {key}"), value)));
    all.retain(|(_, value)| !value.is_empty());
    all
}

/// How a target's adapter batches, in words; where launches report different ways, each of them.
pub fn batching(shown: &Shown, target: &Target) -> String {
    let ready = shown.logs(&target.id).flat_map(|log| log.ready.iter());
    let said: BTreeSet<&str> = ready.map(|ready| batching_words(&ready.batching)).collect();
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    said.join(" | ")
}

/// What a target costs beside its speed, as (name, value).
pub fn costs(shown: &Shown, target: &str, cell: &Cell) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let bytes = |n: u64| fmt::quantity(Unit::Bytes, n as f64);
    if let Some((program, cost)) = adoption(shown, target) {
        let weighed = [
            ("binary, stripped", cost.stripped_bytes),
            ("shared libraries", cost.libraries_bytes.filter(|n| *n > 0)),
            ("Python packages", cost.packages_bytes),
        ];
        let parts: Vec<String> = weighed
            .iter()
            .filter_map(|(what, n)| Some(format!("{} {what}", bytes((*n)?))))
            .collect();
        if !parts.is_empty() {
            all.push((format!("To ship ({program})"), parts.join(", ")));
        }
        let counted = [
            cost.crates.map(|n| plural(n, "crate", "crates")),
            cost.packages
                .map(|n| plural(n, "Python package", "Python packages")),
        ];
        let parts: Vec<String> = counted.into_iter().flatten().collect();
        if !parts.is_empty() {
            all.push(("Depends on".into(), parts.join(", ")));
        }
    }
    let fresh = in_fresh_process(shown, target);
    if let Some(found) = fresh.and_then(|fresh| fresh.metric(MetricId::PeakRssBytes)) {
        all.push((
            "Peak resident memory, loading included".into(),
            fmt::joined(fmt::metric(found)),
        ));
    }
    let mut either = fresh.into_iter().chain([cell]);
    all.extend(either.find_map(|cell| cold_start(shown, cell)));
    for id in [
        MetricId::PeakGpuMemoryBytes,
        MetricId::CpuPerTokenNs,
        MetricId::CpuEnergyPerTokenJ,
        MetricId::GpuEnergyPerTokenJ,
    ] {
        if let Some(found) = cell.metric(id) {
            let value = fmt::joined(fmt::metric(found));
            all.push((id.describe().title.into(), value));
        }
    }
    all
}

/// The id of the scenario that measured a cell; a scenario may measure cases of another.
fn measured_in<'s>(shown: &'s Shown, cell: &'s Cell) -> &'s str {
    let plan = &shown.run.header.plan;
    let planned = plan.case(&cell.case_key());
    let measured = planned.map(|(scenario, case)| plan.measured(scenario, case).0);
    measured.map_or(&cell.scenario, |scenario| &scenario.id)
}

/// The cell at the smallest load of the scenario that is ranked by peak memory, which starts a
/// process of its own for each case. Elsewhere a process may serve several scenarios: its peak
/// leaves loading out, and its cold start is one for all.
fn in_fresh_process<'a>(shown: &Shown<'a>, target: &str) -> Option<&'a Cell> {
    let leads = |s: &&PlannedScenario| shown.leading(s) == Some(MetricId::PeakRssBytes);
    let scenario = shown.scenarios().iter().find(leads)?;
    let case = scenario.cases.first()?;
    shown.cell(&scenario.cell_key(case, target))
}

/// The cold start of a cell, after a heading that names its case; `None` where it has none.
fn cold_start(shown: &Shown, cell: &Cell) -> Option<(String, String)> {
    let id = MetricId::ColdStartNs;
    let found = cell.metric(id)?;
    let (scenario, case) = shown.run.header.plan.case(&cell.case_key())?;
    let of = shown.title(scenario).to_lowercase();
    let heading = format!(
        "{} (in {of}, {})",
        id.describe().title,
        case_label(scenario, case)
    );
    Some((heading, fmt::joined(fmt::metric(found))))
}

/// The cost of a target's tokens.
#[derive(Clone, Serialize)]
pub struct TokenCost {
    /// The cost with its unit.
    pub words: String,
    /// The kind of hour whose tokens are counted, such as `core-hour`: more tokens are cheaper.
    /// Empty if the cost is in dollars.
    pub hour: &'static str,
}

/// The cost of a target's tokens at a load: dollars where a known price is for the machine, else
/// the tokens of a core-hour or its like; `None` where it can't be said.
pub fn token_cost(shown: &Shown, target: &Target, cell: &Cell) -> Option<TokenCost> {
    let machine = Machine::new(shown);
    // The price or hours of a GPU don't apply to targets on the processor.
    if on_gpu(target) != (machine.kind == Kind::Gpu) {
        return None;
    }
    let found = cell.metric(MetricId::OutputTokPerS)?;
    let rate = Range {
        value: found.value,
        ci95: found.ci95,
    };
    let prices = shown.input.prices;
    let offer = prices.and_then(|prices| machine.cheapest(prices));
    if let Some(price) = offer.and_then(Offer::usd_per_machine_h) {
        let usd = usd_per_m_tokens(rate, price, UTILISATION)?;
        return Some(TokenCost {
            words: format!("{} per M output tokens", dollars(usd)),
            hour: "",
        });
    }
    let (hour, parts) = machine.hour();
    let tokens = with_interval(Unit::Count, tokens_per_part_h(rate, parts)?);
    Some(TokenCost {
        words: format!("{tokens} output tokens a {hour}"),
        hour,
    })
}

/// List what to watch for: gaps that the adapter declares, the verified scope, disturbances,
/// launches that differ, and cells that failed.
pub fn watch(shown: &Shown, target: &Target, cell: &Cell, id: MetricId) -> Vec<String> {
    let notes: BTreeSet<&String> = shown
        .logs(&target.id)
        .filter(|log| log.launch.scenario == measured_in(shown, cell))
        .flat_map(|log| log.ready.iter())
        .flat_map(|ready| ready.notes.iter())
        .filter(|note| !note.starts_with(Ready::MENDED)) // stands at the top
        .collect();
    let declared = |note: &String| format!("Its adapter declares: {note}");
    let mut all: Vec<String> = notes.into_iter().map(declared).collect();
    all.push(match shown.run.verify.get(&target.id) {
        Some(record) => {
            let text = format!(
                "Verified scope: {}. {}",
                verified_scope(record),
                record.reason
            );
            text.trim_end().to_owned()
        }
        None => "This run did not verify it.".into(),
    });
    let disturbed = flag(cell);
    if !disturbed.is_empty() {
        all.push(format!("Of the deciding cell, {disturbed}."));
    }
    let planned = shown.run.header.plan.case(&cell.case_key());
    if let Some((_, case)) = planned
        && let Some(requests) = batches::smaller_of_several(cell, case)
    {
        all.push(format!(
            "Its batches had {requests} of the {} requests in flight, on average: with full ones it can be faster.",
            case.concurrency
        ));
    }
    let found = cell.metric(id);
    if let Some(cv) = found.filter(|m| m.reproducible() == Some(false)) {
        let cv = cv.cv_invocations.map_or(fmt::NONE.into(), fmt::percent);
        all.push(format!(
            "Its launches differ by {cv} (coefficient of variation), over 5 %."
        ));
    }
    let failed: Vec<String> = failures(shown, &target.id);
    if !failed.is_empty() {
        all.push(format!("It has no number in {}.", failed.join("; ")));
    }
    if shown.run.header.provenance.git_dirty == Some(true) {
        all.push(
            "The run was made from changed files: its revision is not exactly what ran.".into(),
        );
    }
    all
}

/// A target's cells without numbers, grouped by what is said of them.
fn failures(shown: &Shown, target: &str) -> Vec<String> {
    let failed = shown.cases().filter_map(|(scenario, case)| {
        let cell = shown.cell(&scenario.cell_key(case, target))?;
        let label = case_label(scenario, case);
        let label = format!("{} at {label}", shown.title(scenario).to_lowercase());
        (cell.status != Status::Ok).then(|| (why(Some(cell)), label))
    });
    by_key(failed)
        .into_iter()
        .map(|(why, labels)| format!("{} ({why})", labels.join(", ")))
        .collect()
}
