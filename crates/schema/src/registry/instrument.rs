//! Targets for testing the harness itself: one of known timing, and those that are slower than
//! another by a known share. The harness decides how they are used.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A target of known timing that records what it emitted and when. It is loaded with the weights
/// `none`, because it runs no model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Target id.
    pub target: String,
    /// Environment variable for the file that it appends its batches to: a JSON object a line, with
    /// `prompt_ids` of each row and `token_ns` of each step.
    pub truth: String,
    /// Environment variables that set its timing.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Ids of its variants whose stamps differ from what they commit; the audit of stamps is tried
    /// on them.
    #[serde(default)]
    pub forgers: Vec<String>,
}

/// A target that takes longer than another by a known share, and computes the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handicap {
    /// Id of the slower target.
    pub target: String,
    /// Id of the target that it is slower than.
    pub of: String,
    /// Additional time of a pass, in percent of the pass.
    pub percent: u32,
}
