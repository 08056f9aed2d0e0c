//! A run that tests the benchmark itself: known targets in one scenario, with one request at a
//! time.

use crate::job::{self, Opened, Planned};
use anyhow::Result;
use base::repo::Repo;
use proofs::calibrate::Options;
use runs::results::Results;
use schema::registry::Registry;
use std::path::PathBuf;

/// The scenario that trials measure.
pub(crate) const SCENARIO: &str = "single_request";
/// Default number of blocks where the profile is publishable and has fewer. On the machine of the
/// published CPU runs, 15 blocks found a difference of 10 % in every case and metric, and one of
/// 5 % in most.
const BLOCKS: u32 = 15;
/// Maximum number of blocks with `--until`.
const BLOCKS_MAX: u32 = 100;

/// The options of a trial, and the directory of its records.
pub(crate) struct Trial {
    options: job::Options,
    records: PathBuf,
}

impl Trial {
    /// Prepare a trial of `targets`.
    pub(crate) fn new(repo: &Repo, asked: &Options, targets: &[&String]) -> Result<Self> {
        let profile = repo.profile(&asked.profile)?;
        let usual = profile.publishable.then(|| profile.invocations.max(BLOCKS));
        let options = job::Options {
            profile: Some(asked.profile.clone()),
            engines: targets.iter().copied().cloned().collect(),
            scenarios: vec![SCENARIO.to_owned()],
            invocations: asked.invocations.or(usual),
            until: asked.until,
            at_most: BLOCKS_MAX,
            ..job::Options::default()
        };
        // A trial must not be taken for a result, so it is kept apart from the runs.
        let records = repo.build_dir.join("calibrate");
        Ok(Self { options, records })
    }

    /// Plan the trial.
    pub(crate) fn planned(&self, repo: &Repo, registry: &Registry) -> Result<Planned> {
        job::planned(repo, registry, &Results::at(&self.records), &self.options)
    }

    /// Begin the trial's run, without measuring anything yet.
    pub(crate) fn create(
        &self,
        repo: &Repo,
        registry: &Registry,
        planned: Planned,
    ) -> Result<Opened> {
        job::create(repo, registry, &self.records, &self.options, planned)
    }
}
