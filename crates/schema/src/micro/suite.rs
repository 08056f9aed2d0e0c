//! `data/scenarios/micro/*.toml`: what a suite asks, its cases, and how far an output
//! may lie from the reference's. Who answers stands in `engines/micro.toml`.

use crate::error::{DataError, check_id, read_toml};
use crate::scenario::toml_files;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Equal to the file's stem; `micro/<id>` is the scenario.
    pub id: String,
    /// Raised whenever the work changes, so that old and new never compare.
    pub version: u32,
    /// For headings.
    pub title: String,
    /// The question its page answers.
    pub question: String,
    /// What the numbers mean and don't mean; Markdown, printed on the page.
    pub analysis: String,
    /// What the work of a call counts.
    pub work: Work,
    /// By precision: the largest error of any value, relative to the largest magnitude
    /// of the reference's output. 0 = equal.
    pub limits: BTreeMap<String, f64>,
    /// Its cases.
    #[serde(rename = "case")]
    pub cases: Vec<SuiteCase>,
}

/// What the work of a call counts, and so what a rate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Bytes of text: MB/s.
    Bytes,
    /// Floating-point operations: GFLOP/s.
    Flop,
    /// Tokens: tok/s.
    Tokens,
}

/// One size of a suite's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteCase {
    /// In file names and URLs.
    pub id: String,
    /// In words.
    pub label: String,
    /// What the programs are told.
    pub params: BTreeMap<String, u64>,
}

impl Suite {
    /// Load and validate one file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let suite: Self = read_toml(path)?;
        check_id(path, "suite", &suite.id)?;
        let fail = |message: String| Err(DataError::new(path, message));
        if path.file_stem().and_then(|s| s.to_str()) != Some(&suite.id) {
            return fail(format!("id {:?} must equal the file's name", suite.id));
        }
        let mut ids = BTreeSet::new();
        for case in &suite.cases {
            check_id(path, "case", &case.id)?;
            if !ids.insert(&case.id) {
                return fail(format!("case {:?} stands twice", case.id));
            }
        }
        if suite.cases.is_empty() {
            return fail("no [[case]]: there is nothing to measure".into());
        }
        if let Some((precision, limit)) = suite
            .limits
            .iter()
            .find(|(_, limit)| !(limit.is_finite() && **limit >= 0.0))
        {
            return fail(format!("[limits] {precision}: {limit} is no limit"));
        }
        Ok(suite)
    }

    /// Load a whole directory, sorted by id; none where it isn't there.
    pub fn load_all(dir: &Path) -> Result<Vec<Self>, DataError> {
        if !dir.is_dir() {
            return Ok(Vec::new());
        }
        let files = toml_files(dir)?;
        let mut all = files
            .iter()
            .map(|path| Self::load(path))
            .collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }
}
