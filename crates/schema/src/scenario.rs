//! `data/scenarios/*.toml`: what is asked of an engine, and why. The profile has the sizes; a
//! scenario only says along which axis they vary and how load is applied.

use crate::error::{DataError, fits, is_stem, read_checked};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Id of the scenario, equal to the file's stem; stands in file names and URLs.
    pub id: String,
    /// Version, raised whenever the work changes, so that old and new results are never compared.
    pub version: u32,
    /// Title for headings.
    pub title: String,
    /// Question that its page answers.
    pub question: String,
    /// Shape of the load: how requests are issued.
    pub load: LoadShape,
    /// Source of its prompts.
    #[serde(default)]
    pub prompts: PromptSource,
    /// Axis along which its cases vary.
    pub axis: Axis,
    /// Ids of the metrics it reports, the leading one first.
    pub reports: Vec<String>,
    /// What the numbers mean and don't mean; Markdown, printed on the page.
    pub analysis: String,
}

/// The source of a scenario's prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSource {
    /// Prompts are cut from a seeded text, all of a case equally long.
    #[default]
    Generated,
    /// Prompts are those of the user's file, each as long as it is. Such a scenario is in a plan
    /// only where there is a file.
    Own,
}

impl PromptSource {
    /// Whether the prompts are cut from a seeded text.
    pub fn is_generated(&self) -> bool {
        *self == Self::Generated
    }
}

/// The shape of a load: how requests are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadShape {
    /// One request after the other.
    #[default]
    Serial,
    /// A fixed number of requests in flight: each answer is followed by the next request.
    ClosedLoop,
    /// A whole batch at once; the next batch follows when all are answered.
    Batch,
    /// An open loop: requests are sent when they are due, whether or not earlier ones are answered,
    /// with exponential gaps.
    Poisson,
    /// An open loop with equal gaps.
    ConstantRate,
}

impl LoadShape {
    /// Whether requests are sent at a rate of their own, which a capacity stage sets.
    pub fn is_open(self) -> bool {
        matches!(self, LoadShape::Poisson | LoadShape::ConstantRate)
    }
}

/// The axis along which the cases of a scenario vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Prompt length in tokens; case `p50`.
    #[default]
    PromptTokens,
    /// Requests in flight; case `c8`.
    InFlight,
    /// Users, each with one request at a time; case `u8`.
    Users,
    /// Rows of a batch; case `b4`.
    Batch,
    /// Offered load in percent of the measured capacity; case `r90`.
    LoadPercent,
    /// Share of the prompt, from its beginning, that all prompts have in common, in percent; case
    /// `s90`. Engines are asked to keep what they computed of it.
    SharedPercent,
}

impl Axis {
    /// The letter that case ids begin with.
    pub fn letter(self) -> char {
        match self {
            Axis::PromptTokens => 'p',
            Axis::InFlight => 'c',
            Axis::Users => 'u',
            Axis::Batch => 'b',
            Axis::LoadPercent => 'r',
            Axis::SharedPercent => 's',
        }
    }

    /// The label of the axis, with its unit.
    pub fn label(self) -> &'static str {
        match self {
            Axis::PromptTokens => "prompt length (tokens)",
            Axis::InFlight => "requests in flight",
            Axis::Users => "concurrent users",
            Axis::Batch => "batch size (requests)",
            Axis::LoadPercent => "offered load (% of measured capacity)",
            Axis::SharedPercent => "shared beginning of the prompt (%)",
        }
    }
}

impl Scenario {
    /// Load and validate one file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_checked(path, |scenario: &Self| {
            fits("scenario", &scenario.id)?;
            is_stem(path, &scenario.id)?;
            scenario.check()
        })
    }

    /// Check that its load, its axis and its prompts go together.
    fn check(&self) -> Result<(), String> {
        let is_closed = self.load == LoadShape::ClosedLoop && self.axis == Axis::Users;
        let wrong = if self.load.is_open() != (self.axis == Axis::LoadPercent) {
            "an open loop (load = \"poisson\" or \"constant_rate\") has axis = \"load_percent\", and nothing else has"
        } else if self.prompts == PromptSource::Own && !is_closed {
            "prompts = \"own\" needs load = \"closed_loop\" and axis = \"users\": such prompts have lengths of their own"
        } else if self.axis == Axis::SharedPercent && self.load != LoadShape::Serial {
            "axis = \"shared_percent\" needs load = \"serial\": with several requests in flight it isn't known whose beginning was kept"
        } else if self.reports.is_empty() {
            "reports is empty: name at least one metric"
        } else {
            return Ok(());
        };
        Err(wrong.into())
    }

    /// Load all scenarios of a directory, sorted by id.
    pub fn load_all(dir: &Path) -> Result<Vec<Self>, DataError> {
        let mut all = toml_files(dir)?
            .iter()
            .map(|p| Self::load(p))
            .collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }
}

/// The `*.toml` files of a directory, sorted.
pub fn toml_files(dir: &Path) -> Result<Vec<std::path::PathBuf>, DataError> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| DataError::new(dir, format!("can't be listed: {error}")))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    files.sort();
    Ok(files)
}
