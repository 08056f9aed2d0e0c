//! A table of the methodology page: what the adapters cost their engines.

use crate::words::join;
use schema::adapters::{AdapterCost, AdapterCosts};
use schema::registry::{Engine, Registry};
use serde::Serialize;

/// The table of adapter costs.
#[derive(Serialize)]
pub struct Table<'a> {
    about: String,
    rows: &'a [AdapterCost],
}

/// Make the table of measured costs, which says of which engines in `registry` it has none.
pub fn table<'a>(costs: &'a AdapterCosts, registry: &Registry) -> Table<'a> {
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
        rows: &costs.rows,
    }
}
