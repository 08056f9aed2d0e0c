//! Exports a run as tidy rows, one per cell and metric; a cell without numbers is one row with its
//! status and reason. The columns are stable, because scripts depend on them. `cargo xtask export`
//! prints these rows, and the data page offers them.

use anyhow::Result;
use schema::record::Status;
use schema::registry::{DeviceKind, Target};
use schema::run::Run;
use serde::Serialize;
use serde_json::Value;
use stats::analysis::{Analysis, Cell};
use stats::micro::SuiteAnalysis;
use stats::witness::Audit;

/// The columns in order, each with its description.
pub const COLUMNS: [(&str, &str); 17] = [
    ("run", "Id of the run."),
    ("target", "engine[+variant].backend.precision."),
    ("engine", "Id of the engine."),
    ("backend", "What the engine computes with."),
    (
        "device",
        "The GPU's or processor's name; empty where it could not be read.",
    ),
    ("precision", "Of the weights and the arithmetic."),
    ("model", "Id of the model."),
    ("scenario", "Id of the scenario."),
    (
        "case",
        "Axis letter and value: p prompt tokens, c in flight, u users, b batch, r % of capacity.",
    ),
    (
        "metric",
        "Name of the metric, ending in its unit; empty in a row without a number.",
    ),
    ("unit", "Unit of value, ci_low and ci_high."),
    (
        "n",
        "Samples behind the value: requests, gaps or launches, as the metric counts them.",
    ),
    (
        "value",
        "Mean over launches of the per-launch statistic; empty where there is none.",
    ),
    ("ci_low", "Lower end of its 95 % interval."),
    ("ci_high", "Upper end of its 95 % interval."),
    ("status", "ok, or why there is no number."),
    ("reason", "One line, empty where ok."),
];

/// A row of the export: one metric of one cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row<'a> {
    run: &'a str,
    target: &'a str,
    engine: &'a str,
    backend: &'a str,
    device: String,
    precision: &'a str,
    model: &'a str,
    scenario: &'a str,
    case: &'a str,
    metric: &'a str,
    unit: &'a str,
    n: u64,
    value: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    status: &'a str,
    reason: &'a str,
}

/// Whether a target computes on a GPU.
pub fn on_gpu(target: &Target) -> bool {
    is_gpu(&target.backend)
}

fn is_gpu(backend: &str) -> bool {
    DeviceKind::of_backend(backend) == DeviceKind::Gpu
}

/// The name of the device that a backend computed on, as the device gives it; empty where unknown.
fn device_of(run: &Run, backend: &str) -> String {
    let fact = if is_gpu(backend) { "gpu" } else { "cpu_model" };
    let facts = &run.header.provenance.facts;
    facts.get(fact).cloned().unwrap_or_default()
}

impl<'a> Row<'a> {
    /// The row of a cell without a number; it doesn't name the target yet.
    fn of_cell(run: &'a Run, cell: &'a Cell) -> Self {
        Self {
            run: &run.header.id,
            model: &run.header.plan.model,
            scenario: &cell.scenario,
            case: &cell.case,
            n: cell.requests,
            status: cell.status.id(),
            reason: &cell.reason,
            ..Self::default()
        }
    }

    /// The row with a number in it.
    fn with(&self, metric: &'a str, unit: &'a str, n: u64, value: f64) -> Self {
        Self {
            metric,
            unit,
            n,
            value: Some(value),
            ..self.clone()
        }
    }

    /// The rows of a cell's metrics.
    fn with_metrics(&self, cell: &'a Cell) -> impl Iterator<Item = Self> {
        cell.metrics.iter().map(move |metric| {
            let about = metric.id.describe();
            Self {
                ci_low: metric.ci95.map(|ci| ci.0),
                ci_high: metric.ci95.map(|ci| ci.1),
                ..self.with(about.name, about.unit, metric.n, metric.value)
            }
        })
    }

    /// The mean errors of first and of later tokens' stamps as their upper 95 % limits and as they
    /// were seen, each with the number of looks.
    fn with_stamp_errors(&self, audit: &Audit) -> [Self; 4] {
        [
            ("first_stamp_error_ns", audit.first.high_ns()),
            ("first_stamp_error_mean_ns", audit.first.mean_ns()),
            ("later_stamp_error_ns", audit.later.high_ns()),
            ("later_stamp_error_mean_ns", audit.later.mean_ns()),
        ]
        .map(|(metric, ns)| self.with(metric, "ns", audit.looks, ns))
    }
}

