//! Prints a cell the same way on every page: value, interval, n, rank with ties and ratio, or the
//! reason why there is none; and whether a launch behind it was disturbed.

use crate::chart::forest::Outcome;
use crate::chart::style::Style;
use crate::fmt;
use crate::view::Shown;
use crate::view::paths::reason_path;
use crate::words::plural;
use schema::key::CellKey;
use schema::record::{NO_PREFIX_CACHE, Status};
use serde::Serialize;
use stats::analysis::{Analysis, Cell, Comparison, Metric, MetricId, Role, Verdict};
use stats::metrics::Sample;
use stats::tie::{apart_at_most, blocks_to_decide};

/// What a cell is called whose target was not asked, since our adapter uses no prefix cache.
const NOT_TESTED: &str = "not tested";
/// Why it was not, in a few words; the cell's reason says it in full.
pub const NOT_TESTED_WHY: &str = "our adapter uses no prefix cache";

/// The text in place of an interval in a sentence.
pub const NO_INTERVAL: &str = "(a single launch gives no interval)";

/// One cell on its scenario's leading metric, or a variant of a micro suite.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CellView {
    /// Whether there is a value.
    pub ok: bool,
    /// The status in words: `ok`, `out of memory`, …
    pub status: String,
    /// Why there is no value; empty where ok.
    pub reason: String,
    /// Whether there is no value for [`is_untested`]'s reason, which is no failure.
    pub untested: bool,
    /// Path and fragment of the full reason, from the root.
    pub reason_path: String,
    /// The value with its unit, e.g. `12.3 ms`.
    pub value: String,
    /// The 95 % interval, e.g. `[11.9, 12.8]`; empty with one launch.
    pub interval: String,
    /// The samples behind the value, e.g. `n = 110 requests, 5 launches`.
    pub rests_on: String,
    /// The rank, e.g. `1` or `2=`; empty where nothing may be ranked.
    pub rank: String,
    /// Whether the cell has rank 1.
    pub leads: bool,
    /// Ratio to the baseline, e.g. `5.31×`, or empty.
    pub ratio: String,
    /// The ratio's 95 % interval, or empty.
    pub ratio_interval: String,
    /// The verdict against the baseline in words, or empty.
    pub verdict: String,
    /// `good`, `bad` or `even`: the class of the verdict.
    pub tone: &'static str,
}

/// Make the view of a run's cell.
pub fn view(shown: &Shown, key: &CellKey, id: MetricId) -> CellView {
    let cell = shown.cell(key);
    match cell.and_then(|cell| Some((cell, cell.metric(id)?))) {
        Some((cell, metric)) => {
            // With loads of their own, a ratio would compare what targets were offered.
            let compared = !shown.has_own_loads(&cell.scenario);
            let baseline = compared.then(|| shown.baseline());
            measured(shown.analysis, baseline, cell, metric)
        }
        None => {
            let (status, reason) = gap(cell, Some(id)).unwrap_or_default();
            CellView {
                status: status.into(),
                reason,
                untested: cell.is_some_and(is_untested),
                reason_path: reason_path(key),
                value: fmt::NONE.into(),
                ..CellView::default()
            }
        }
    }
}

/// Make the view of a cell with a value. `baseline` is what ratios are relative to; `None` where
/// there are none.
pub fn measured(
    analysis: &Analysis,
    baseline: Option<&str>,
    cell: &Cell,
    metric: &Metric,
) -> CellView {
    let (value, interval) = fmt::metric(metric);
    let mut view = CellView {
        ok: true,
        status: status_words(cell.status).into(),
        value,
        interval: interval.unwrap_or_default(),
        rests_on: rests_on(cell, metric),
        tone: "even",
        ..CellView::default()
    };
    if !analysis.undecided(&cell.case_key()) {
        view.rank = rank(analysis, cell);
        view.leads = cell.rank == Some(1);
    }
    if baseline == Some(cell.target.as_str()) {
        view.ratio = "1×".into();
        view.verdict = "the baseline".into();
    } else if baseline.is_some()
        && let Some(c) = analysis.comparison(&cell.key(), Role::Baseline)
    {
        let (ratio, interval) = fmt::ratio(c.ratio, c.ci95);
        view.ratio = ratio;
        view.ratio_interval = interval.unwrap_or_default();
        (view.verdict, view.tone) = verdict(c);
    }
    view
}

