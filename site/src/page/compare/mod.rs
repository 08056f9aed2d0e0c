//! The comparison of every pair of targets: the counts in the overview's matrix, and the page of
//! each target. `stats` decides what a pair's verdict is.

pub mod others;
pub mod target;

use crate::fmt;
use crate::html::slug;
use crate::view::cells::swatch;
use crate::view::frame::Frame;
use crate::view::paths;
use crate::view::{Shown, case_label};
use crate::words::{lower_first, plural};
use schema::key::CaseKey;
use schema::plan::{Case, PlannedScenario};
use schema::registry::Target;
use serde::Serialize;
use stats::analysis::{MetricId, Verdict};
use stats::pairs::{Compared, NotComparable, Pair, pairs};
use std::collections::BTreeMap;

/// Maximum number of targets with a page of their own and a place in the overview. The overview's
/// matrix has two cells per pair, so for about a hundred targets it would take a megabyte. The
/// overview counts the targets that are left out.
const PAGES_MAX: usize = 64;

/// Path of a target's comparison page, from the root.
pub fn target_page_path(target: &str) -> String {
    format!("compare/{}.html", slug(target))
}

/// A case with the comparisons of all its pairs of targets.
pub struct CasePairs<'a> {
    /// The case's scenario.
    pub scenario: &'a PlannedScenario,
    /// The case.
    pub case: &'a Case,
    /// The scenario's leading metric.
    pub metric: MetricId,
    /// Whether the case stands for its scenario in charts.
    pub headline: bool,
    /// Whether the case counts in totals. A case that another of these cases measures doesn't
    /// count if both are compared by the same metric, because its cells count there.
    pub counted: bool,
    by_targets: BTreeMap<(String, String), Result<Compared, NotComparable>>,
}

impl CasePairs<'_> {
    /// The comparison of `target` with `other`, in either order of the plan; `None` where the case
    /// lacks one of the two.
    pub fn seen_from(&self, target: &str, other: &str) -> Option<Result<Compared, NotComparable>> {
        let key = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        if let Some(found) = self.by_targets.get(&key(target, other)) {
            return Some(found.clone());
        }
        let found = self.by_targets.get(&key(other, target))?;
        Some(found.clone().map(|compared| compared.reversed()))
    }

    /// Label of the case, e.g. `Sustained load, 8 in flight`.
    pub fn label(&self, shown: &Shown) -> String {
        let label = case_label(self.scenario, self.case);
        format!("{}, {label}", shown.title(self.scenario))
    }
}

/// All pairs of targets in all cases of a run.
pub struct AllPairs<'a> {
    /// The cases that have a leading metric and the same load for all targets, in plan order.
    pub cases: Vec<CasePairs<'a>>,
    targets: &'a [Target],
}

/// Counts of the verdicts on a pair over all cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases in which the first is detectably better.
    pub better: u64,
    /// Cases in which the first is detectably worse.
    pub worse: u64,
    /// Cases without a detectable difference.
    pub even: u64,
    /// Of those in `even`, the cases in which the two are equal: any difference is too small to
    /// matter.
    pub equal: u64,
    /// Cases with too few launches to say.
    pub unknown: u64,
    /// Cases that can't be compared.
    pub not: u64,
}

impl Tally {
    /// Count one more outcome.
    pub fn add(&mut self, outcome: &Result<Compared, NotComparable>) {
        let count = match outcome.as_ref().map(|compared| compared.verdict) {
            Err(_) => &mut self.not,
            Ok(Verdict::Better) => &mut self.better,
            Ok(Verdict::Worse) => &mut self.worse,
            Ok(Verdict::Equal) => {
                self.equal += 1;
                &mut self.even
            }
            Ok(Verdict::Undecided) => &mut self.even,
            Ok(Verdict::Unknown) => &mut self.unknown,
        };
        *count += 1;
    }

    /// The number of cases that were compared and have a verdict.
    pub fn judged(self) -> u64 {
        self.better + self.worse + self.even
    }

    /// Whether the first is detectably better in every case that has a verdict.
    pub fn all_better(self) -> bool {
        self.better > 0 && self.better == self.judged()
    }
}

