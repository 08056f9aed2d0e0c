//! The page of one target against every other: a forest plot of the cases that stand for their
//! scenarios, and below it every case of every pair with its verdict. Cases that the run shown
//! doesn't compare come from another run.

use super::others::{OfRun, OtherRuns};
use super::{AllPairs, CasePairs, counted_once, not_shown, target_page_path};
use crate::chart::forest::{Forest, Group, Outcome, Row};
use crate::chart::{Estimate, Figure};
use crate::fmt::{self, Unit};
use crate::view::cells::{self, NO_INTERVAL, against_baseline, pair_flag, swatch, verdict_between};
use crate::view::frame::Frame;
use crate::view::place::target_path;
use crate::view::{Shown, maturity, noise};
use crate::words::{lower_first, plural};
use schema::record::Status;
use schema::registry::Target;
use serde::Serialize;
use stats::analysis::{Cell, MetricId};
use stats::pairs::{Compared, NotComparable};

/// Maximum number of rows on a page. Beyond it, only the headline case of each scenario is listed,
/// and where these are still too many, only some of the targets.
const ROWS_MAX: usize = 600;

/// A row of another run is about as long as this many rows of the run shown.
const ROWS_PER_OTHER: usize = 3;

/// The comparison page of one target.
#[derive(Serialize)]
pub struct TargetPage {
    frame: Frame,
    engine_path: String,
    answer: String,
    version: String,
    not_shown: String,
    chart: Option<Figure>,
    groups: Vec<PairGroup>,
    left_out: String,
}

#[derive(Serialize)]
struct PairGroup {
    swatch: String,
    target: String,
    path: String,
    summary: String,
    version: String,
    rows: Vec<PairRow>,
}

#[derive(Default, Serialize)]
struct PairRow {
    case: String,
    /// The ratio with its interval and p; each empty where there is none.
    ratio: String,
    interval: String,
    p: String,
    verdict: String,
    tone: &'static str,
    disturbed: String,
    /// The run, where it isn't the run shown.
    of: Option<OfRun>,
}

/// Make the page of one target; `runs` are the other runs, for cases that the run shown lacks.
pub fn page(shown: &Shown, pairs: &AllPairs, runs: &OtherRuns, target: &Target) -> TargetPage {
    let others: Vec<&Target> = pairs
        .paged()
        .iter()
        .filter(|other| other.id != target.id)
        .collect();
    let answer = sentence(shown, pairs, target, &others);
    let rows_in_all = others.len() * pairs.cases.len();
    let every = rows_in_all <= ROWS_MAX;
    let listed: Vec<&CasePairs> = pairs
        .cases
        .iter()
        .filter(|case| every || case.headline)
        .collect();
    let fitting = ROWS_MAX / listed.len().max(1);
    let mut notes = Vec::new();
    if !every {
        notes.push(
            "Only the case that stands for its scenario is listed; the others are in the data."
                .to_owned(),
        );
    }
    if others.len() > fitting {
        let more = plural((others.len() - fitting) as u64, "target is", "targets are");
        notes.push(format!("{more} left out for length."));
    }
    // Each pair gets an equal part of the room for rows of other runs.
    let room = ROWS_MAX.saturating_sub(rows_in_all) / ROWS_PER_OTHER / others.len().max(1);
    let (mut listed_of_others, mut unlisted) = (0, 0);
    let mut groups = Vec::new();
    for (index, other) in others.iter().enumerate() {
        let mut group = PairGroup {
            swatch: swatch(shown, &other.id),
            target: other.id.clone(),
            path: target_page_path(&other.id),
            summary: summary(pairs, target, other),
            version: maturity::versions(shown, &other.engine),
            rows: match index < fitting {
                true => rows(shown, &listed, target, other),
                false => Vec::new(),
            },
        };
        let found = runs.find(shown, pairs, &target.id, &other.id);
        let fits = found.len().min(room);
        listed_of_others += fits;
        unlisted += found.len() - fits;
        let found = found.into_iter().take(fits);
        group.rows.extend(found.map(|found| PairRow {
            of: Some(found.of),
            ..row(found.case, found.metric, Ok(found.compared))
        }));
        groups.push(group);
    }
    if listed_of_others > 0 {
        notes.push(
            "A row that names a run is a comparison within that run, in a case in which the run \
             shown doesn’t compare the two; it counts in no total."
                .to_owned(),
        );
    }
    if unlisted > 0 {
        let of_others = plural(
            unlisted as u64,
            "comparison that only another run has is",
            "comparisons that only other runs have are",
        );
        notes.push(format!(
            "{of_others} left out for length; the data page has all numbers of every run."
        ));
    }
    let except = match listed_of_others {
        0 => "",
        _ => ", except in rows that name their run",
    };
    TargetPage {
        frame: shown.frame(
            &target_page_path(&target.id),
            &format!("{} against every other", target.id),
            &answer,
        ),
        engine_path: target_path(shown, &target.id),
        answer,
        version: maturity::versions(shown, &target.engine),
        not_shown: not_shown(shown, except),
        chart: chart(shown, pairs, target, &others),
        groups,
        left_out: format!("{}{}", notes.join(" "), counted_once(pairs))
            .trim_start()
            .to_owned(),
    }
}

