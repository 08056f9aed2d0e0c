//! The chart from run to run: how each engine's best target compared with the baseline in runs of
//! one machine, model and profile. It shows ratios, not values, because a machine that was slower
//! on a day was so for both.

use crate::chart::lines::{Lines, Point, Series};
use crate::chart::{Estimate, Figure};
use crate::fmt::{self, Unit};
use crate::view::cells::why;
use crate::view::place::place;
use crate::view::primary::primary;
use crate::view::{Shown, case_label};
use crate::words::plural;
use schema::plan::PlannedScenario;
use stats::analysis::Role;

/// The user's own prompts that a scenario asks; runs with other prompts don't compare.
fn own_prompts<'a>(shown: &Shown<'a>, scenario: &PlannedScenario) -> Option<&'a [Vec<u32>]> {
    let own = shown.run.header.plan.own_prompts(scenario)?;
    Some(&own.tokens)
}

/// Chart the first ranked scenario, oldest run first; `None` with fewer than two runs that compare.
pub fn history(all: &[Shown]) -> Option<Figure> {
    let newest = all.first()?;
    let scenario = newest
        .scenarios()
        .iter()
        .find(|scenario| newest.leading(scenario).is_some() && !scenario.has_own_loads())?;
    let case = newest.headline(scenario)?;
    let here = place(newest);
    let mut runs: Vec<&Shown> = all
        .iter()
        .filter(|other| {
            let same = other.scenarios().iter().any(|s| {
                s.id == scenario.id
                    && s.version == scenario.version
                    && s.cases.contains(case)
                    && own_prompts(other, s) == own_prompts(newest, scenario)
            });
            same && place(other) == here
        })
        .collect();
    // The first one given is the run that the report shows, whatever its age.
    runs.sort_by_key(|run| run.run.header.started.as_str());
    let chosen = primary(newest, scenario);
    let mut best: Option<(f64, String)> = None;
    let mut series = Vec::new();
    let targets = newest.targets().iter();
    for target in targets.filter(|target| target.id != newest.baseline()) {
        let is_shown = chosen.contains(target.id.as_str());
        let mut of = Series::new(&target.id, newest.style(&target.id), is_shown);
        for (x, run) in (1..).zip(&runs) {
            let key = scenario.cell_key(case, &target.id);
            let found = run.analysis.comparison(&key, Role::Baseline);
            let cell = run.cell(&key);
            match found.zip(cell) {
                Some((c, cell)) => of.points.push(Point {
                    x,
                    y: Estimate::new(c.ratio, c.ci95),
                    rests_on: plural(u64::from(cell.invocations), "launch", "launches"),
                }),
                None => of.missing.push((x, why(cell))),
            }
        }
        if let [first, .., last] = of.points.as_slice() {
            let change = last.y.value / first.y.value;
            let far = change.ln().abs();
            if far.is_finite() && best.as_ref().is_none_or(|(known, _)| far > *known) {
                let word = |point: &Point| fmt::joined(fmt::ratio(point.y.value, point.y.ci));
                let (from, to) = (word(first), word(last));
                best = Some((
                    far,
                    format!("{} moved most, from {from} to {to}", target.id),
                ));
            }
        }
        series.push(of);
    }
    let moved = best.filter(|_| runs.len() > 1)?.1;
    let list: Vec<String> = (1..)
        .zip(&runs)
        .map(|(number, run)| {
            let header = &run.run.header;
            format!(
                "{number} = {} ({})",
                header.id,
                fmt::moment(&header.started)
            )
        })
        .collect();
    let label = case_label(scenario, case);
    Some(
        Lines {
            id: "history".into(),
            finding: format!(
                "{} at {label}, against {}: {moved}",
                newest.title(scenario),
                newest.baseline()
            ),
            about: format!(
                "Runs of one machine, model and profile, the oldest first: {}. Engines and harness may have changed between them; the runs’ own pages say what each was.",
                list.join(", ")
            ),
            x_label: "run".into(),
            y_label: "times better than the baseline".into(),
            unit: Unit::Ratio,
            power_law: false,
            fit_label: String::new(),
            series,
        }
        .draw(),
    )
}