impl<'a> AllPairs<'a> {
    /// Compare every pair in every case.
    pub fn new(shown: &Shown<'a>) -> Self {
        let targets: Vec<&str> = shown.targets().iter().map(|t| t.id.as_str()).collect();
        let mut cases = Vec::new();
        for scenario in shown.scenarios().iter().filter(|s| !s.has_own_loads()) {
            let Some(metric) = shown.leading(scenario) else {
                continue;
            };
            let headline = shown.headline(scenario).map(|case| case.id.as_str());
            let running: Vec<&str> = targets
                .iter()
                .copied()
                .filter(|target| scenario.runs(target))
                .collect();
            for case in &scenario.cases {
                let all = pairs(shown.analysis, &scenario.case_key(case), metric, &running);
                let keyed = |pair: Pair| ((pair.a, pair.b), pair.outcome);
                cases.push(CasePairs {
                    scenario,
                    case,
                    metric,
                    headline: headline == Some(case.id.as_str()),
                    counted: true,
                    by_targets: all.into_iter().map(keyed).collect(),
                });
            }
        }
        let key = |pairs: &CasePairs| (pairs.scenario.case_key(pairs.case), pairs.metric);
        let keys: BTreeMap<CaseKey, MetricId> = cases.iter().map(key).collect();
        for pairs in &mut cases {
            let measuring = pairs.case.measured_by.as_ref();
            let metric_there = measuring.and_then(|other| keys.get(other));
            pairs.counted = metric_there != Some(&pairs.metric);
        }
        Self {
            cases,
            targets: shown.targets(),
        }
    }

    /// The targets that have a comparison page.
    pub fn paged(&self) -> &'a [Target] {
        &self.targets[..self.targets.len().min(PAGES_MAX)]
    }

    /// Count the verdicts on a pair, each measured cell once by each metric.
    pub fn counted(&self, target: &str, other: &str) -> Tally {
        let mut tally = Tally::default();
        for case in self.cases.iter().filter(|case| case.counted) {
            if let Some(outcome) = case.seen_from(target, other) {
                tally.add(&outcome);
            }
        }
        tally
    }
}

/// The overview of all comparisons.
#[derive(Serialize)]
pub struct ComparePage {
    frame: Frame,
    answer: String,
    not_shown: String,
    family: String,
    /// The targets, each of which is a column and a row.
    heads: Vec<String>,
    rows: Vec<Row>,
    left_out: String,
}

#[derive(Serialize)]
struct Row {
    swatch: String,
    target: String,
    path: String,
    totals: String,
    cells: Vec<MatrixCell>,
}

#[derive(Serialize)]
struct MatrixCell {
    text: String,
    tone: &'static str,
    /// Path of the pair; empty where the cell is no link.
    path: String,
}

/// Make the overview of all pairs.
pub fn overview(shown: &Shown, pairs: &AllPairs) -> ComparePage {
    let answer = sentence(shown, pairs);
    let paged = pairs.paged();
    let left_out = pairs.targets.len() - paged.len();
    ComparePage {
        frame: shown.frame(paths::COMPARE, "Every target against every other", &answer),
        answer,
        not_shown: not_shown(shown, ""),
        family: family(pairs),
        heads: paged.iter().map(|target| target.id.clone()).collect(),
        rows: paged.iter().map(|t| row(shown, pairs, t)).collect(),
        left_out: match left_out {
            0 => String::new(),
            n => format!(
                "{} more have no page of their own: their comparisons with the baseline and the \
                 leader stand on the scenarios' pages.",
                plural(n as u64, "target", "targets")
            ),
        },
    }
}

/// Maximum number of targets with which each cell of the table links to its pair. With more, only a
/// row's name is a link, so that the page stays small.
const LINKED_MAX: usize = 32;

fn row(shown: &Shown, pairs: &AllPairs, target: &Target) -> Row {
    let mut totals = Tally::default();
    let is_linked = pairs.paged().len() <= LINKED_MAX;
    let cells = pairs
        .paged()
        .iter()
        .map(|other| {
            if other.id == target.id {
                return MatrixCell {
                    text: "–".into(),
                    tone: "even",
                    path: String::new(),
                };
            }
            let tally = pairs.counted(&target.id, &other.id);
            totals.better += tally.better;
            totals.worse += tally.worse;
            totals.even += tally.even;
            MatrixCell {
                text: match tally.judged() {
                    0 => "✕".into(),
                    _ => format!("{}/{}/{}", tally.better, tally.worse, tally.even),
                },
                tone: tone(tally),
                path: match is_linked {
                    true => format!("{}#{}", target_page_path(&target.id), slug(&other.id)),
                    false => String::new(),
                },
            }
        })
        .collect();
    Row {
        swatch: swatch(shown, &target.id),
        target: target.id.clone(),
        path: target_page_path(&target.id),
        totals: format!("{} / {} / {}", totals.better, totals.worse, totals.even),
        cells,
    }
}

