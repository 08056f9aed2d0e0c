//! What is known of weights of fewer bits than the choice's, if memory decides and no run of the
//! place has such weights in the deciding scenario: the peak that another run measured in another
//! scenario. The peaks are of two runs and may leave loading out, so no choice rests on them.

use super::elsewhere::Chosen;
use super::workload::Asked;
use crate::fmt;
use crate::view::{Shown, case_label, paths, place};
use crate::words::plural;
use schema::plan::{Case, PlannedScenario};
use schema::registry::Target;
use serde::Serialize;
use stats::analysis::{Cell, Metric, MetricId};

/// The peak of a target of fewer bits.
#[derive(Clone, Default, Serialize)]
pub(super) struct FewerBits {
    /// Whether targets of fewer bits are known, and no run has a number of one in the scenario.
    are_missing: bool,
    /// The target with its peak, beside that of the choice; empty where no run has one.
    words: String,
    /// Path of the run that has it.
    pub(super) run_path: String,
}

/// A peak in a case of a run.
struct Peak<'s, 'a> {
    run: &'s Shown<'a>,
    scenario: &'a PlannedScenario,
    case: &'a Case,
    cell: &'a Cell,
    metric: &'a Metric,
}

/// Say what the runs of the place know of weights of fewer bits than those of the choice.
pub(super) fn fewer_bits(chosen: &Chosen) -> FewerBits {
    let (shown, asked, choice) = (chosen.shown, chosen.asked, chosen.target);
    let Some(target) = shown.target(choice).filter(|_| is_memory(asked)) else {
        return FewerBits::default();
    };
    let known = bits(&target.precision);
    let is_fewer = |precision: &str| bits(precision).is_some_and(|n| Some(n) < known);
    let planned = shown.input.registry.targets();
    let mut planned = planned.iter().filter(|planned| !planned.hidden);
    let are_known = planned.any(|t| t.backend == target.backend && is_fewer(&t.precision));
    let of_place = place::place(shown);
    let runs = chosen.runs.iter();
    let runs = runs.filter(|run| place::place(run) == of_place);
    let peaks = runs.flat_map(|run| peaks(run, asked.metric));
    let peaks: Vec<Peak> = peaks
        .filter(|peak| {
            let of = peak.run.target(&peak.cell.target);
            let is_like = |of: &Target| of.backend == target.backend && is_fewer(&of.precision);
            of.is_some_and(is_like) && !peak.run.is_ours(&peak.cell.target)
        })
        .collect();
    let is_asked = |peak: &Peak| peak.scenario.id == asked.scenario.id;
    if !are_known || peaks.iter().any(is_asked) {
        return FewerBits::default();
    }
    // Take the smallest load and, at that load, the target with the smallest peak.
    let is_elsewhere = |peak: &&Peak| peak.run.run.header.id != shown.run.header.id;
    let least = peaks.iter().filter(is_elsewhere).min_by(|a, b| {
        let load = |peak: &Peak| (peak.case.concurrency, peak.case.prompt_tokens);
        let by_load = load(a).cmp(&load(b));
        by_load.then(a.metric.value.total_cmp(&b.metric.value))
    });
    FewerBits {
        are_missing: true,
        words: least.map_or(String::new(), |peak| words(shown, choice, peak)),
        run_path: least.map_or(String::new(), |peak| {
            paths::run_path(&peak.run.run.header.id)
        }),
    }
}

/// Whether memory decides.
pub(super) fn is_memory(asked: &Asked) -> bool {
    asked.metric.describe().unit == "bytes"
}

/// Return the bits of a precision's weights, the first number in its name: 4 for `q4_k_m`.
fn bits(precision: &str) -> Option<u32> {
    let digits = precision.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// All values of a metric in a run, in plan order; a case that another measures is left out.
fn peaks<'s, 'a>(run: &'s Shown<'a>, id: MetricId) -> Vec<Peak<'s, 'a>> {
    let mut all = Vec::new();
    for (scenario, case) in run.cases().filter(|(_, case)| case.measured_by.is_none()) {
        for (cell, metric) in run.measured(scenario, case, id) {
            all.push(Peak {
                run,
                scenario,
                case,
                cell,
                metric,
            });
        }
    }
    all
}

/// Word a peak, beside that of the choice in the same case of its own run, where that has it.
fn words(shown: &Shown, choice: &str, peak: &Peak) -> String {
    let after = match leaves_loading_out(peak) {
        true => " after loading",
        false => "",
    };
    let here = peaks(shown, peak.metric.id).into_iter().find(|here| {
        let load = |of: &Peak| {
            (
                of.case.prompt_tokens,
                of.case.new_tokens,
                of.case.concurrency,
            )
        };
        let is_same = here.cell.case_key() == peak.cell.case_key() && load(here) == load(peak);
        let is_alike = leaves_loading_out(here) == leaves_loading_out(peak);
        here.cell.target == choice && is_same && is_alike
    });
    let beside = here.map_or(String::new(), |here| {
        let (value, loaded) = (with_weights(&here), loaded_for(&here));
        format!(
            "; {choice} had {value} in the run of this choice, {loaded}, and no test compares two runs"
        )
    });
    format!(
        "{} had a peak of {}{after} in {}, {}, {}{beside}",
        peak.cell.target,
        with_weights(peak),
        peak.run.title(peak.scenario).to_lowercase(),
        case_label(peak.scenario, peak.case),
        loaded_for(peak)
    )
}

/// Say how many sequences of how many tokens a peak's process was loaded for: the maximum over the
/// cases that it serves, as far as the target is verified. An engine may allocate keys and values
/// for that many.
fn loaded_for(peak: &Peak) -> String {
    let (run, target) = (&peak.run.run, &peak.cell.target);
    let judged = run.verify.get(target);
    let positions = judged.and_then(|record| record.verified_positions);
    let positions = positions.unwrap_or(u32::MAX);
    let context = |case: &Case| case.prompt_tokens + case.new_tokens;
    let own = match peak.scenario.needs_fresh_process() {
        true => vec![peak.case],
        false => peak.scenario.measured_cases().collect(),
    };
    let own = own.into_iter().filter(|case| context(case) <= positions);
    let plan = &run.header.plan;
    let cases = plan.loaded_for(peak.scenario, own.collect(), target, positions);
    let cases = || cases.iter();
    let sequences = cases().map(|case| case.concurrency).max().unwrap_or(1);
    let tokens = cases().map(|case| context(case)).max().unwrap_or(1);
    let sequences = plural(u64::from(sequences), "sequence", "sequences");
    format!("loaded for up to {sequences} of {tokens} tokens")
}

/// A peak with the weights that are in it: `1.27 GiB [1.26, 1.28] (763 MiB of weights)`.
fn with_weights(peak: &Peak) -> String {
    let value = fmt::joined(fmt::metric(peak.metric));
    match peak.cell.metric(MetricId::WeightBytes) {
        Some(weights) => format!("{value} ({} of weights)", fmt::metric(weights).0),
        None => value,
    }
}

/// Whether a peak was counted for its case alone, without loading, because the process served
/// several scenarios.
fn leaves_loading_out(peak: &Peak) -> bool {
    peak.run.leaves_loading_out(peak.scenario, peak.metric.id)
}

#[cfg(test)]
mod tests {
    use super::bits;

    #[test]
    fn a_precision_says_its_bits() {
        let all = ["f32", "bf16", "q8_0", "q4_k_m", "int8"];
        let found = all.map(|precision| bits(precision).unwrap_or_default());
        assert_eq!(found, [32, 16, 8, 4, 8]);
        assert_eq!(bits("mixed"), None);
    }
}
