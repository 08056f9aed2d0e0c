//! `data/parity.toml`: how far each precision may stray from the reference.

use crate::error::{DataError, read_toml};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The limits of the parity gate, by precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParityLimits {
    /// `f32`, `bf16`, …
    pub precision: BTreeMap<String, Limit>,
}

/// One precision's limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Largest mean KL divergence (nats) over the reference's 32 likeliest ids
    /// and the rest as one bin, per prompt.
    pub kl_nats_max: f64,
    /// Where the reference's best two log-probabilities are closer than this
    /// (nats), either is right.
    pub tie_width_nats: f64,
    /// Where a target's own log-probabilities of two ids are closer than this
    /// (nats), a batch may choose another of them than a single request does.
    pub batch_tie_nats: f64,
    /// From which measurement these come.
    pub reason: String,
}

impl ParityLimits {
    /// Load and validate.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let limits: Self = read_toml(path)?;
        for (precision, limit) in &limits.precision {
            let all = [
                limit.kl_nats_max,
                limit.tie_width_nats,
                limit.batch_tie_nats,
            ];
            if !all.iter().all(|&value| value > 0.0) {
                return Err(DataError::new(
                    path,
                    format!("[precision.{precision}]: limits must be above 0"),
                ));
            }
        }
        Ok(limits)
    }
}