fn summary(pairs: &AllPairs, target: &Target, other: &Target) -> String {
    let tally = pairs.counted(&target.id, &other.id);
    let precision = match target.precision == other.precision {
        true => String::new(),
        false => format!("; {} against {}", target.precision, other.precision),
    };
    format!(
        "better in {}, worse in {}, no detectable difference in {}, not comparable in {}{precision}",
        tally.better,
        tally.worse,
        tally.even,
        tally.not + tally.unknown
    )
}

fn rows(shown: &Shown, cases: &[&CasePairs], target: &Target, other: &Target) -> Vec<PairRow> {
    cases
        .iter()
        .filter_map(|case| {
            let outcome = case.seen_from(&target.id, &other.id)?;
            let outcome = outcome.map_err(|why| reason(shown, case, &why));
            Some(row(case.label(shown), case.metric, outcome))
        })
        .collect()
}

/// Make the row of a comparison, or of the reason why there is none.
fn row(case: String, metric: MetricId, outcome: Result<Compared, String>) -> PairRow {
    match outcome {
        Ok(compared) => {
            let (ratio, interval) = fmt::ratio(compared.ratio, compared.ci95);
            let (verdict, tone) = verdict(&compared, metric);
            PairRow {
                case,
                ratio,
                interval: interval.unwrap_or_default(),
                p: compared.p_holm.map(fmt::p_value).unwrap_or_default(),
                verdict,
                tone,
                disturbed: pair_flag(&compared.disturbed),
                of: None,
            }
        }
        Err(why) => PairRow {
            case,
            verdict: format!("not comparable: {why}"),
            tone: "even",
            ..PairRow::default()
        },
    }
}

/// The verdict in words that fit the metric, and the class of its tone.
fn verdict(compared: &Compared, metric: MetricId) -> (String, &'static str) {
    let words = match Unit::from_metric(metric) {
        Unit::Ns | Unit::TokPerS | Unit::RequestsPerS => ("faster", "slower"),
        Unit::Bytes => ("smaller", "larger"),
        _ => ("better", "worse"),
    };
    let c = compared;
    verdict_between(c.verdict, words, (c.ratio, c.ci95), c.blocks, c.matters)
}

fn reason(shown: &Shown, case: &CasePairs, why: &NotComparable) -> String {
    match why {
        NotComparable::NoNumbers { target, status } => match status {
            None => format!("{target} was not planned here"),
            Some(Status::Ok) => format!("{target} has no such value"),
            Some(_) => format!("{target} {}", cells::why(cell(shown, case, target))),
        },
        NotComparable::NoRatio => "not measured in the same blocks, or a value of 0".into(),
        NotComparable::NoDirection => "the metric has no better direction".into(),
    }
}

fn cell<'a>(shown: &Shown<'a>, case: &CasePairs, target: &str) -> Option<&'a Cell> {
    shown.cell(&case.scenario.cell_key(case.case, target))
}

