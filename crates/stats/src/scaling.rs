//! The growth of a target's throughput with the requests in flight: the share of linear growth that
//! it reaches and, with enough loads, the Universal Scalability Law. Cells without numbers are
//! ignored.

use crate::analysis::{Cell, Metric, MetricId, Scaling};
use crate::ci::mean_interval;
use crate::power_law::points_by_invocation;
use crate::usl::fit_all;
use schema::plan::PlannedScenario;
use schema::scenario::Axis;

/// The metric whose growth is described.
const METRIC: MetricId = MetricId::OutputTokPerS;

/// Compute the scaling of one target over the cells of a scenario; `None` where the scenario
/// doesn't vary concurrency, or without a cell of load 1 and another.
pub(crate) fn scaling(scenario: &PlannedScenario, cells: &[&Cell]) -> Option<Scaling> {
    if !matches!(scenario.axis, Axis::InFlight | Axis::Users | Axis::Batch) {
        return None;
    }
    let mut levels: Vec<(u32, &Metric)> = cells
        .iter()
        .filter_map(|cell| Some((cell.axis_value, cell.metric(METRIC)?)))
        .collect();
    levels.sort_by_key(|(load, _)| *load);
    let (one, rest) = levels.split_first().filter(|(one, _)| one.0 == 1)?;
    let &(load, most) = rest.last()?;
    // X(N) / (N · X(1)) of each invocation.
    let pairs = most.by_invocation.iter().zip(&one.1.by_invocation);
    let fractions: Vec<f64> = pairs.map(|(x, one)| x / (f64::from(load) * one)).collect();
    let first = cells.first()?;
    Some(Scaling {
        scenario: scenario.id.clone(),
        target: first.target.clone(),
        load,
        fraction: crate::describe::mean(&fractions)?,
        ci95: mean_interval(&fractions).map(|i| (i.low, i.high)),
        // Every measured cell is complete, so all list the same invocations in order.
        usl: fit_all(&points_by_invocation(&levels)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::key::CellKey;

    fn scenario(axis: Axis) -> PlannedScenario {
        PlannedScenario {
            id: "concurrent".into(),
            axis,
            ..PlannedScenario::default()
        }
    }

    /// Make a cell at a load, with a throughput for each of three invocations.
    fn cell(load: u32, throughputs: [f64; 3]) -> Cell {
        Cell {
            metrics: vec![Metric::of(METRIC, throughputs[1], throughputs.to_vec())],
            ..Cell::new(CellKey::new("t", "concurrent", format!("u{load}")), load)
        }
    }

    fn scale(cells: &[Cell]) -> Option<Scaling> {
        scaling(&scenario(Axis::Users), &cells.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_fraction_is_of_as_many_times_the_throughput_of_one() {
        let cells = [
            cell(4, [20.0, 22.0, 18.0]),
            cell(1, [10.0, 11.0, 9.0]),
            cell(2, [17.0, 18.0, 16.0]),
        ];
        let got = scale(&cells).unwrap();
        assert_eq!(got.load, 4);
        assert!((got.fraction - 0.5).abs() < 1e-12);
        let (low, high) = got.ci95.unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
        assert_eq!(got.usl, None, "three loads are no six");
    }

    #[test]
    fn a_law_is_fitted_from_six_loads_on() {
        // X(N) = 100 N / (1 + 0.1 (N − 1)), on machines of three speeds.
        let serial = |load: u32| {
            let n = f64::from(load);
            cell(
                load,
                [0.9, 1.0, 1.1].map(|f| f * 100.0 * n / (1.0 + 0.1 * (n - 1.0))),
            )
        };
        let cells = [1, 2, 4, 8, 16, 32].map(serial);
        let usl = scale(&cells).unwrap().usl.unwrap();
        assert!((usl.sigma.mean - 0.1).abs() < 1e-9, "{usl:?}");
        assert!(usl.kappa.mean.abs() < 1e-9, "{usl:?}");
        assert_eq!(scale(&cells[..5]).unwrap().usl, None);
        assert_eq!(scale(&cells[5..]), None, "nothing to compare with");
    }

    #[test]
    fn prompt_lengths_and_cells_without_numbers_do_not_scale() {
        let mut cells = [cell(1, [1.0; 3]), cell(2, [2.0; 3])];
        let both: Vec<&Cell> = cells.iter().collect();
        assert_eq!(scaling(&scenario(Axis::PromptTokens), &both), None);
        cells[0].metrics.clear();
        assert_eq!(scale(&cells), None);
    }
}
