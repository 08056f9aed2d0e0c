//! The origin of a run that isn't simply one plan measured whole on one machine: a shard of a plan,
//! a merge of shards, or a reproduction of another run. It stands in `run.json`; its readers decide
//! what follows from it.

use crate::plan::Plan;
use crate::provenance::Provenance;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What a run was made from. An ordinary run has none of these fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The part of the plan that this run measures; absent: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Id of the run whose choice of cells to leave out for lack of time this run took over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_from: Option<String>,
    /// The run that this one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reproduces: Option<Reproduced>,
    /// The runs that this one was merged from, in the order of their shards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The part of the plan that is analysed, where the run was stopped. It is in no file, because
    /// the records show it.
    #[serde(skip)]
    pub stopped: Option<Stopped>,
}

impl Origin {
    /// Whether a block (from 0) is measured by this run.
    pub fn has(&self, block: u32) -> bool {
        self.shard.is_none_or(|shard| shard.has(block))
    }

    /// Whether the run has no special origin.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// A part of a plan: whole blocks, dealt out in turn. The plan and its hash stay those of the whole
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// Number of the shard, from 1.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Number of shards.
    pub fn count(self) -> u32 {
        self.of
    }

    /// Whether a block (from 0) belongs to this shard.
    pub fn has(self, block: u32) -> bool {
        block % self.of == self.index - 1
    }

    /// The blocks of a plan that belong to this shard, ascending.
    pub fn blocks(self, plan: &Plan) -> Vec<u32> {
        (0..plan.invocations).filter(|b| self.has(*b)).collect()
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = text.split_once('/').and_then(|(index, of)| {
            Some(Self {
                index: index.parse().ok()?,
                of: of.parse().ok()?,
            })
        });
        shard
            .filter(|shard| (1..=shard.of).contains(&shard.index))
            .ok_or_else(|| format!("{text:?} is no shard: write i/n with i from 1 to n, as in 1/2"))
    }
}

/// How far a run got before it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Number of blocks that were measured whole, from the first.
    pub whole: u32,
    /// Number of blocks in the plan.
    pub planned: u32,
}

/// The run that a reproduction repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduced {
    /// Id of that run.
    pub id: String,
    /// Hash of that run's plan; this run's plan differs where the command line narrowed it.
    pub plan_sha256: String,
    /// sha256 of that run's run.json.
    pub run_json_sha256: String,
}

/// One of the runs that were merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Id of that run.
    pub id: String,
    /// Time when it began: RFC 3339, UTC.
    pub started: String,
    /// The command that made it.
    pub argv: Vec<String>,
    /// Blocks of the plan that it measured.
    pub blocks: Vec<u32>,
    /// sha256 of its run.json.
    pub run_json_sha256: String,
    /// Provenance of that run: where and with what it ran.
    pub provenance: Provenance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_read_as_it_is_written_and_nothing_else_is() {
        let shard: Shard = "2/3".parse().unwrap();
        assert_eq!(
            (shard, shard.to_string()),
            (Shard { index: 2, of: 3 }, "2/3".into())
        );
        for wrong in ["0/2", "3/2", "1/0", "1", "a/b", "1/2/3", "-1/2", ""] {
            let error = wrong.parse::<Shard>().unwrap_err();
            assert!(error.contains("as in 1/2"), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_block_is_in_one_shard() {
        for of in 1..6 {
            for block in 0..12 {
                let owners = (1..=of).filter(|&index| Shard { index, of }.has(block));
                assert_eq!(owners.count(), 1, "block {block} of {of}");
            }
        }
    }

    #[test]
    fn an_ordinary_run_says_nothing_of_its_origin() {
        let origin: Origin = serde_json::from_str("{}").unwrap();
        assert!(origin.is_plain());
        assert_eq!(serde_json::to_string(&origin).unwrap(), "{}");
    }
}
