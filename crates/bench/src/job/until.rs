//! `--until`: adds blocks until the intervals are narrow enough, or no more blocks are allowed.
//!
//! Where targets are compared, the verdicts depend on their ratios, so the ratios' intervals must
//! be narrow. What affects a whole block widens the intervals of times but not those of ratios. A
//! cell that is compared with nothing counts by its own interval.
//!
//! A run of one cell tends to stop when its launches happen to agree, so its interval is slightly
//! too narrow. `cargo xtask simulate` measures by how much.

use super::Opened;
use anyhow::Result;
use base::files::write_json;
use base::repo::Repo;
use harness::plan::with_another_block;
use runs::shard::plan_sha256;
use schema::plan::Until;
use schema::registry::Registry;
use schema::run::{Run, RunHeader};
use stats::analysis::{Cell, Comparison, MetricId};
use stats::ci::Interval;
use stats::metrics::leading_of;
use std::collections::BTreeSet;

/// Add a block to the plan of `opened` and of `run` where one is needed; return whether it was
/// added. A run that reproduces another has the other's blocks and no more.
pub(super) fn go_on(
    repo: &Repo,
    registry: &Registry,
    opened: &mut Opened,
    run: &mut Run,
) -> Result<bool> {
    let Some(until) = allowed(&opened.header) else {
        return Ok(false);
    };
    let blocks = opened.header.plan.invocations;
    let widths = widths_of_run(repo, registry, run)?;
    let Some((of, percent)) = widths.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        eprintln!("--until adds no block: no cell has an interval");
        return Ok(false);
    };
    let (wanted, percent, all) = (until.percent, width(*percent), widths.len());
    let open = widths.iter().filter(|(_, p)| *p > wanted).count();
    if open == 0 {
        eprintln!(
            "After {blocks} blocks no interval is wider than ±{wanted} %: the widest is {percent} ({of})"
        );
        return Ok(false);
    }
    let is_last = blocks >= until.blocks_max;
    eprintln!(
        "After {blocks} blocks {open} of {all} intervals are wider than ±{wanted} %, the widest {percent} ({of}){}",
        match is_last {
            true => "; --at-most allows no more blocks",
            false => ": measuring another block",
        }
    );
    if is_last {
        return Ok(false);
    }
    let header = &mut opened.header;
    header.plan = with_another_block(&header.plan);
    header.plan_sha256 = plan_sha256(&header.plan)?;
    write_json(&opened.run_dir.join("run.json"), header)?;
    run.header = header.clone();
    Ok(true)
}

/// Return the `--until` by which blocks may be added to a run; `None` where none may.
pub(super) fn allowed(header: &RunHeader) -> Option<Until> {
    let until = header.plan.until?;
    header.origin.reproduces.is_none().then_some(until)
}

/// Return the half-widths of the intervals that must become narrow, as [`widths`] does.
fn widths_of_run(repo: &Repo, registry: &Registry, run: &Run) -> Result<Vec<(String, f64)>> {
    let scenarios = repo.scenarios()?;
    let baseline = registry.baseline_of(&run.header.plan.targets);
    let analysis = stats::analyse(run, &scenarios, baseline);
    let leading = |scenario: &str| {
        let planned = run.header.plan.scenario(scenario);
        planned.and_then(|planned| leading_of(planned, &scenarios))
    };
    let (comparisons, cells) = (&analysis.comparisons, &analysis.cells);
    Ok(widths(comparisons, cells, leading))
}

/// Return the half-width, in percent, of every pair's ratio and of the value of each cell that is
/// in no pair, with the pair or cell in words.
fn widths(
    comparisons: &[Comparison],
    cells: &[Cell],
    leading: impl Fn(&str) -> Option<MetricId>,
) -> Vec<(String, f64)> {
    let mut widths = Vec::new();
    let mut compared = BTreeSet::new();
    // A pair with the baseline as leader is compared in both roles, and must count once.
    let mut pairs = BTreeSet::new();
    for of in comparisons {
        let (target, against) = (of.target.as_str(), of.against.as_str());
        let case = (of.scenario.as_str(), of.case.as_str());
        compared.extend([(target, case), (against, case)]);
        if pairs.insert((target.min(against), target.max(against), case)) {
            let words = format!("{target} against {against}, {} {}", case.0, case.1);
            widths.push((words, half_width(of.interval())));
        }
    }
    for cell in cells {
        let target = cell.target.as_str();
        if compared.contains(&(target, (cell.scenario.as_str(), cell.case.as_str()))) {
            continue;
        }
        let Some(metric) = leading(&cell.scenario).and_then(|id| cell.metric(id)) else {
            continue;
        };
        let words = format!("{target}, {} {}", cell.scenario, cell.case);
        widths.push((words, half_width(metric.interval())));
    }
    widths
}

/// Return half an interval's width in percent; infinite where there is no interval yet.
fn half_width(interval: Option<Interval>) -> f64 {
    interval.map_or(f64::INFINITY, |i| i.half_width_percent())
}

/// Format a half-width as `±1.2 %`, or say that there is no interval.
fn width(percent: f64) -> String {
    match percent.is_finite() {
        true => format!("±{percent:.1} %"),
        false => "not known yet".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::key::CellKey;
    use stats::analysis::{Metric, Role, Verdict};

    fn comparison(target: &str, against: &str, role: Role, ci95: Option<(f64, f64)>) -> Comparison {
        Comparison {
            scenario: "s".into(),
            case: "c".into(),
            metric: MetricId::TtftNs,
            target: target.into(),
            against: against.into(),
            role,
            ratio: 1.0,
            blocks: 3,
            ci95,
            p_holm: None,
            cliffs_delta: None,
            inflation: None,
            matters: 1.02,
            verdict: Verdict::Undecided,
            not_comparable: vec![],
        }
    }

    fn cell(target: &str) -> Cell {
        let key = CellKey::new(target, "s", "c");
        Cell {
            metrics: vec![Metric {
                ci95: Some((5.0, 15.0)),
                ..Metric::of(MetricId::TtftNs, 10.0, vec![10.0; 3])
            }],
            ..Cell::new(key, 1)
        }
    }

    #[test]
    fn ratios_count_once_and_a_cell_by_itself_where_it_is_in_no_pair() {
        let comparisons = [
            comparison("b", "a", Role::Baseline, Some((0.99, 1.01))),
            comparison("c", "a", Role::Baseline, None),
            comparison("b", "a", Role::Leader, Some((0.99, 1.01))),
            comparison("c", "a", Role::Leader, None),
        ];
        let cells = ["a", "b", "c", "alone"].map(cell);
        let widths = widths(&comparisons, &cells, |_| Some(MetricId::TtftNs));
        let percents: Vec<f64> = widths.iter().map(|(_, p)| p.round()).collect();
        assert_eq!(percents, [1.0, f64::INFINITY, 50.0], "{widths:?}");
        assert_eq!(widths[2].0, "alone, s c");
        assert_eq!(width(f64::INFINITY), "not known yet");
    }
}
