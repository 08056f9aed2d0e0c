//! What a record says of the audit of a case: sums over the looks at the tokens that an engine has
//! committed.

use crate::lines::is_zero;
use serde::{Deserialize, Serialize};

/// The result of an audit, which looks at the tokens that an engine has committed and compares them
/// with the stamps of a case's timed requests. It has sums, where all else in a record is raw,
/// because there are more looks than samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditResult {
    /// Number of looks, at moments drawn at random (a Poisson process).
    pub looks: u64,
    /// Time during which the audit was looking (ns).
    pub watched_ns: u64,
    /// Largest number of requests that shared a step: as many tokens may be missing at once.
    pub batch: u64,
    /// Whether the engine streams pieces of text, where it isn't known yet how many tokens a piece
    /// has. Then `tokens` counts different stamps, and lateness isn't looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pieces: bool,
    /// Whether commits were overwritten before they were read; then nothing else stands here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// Comparison of first tokens.
    pub first: StampComparison,
    /// Comparison of all other tokens.
    pub later: StampComparison,
    /// Number of commits that aren't of the answer's next token: another id, or another index.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contradicted: u64,
    /// Number of tokens of answers that had never been committed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncommitted: u64,
}

/// A comparison of tokens' stamps with commits, summed over looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampComparison {
    /// Number of stamps.
    pub tokens: u64,
    /// Tokens that were not committed at a look, although by their stamps they should have been.
    pub early: Sum,
    /// Tokens that were committed at a look, although by their stamps they were not yet.
    pub late: Sum,
}

/// A count of tokens per look, summed over looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Number of looks whose count isn't 0.
    pub looks: u64,
    /// The greatest count.
    pub most: u64,
    /// The sum of the counts.
    pub sum: u64,
    /// The sum of the squares of the counts.
    pub squares: u64,
}

impl Sum {
    /// Add the count of another look.
    pub fn add(&mut self, count: u64) {
        self.looks += u64::from(count > 0);
        self.most = self.most.max(count);
        self.sum += count;
        self.squares += count * count;
    }

    /// Add the counts of another launch.
    pub fn join(&mut self, other: Self) {
        self.looks += other.looks;
        self.most = self.most.max(other.most);
        self.sum += other.sum;
        self.squares += other.squares;
    }
}