/// Return status and reason of a cell that has no value on its scenario's leading metric; `None`
/// where it has one.
pub fn gap(cell: Option<&Cell>, leading: Option<MetricId>) -> Option<(&'static str, String)> {
    let Some(cell) = cell else {
        let reason = "the profile has this scenario for other targets".to_owned();
        return Some(("not planned", reason));
    };
    if cell.status != Status::Ok {
        return Some((words_of(cell), cell.reason.clone()));
    }
    match leading {
        Some(id) if cell.metric(id).is_some() => None,
        Some(id) => Some((
            "no value",
            format!("the records give no {}", id.describe().name),
        )),
        None => Some(("no value", "the scenario names no metric".into())),
    }
}

/// Say in a few words why a cell has no number.
pub fn why(cell: Option<&Cell>) -> String {
    match cell {
        Some(cell) if cell.status == Status::Ok => "no value".into(),
        Some(cell) if is_untested(cell) => format!("{NOT_TESTED}: {NOT_TESTED_WHY}"),
        Some(cell) => status_words(cell.status).into(),
        None => "not planned".into(),
    }
}

/// Say the same in the row of a chart.
pub fn missing(cell: Option<&Cell>) -> Outcome {
    match cell.is_some_and(is_untested) {
        true => Outcome::Untested(why(cell)),
        false => Outcome::Missing(why(cell)),
    }
}

/// Whether a cell has no number because our adapter uses no prefix cache of its engine. The engine
/// may have one, so nothing says that it can't do this.
pub fn is_untested(cell: &Cell) -> bool {
    cell.status == Status::Unsupported && cell.reason == NO_PREFIX_CACHE
}

/// Describe ratios to the baseline, given in words and in ascending order, as the end of a
/// sentence: `; it is between 2× and 6× as good as the baseline x`. Empty if there are none.
pub fn against_baseline(shown: &Shown, ratios: &[String]) -> String {
    let words = match ratios {
        [] => return String::new(),
        [one] => one.clone(),
        [least, .., most] => format!("between {least} and {most}"),
    };
    format!(
        "; it is {words} as good as the baseline {}",
        shown.baseline()
    )
}

/// A verdict in words, and the class of its tone.
pub fn verdict(comparison: &Comparison) -> (String, &'static str) {
    let c = comparison;
    verdict_between(
        c.verdict,
        ("better", "worse"),
        (c.ratio, c.ci95),
        c.blocks,
        c.matters,
    )
}

/// A verdict between any two cells in words, and the class of its tone. Takes the words for better
/// and worse, the ratio with its interval, the number of blocks, and the smallest ratio that
/// matters.
pub fn verdict_between(
    verdict: Verdict,
    (better, worse): (&str, &str),
    (ratio, ci95): (f64, Option<(f64, f64)>),
    blocks: usize,
    matters: f64,
) -> (String, &'static str) {
    match verdict {
        Verdict::Better => (better.into(), "good"),
        Verdict::Worse => (worse.into(), "bad"),
        Verdict::Equal => (equal(ci95), "even"),
        Verdict::Undecided => (undecided(ratio, ci95, blocks, matters), "even"),
        Verdict::Unknown => ("too few launches to say".into(), "even"),
    }
}

const NO_DIFFERENCE: &str = "no detectable difference";

/// Say that two targets are equal: they differ by less than what matters.
fn equal(ci95: Option<(f64, f64)>) -> String {
    match apart_at_most(ci95) {
        Some(apart) => format!("{NO_DIFFERENCE}: equal within {}", fmt::percent_more(apart)),
        None => NO_DIFFERENCE.into(),
    }
}

