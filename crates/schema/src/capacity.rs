//! `results/<run>/capacity.jsonl`: how many requests a second each target served when it was kept
//! busy. It scales the unit-rate arrivals of the run's open loops, so it is measured once, before
//! them, and stays the same when the run is resumed.

use crate::plan::Case;
use crate::record::Status;
use serde::{Deserialize, Serialize};

/// The capacity of a target at one shape of work; one line of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Target id.
    pub target: String,
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Number of requests in flight in the closed loop.
    pub concurrency: u32,
    /// `ok`, or why no capacity was measured; then the target's open loops aren't run.
    pub status: Status,
    /// Reason in one line; empty where `status` is `ok`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of timed requests that it rests on.
    pub requests: u64,
    /// Length of the steady window (s).
    pub window_s: f64,
    /// Requests a second within it; 0 unless ok.
    pub requests_per_s: f64,
}

impl Capacity {
    /// Rate that an open loop at `percent` of the capacity offers (requests/s).
    pub fn share(&self, percent: u32) -> f64 {
        f64::from(percent) / 100.0 * self.requests_per_s
    }
}

/// Find the capacity of a target at a case's work; `None` where it wasn't measured.
pub fn find<'a>(all: &'a [Capacity], target: &str, case: &Case) -> Option<&'a Capacity> {
    let work = (case.prompt_tokens, case.new_tokens, case.concurrency);
    let does = |c: &Capacity| (c.prompt_tokens, c.new_tokens, c.concurrency) == work;
    all.iter().find(|c| c.target == target && does(c))
}
