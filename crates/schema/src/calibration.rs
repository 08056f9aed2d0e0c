//! `results/<run>/calibration.json`: the harness's own error, measured with an engine that records
//! what it emitted and when.

use serde::{Deserialize, Serialize};

/// The measurement error of the harness in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Target id of the engine of known timing.
    pub instrument: String,
    /// Errors of the reported latencies, by number of requests in flight.
    pub levels: Vec<Level>,
    /// Delay with which an open loop's requests were sent.
    pub schedule: ScheduleLag,
    /// One line for each limit that was exceeded; empty = calibrated.
    #[serde(default)]
    pub failures: Vec<String>,
}

/// A closed loop at one number of requests in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Requests in flight.
    pub concurrency: u32,
    /// Number of requests compared.
    pub requests: u64,
    /// Error of the time to first token.
    pub ttft: LatencyError,
    /// Error of the inter-token latency.
    pub itl: LatencyError,
    /// Median of the time from when a request was due until the engine had read it (ns). It is part
    /// of every time to first token.
    pub delivery_ns_p50: f64,
    /// 99th percentile of that time (ns).
    pub delivery_ns_p99: f64,
}

/// Reported latencies compared with emitted ones, sample by sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyError {
    /// Median of the emitted latencies (ns).
    pub emitted_ns_p50: f64,
    /// |median reported − median emitted| over the median emitted, as a fraction.
    pub p50_error: f64,
    /// 99th percentile of the emitted latencies (ns).
    pub emitted_ns_p99: f64,
    /// |p99 reported − p99 emitted| (ns).
    pub p99_error_ns: f64,
    /// 99th percentile of the single samples' |reported − emitted| (ns).
    pub sample_error_ns_p99: f64,
}

/// Delay between when requests of an open loop were due and when they were sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScheduleLag {
    /// Rate of the open loop (requests per second).
    pub rate_per_s: f64,
    /// Number of requests sent.
    pub requests: u64,
    /// Median of the delay (ns).
    pub lag_ns_p50: f64,
    /// 99th percentile of the delay (ns).
    pub lag_ns_p99: f64,
    /// Greatest delay (ns).
    pub lag_ns_max: f64,
}
