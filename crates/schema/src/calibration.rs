//! `results/<run>/calibration.json`: the harness's own error, measured against an
//! engine that notes what it really emitted and when.

use serde::{Deserialize, Serialize};

/// The instrument error of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Target id of the engine of known timing.
    pub instrument: String,
    /// Latencies as reported against those emitted, by requests in flight.
    pub levels: Vec<Level>,
    /// How late an open loop's requests were sent.
    pub schedule: ScheduleLag,
    /// One line for each limit that was not kept; empty = calibrated.
    #[serde(default)]
    pub failures: Vec<String>,
}

/// A closed loop at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Requests in flight.
    pub concurrency: u32,
    /// Requests compared.
    pub requests: u64,
    /// Time to first token.
    pub ttft: LatencyError,
    /// Inter-token latency.
    pub itl: LatencyError,
    /// From when a request was due until the engine had read it, median (ns): part of
    /// every time to first token.
    pub delivery_ns_p50: f64,
    /// Its 99th percentile (ns).
    pub delivery_ns_p99: f64,
}

/// Reported against emitted, sample by sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyError {
    /// Median of what was emitted (ns).
    pub emitted_ns_p50: f64,
    /// |median reported − median emitted| over the median emitted, as a fraction.
    pub p50_error: f64,
    /// 99th percentile of what was emitted (ns).
    pub emitted_ns_p99: f64,
    /// |p99 reported − p99 emitted| (ns).
    pub p99_error_ns: f64,
    /// 99th percentile of the single samples' |reported − emitted| (ns).
    pub sample_error_ns_p99: f64,
}

/// Sent − scheduled in an open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleLag {
    /// Requests a second.
    pub rate_per_s: f64,
    /// Requests sent.
    pub requests: u64,
    /// Median (ns).
    pub lag_ns_p50: f64,
    /// 99th percentile (ns).
    pub lag_ns_p99: f64,
    /// Greatest (ns).
    pub lag_ns_max: f64,
}
