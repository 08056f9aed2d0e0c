//! How busy, warm and fast the GPU was while it measured: a table in which a target without readings
//! has no row; and the extremes that disturbances are told with.

use crate::fmt::{self, NONE, Unit};
use crate::view::Shown;
use serde::Serialize;
use stats::analysis::MetricId;

/// The larger or the smaller of two values.
type Pick = fn(f64, f64) -> f64;

/// The columns, each a metric with the value to show of a target's cells.
const COLUMNS: [(MetricId, &str, Pick); 5] = [
    (MetricId::GpuUtilizationPercent, "largest", f64::max),
    (MetricId::GpuMemoryUtilizationPercent, "largest", f64::max),
    (MetricId::GpuTemperatureCelsius, "largest", f64::max),
    (MetricId::GpuSmClockMhz, "least", f64::min),
    (MetricId::GpuThrottledPercent, "largest", f64::max),
];

/// The table of GPU readings.
#[derive(Serialize)]
pub struct Gpus {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

/// Make the table from all cells of a run.
pub fn view(shown: &Shown) -> Gpus {
    let column =
        |(id, which, _): (MetricId, &str, Pick)| format!("{}, {which}", id.describe().title);
    let row = |target: &str| {
        let values = COLUMNS.map(|(id, _, pick)| extreme(shown, target, id, pick));
        let is_read = values.iter().any(Option::is_some);
        let texts = values.into_iter().map(|text| text.unwrap_or(NONE.into()));
        is_read.then(|| (target.to_owned(), texts.collect::<Vec<_>>()))
    };
    Gpus {
        columns: COLUMNS.map(column).into(),
        rows: shown.targets().iter().filter_map(|t| row(&t.id)).collect(),
    }
}

/// The least or largest value of a target's cells on a metric; `None` where no cell has it.
pub fn extreme(shown: &Shown, target: &str, id: MetricId, pick: Pick) -> Option<String> {
    let cells = shown.analysis.cells.iter();
    let values = cells
        .filter(|cell| cell.target == target)
        .filter_map(|cell| Some(cell.metric(id)?.value))
        .filter(|value| value.is_finite());
    Some(fmt::quantity(Unit::from_metric(id), values.reduce(pick)?))
}
