//! `cargo xtask export`: prints a run on stdout for other programs. The rows come from the `site`
//! crate, whose data page offers the same; a cell without numbers is one row with its status and
//! reason. Two formats are not tidy rows: a Markdown table for reading, and the Bencher Metric
//! Format for services that watch benchmarks.

use anyhow::{Result, ensure};
use base::say;
use base::text::{markdown_code, without_escapes};
use schema::registry::Registry;
use schema::run::Run;
use schema::scenario::Scenario;
use serde_json::{Map, Value, json};
use site::export::{csv, rows, suite_rows};
use site::fmt::{self, Unit};
use stats::analysis::MetricId;
use std::io::IsTerminal;

#[cfg(feature = "parquet")]
mod columnar;
#[cfg(feature = "parquet")]
use columnar::parquet;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A JSON array of objects.
    Json,
    /// RFC 4180. Text that a spreadsheet would run as a formula has a single quote before it.
    Csv,
    /// JSON Lines: an object a row.
    Jsonl,
    /// A table in Markdown.
    Md,
    /// Parquet, for a file; of a harness that was built with the feature `parquet`.
    Parquet,
    /// Bencher Metric Format: a benchmark per cell, a measure per metric in the unit that its
    /// name ends in, with its 95 % interval.
    Bencher,
}

/// Print the export on stdout: to a terminal without the escapes that a record's words may hold.
pub fn command(
    run: &Run,
    scenarios: &[Scenario],
    registry: &Registry,
    format: Format,
) -> Result<()> {
    ensure!(
        format != Format::Parquet || !std::io::stdout().is_terminal(),
        "Parquet is no text: send it to a file with `> run.parquet`"
    );
    let bytes = export(run, scenarios, registry, format)?;
    match std::io::stdout().is_terminal() {
        true => print!("{}", without_escapes(&String::from_utf8_lossy(&bytes))),
        false => say::bytes(&bytes),
    }
    Ok(())
}

/// Return the whole export in one of the formats.
pub fn export(
    run: &Run,
    scenarios: &[Scenario],
    registry: &Registry,
    format: Format,
) -> Result<Vec<u8>> {
    let baseline = registry.baseline_of(&run.header.plan.targets);
    let analysis = stats::analyse::analyse(run, scenarios, baseline);
    let mut rows = rows(run, &analysis);
    let suites = stats::micro::analyse(run);
    rows.extend(suites.iter().flat_map(|suite| suite_rows(run, suite)));
    let values =
        || -> serde_json::Result<Vec<Value>> { rows.iter().map(serde_json::to_value).collect() };
    let text = match format {
        Format::Json => serde_json::to_string_pretty(&rows)? + "\n",
        Format::Csv => csv(&rows)?,
        Format::Jsonl => {
            let lines = rows.iter().map(serde_json::to_string);
            let lines: serde_json::Result<Vec<String>> = lines.collect();
            lines?.join("\n") + "\n"
        }
        Format::Md => markdown(&values()?),
        Format::Parquet => return parquet(&values()?),
        Format::Bencher => serde_json::to_string_pretty(&bencher(&values()?))? + "\n",
    };
    Ok(text.into_bytes())
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &[Value]) -> Result<Vec<u8>> {
    anyhow::bail!(
        "this harness was built without Parquet, which takes long to compile: `cargo run --package xtask --features parquet -- export RUN --format parquet > run.parquet`"
    )
}

fn word<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

/// Make a Markdown table. Text from the records is quoted as code, so that nothing in it is taken
/// for markup.
fn markdown(rows: &[Value]) -> String {
    const CHARS_MAX: usize = 200;
    let mut text = String::from(
        "| target | cell | metric | value | 95 % interval | n | status |\n|---|---|---|--:|---|--:|---|\n",
    );
    for row in rows {
        let metric = MetricId::from_id(word(row, "metric"));
        let unit = metric.map_or(Unit::Plain, Unit::from_metric);
        let ci = row["ci_low"].as_f64().zip(row["ci_high"].as_f64());
        let value = row["value"].as_f64();
        let (value, interval) = value.map_or((fmt::NONE.into(), None), |v| {
            fmt::with_interval(unit, v, ci)
        });
        let cell = format!("{}/{}", word(row, "scenario"), word(row, "case"));
        let status = match word(row, "reason") {
            "" => word(row, "status").to_owned(),
            reason => format!("{}: {reason}", word(row, "status")),
        };
        let columns = [
            markdown_code(word(row, "target"), CHARS_MAX),
            markdown_code(&cell, CHARS_MAX),
            markdown_code(word(row, "metric"), CHARS_MAX),
            value,
            interval.unwrap_or_default(),
            row["n"].to_string(),
            markdown_code(&status, CHARS_MAX),
        ];
        text += &format!("| {} |\n", columns.join(" | "));
    }
    text
}

/// Make Bencher's JSON. The model is part of a benchmark's name, because a history must not mix
/// models.
fn bencher(rows: &[Value]) -> Map<String, Value> {
    let mut benchmarks = Map::new();
    for row in rows.iter().filter(|row| row["value"].is_number()) {
        let words = ["model", "target", "scenario", "case"].map(|column| word(row, column));
        let [model, target, scenario, case] = words;
        let name = format!("{model} {target} {scenario}/{case}");
        let mut measure = json!({ "value": row["value"] });
        for (column, end) in [("ci_low", "lower_value"), ("ci_high", "upper_value")] {
            if row[column].is_number() {
                measure[end] = row[column].clone();
            }
        }
        let of_cell = benchmarks.entry(name).or_insert_with(|| json!({}));
        of_cell[word(row, "metric")] = measure;
    }
    benchmarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(metric: &str, value: Value, reason: &str) -> Value {
        json!({
            "model": "m", "target": "x.cpu.f32", "scenario": "single_request", "case": "p10",
            "metric": metric, "n": 20, "value": value, "ci_low": 1e6, "ci_high": 3e6,
            "status": "ok", "reason": reason,
        })
    }

    #[test]
    fn a_benchmark_is_a_cell_with_its_measures() {
        let mut no_interval = row("itl_ns", json!(5.0), "");
        no_interval["ci_low"] = Value::Null;
        no_interval["ci_high"] = Value::Null;
        let rows = [
            row("ttft_ns", json!(2e6), ""),
            no_interval,
            row("", Value::Null, "crashed"),
        ];
        assert_eq!(
            Value::Object(bencher(&rows)),
            json!({ "m x.cpu.f32 single_request/p10": {
                "ttft_ns": { "value": 2e6, "lower_value": 1e6, "upper_value": 3e6 },
                "itl_ns": { "value": 5.0 },
            }})
        );
    }

    #[test]
    fn a_table_is_read_in_units_and_has_no_markup_of_a_records() {
        let rows = [
            row("ttft_ns", json!(2e6), ""),
            row("", Value::Null, "died | <b>`\nof @it"),
        ];
        let text = markdown(&rows);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| `x.cpu.f32` | `single_request/p10` | `ttft_ns` | 2.00 ms | [1.00, 3.00] | 20 | `ok` |",
                "| `x.cpu.f32` | `single_request/p10` |  | — |  | 20 | `ok: died ¦ <b>' of @it` |",
            ]
        );
    }
}
