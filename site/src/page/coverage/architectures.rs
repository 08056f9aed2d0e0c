//! A table of which targets run which architectures of models, as the registry says of each engine.
//! It gives no verdict: the results of a run stand in the run's own tables.

use crate::words::by_key;
use schema::registry::{ANY_ARCHITECTURE, Registry, Target};
use serde::Serialize;

/// The table of engines × architectures.
#[derive(Serialize)]
pub struct Architectures {
    /// The architectures, by their name in config.json (`model_type`).
    names: Vec<String>,
    rows: Vec<Row>,
}

/// Targets of an engine that run the same architectures.
#[derive(Serialize)]
struct Row {
    engine: String,
    targets: String,
    /// Whether they run the architecture, for each of the names.
    runs: Vec<bool>,
    /// Whether they also run any other architecture.
    any: bool,
}

/// Make the table from the registry that the pages are made with.
pub fn matrix(registry: &Registry) -> Architectures {
    let names = registry.architectures();
    let targets = registry.targets();
    let mut rows = Vec::new();
    for engine in &registry.engines {
        let own: Vec<&Target> = targets
            .iter()
            .filter(|target| target.engine == engine.id && !target.hidden)
            .collect();
        let lists = own
            .iter()
            .map(|target| (registry.architectures_of(target), *target));
        for (_, alike) in by_key(lists) {
            let first = alike[0];
            let ids: Vec<&str> = alike.iter().map(|target| target.id.as_str()).collect();
            rows.push(Row {
                engine: engine.name.clone(),
                targets: match alike.len() == own.len() {
                    true => "all".into(),
                    false => ids.join(", "),
                },
                runs: names
                    .iter()
                    .map(|name| registry.runs(first, name))
                    .collect(),
                any: registry.runs(first, ANY_ARCHITECTURE),
            });
        }
    }
    Architectures {
        names: names.into_iter().map(str::to_owned).collect(),
        rows,
    }
}
