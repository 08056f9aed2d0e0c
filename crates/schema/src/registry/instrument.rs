//! The targets that try the harness itself: one of known timing, and one that is slower than
//! another by a known share. What is made of them is the harness's business.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A target of known timing that notes what it really emitted and when. It is loaded with
/// the weights `none`: it runs no model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Target id.
    pub target: String,
    /// The variable that names the file it appends its batches to: a JSON object a line,
    /// with `prompt_ids` of each row and `token_ns` of each step.
    pub truth: String,
    /// Variables that set its timing.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its variants whose stamps are not what is committed: the audit of stamps is tried on them.
    #[serde(default)]
    pub forgers: Vec<String>,
}

/// A target that takes longer than another by a known share, and computes the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handicap {
    /// Target id of the slower one.
    pub target: String,
    /// Target id of the one that it is slower than.
    pub of: String,
    /// How much longer a pass takes: percent of the pass.
    pub percent: u32,
}
