//! The table of prefix reuse: how much sooner each target's first token comes where prompts begin
//! alike than where they share nothing.

use crate::fmt::{self, Unit};
use crate::view::Shown;
use crate::view::cells::swatch;
use schema::plan::PlannedScenario;
use serde::Serialize;
use stats::analysis::{Cell, MetricId};
use stats::prefix::{PrefixSpeedup, prefix_speedups};

/// The table of prefix reuse.
#[derive(Serialize)]
pub struct ReuseTable {
    note: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    swatch: String,
    target: String,
    shared: String,
    without: String,
    with: String,
    sooner: String,
    interval: String,
    in_proportion: String,
}

/// Make the table of a scenario; `None` where no target has two shares.
pub fn table(shown: &Shown, scenario: &PlannedScenario) -> Option<ReuseTable> {
    if !scenario.reuses_prompts() {
        return None;
    }
    let mut found: Vec<(Vec<&Cell>, Vec<PrefixSpeedup>)> = Vec::new();
    for target in shown.targets() {
        let cases = scenario.cases.iter();
        let cells = cases.filter_map(|case| shown.cell(&scenario.cell_key(case, &target.id)));
        let cells: Vec<&Cell> = cells.collect();
        let gains = prefix_speedups(&cells);
        found.push((cells, gains));
    }
    found.retain(|(_, gains)| !gains.is_empty());
    // Sort by the gain at the largest share, greatest first.
    let most = |gains: &[PrefixSpeedup]| gains.last().map_or(0.0, |last| last.ratio.ratio);
    found.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
    let rows = found.iter().flat_map(|(cells, gains)| {
        let gains = gains.iter();
        gains.filter_map(move |gain| row(shown, cells, gain))
    });
    let rows: Vec<Row> = rows.collect();
    let without_interval = rows.iter().any(|row| row.interval == fmt::NONE);
    (!rows.is_empty()).then(|| ReuseTable {
        note: format!(
            "Each target is held against itself in the same launch: the ratio is the geometric \
             mean over launches, with Student’s t on its logarithms. An interval that contains 1× \
             shows no difference. “In proportion” is what the ratio would be if the time to the \
             first token were in proportion to the tokens left to compute; what stays under it \
             is spent on something else.{}",
            match without_interval {
                true => " A single launch gives no interval.",
                false => "",
            }
        ),
        rows,
    })
}

fn row(shown: &Shown, cells: &[&Cell], gain: &PrefixSpeedup) -> Option<Row> {
    let ttft = |shared: u32| {
        let cell = cells.iter().find(|cell| cell.axis_value == shared)?;
        let of = cell.metric(MetricId::TtftNs)?;
        Some(fmt::quantity(Unit::from_metric(MetricId::TtftNs), of.value))
    };
    let target = cells.first()?.target.as_str();
    let (sooner, interval) = fmt::ratio(gain.ratio.ratio, gain.ratio.ci95);
    Some(Row {
        swatch: swatch(shown, target),
        target: target.into(),
        shared: fmt::quantity(Unit::Percent, f64::from(gain.shared_percent)),
        without: ttft(0)?,
        with: ttft(gain.shared_percent)?,
        sooner,
        interval: interval.unwrap_or_else(|| fmt::NONE.into()),
        in_proportion: fmt::quantity(Unit::Ratio, gain.in_proportion),
    })
}