/// The class of a pair on which all cases agree.
fn tone(counted: Tally) -> &'static str {
    match counted {
        t if t.all_better() => "good",
        t if t.worse > 0 && t.worse == t.judged() => "bad",
        _ => "even",
    }
}

/// Summarise the whole table in one or two sentences.
fn sentence(shown: &Shown, pairs: &AllPairs) -> String {
    let mut all = Tally::default();
    let mut widest: Option<(&CasePairs, &str, &str, Compared)> = None;
    for case in &pairs.cases {
        for ((a, b), outcome) in &case.by_targets {
            if case.counted {
                all.add(outcome);
            }
            let Ok(compared) = outcome else { continue };
            // Turn the pair so that the better one comes first.
            let (a, b, seen) = match compared.verdict {
                Verdict::Better => (a, b, compared.clone()),
                Verdict::Worse => (b, a, compared.reversed()),
                _ => continue,
            };
            if seen.ratio.is_finite() && widest.as_ref().is_none_or(|w| seen.ratio > w.3.ratio) {
                widest = Some((case, a, b, seen));
            }
        }
    }
    let total = all.judged() + all.unknown + all.not;
    if all.judged() == 0 {
        return format!(
            "Of {} nothing can be said: no two targets were measured in two launches or more of a \
             case.",
            plural(total, "pair of cells", "pairs of cells")
        );
    }
    let mut text = format!(
        "Of {}, {} differ beyond chance and noise, {} show no detectable difference ({} of these are \
         equal within {}) and {} can’t be compared",
        plural(total, "pair of cells", "pairs of cells"),
        fmt::count(all.better + all.worse),
        fmt::count(all.even),
        fmt::count(all.equal),
        fmt::percent_more(shown.analysis.matters),
        fmt::count(all.unknown + all.not)
    );
    if let Some((case, a, b, seen)) = widest {
        let ratio = fmt::joined(fmt::ratio(seen.ratio, seen.ci95));
        text.push_str(&format!(
            "; the widest gap is {a} over {b}, {ratio} ({})",
            lower_first(&case.label(shown))
        ));
    }
    text.push('.');
    text
}

/// Say what a comparison page doesn't show; `except` names the rows that may be of another model.
pub fn not_shown(shown: &Shown, except: &str) -> String {
    let plan = &shown.run.header.plan;
    let own: Vec<String> = plan
        .scenarios
        .iter()
        .filter(|scenario| scenario.has_own_loads())
        .map(|scenario| lower_first(shown.title(scenario)))
        .collect();
    let own = match own.is_empty() {
        true => String::new(),
        false => format!(
            " Left out: {}, where each target is offered a share of its own capacity.",
            crate::words::join(&own)
        ),
    };
    format!(
        "What this does not show: another machine or another model than {} (a small one fits in \
         caches that a large one does not){except}, any metric but the one that leads each \
         scenario, and equality where it says “undecided”: that is no evidence against it, not \
         proof of it. Targets of different precision do not do equal work.{own}",
        plan.model
    )
}

fn family(pairs: &AllPairs) -> String {
    let largest = pairs.cases.iter().map(|c| c.by_targets.len()).max();
    format!(
        "p is adjusted by Holm’s method over all pairs of a case (up to {}), so that a pair reads \
         the same from both sides. That is stricter than on the scenarios’ pages, which ask only \
         about the baseline and the leader.{}",
        fmt::count(largest.unwrap_or(0) as u64),
        counted_once(pairs)
    )
}

/// Say which cases don't count, where there are any.
pub fn counted_once(pairs: &AllPairs) -> &'static str {
    match pairs.cases.iter().all(|case| case.counted) {
        true => "",
        false => {
            " A load that several scenarios list was measured once. It counts once where they \
             compare it by the same metric, in the scenario that measured it."
        }
    }
}
