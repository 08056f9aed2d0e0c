//! The harness's own error, as a sentence beside results.

use crate::fmt::{self, Unit};
use crate::words::plural;
use schema::calibration::LatencyError;
use schema::run::Run;
use stats::percentile::{percentile_of_sorted, printable};

/// Say whether the harness kept its limits in a run, or that this was not measured. The engine of
/// the calibration leaves the CPUs to the harness, so the run's own schedule lag is added.
pub fn sentence(run: &Run) -> String {
    let Some(calibration) = &run.calibration else {
        return "Instrument error: not measured in this run.".into();
    };
    let errors = || calibration.levels.iter().flat_map(|l| [&l.ttft, &l.itl]);
    let largest = |of: fn(&LatencyError) -> f64| errors().map(of).fold(0.0, f64::max);
    let sizes = format!(
        "in calibration medians are off by at most {}, 99th percentiles by {}, and requests of an open loop were sent {} late at the 99th percentile",
        fmt::small_percent(largest(|e| e.p50_error)),
        ns(largest(|e| e.p99_error_ns)),
        ns(calibration.schedule.lag_ns_p99)
    );
    let failures = match calibration.failures.as_slice() {
        [] => String::new(),
        failures => format!(
            " The harness did not keep its own limits: {}.",
            failures.join("; ")
        ),
    };
    format!("Instrument error: {sizes}.{}{failures}", own_lag(run))
}

/// Say how late the timed requests of a run's own open loops were sent; empty where it has none.
/// All are taken together, because those of one target are too few for a 99th percentile.
fn own_lag(run: &Run) -> String {
    let is_open = |id: &str| {
        let mut planned = run.header.plan.scenarios.iter();
        planned.any(|scenario| scenario.id == id && scenario.load.is_open())
    };
    let logs = run.launches.iter();
    let mut lags_ns: Vec<f64> = logs
        .filter(|log| is_open(&log.launch.scenario))
        .flat_map(|log| &log.requests)
        .filter(|request| !request.warmup)
        .map(|request| request.sent_ns.saturating_sub(request.scheduled_ns) as f64)
        .collect();
    lags_ns.sort_by(f64::total_cmp);
    let n = lags_ns.len() as u64;
    let Some(&most) = lags_ns.last() else {
        return String::new();
    };
    let tail = [99, 95, 90].into_iter().find(|&p| printable(p, n));
    let tail = tail.and_then(|p| Some((p, percentile_of_sorted(&lags_ns, f64::from(p))?)));
    let tail = tail.map_or(String::new(), |(p, lag)| {
        format!(" by {} at the {p}th percentile and", ns(lag))
    });
    format!(
        " Beside real engines, which share the CPUs with the sender, this run’s {} of open loops were sent late{tail} by {} at most; each target’s schedule lag stands on the open loop’s page.",
        plural(n, "request", "requests"),
        ns(most)
    )
}

fn ns(value: f64) -> String {
    fmt::quantity(Unit::Ns, value)
}
