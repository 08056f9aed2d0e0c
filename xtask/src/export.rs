//! `cargo xtask export`: a run as tidy rows, one per cell and metric; a cell
//! without numbers is one row with its status and reason. The columns are
//! stable: scripts depend on them.

use anyhow::Result;
use schema::registry::Registry;
use schema::run::Run;
use schema::scenario::Scenario;
use serde::Serialize;
use stats::micro::SuiteAnalysis;

/// One row.
#[derive(Debug, Serialize)]
struct Row<'a> {
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
    /// Pooled samples behind `value`; requests where a sample is a request.
    n: u64,
    value: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    status: &'a str,
    reason: &'a str,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A JSON array of objects.
    Json,
    /// RFC 4180.
    Csv,
}

/// The whole export as text.
pub fn export(
    run: &Run,
    scenarios: &[Scenario],
    registry: &Registry,
    format: Format,
) -> Result<String> {
    let baseline = registry.baseline_of(&run.header.plan.targets);
    let analysis = stats::analyse::analyse(run, scenarios, baseline);
    let facts = &run.header.provenance.facts;
    let mut rows = Vec::new();
    for cell in &analysis.cells {
        let Some(target) = run.header.plan.targets.iter().find(|t| t.id == cell.target) else {
            continue;
        };
        let device = facts
            .get(if target.backend == "cpu" {
                "cpu_model"
            } else {
                "gpu"
            })
            .cloned()
            .unwrap_or_default();
        let row = |metric, unit, n, value, ci: Option<(f64, f64)>| Row {
            run: &run.header.id,
            target: &target.id,
            engine: &target.engine,
            backend: &target.backend,
            device: device.clone(),
            precision: &target.precision,
            model: &run.header.plan.model,
            scenario: &cell.scenario,
            case: &cell.case,
            metric,
            unit,
            n,
            value,
            ci_low: ci.map(|ci| ci.0),
            ci_high: ci.map(|ci| ci.1),
            status: cell.status.id(),
            reason: &cell.reason,
        };
        if cell.metrics.is_empty() {
            rows.push(row("", "", cell.requests, None, None));
        } else {
            rows.push(row(
                "completed_requests",
                "requests",
                cell.requests,
                Some(cell.requests as f64),
                None,
            ));
        }
        for metric in &cell.metrics {
            let about = metric.id.describe();
            rows.push(row(
                about.name,
                about.unit,
                metric.n,
                Some(metric.value),
                metric.ci95,
            ));
        }
    }
    let suites = stats::micro::analyse(run);
    rows.extend(suites.iter().flat_map(|suite| micro(run, suite)));
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(&rows)? + "\n"),
        Format::Csv => csv(&rows),
    }
}

/// The rows of a micro suite: its variants stand where targets do.
fn micro<'a>(run: &'a Run, suite: &'a SuiteAnalysis) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for cell in &suite.cells {
        let planned = run.header.plan.micro.suite(&suite.id);
        let Some(variant) = planned.and_then(|planned| planned.variant(&cell.target)) else {
            continue;
        };
        let facts = &run.header.provenance.facts;
        let device = facts.get(match variant.backend.as_str() {
            "cuda" | "vulkan" => "gpu",
            _ => "cpu_model",
        });
        let row = |metric, unit, n, value, ci: Option<(f64, f64)>| Row {
            run: &run.header.id,
            target: &variant.id,
            engine: &variant.engine,
            backend: &variant.backend,
            device: device.cloned().unwrap_or_default(),
            precision: &variant.precision,
            model: &run.header.plan.model,
            scenario: &cell.scenario,
            case: &cell.case,
            metric,
            unit,
            n,
            value,
            ci_low: ci.map(|ci| ci.0),
            ci_high: ci.map(|ci| ci.1),
            status: cell.status.id(),
            reason: &cell.reason,
        };
        if cell.metrics.is_empty() {
            rows.push(row("", "", cell.requests, None, None));
        }
        for metric in &cell.metrics {
            let about = metric.id.describe();
            let value = Some(metric.value);
            rows.push(row(about.name, about.unit, metric.n, value, metric.ci95));
        }
    }
    rows
}

fn csv(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    let columns = [
        "run",
        "target",
        "engine",
        "backend",
        "device",
        "precision",
        "model",
        "scenario",
        "case",
        "metric",
        "unit",
        "n",
        "value",
        "ci_low",
        "ci_high",
        "status",
        "reason",
    ];
    text.push_str(&columns.join(","));
    text.push_str("\r\n");
    for row in rows {
        let object = serde_json::to_value(row)?;
        let fields: Vec<String> = columns
            .iter()
            .map(|column| csv_field(&object[column]))
            .collect();
        text.push_str(&fields.join(","));
        text.push_str("\r\n");
    }
    Ok(text)
}

fn csv_field(value: &serde_json::Value) -> String {
    let text = match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::csv_field;
    use serde_json::json;

    #[test]
    fn csv_fields_are_quoted_where_rfc_4180_says_so() {
        assert_eq!(csv_field(&json!("a, \"b\"")), "\"a, \"\"b\"\"\"");
        assert_eq!(csv_field(&json!("plain")), "plain");
        assert_eq!(csv_field(&json!(null)), "");
        assert_eq!(csv_field(&json!(1.5)), "1.5");
    }
}
