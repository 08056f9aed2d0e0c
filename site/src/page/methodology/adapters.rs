//! A table of the methodology page: what the adapters cost their engines.

use crate::fmt::{self, Unit};
use schema::adapters::{AdapterCost, AdapterCosts, Work};
use serde::Serialize;

/// The table of adapter costs.
#[derive(Serialize)]
pub struct Table {
    about: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    engine: String,
    measured: String,
    target: String,
    work: String,
    adapter: String,
    direct: String,
    tool: Option<String>,
    /// Number of pairs of processes.
    pairs: u32,
    ratio: String,
    interval: String,
    other_tokens: String,
}

/// Make the table of measured costs.
pub fn table(costs: &AdapterCosts) -> Table {
    let machine = costs.cpu_model.as_deref().unwrap_or("an unknown processor");
    Table {
        about: format!(
            "Each engine was timed through its adapter and driven directly, by a program that \
             does what the engine’s own benchmark does: pairs of processes on one file, one \
             after the other by turns, on {machine} with {}. A ratio below 1 is what the adapter \
             costs. Where a row names a benchmark of the engine itself, the installed program of \
             that name was run in place of ours.",
            costs.model,
        ),
        rows: costs.rows.iter().map(row).collect(),
    }
}

fn row(row: &AdapterCost) -> Row {
    let rate = |value: f64| fmt::quantity(Unit::TokPerS, value);
    let (ratio, interval) = fmt::ratio(row.ratio, row.ci95);
    Row {
        engine: format!("{} {}", row.engine, row.version),
        target: row.target.clone(),
        measured: row.measured.clone(),
        work: match row.work {
            Work::Prefill => format!("prefill of {} tokens", row.prompt_tokens),
            Work::Decode => format!(
                "decode of {} tokens after {}",
                row.new_tokens, row.prompt_tokens
            ),
        },
        adapter: rate(row.adapter_tok_per_s),
        direct: rate(row.direct_tok_per_s),
        tool: row.tool.clone(),
        pairs: row.pairs,
        ratio,
        interval: interval.unwrap_or_else(|| fmt::NONE.into()),
        other_tokens: row.other_tokens.clone(),
    }
}