/// Say that two targets can neither be told apart nor called equal: how far apart they can be, and
/// how many blocks would decide.
fn undecided(ratio: f64, ci95: Option<(f64, f64)>, blocks: usize, matters: f64) -> String {
    let Some(apart) = apart_at_most(ci95) else {
        return NO_DIFFERENCE.into();
    };
    let by = fmt::percent_more(apart);
    let enough = match blocks_to_decide(ratio, ci95, blocks, matters) {
        Some(enough) if enough <= blocks => {
            "alone this pair would be decided, but not after Holm’s correction for all pairs".into()
        }
        Some(blocks) => format!("about {blocks} blocks would tell"),
        None => "no number of blocks would tell".into(),
    };
    format!("{NO_DIFFERENCE}: undecided, up to {by} apart; {enough}")
}

/// The rank of a cell: `3`, or `3=` where others share it.
fn rank(analysis: &Analysis, cell: &Cell) -> String {
    let Some(rank) = cell.rank else {
        return String::new();
    };
    let shared = analysis
        .cells
        .iter()
        .filter(|c| c.scenario == cell.scenario && c.case == cell.case && c.rank == Some(rank))
        .count();
    format!("{rank}{}", if shared > 1 { "=" } else { "" })
}

/// The samples and launches behind a value, e.g. `n = 110 requests, 5 launches`.
pub fn rests_on(cell: &Cell, metric: &Metric) -> String {
    let samples = match metric.id.describe().sample {
        Sample::Request => plural(metric.n, "request", "requests"),
        Sample::Reading => plural(metric.n, "reading", "readings"),
        Sample::Gap => plural(metric.n, "gap", "gaps"),
        Sample::Invocation => return format!("n = {}", plural(metric.n, "launch", "launches")),
    };
    let launches = plural(u64::from(cell.invocations), "launch", "launches");
    format!("n = {samples}, {launches}")
}

/// Say how many launches of a cell were disturbed: `2 of 5 launches disturbed`; empty where none
/// was.
pub fn flag(cell: &Cell) -> String {
    match cell.disturbances.len() {
        0 => String::new(),
        n => format!(
            "{n} of {} disturbed",
            plural(u64::from(cell.invocations), "launch", "launches")
        ),
    }
}

/// Say in which blocks a pair was disturbed: `disturbed in blocks 1, 3`; empty where it was in
/// none. A disturbed pair counts in the numbers all the same.
pub fn pair_flag(blocks: &[u32]) -> String {
    let list: Vec<String> = blocks.iter().map(u32::to_string).collect();
    match list.len() {
        0 => String::new(),
        1 => format!("disturbed in block {}", list[0]),
        _ => format!("disturbed in blocks {}", list.join(", ")),
    }
}

/// The status of a cell in words.
pub fn words_of(cell: &Cell) -> &'static str {
    match is_untested(cell) {
        true => NOT_TESTED,
        false => status_words(cell.status),
    }
}

/// A status in words.
pub fn status_words(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Unsupported => "unsupported",
        Status::Unavailable => "unavailable",
        Status::Oom => "out of memory",
        Status::Timeout => "timeout",
        Status::Crashed => "crashed",
        Status::WrongOutput => "wrong output",
        Status::Unverified => "not verified that far",
        Status::ProtocolError => "protocol error",
        Status::BadTiming => "bad timing",
        Status::OverBudget => "over budget",
        Status::NotRun => "not run",
    }
}

/// A target's marker as charts draw it, for tables.
pub fn swatch(shown: &Shown, target: &str) -> String {
    chip(shown.style(target))
}

/// Draw a marker outside a chart. It carries the number of its engine, by which a script finds the
/// rows of an engine.
pub fn chip(style: Style) -> String {
    format!(
        r##"<svg class="sw" data-e="{}"><use class="{}" href="#k{}"/></svg>"##,
        style.engine,
        style.mark_class(),
        style.shape()
    )
}
