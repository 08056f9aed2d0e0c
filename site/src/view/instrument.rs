//! The harness's own error, and what scaled the open loops: in a table for a run's page,
//! in a sentence beside results.

use crate::fmt::{self, Unit};
use schema::calibration::{Calibration, LatencyError, Level};
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;

/// The table of a run's page.
#[derive(Serialize)]
pub struct InstrumentError {
    target: String,
    rows: Vec<Vec<String>>,
    lag: String,
}

impl InstrumentError {
    /// Of a calibration.
    pub fn of(calibration: &Calibration) -> Self {
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

/// Whether the harness kept its limits in a run, in a sentence; never silent.
pub fn sentence(run: &Run) -> String {
    let Some(calibration) = &run.calibration else {
        return "Instrument error: not measured in this run.".into();
    };
    let errors = || calibration.levels.iter().flat_map(|l| [&l.ttft, &l.itl]);
    let largest = |of: fn(&LatencyError) -> f64| errors().map(of).fold(0.0, f64::max);
    let sizes = format!(
        "medians are off by at most {}, 99th percentiles by {}; requests of an open loop are sent {} late at the 99th percentile",
        percent(largest(|e| e.p50_error)),
        ns(largest(|e| e.p99_error_ns)),
        ns(calibration.schedule.lag_ns_p99)
    );
    match calibration.failures.as_slice() {
        [] => format!("Instrument error: {sizes}."),
        failures => format!(
            "Instrument error: {sizes}. The harness did not keep its own limits: {}.",
            failures.join("; ")
        ),
    }
}

/// What the capacity stage found.
pub fn capacities(run: &Run) -> Vec<(String, String)> {
    let words = |c: &schema::capacity::Capacity| match c.status {
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

fn ns(value: f64) -> String {
    fmt::quantity(Unit::Ns, value)
}

fn percent(fraction: f64) -> String {
    format!("{:.3} %", 100.0 * fraction)
}
