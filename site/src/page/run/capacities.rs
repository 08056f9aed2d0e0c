//! The capacities that scaled the open loops.

use crate::fmt::{self, Unit};
use schema::capacity::Capacity;
use schema::record::Status;
use schema::run::Run;

/// The capacity of each target, or the reason for none, as (target, text).
pub fn capacities(run: &Run) -> Vec<(String, String)> {
    let words = |c: &Capacity| match c.status {
        Status::Ok => format!(
            "{} ({} → {} tokens, {} in flight; {} requests in {:.1} s)",
            fmt::quantity(Unit::RequestsPerS, c.requests_per_s),
            c.prompt_tokens,
            c.new_tokens,
            c.concurrency,
            fmt::count(c.requests),
            c.window_s
        ),
        _ => c.reason.clone(),
    };
    let rows = run.capacities.iter();
    rows.map(|c| (c.target.clone(), words(c))).collect()
}
