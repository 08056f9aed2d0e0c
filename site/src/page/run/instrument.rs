//! The table of the harness's own error, and the capacities that scaled the open loops.

use crate::fmt::{self, Unit};
use crate::view::instrument::{ns, percent};
use schema::calibration::{Calibration, LatencyError, Level};
use schema::capacity::Capacity;
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;

/// The table of the harness's own error.
#[derive(Serialize)]
pub struct InstrumentError {
    target: String,
    rows: Vec<Vec<String>>,
    lag: String,
}

impl InstrumentError {
    /// Make the table of a calibration.
    pub fn new(calibration: &Calibration) -> Self {
        let lag = &calibration.schedule;
        Self {
            target: calibration.instrument.clone(),
            rows: calibration.levels.iter().flat_map(rows).collect(),
            lag: format!(
                "Open loop at {} requests/s: {} requests were sent late by {} in the median, {} at the 99th percentile and {} at most.",
                fmt::count(lag.rate_per_s as u64),
                fmt::count(lag.requests),
                ns(lag.lag_ns_p50),
                ns(lag.lag_ns_p99),
                ns(lag.lag_ns_max)
            ),
        }
    }
}

fn rows(level: &Level) -> [Vec<String>; 2] {
    let delivery = format!(
        "{}, {}",
        ns(level.delivery_ns_p50),
        ns(level.delivery_ns_p99)
    );
    let row = |what: &str, error: &LatencyError, delivery: String| {
        vec![
            level.concurrency.to_string(),
            what.to_owned(),
            fmt::count(level.requests),
            ns(error.emitted_ns_p50),
            percent(error.p50_error),
            ns(error.emitted_ns_p99),
            ns(error.p99_error_ns),
            ns(error.sample_error_ns_p99),
            delivery,
        ]
    };
    [
        row("Time to first token", &level.ttft, delivery),
        row("Inter-token latency", &level.itl, fmt::NONE.into()),
    ]
}

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
