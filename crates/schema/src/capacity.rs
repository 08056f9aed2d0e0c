//! `results/<run>/capacity.jsonl`: how many requests a second each target served when
//! it was kept busy. It scales the unit-rate arrivals of the run's open loops, so it
//! is decided once, before them, and stands when the run is resumed.

use crate::plan::Case;
use crate::record::Status;
use serde::{Deserialize, Serialize};

/// One line: a target at one shape of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Target id.
    pub target: String,
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Requests in flight, closed loop.
    pub concurrency: u32,
    /// `ok`, or why there is none; then the target's open loops aren't run.
    pub status: Status,
    /// One line, empty where ok.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Timed requests it rests on.
    pub requests: u64,
    /// Length of the steady window (s).
    pub window_s: f64,
    /// Requests a second within it; 0 unless ok.
    pub requests_per_s: f64,
}

impl Capacity {
    /// Whether it is for that target and work.
    pub fn is_of(&self, target: &str, case: &Case) -> bool {
        self.target == target
            && (self.prompt_tokens, self.new_tokens, self.concurrency)
                == (case.prompt_tokens, case.new_tokens, case.concurrency)
    }

    /// What an open loop at `percent` of it offers (requests/s).
    pub fn share(&self, percent: u32) -> f64 {
        f64::from(percent) / 100.0 * self.requests_per_s
    }
}

/// The capacity of a target at a case's work, where the stage has been.
pub fn find<'a>(all: &'a [Capacity], target: &str, case: &Case) -> Option<&'a Capacity> {
    all.iter().find(|capacity| capacity.is_of(target, case))
}
