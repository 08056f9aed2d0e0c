//! A run that tries the instrument itself: of known targets, in one scenario, with requests one
//! after the other.

use crate::job::{self, Opened, Planned};
use anyhow::Result;
use base::repo::Repo;
use harness::plan::Choice;
use proofs::calibrate::Options;
use runs::results::Results;
use schema::plan::Until;
use schema::registry::Registry;
use std::path::PathBuf;

/// The scenario that is measured.
pub(crate) const SCENARIO: &str = "single_request";
/// Blocks, unless somebody says how many: on the machine of the published CPU runs 15 found
/// 10 % in every case and metric, 5 in most.
const BLOCKS: u32 = 15;
/// With `--until`, no more blocks than this.
const BLOCKS_MAX: u32 = 100;

/// What is asked for, and where its records go.
pub(crate) struct Trial {
    options: job::Options,
    records: PathBuf,
}

impl Trial {
    /// A trial of `targets`.
    pub(crate) fn new(repo: &Repo, asked: &Options, targets: &[&String]) -> Result<Self> {
        let profile = repo.profile(&asked.profile)?;
        let usual = profile.publishable.then(|| profile.invocations.max(BLOCKS));
        let options = job::Options {
            profile: Some(asked.profile.clone()),
            choice: Choice {
                engines: targets.iter().copied().cloned().collect(),
                scenarios: vec![SCENARIO.to_owned()],
                ..Choice::default()
            },
            invocations: asked.invocations.or(usual),
            until: asked.until.map(|percent| Until {
                percent,
                blocks_max: BLOCKS_MAX,
            }),
            ..job::Options::default()
        };
        // Such a run must not be taken for a result, so it isn't kept among them.
        let records = repo.build_dir.join("calibrate");
        Ok(Self { options, records })
    }

    /// Its plan.
    pub(crate) fn planned(&self, repo: &Repo, registry: &Registry) -> Result<Planned> {
        job::planned(repo, registry, &Results::at(&self.records), &self.options)
    }

    /// Its run, of which nothing is measured yet.
    pub(crate) fn create(
        &self,
        repo: &Repo,
        registry: &Registry,
        planned: Planned,
    ) -> Result<Opened> {
        job::create(repo, registry, &self.records, &self.options, planned)
    }
}
