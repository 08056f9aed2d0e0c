//! `--until`: blocks are added until the intervals are narrow enough, or there are as many as may be.
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
use stats::analysis::Metric;
use stats::metrics::leading_metric;

/// The cell whose interval is the widest.
struct Widest {
    cell: String,
    /// Half its width, in percent of the value.
    percent: f64,
    /// How many are wider than they may be.
    open: usize,
    /// How many intervals there are.
    of: usize,
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
        cell,
        percent,
        open,
        of,
    } = widest;
    let wanted = until.percent;
    if open == 0 {
        eprintln!(
            "After {blocks} blocks no interval is wider than ±{wanted} %: the widest is ±{percent:.1} % ({cell})"
        );
        return Ok(false);
    }
    let is_last = blocks >= until.blocks_max;
    eprintln!(
        "After {blocks} blocks {open} of {of} intervals are wider than ±{wanted} %, the widest ±{percent:.1} % ({cell}){}",
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
    let mut widths = Vec::new();
    for cell in &analysis.cells {
        let scenario = scenarios.iter().find(|s| s.id == cell.scenario);
        let leading = scenario.and_then(leading_metric);
        let metric = leading.and_then(|id| cell.metric(id));
        let interval = metric.and_then(Metric::interval);
        widths.extend(interval.map(|interval| (cell.key(), interval.half_width_percent())));
    }
    let open = widths.iter().filter(|(_, p)| *p > until.percent).count();
    let of = widths.len();
    let widest = widths.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(widest.map(|(key, percent)| Widest {
        cell: format!("{} {} {}", key.target, key.scenario, key.case),
        percent,
        open,
        of,
    }))
}
