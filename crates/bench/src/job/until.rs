//! `--until`: blocks are added until the intervals are narrow enough, or there are as many as may be.
//!
//! Where targets are compared, it is their ratios that must be known well enough: verdicts rest on
//! these, and what befalls whole blocks doesn't widen them, as it does the intervals of times. A
//! cell that is compared with nothing has its own interval.
//!
//! A run of one cell stops where its launches happen to agree, so its interval is a little too narrow. How
//! much is one of the things that `cargo xtask simulate` asks.

use super::Opened;
use anyhow::Result;
use base::files::write_json;
use base::repo::Repo;
use harness::plan::with_another_block;
use runs::shard::plan_sha256;
use schema::plan::Until;
use schema::registry::Registry;
use schema::run::Run;
use stats::analysis::{Comparison, Metric};
use stats::metrics::leading_metric;
use stats::ratio::half_width_percent;
use std::collections::BTreeSet;

/// The widest of the intervals that must be narrow.
struct Widest {
    /// Of what it is, in words.
    of: String,
    /// Half its width, in percent of the value; infinite where there is no interval.
    percent: f64,
    /// How many are wider than they may be.
    open: usize,
    /// How many there are.
    all: usize,
}

/// Add a block to the plan of `opened` and of `run` where that is needed; whether it was.
pub(super) fn go_on(
    repo: &Repo,
    registry: &Registry,
    opened: &mut Opened,
    run: &mut Run,
) -> Result<bool> {
    let Some(until) = opened.header.plan.until else {
        return Ok(false);
    };
    let blocks = opened.header.plan.invocations;
    let Some(widest) = widest(repo, registry, run, until)? else {
        return Ok(false);
    };
    let Widest {
        of,
        percent,
        open,
        all,
    } = widest;
    let wanted = until.percent;
    if open == 0 {
        eprintln!(
            "After {blocks} blocks no interval is wider than ±{wanted} %: the widest is ±{percent:.1} % ({of})"
        );
        return Ok(false);
    }
    let is_last = blocks >= until.blocks_max;
    eprintln!(
        "After {blocks} blocks {open} of {all} intervals are wider than ±{wanted} %, the widest ±{percent:.1} % ({of}){}",
        match is_last {
            true => ", and more blocks were not allowed",
            false => ": another block",
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

/// The widest of the leading metrics' intervals; `None` where no cell has one.
fn widest(repo: &Repo, registry: &Registry, run: &Run, until: Until) -> Result<Option<Widest>> {
    let scenarios = repo.scenarios()?;
    let baseline = registry.baseline_of(&run.header.plan.targets);
    let analysis = stats::analyse(run, &scenarios, baseline);
    let mut widths: Vec<(String, f64)> = analysis.comparisons.iter().filter_map(of_ratio).collect();
    let compared: BTreeSet<(&str, &str)> = analysis
        .comparisons
        .iter()
        .map(|c| (c.scenario.as_str(), c.case.as_str()))
        .collect();
    for cell in &analysis.cells {
        if compared.contains(&(cell.scenario.as_str(), cell.case.as_str())) {
            continue;
        }
        let scenario = scenarios.iter().find(|s| s.id == cell.scenario);
        let leading = scenario.and_then(leading_metric);
        let metric = leading.and_then(|id| cell.metric(id));
        let interval = metric.and_then(Metric::interval);
        let of = format!("{} {} {}", cell.target, cell.scenario, cell.case);
        widths.extend(interval.map(|interval| (of, interval.half_width_percent())));
    }
    let open = widths.iter().filter(|(_, p)| *p > until.percent).count();
    let all = widths.len();
    let widest = widths.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(widest.map(|(of, percent)| Widest {
        of,
        percent,
        open,
        all,
    }))
}

/// Of what a comparison's interval is, and half its width in percent. `None` where A/A pairs
/// allow no interval: more blocks would give none either.
fn of_ratio(of: &Comparison) -> Option<(String, f64)> {
    let Comparison {
        target,
        against,
        scenario,
        case,
        ..
    } = of;
    let percent = match of.ci95 {
        Some(ci95) => half_width_percent(of.ratio, ci95),
        None if of.blocks == 1 => f64::INFINITY,
        None => return None,
    };
    let what = format!("{target} against {against}, {scenario} {case}");
    Some((what, percent))
}
