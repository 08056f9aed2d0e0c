//! `cargo xtask export`: a run as tidy rows on stdout. The rows are the `site`
//! crate's, which offers the same on its data page.

use anyhow::Result;
use schema::registry::Registry;
use schema::run::Run;
use schema::scenario::Scenario;
use site::export::{csv, rows, suite_rows};

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
    let mut rows = rows(run, &analysis);
    let suites = stats::micro::analyse(run);
    rows.extend(suites.iter().flat_map(|suite| suite_rows(run, suite)));
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(&rows)? + "\n"),
        Format::Csv => csv(&rows),
    }
}
