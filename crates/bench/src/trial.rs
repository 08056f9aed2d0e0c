//! A run that tests the benchmark itself: known targets in one scenario, with one request at a
//! time.

use crate::job::{self, Opened};
use anyhow::Result;
use base::exclusive;
use base::repo::Repo;
use proofs::calibrate::Options;
use runs::results::Results;
use schema::registry::Registry;
use std::fs::File;

pub(crate) const SCENARIO: &str = "single_request";
/// Default number of blocks where the profile is publishable and has fewer. On the machine of the
/// published CPU runs, 15 blocks found a difference of 10 % in every case and metric, and one of
/// 5 % in most.
const BLOCKS: u32 = 15;
/// Maximum number of blocks with `--until`.
const BLOCKS_MAX: u32 = 100;

/// Lock the machine and begin a trial's run of `targets`, without measuring anything yet. The
/// difference that matters is the profile's, or `matters_percent` where that is less.
pub(crate) fn begin(
    repo: &Repo,
    registry: &Registry,
    asked: &Options,
    targets: &[&String],
    matters_percent: f64,
) -> Result<(File, Opened)> {
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
    let planned = job::planned(repo, registry, &Results::at(&records), &options)?;
    let planned = planned.with_matters_at_most(matters_percent);
    let only_one = exclusive::lock_machine()?;
    let opened = job::create(repo, registry, &records, &options, planned)?;
    Ok((only_one, opened))
}
