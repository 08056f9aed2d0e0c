//! What a run plans of the micro suites: resolved, so that `run.json` alone says what
//! was asked and `--resume` needs nothing else.

use super::case_key;
use super::registry::Variant;
use super::suite::{SuiteCase, Work};
use crate::key::CellKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MicroPlan {
    /// The suites.
    pub suites: Vec<PlannedSuite>,
    /// The order of work: blocks of launches, each block in its own random order.
    pub launches: Vec<MicroLaunch>,
}

impl MicroPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.suites.is_empty()
    }

    /// A suite by its id, without `micro/`.
    pub fn suite(&self, id: &str) -> Option<&PlannedSuite> {
        self.suites.iter().find(|suite| suite.id == id)
    }
}

/// A suite with its sizes resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedSuite {
    /// Suite id, without `micro/`.
    pub id: String,
    /// Its version.
    pub version: u32,
    /// What the work of a call counts.
    pub work: Work,
    /// Largest relative error by precision.
    pub limits: BTreeMap<String, f64>,
    /// Id of the variant that ratios are against.
    pub baseline: String,
    /// What outputs are held against.
    pub reference: Variant,
    /// Who runs.
    pub variants: Vec<Variant>,
    /// Its cases.
    pub cases: Vec<SuiteCase>,
    /// Samples per launch and case.
    pub samples: u32,
    /// What a sample should take about (ns).
    pub sample_ns: u64,
    /// Least duration of the untimed calls before (ns).
    pub warmup_ns: u64,
    /// Most time that the samples of a launch and case may take (ns); 0 = any.
    #[serde(default)]
    pub cell_ns: u64,
}

impl PlannedSuite {
    /// The variant of that id, or of the twin of it.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        let id = crate::twin::original(name);
        self.variants.iter().find(|variant| variant.id == id)
    }
}

/// One process: one variant, all cases of its suite, one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MicroLaunch {
    /// Block, from 0.
    pub invocation: u32,
    /// Suite id.
    pub suite: String,
    /// Variant id, or the name of the baseline's twin.
    pub variant: String,
}

impl MicroLaunch {
    /// What its cell of a case is called.
    pub fn cell_key(&self, case: &str) -> CellKey {
        case_key(&self.suite, case).of(&self.variant)
    }
}
