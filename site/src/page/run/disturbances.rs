//! What else was at work on the machine, launch by launch, and what measuring itself cost.

use super::LISTED_MAX;
use super::gpus::extreme;
use super::steadiness::Steadiness;
use crate::fmt;
use crate::view::Shown;
use crate::words::{join, plural};
use serde::Serialize;
use stats::analysis::{Cell, MetricId};
use stats::canary::Unfelt;

/// The section on disturbances.
#[derive(Serialize)]
pub struct Disturbances {
    finding: String,
    steadiness: String,
    rows: Vec<Row>,
    /// Number of rows that are left out, in words; empty for none.
    more: String,
    overhead: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Row {
    target: String,
    scenario: String,
    case: String,
    launch: String,
    causes: String,
}

/// Make the section from all cells of a run.
pub fn view(shown: &Shown) -> Disturbances {
    let cells = &shown.analysis.cells;
    let mut rows: Vec<Row> = cells.iter().flat_map(rows).collect();
    let disturbed = rows.len();
    rows.truncate(LISTED_MAX);
    let measured: u64 = cells
        .iter()
        .filter(|cell| !cell.metrics.is_empty())
        .map(|cell| u64::from(cell.invocations))
        .sum();
    let sum = |of: fn(&Cell) -> u32| cells.iter().map(|cell| u64::from(of(cell))).sum();
    Disturbances {
        finding: finding(Counts {
            measured,
            unwatched: sum(|cell| cell.unwatched),
            unseen: sum(|cell| cell.unseen),
            disturbed: disturbed as u64,
        }) + &unfelt(&shown.analysis.unfelt),
        steadiness: Steadiness::new(shown).in_words(),
        more: match disturbed - rows.len() {
            0 => String::new(),
            n => plural(n as u64, "more launch", "more launches"),
        },
        rows,
        overhead: largest(shown, MetricId::SamplerCpuPercent),
    }
}

/// Counts of measured cases; a case counts once for each launch of each target.
struct Counts {
    measured: u64,
    /// Measured cases with too few readings of processor time to find a disturbance.
    unwatched: u64,
    /// Measured cases beside which the speed of the machine was not measured.
    unseen: u64,
    /// Measured cases that were disturbed.
    disturbed: u64,
}

fn finding(counts: Counts) -> String {
    let Counts {
        measured, unseen, ..
    } = counts;
    if measured == counts.unwatched && measured == unseen && counts.disturbed == 0 {
        return "The records have no readings of what else the machine did, so nothing can be \
                said of it."
            .into();
    }
    let mut text = format!(
        "Of {}, counted once a launch, {} disturbed by something that is not the engine.",
        plural(measured, "measured case", "measured cases"),
        match counts.disturbed {
            0 if unseen > 0 => "none was seen to be".to_owned(),
            0 => "none was".to_owned(),
            n => plural(n, "was", "were"),
        }
    );
    if counts.unwatched > 0 {
        text.push_str(&format!(
            " What other processes did can't be said of {}: too few readings.",
            fmt::count(counts.unwatched)
        ));
    }
    match measured.saturating_sub(unseen) {
        0 => text.push_str(
            " It wasn't measured how fast the machine was beside them, so another guest of a \
             hypervisor that shares a core, a cache or the memory would not have been noticed.",
        ),
        seen => text.push_str(&format!(
            " Beside {} of them the harness did one to two milliseconds of known work (products on one core \
             and on all, a cache line between two cores, a read of memory), which shows another \
             guest of a hypervisor that shares one of these.",
            fmt::count(seen)
        )),
    }
    if counts.disturbed > 0 {
        text.push_str(
            " Each is flagged on the scenarios’ and comparison pages, and so is every pair it is \
             part of; both count in the numbers all the same.",
        );
    }
    text
}

/// Say which known work was slow beside launches that took no longer.
fn unfelt(all: &[Unfelt]) -> String {
    let sentence = |unfelt: &Unfelt| {
        let mut text = format!(
            " In cells with such launches and others, beside {} of {} (counted by case, with the second \
             launches of A/A pairs) {} took longer than usual. These took {} as long as the others, \
             on average, so that isn’t counted as a disturbance",
            fmt::count(unfelt.slow as u64),
            plural(unfelt.launches as u64, "launch", "launches"),
            unfelt.work.words(),
            fmt::joined(fmt::ratio(unfelt.ratio, Some(unfelt.ci95))),
        );
        if !unfelt.felt_in.is_empty() {
            text.push_str(", but in ");
            text.push_str(&join(&unfelt.felt_in));
            text.push_str(", whose own launches were slower");
        }
        text + "."
    };
    all.iter().map(sentence).collect()
}

fn rows(cell: &Cell) -> Vec<Row> {
    cell.disturbances
        .iter()
        .map(|disturbance| Row {
            target: cell.target.clone(),
            scenario: cell.scenario.clone(),
            case: cell.case.clone(),
            launch: disturbance.invocation.to_string(),
            causes: disturbance
                .causes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        })
        .collect()
}

/// The largest value of every target on a metric, as (target, value).
pub fn largest(shown: &Shown, id: MetricId) -> Vec<(String, String)> {
    let targets = shown.targets().iter();
    targets
        .filter_map(|target| {
            let largest = extreme(shown, &target.id, id, f64::max)?;
            Some((target.id.clone(), largest))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_what_was_watched() {
        let finding = |measured, unwatched, unseen, disturbed| {
            finding(Counts {
                measured,
                unwatched,
                unseen,
                disturbed,
            })
        };
        assert!(finding(10, 10, 10, 0).contains("no readings"));
        let quiet = finding(10, 0, 0, 0);
        assert!(quiet.starts_with("Of 10 measured cases") && quiet.contains("none was disturbed"));
        assert!(quiet.contains("Beside 10 of them"));
        let blind = finding(10, 0, 10, 0);
        assert!(blind.contains("none was seen to be") && blind.contains("would not have been"));
        let some = finding(10, 1, 2, 2);
        assert!(some.contains("2 were disturbed") && some.contains("said of 1:"));
        assert!(some.contains("Beside 8 of them"));
        assert!(finding(10, 10, 10, 1).contains("1 was disturbed"));
    }
}
