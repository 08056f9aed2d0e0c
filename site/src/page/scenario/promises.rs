//! What a case promises a user, in sentences: which targets were offered more than they served, and
//! which met the profile's limits on latency.

use crate::fmt::{self, Unit};
use crate::view::Shown;
use schema::plan::{Case, PlannedScenario};
use stats::analysis::{Cell, MetricId};
use stats::open_loop::{meets, over_saturated};

/// Write the sentences of a case in plan order: which targets were over-saturated, and which met
/// the limits on latency.
pub fn promises(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> Vec<String> {
    let cells: Vec<&Cell> = shown.cells_of(scenario, case).collect();
    let saturated = cells.iter().filter_map(|cell| saturation(cell));
    saturated.chain(objective(shown, &cells)).collect()
}

fn saturation(cell: &Cell) -> Option<String> {
    let value = |id| cell.metric(id).map(|m| (m.value, m.ci95));
    let (shortfall, ci95) = value(MetricId::ShortfallPercent)?;
    let (offered, _) = value(MetricId::OfferedPerS)?;
    over_saturated(cell)?.then(|| {
        let shortfall = fmt::joined(fmt::with_interval(Unit::Percent, shortfall, ci95));
        format!(
            "Over-saturated: {} was offered {} and left {shortfall} of it for later, so its queue grew and its latencies depend on how long the case lasted.",
            cell.target,
            fmt::quantity(Unit::RequestsPerS, offered)
        )
    })
}

/// Say which targets met the profile's limits on latency; `None` where there are no limits, or the
/// metric was not asked for.
fn objective(shown: &Shown, cells: &[&Cell]) -> Option<String> {
    let slo = shown.run.header.plan.slo?;
    let asked = |cell: &&&Cell| cell.metric(MetricId::GoodputPerS).is_some();
    let names = |wanted: Option<bool>| -> Vec<&str> {
        let cells = cells
            .iter()
            .filter(asked)
            .filter(|cell| meets(cell, &slo) == wanted);
        cells.map(|cell| cell.target.as_str()).collect()
    };
    let groups = [
        ("met by", names(Some(true))),
        ("not met by", names(Some(false))),
        ("undecided, with fewer than 100 requests, for", names(None)),
    ];
    let said: Vec<String> = groups
        .iter()
        .filter(|(_, targets)| !targets.is_empty())
        .map(|(what, targets)| format!("{what} {}", targets.join(", ")))
        .collect();
    (!said.is_empty()).then(|| {
        format!(
            "Limits at the 90th percentile, {} ms to the first token and {} ms between tokens: {}.",
            slo.ttft_p90_ms,
            slo.itl_p90_ms,
            said.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::key::CellKey;
    use stats::analysis::Metric;

    fn cell(shortfall_ci95: Option<(f64, f64)>) -> Cell {
        let metric = |id, value, ci95| Metric {
            ci95,
            ..Metric::of(id, value, vec![value; 5])
        };
        Cell {
            requests: 100,
            invocations: 5,
            metrics: vec![
                metric(MetricId::OfferedPerS, 12.5, None),
                metric(MetricId::ShortfallPercent, 9.0, shortfall_ci95),
            ],
            ..Cell::new(CellKey::new("x.cpu.f32", "open_loop", "r110"), 110)
        }
    }

    #[test]
    fn over_saturation_is_said_with_its_size_and_only_where_it_is_sure() {
        let said = saturation(&cell(Some((7.0, 11.0)))).unwrap();
        assert!(said.contains("x.cpu.f32 was offered 12.5 req/s"), "{said}");
        assert!(said.contains("9.00 % [7.00, 11.00]"), "{said}");
        assert_eq!(saturation(&cell(Some((-2.0, 20.0)))), None);
        assert_eq!(saturation(&cell(None)), None);
    }
}