/// All rows of a run, in the order of the analysis.
pub fn rows<'a>(run: &'a Run, analysis: &'a Analysis) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for cell in &analysis.cells {
        let Some(target) = run.header.plan.target(&cell.target) else {
            continue;
        };
        let row = Row {
            target: &target.id,
            engine: &target.engine,
            backend: &target.backend,
            device: device_of(run, &target.backend),
            precision: &target.precision,
            ..Row::of_cell(run, cell)
        };
        if cell.status != Status::Ok || cell.metrics.is_empty() {
            rows.push(row.clone());
        } else {
            let n = cell.requests;
            rows.push(row.with("completed_requests", "requests", n, n as f64));
            if let Some(audit) = &cell.audit {
                rows.extend(row.with_stamp_errors(audit));
            }
        }
        rows.extend(row.with_metrics(cell));
    }
    rows
}

/// The rows of a micro suite; a variant stands in the column of the target.
pub fn suite_rows<'a>(run: &'a Run, suite: &'a SuiteAnalysis) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for cell in &suite.analysis.cells {
        let planned = run.header.plan.micro.suite(&suite.id);
        let Some(variant) = planned.and_then(|planned| planned.variant(&cell.target)) else {
            continue;
        };
        let row = Row {
            target: &variant.id,
            engine: &variant.engine,
            backend: &variant.backend,
            device: device_of(run, &variant.backend),
            precision: &variant.precision,
            ..Row::of_cell(run, cell)
        };
        if cell.metrics.is_empty() {
            rows.push(row.clone());
        }
        rows.extend(row.with_metrics(cell));
    }
    rows
}

/// The characters with which a spreadsheet takes a cell for a formula, or which it skips before one.
const FORMULA_STARTS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];

/// Write rows as CSV (RFC 4180). Numbers are formatted as in JSON, so that both formats agree. Text
/// that a spreadsheet would run as a formula has a single quote before it, as OWASP advises:
/// reasons hold what engines wrote, and a run may come from anybody.
pub fn csv(rows: &[Row]) -> Result<String> {
    let terminator = csv::Terminator::CRLF;
    let mut writer = csv::WriterBuilder::new()
        .terminator(terminator)
        .from_writer(Vec::new());
    writer.write_record(COLUMNS.map(|(name, _)| name))?;
    for row in rows {
        let object = serde_json::to_value(row)?;
        writer.write_record(COLUMNS.map(|(column, _)| match &object[column] {
            Value::Null => String::new(),
            Value::String(text) if text.starts_with(FORMULA_STARTS) => format!("'{text}"),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_formula_and_numbers_stay_numbers() {
        let cell = |reason| {
            let row = Row {
                value: Some(-1.5),
                reason,
                ..Row::default()
            };
            let text = csv(&[row]).unwrap();
            let (_, row) = text.split_once("\r\n").expect("a heading and a row");
            row.strip_prefix(",,,,,,,,,,,0,-1.5,,,,")
                .unwrap_or_else(|| panic!("{row}"))
                .to_owned()
        };
        assert_eq!(cell("=HYPERLINK(A1)"), "'=HYPERLINK(A1)\r\n");
        for start in ["+1", "-1", "@SUM(1)", "\t=1"] {
            assert_eq!(cell(start), format!("'{start}\r\n"));
        }
        for start in ["\r=1", "\n=1"] {
            assert_eq!(cell(start), format!("\"'{start}\"\r\n"));
        }
        for plain in ["", "a = b", "1 - 2", "'=1"] {
            assert_eq!(cell(plain), format!("{plain}\r\n"));
        }
    }

    #[test]
    fn every_field_of_a_row_is_a_described_column() {
        let row = Row {
            value: Some(f64::NAN),
            ..Row::default()
        };
        let object = serde_json::to_value(&row).unwrap();
        let object = object.as_object().unwrap();
        assert_eq!(object.len(), COLUMNS.len());
        for (column, about) in COLUMNS {
            assert!(
                object.contains_key(column) && about.ends_with('.'),
                "{column}"
            );
        }
        // Quoted where RFC 4180 requires it; a number that is not finite is empty, never "NaN".
        let row = Row {
            device: "a \"b\", c".into(),
            reason: "d\r\ne",
            ci_high: Some(1.5e-7),
            ..row
        };
        let expected = "run,target,engine,backend,device,precision,model,scenario,case,metric,unit,n,value,ci_low,ci_high,status,reason\r\n\
             ,,,,\"a \"\"b\"\", c\",,,,,,,0,,,1.5e-7,,\"d\r\ne\"\r\n";
        assert_eq!(csv(&[row]).unwrap(), expected);
    }
}
