//! A table of the methodology page: what the adapters cost their engines.

use crate::fmt::{self, Unit};
use crate::words::join;
use schema::adapters::{AdapterCost, AdapterCosts, Work};
use schema::registry::{Engine, Registry};
use serde::Serialize;

/// The table of adapter costs.
#[derive(Serialize)]
pub struct Table {
    about: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    cost: AdapterCost,
    work: String,
    adapter: String,
    direct: String,
    ratio: String,
    interval: String,
}

/// Make the table of measured costs, which says of which engines in `registry` it has none.
pub fn table(costs: &AdapterCosts, registry: &Registry) -> Table {
    let is_timed = |engine: &Engine| costs.rows.iter().any(|row| row.engine == engine.id);
    let others = registry.engines.iter();
    let others = others.filter(|engine| !engine.hidden && !is_timed(engine));
    let others: Vec<String> = others.map(|engine| engine.name.clone()).collect();
    let not_timed = match others.is_empty() {
        true => String::new(),
        false => format!(
            " What the adapters of {} cost was not timed.",
            join(&others)
        ),
    };
    let machine = costs.cpu_model.as_deref().unwrap_or("an unknown processor");
    Table {
        about: format!(
            "The engines below were timed through their adapters and driven directly, by a \
             program that does what an engine’s own benchmark does: pairs of processes on one \
             file, one after the other by turns, on {machine} with {}. A ratio below 1 is what the \
             adapter costs; a cost within the interval is not ruled out.{not_timed} Where a row \
             names a benchmark of the engine itself, the installed program of \
             that name was run in place of ours.",
            costs.model,
        ),
        rows: costs.rows.iter().map(row).collect(),
    }
}

fn row(cost: &AdapterCost) -> Row {
    let rate = |value: f64| fmt::quantity(Unit::TokPerS, value);
    let (ratio, interval) = fmt::ratio(cost.ratio, cost.ci95);
    Row {
        work: match cost.work {
            Work::Prefill => format!("prefill of {} tokens", cost.prompt_tokens),
            Work::Decode => format!(
                "decode of {} tokens after {}",
                cost.new_tokens, cost.prompt_tokens
            ),
        },
        adapter: rate(cost.adapter_tok_per_s),
        direct: rate(cost.direct_tok_per_s),
        ratio,
        interval: interval.unwrap_or_else(|| fmt::NONE.into()),
        cost: cost.clone(),
    }
}
