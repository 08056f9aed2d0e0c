//! A calibration in words: a table for the terminal, a line for a run.

use schema::calibration::{Calibration, LatencyError};

/// The table that `calibrate` prints.
pub fn table(calibration: &Calibration) -> String {
    let mut text = format!(
        "Instrument error against {}\n\n{:>9} {:>8}  {:4} {:>12} {:>10} {:>12} {:>10} {:>12} {:>20}\n",
        calibration.instrument,
        "in flight",
        "requests",
        "",
        "emitted p50",
        "error",
        "emitted p99",
        "error",
        "samples p99",
        "delivery p50, p99"
    );
    for level in &calibration.levels {
        for (what, error) in [("TTFT", &level.ttft), ("ITL", &level.itl)] {
            let delivery = match what {
                "TTFT" => format!(
                    "{}, {}",
                    us(level.delivery_ns_p50),
                    us(level.delivery_ns_p99)
                ),
                _ => String::new(),
            };
            text.push_str(&format!(
                "{:>9} {:>8}  {what:4} {} {delivery:>20}\n",
                level.concurrency,
                level.requests,
                errors(error)
            ));
        }
    }
    let lag = &calibration.schedule;
    text.push_str(&format!(
        "\nSchedule lag at {:.0} requests/s, {} requests: p50 {}, p99 {}, max {}\n",
        lag.rate_per_s,
        lag.requests,
        us(lag.lag_ns_p50),
        us(lag.lag_ns_p99),
        us(lag.lag_ns_max)
    ));
    match calibration.failures.as_slice() {
        [] => text.push_str("All limits are kept.\n"),
        failures => {
            for failure in failures {
                text.push_str(&format!("FAILED: {failure}\n"));
            }
        }
    }
    text
}

/// What a run says of it.
pub fn line(calibration: &Calibration) -> String {
    let lag = us(calibration.schedule.lag_ns_p99);
    match calibration.failures.as_slice() {
        [] => format!("Calibrated: the harness keeps its limits; schedule lag p99 {lag}"),
        failures => format!(
            "Calibrated: the harness does NOT keep its limits: {}",
            failures.join("; ")
        ),
    }
}

fn errors(error: &LatencyError) -> String {
    format!(
        "{:>12} {:>10} {:>12} {:>10} {:>12}",
        us(error.emitted_ns_p50),
        format!("{:.3} %", 100.0 * error.p50_error),
        us(error.emitted_ns_p99),
        us(error.p99_error_ns),
        us(error.sample_error_ns_p99)
    )
}

fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::calibration::{Level, ScheduleLag};

    #[test]
    fn a_broken_limit_is_in_the_table_and_in_the_line() {
        let error = || LatencyError {
            emitted_ns_p50: 2e6,
            p50_error: 0.0012,
            emitted_ns_p99: 3e6,
            p99_error_ns: 1500.0,
            sample_error_ns_p99: 2500.0,
        };
        let mut calibration = Calibration {
            instrument: "known.cpu.f32".into(),
            levels: vec![Level {
                concurrency: 10,
                requests: 1000,
                ttft: error(),
                itl: error(),
                delivery_ns_p50: 40e3,
                delivery_ns_p99: 90e3,
            }],
            schedule: ScheduleLag {
                rate_per_s: 1000.0,
                requests: 1000,
                lag_ns_p50: 9e3,
                lag_ns_p99: 2e6,
                lag_ns_max: 3e6,
            },
            failures: vec![],
        };
        assert!(table(&calibration).contains("All limits are kept"));
        assert!(table(&calibration).contains("0.120 %"));
        calibration.failures = vec!["the schedule lag".into()];
        assert!(table(&calibration).contains("FAILED: the schedule lag"));
        assert!(line(&calibration).contains("NOT keep its limits: the schedule lag"));
    }
}
