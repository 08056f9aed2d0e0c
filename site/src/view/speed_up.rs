//! The chart of how many times better targets are than the baseline, for the index and engines'
//! pages. Charts of micro suites use its rows too.

use crate::chart::forest::{Forest, Group, Outcome, Row};
use crate::chart::{Estimate, Figure};
use crate::fmt;
use crate::view::cells::{NO_INTERVAL, missing, rests_on};
use crate::view::primary::primary;
use crate::view::{Shown, case_label, noise};
use schema::registry::Target;
use stats::analysis::{Analysis, Cell, MetricId, Role};

/// Return the number by which rows are sorted, greatest first, and how many times better a cell is
/// than the baseline's, or why that is not known.
pub fn times_better(analysis: &Analysis, cell: Option<&Cell>, id: MetricId) -> (f64, Outcome) {
    let Some((cell, metric)) = cell.and_then(|cell| Some((cell, cell.metric(id)?))) else {
        return (-2.0, missing(cell));
    };
    match analysis.comparison(&cell.key(), Role::Baseline) {
        Some(c) => {
            let estimate = Estimate::new(c.ratio, c.ci95);
            (c.ratio, Outcome::Measured(estimate, rests_on(cell, metric)))
        }
        None => (-1.0, Outcome::Missing("baseline has no value".into())),
    }
}

/// Chart how many times better targets are than the baseline, one group per ranked scenario: each
/// engine's best target, or all targets of one engine.
pub fn speed_up(shown: &Shown, engine: Option<&str>) -> Figure {
    let baseline = shown.baseline();
    let mut groups = Vec::new();
    let mut best: Option<(f64, String)> = None;
    for (scenario, case, id) in shown.headlines().filter(|(s, ..)| !s.has_own_loads()) {
        let at = scenario.case_key(case);
        let mut comparisons = shown.analysis.comparisons_of(&at, Role::Baseline);
        // Where the baseline keeps no prompts, targets aren't compared with it.
        if scenario.reuses_prompts() && comparisons.next().is_none() {
            continue;
        }
        let chosen = primary(shown, scenario);
        let mut rows: Vec<(f64, Row)> = Vec::new();
        let is_asked = |target: &Target| engine.is_none_or(|engine| engine == target.engine);
        let others = shown
            .targets()
            .iter()
            .filter(|target| target.id != baseline);
        for target in others.filter(|target| is_asked(target)) {
            let cell = shown.cell(&at.cell(&target.id));
            let (order, outcome) = times_better(shown.analysis, cell, id);
            if let Outcome::Measured(found, _) = &outcome
                && found.value.is_finite()
                && best.as_ref().is_none_or(|(b, _)| found.value > *b)
            {
                let (ratio, interval) = fmt::ratio(found.value, found.ci);
                let finding = format!(
                    "Largest advantage over {baseline} in the cases drawn: {} in {}, {ratio} {}",
                    target.id,
                    shown.title(scenario).to_lowercase(),
                    interval.unwrap_or_else(|| NO_INTERVAL.into())
                );
                best = Some((found.value, finding));
            }
            rows.push((
                order,
                Row {
                    label: target.id.clone(),
                    style: shown.style(&target.id),
                    shown: engine.is_some() || chosen.contains(target.id.as_str()),
                    outcome,
                },
            ));
        }
        let heading = format!(
            "{} – {}, {}{}",
            shown.title(scenario),
            id.describe().title.to_lowercase(),
            case_label(scenario, case),
            noise::suffix(shown.analysis.inflation(id))
        );
        let band = noise::band(shown.analysis.matters);
        groups.push(Group::sorted(heading, band, rows));
    }
    let drawn = match engine {
        None => " Drawn are each engine’s best; every target is in the data below.",
        Some(_) => "",
    };
    Forest {
        id: "speed-up".into(),
        finding: best.map_or("No comparison with the baseline could be made".into(), |b| b.1),
        reading: format!(
            "Marker: geometric mean over blocks of how many times better than {baseline}; whiskers: 95 % interval. The dashed line is the baseline itself (1×); right of it is better. {}{drawn} The axis is logarithmic: equal distances are equal ratios.",
            noise::band_words(shown.analysis.matters)
        ),
        axis_label: "times better than the baseline".into(),
        groups,
        ..Forest::of_ratios()
    }
    .draw()
}