/// Say how many targets `target` beats in every case, how many beat it in every case, and how it
/// compares with the baseline.
fn sentence(shown: &Shown, pairs: &AllPairs, target: &Target, others: &[&Target]) -> String {
    let id = &target.id;
    let tallies: Vec<_> = others.iter().map(|o| pairs.counted(id, &o.id)).collect();
    let compared = tallies.iter().filter(|t| t.judged() > 0).count();
    if compared == 0 {
        return format!("{id} can’t be compared with any other target of this run.");
    }
    let better = tallies.iter().filter(|t| t.all_better()).count();
    let worse = tallies
        .iter()
        .filter(|t| t.worse > 0 && t.worse == t.judged())
        .count();
    let mut text = format!(
        "Of {} it can be compared with, {id} is detectably better than {better} in every case and \
         detectably worse than {worse} in every case",
        plural(compared as u64, "target", "targets")
    );
    let baseline = shown.baseline();
    let mut against: Vec<(&CasePairs, Compared)> = pairs
        .cases
        .iter()
        .filter_map(|case| Some((case, case.seen_from(id, baseline)?.ok()?)))
        .filter(|(_, c)| c.ratio.is_finite() && c.ci95.is_some())
        .collect();
    against.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let words = |(case, compared): &(&CasePairs, Compared)| {
        let ratio = fmt::joined(fmt::ratio(compared.ratio, compared.ci95));
        format!("{ratio} ({})", lower_first(&case.label(shown)))
    };
    let ratios: Vec<String> = against.iter().map(words).collect();
    text.push_str(&against_baseline(shown, &ratios));
    text.push('.');
    text
}

fn chart(shown: &Shown, pairs: &AllPairs, target: &Target, others: &[&Target]) -> Option<Figure> {
    let mut drawn: Vec<(&CasePairs, &Target, Compared)> = Vec::new();
    let mut groups = Vec::new();
    let headlines = pairs.cases.iter().filter(|case| case.headline).count();
    for case in pairs.cases.iter().filter(|case| case.headline) {
        let mut rows: Vec<(f64, Row)> = Vec::new();
        for other in others.iter().take(ROWS_MAX / headlines.max(1)) {
            let Some(outcome) = case.seen_from(&target.id, &other.id) else {
                continue;
            };
            let (order, outcome) = match outcome {
                Ok(c) => {
                    let estimate = Estimate::new(c.ratio, c.ci95);
                    let said = verdict(&c, case.metric).0;
                    let order = c.ratio;
                    drawn.push((case, *other, c));
                    (order, Outcome::Measured(estimate, said))
                }
                Err(NotComparable::NoNumbers { target: who, .. }) if who == target.id => continue,
                Err(NotComparable::NoNumbers { target: who, .. }) => {
                    (-1.0, cells::missing(cell(shown, case, &who)))
                }
                Err(NotComparable::NoRatio) => (-1.0, Outcome::Missing("no ratio".into())),
                Err(NotComparable::NoDirection) => (-1.0, Outcome::Missing("no direction".into())),
            };
            let row = Row {
                label: other.id.clone(),
                style: shown.style(&other.id),
                shown: true,
                outcome,
            };
            rows.push((order, row));
        }
        if rows.is_empty() {
            continue;
        }
        let heading = format!(
            "{} – {}{}",
            case.label(shown),
            lower_first(case.metric.describe().title),
            noise::suffix(shown.analysis.inflation(case.metric))
        );
        let band = noise::band(shown.analysis.matters);
        groups.push(Group::sorted(heading, band, rows));
    }
    if groups.is_empty() {
        return None;
    }
    let id = &target.id;
    Some(
        Forest {
            id: "pairs".into(),
            finding: closest(shown, &drawn)
                .unwrap_or_else(|| format!("No ratio of {id} to another can be drawn")),
            reading: format!(
                "Marker: geometric mean over blocks of how many times better {id} is than the \
                 target of the row; whiskers: 95 % interval. Right of the dashed line (1×) {id} is \
                 better. Each scenario at the size that stands for it. The axis is logarithmic: \
                 equal distances are equal ratios."
            ),
            axis_label: format!("times better than the other is {id}"),
            groups,
            ..Forest::of_ratios()
        }
        .draw(),
    )
}

/// Name the pair whose ratio is closest to 1×: a close rival matters most to a reader who chooses.
fn closest(shown: &Shown, all: &[(&CasePairs, &Target, Compared)]) -> Option<String> {
    let distance = |compared: &Compared| compared.ratio.ln().abs();
    let finite = all.iter().filter(|(_, _, c)| distance(c).is_finite());
    let (case, other, compared) =
        finite.min_by(|(_, _, a), (_, _, b)| distance(a).total_cmp(&distance(b)))?;
    let (ratio, interval) = fmt::ratio(compared.ratio, compared.ci95);
    let interval = interval.unwrap_or_else(|| NO_INTERVAL.into());
    let said = verdict(compared, case.metric).0;
    Some(format!(
        "Closest to {}: {ratio} {interval} in {} – {said}",
        other.id,
        lower_first(&case.label(shown))
    ))
}
