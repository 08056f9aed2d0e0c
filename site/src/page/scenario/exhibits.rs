//! Charts that answer one scenario's own question: where the memory goes, and whether a target's
//! samples are steady.

use crate::chart::strip::{self, Strip};
use crate::chart::{Estimate, Figure, stack};
use crate::fmt::{self, Unit};
use crate::view::cells::{rests_on, why};
use crate::view::primary::primary;
use crate::view::{Shown, case_label};
use schema::plan::PlannedScenario;
use stats::analysis::{Cell, MetricId};
use stats::metrics::Sample;
use stats::sequence::sequences;

/// Chart all samples of the first latency that the scenario reports at the headline case, launch by
/// launch; `None` where it reports none that has a sample per request.
pub fn strips(shown: &Shown, scenario: &PlannedScenario) -> Option<Figure> {
    let case = shown.headline(scenario)?;
    let id = shown
        .metrics(scenario)
        .into_iter()
        .find(|id| id.describe().sample == Sample::Request)?;
    let about = id.describe();
    let chosen = primary(shown, scenario);
    let mut least: Option<(f64, &Cell)> = None;
    let mut most: Option<(f64, &Cell)> = None;
    let mut rows = Vec::new();
    let measured = shown.measured(scenario, case, id);
    for (cell, of) in measured.filter(|(cell, _)| chosen.contains(cell.target.as_str())) {
        if let Some(cv) = of.cv_invocations.filter(|cv| cv.is_finite()) {
            if least.is_none_or(|(known, _)| cv < known) {
                least = Some((cv, cell));
            }
            if most.is_none_or(|(known, _)| cv > known) {
                most = Some((cv, cell));
            }
        }
        rows.push(strip::Row {
            name: cell.target.clone(),
            style: shown.style(&cell.target),
            launches: sequences(shown.run, scenario, case, &cell.target, id)
                .into_iter()
                .map(|sequence| strip::Launch {
                    number: sequence.invocation + 1,
                    samples: sequence.samples,
                })
                .collect(),
        });
    }
    if rows.is_empty() {
        return None;
    }
    let label = case_label(scenario, case);
    let title = about.title;
    let words = |(cv, cell): (f64, &Cell)| format!("{} ({})", cell.target, fmt::percent(cv));
    let finding = match (least, most) {
        (Some(least), Some(most)) => format!(
            "{title} at {label}: across launches {} varies least and {} most (coefficient of variation)",
            words(least),
            words(most)
        ),
        _ => format!(
            "{title} at {label}: a single launch each, so nothing can be said of how launches vary"
        ),
    };
    Some(
        Strip {
            id: format!("strip-{}", about.name),
            finding,
            unit: Unit::from_metric(id),
            rows,
        }
        .draw(),
    )
}

/// Chart weights, cache and the rest of peak memory at the headline case; `None` where the scenario
/// doesn't report weights, or no target has a peak.
pub fn memory(shown: &Shown, scenario: &PlannedScenario) -> Option<Figure> {
    let reported = shown.metrics(scenario);
    if !reported.contains(&MetricId::WeightBytes) {
        return None;
    }
    let case = shown.headline(scenario)?;
    // On a GPU, the peak is that of the GPU's memory; targets on the processor have no such value.
    let peak = [MetricId::PeakGpuMemoryBytes, MetricId::PeakRssBytes]
        .into_iter()
        .find(|&id| shown.measured(scenario, case, id).next().is_some())?;
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for target in shown.targets() {
        let cell = shown.cell(&scenario.cell_key(case, &target.id));
        match cell.and_then(|cell| bar(shown, cell, peak)) {
            Some(row) => rows.push(row),
            None => missing.push((target.id.clone(), why(cell))),
        }
    }
    rows.sort_by(|a, b| a.whole.value.total_cmp(&b.whole.value));
    let (least, most) = (rows.first()?, rows.last()?);
    let words = |row: &stack::Row| {
        let whole = fmt::with_interval(Unit::Bytes, row.whole.value, row.whole.ci);
        format!("{} ({})", row.name, fmt::joined(whole))
    };
    let label = case_label(scenario, case);
    Some(
        stack::Stack {
            id: "memory-stack".into(),
            finding: format!(
                "Peak memory at {label}: least with {}, most with {}",
                words(least),
                words(most)
            ),
            reading: "Each bar is the peak, from zero, with its 95 % interval. Weights and cache are what the engine says it loaded and what the tokens in flight need by arithmetic; the hollow rest is the runtime, its buffers, and what loading needed for a while. Weights that are mapped from their file count only as far as they were touched, so the parts can exceed the peak.".into(),
            axis_label: peak.describe().title.to_lowercase(),
            unit: Unit::Bytes,
            parts: ["weights", "KV cache", "everything else"].map(String::from),
            rows,
            missing,
        }
        .draw(),
    )
}

fn bar(shown: &Shown, cell: &Cell, peak: MetricId) -> Option<stack::Row> {
    let whole = cell.metric(peak)?;
    let value = |id| cell.metric(id).map(|m| m.value);
    Some(stack::Row {
        name: cell.target.clone(),
        style: shown.style(&cell.target),
        parts: [
            value(MetricId::WeightBytes)?,
            value(MetricId::KvBytes).unwrap_or(0.0),
        ],
        whole: Estimate::new(whole.value, whole.ci95),
        rests_on: rests_on(cell, whole),
    })
}
