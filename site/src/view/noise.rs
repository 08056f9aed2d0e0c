//! Puts the results of A/A pairs in words: targets that ran twice, and how large the errors of
//! comparisons are by them.

use crate::fmt;
use crate::view::Shown;
use crate::words::plural;
use schema::key::{CaseKey, Twin};
use stats::analysis::{MetricId, Noise, TwinPair};
use stats::describe::median;
use stats::tie::least_found;

/// The range of ratios in which a difference doesn't matter.
pub fn band(matters: f64) -> Option<(f64, f64)> {
    Some((1.0 / matters, matters))
}

/// Explain [`band`] beside a figure.
pub fn band_words(matters: f64) -> String {
    let by = fmt::percent_more(matters);
    format!("A difference is one whose whole interval lies outside the shaded band of {by}.")
}

/// Write the sentence on A/A pairs beside a case's comparisons.
pub fn sentence(shown: &Shown, at: &CaseKey, metric: MetricId) -> String {
    let Some(noise) = shown.analysis.noise(metric) else {
        return match twins(shown) {
            [] => "No target ran twice: errors are what launches show.".into(),
            twins => {
                let names: Vec<&str> = twins.iter().map(|twin| twin.target.as_str()).collect();
                format!(
                    "{} ran twice, but not through all blocks: errors are what launches show.",
                    names.join(" and ")
                )
            }
        };
    };
    let here: Vec<&TwinPair> = noise.of_case(at).collect();
    format!("{} {}", pairs(&here), enlarged(noise))
}

/// Say how large a true difference must be for half of a case's comparisons to find it.
pub fn power(shown: &Shown, at: &CaseKey) -> String {
    let comparisons = shown.analysis.comparisons.iter();
    let of_case = comparisons.filter(|c| c.scenario == at.scenario && c.case == at.case);
    let least = of_case.filter_map(|c| least_found(c.ci95, c.blocks, c.matters));
    match median(&least.collect::<Vec<_>>()) {
        Some(ratio) => format!(
            " Half of these comparisons would find a true difference of {} or less in four runs of \
             five, each by itself (before Holm’s correction).",
            fmt::percent_more(ratio)
        ),
        None => String::new(),
    }
}

/// List the A/A pairs of a case.
pub fn pairs(here: &[&TwinPair]) -> String {
    if here.is_empty() {
        return "No A/A pair was measured through all blocks of this case.".into();
    }
    let said: Vec<String> = here
        .iter()
        .map(|pair| {
            let ratio = fmt::joined(fmt::ratio(pair.ratio, pair.ci95));
            let mark = match pair.is_different {
                true => {
                    " (⚠ called different: something besides the engine makes a difference here)"
                }
                false => "",
            };
            format!("{} {ratio}{mark}", pair.target)
        })
        .collect();
    format!(
        "A/A: what lay between a target and itself, run twice in every block: {}.",
        said.join("; ")
    )
}

/// Say by how much the errors of comparisons are enlarged, and by how many pairs.
pub fn enlarged(noise: &Noise) -> String {
    let pairs = plural(noise.measured as u64, "A/A pair", "A/A pairs");
    match noise.inflation {
        1.0 => format!(
            "By {pairs} of all cases (a target run twice under two names) errors are no larger than \
             launches show."
        ),
        by => format!(
            "By {pairs} of all cases (a target run twice under two names) errors are {} times what \
             launches show; the intervals and p of comparisons allow for that.",
            times(by)
        ),
    }
}

/// The suffix of a heading on a metric's error factor: ` · intervals widened × 1.2`; empty where it
/// is 1.
pub fn suffix(inflation: f64) -> String {
    match inflation {
        1.0 => String::new(),
        by => format!(" · intervals widened × {}", times(by)),
    }
}

fn times(by: f64) -> String {
    match by.is_finite() {
        true => format!("{by:.2}"),
        false => "∞".into(),
    }
}

/// The targets that ran twice in the run.
pub fn twins<'a>(shown: &Shown<'a>) -> &'a [Twin] {
    let budget = shown.run.budget.as_ref();
    budget.map_or(&[], |budget| &budget.twins)
}
