//! A run: `run.json` and the record files beside it, loaded into one value that `stats` and
//! `site` may trust.

mod references;
mod stopped;

use crate::budget::Budget;
use crate::calibration::Calibration;
use crate::capacity::Capacity;
use crate::error::{DataError, parse_json};
use crate::kernels::TracedLaunch;
use crate::key::{CellKey, is_twin, original, twin_name};
use crate::launch_log::LaunchLog;
use crate::lines::{read_lines, read_log};
use crate::micro::MicroLog;
use crate::origin::Origin;
use crate::plan::Plan;
use crate::provenance::Provenance;
use crate::record::{CheckRecord, VerifyRecord};
use crate::run_files::{HEADER, RunFiles};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Value of [`RunHeader::format`].
pub const FORMAT: u32 = 1;

/// `run.json`, written before anything is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Number of the format, [`FORMAT`].
    pub format: u32,
    /// Id of the run and name of its directory: `<UTC date>-<time>-<profile>-<host tag>`.
    pub id: String,
    /// Time when the run began: RFC 3339, UTC.
    pub started: String,
    /// The command that made it.
    pub argv: Vec<String>,
    /// Hash of the plan: equal plans do equal work.
    pub plan_sha256: String,
    /// The resolved plan.
    pub plan: Plan,
    /// Provenance of the run: where and with what it ran.
    pub provenance: Provenance,
    /// Origin of the run, where it isn't simply a plan measured whole.
    #[serde(default, skip_serializing_if = "Origin::is_plain")]
    pub origin: Origin,
}

/// A run with all its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// `run.json`.
    pub header: RunHeader,
    /// All record files of targets, sorted by path.
    pub launches: Vec<LaunchLog>,
    /// Record files of twins (see [`crate::key`]), kept apart because no target has these samples.
    pub twins: Vec<LaunchLog>,
    /// Judgements of the parity gate, the last one per target.
    pub verify: BTreeMap<String, VerifyRecord>,
    /// Division of its time among targets; absent where there was no limit.
    pub budget: Option<Budget>,
    /// Results of the capacity stage, in the order in which they were found.
    pub capacities: Vec<Capacity>,
    /// The harness's own error, from the run's calibration.
    pub calibration: Option<Calibration>,
    /// Judgements of timed outputs, by cell.
    pub checks: BTreeMap<CellKey, CheckRecord>,
    /// Launches whose kernels were traced, the newest per target. They weren't timed.
    pub kernels: Vec<TracedLaunch>,
    /// Record files of the micro suites, sorted by path.
    pub micro: Vec<MicroLog>,
}

impl Run {
    /// Return the run as if its shard of the plan were all of it, for what can be said of a shard
    /// by itself. A run that is no shard is returned unchanged.
    pub fn own_part(mut self) -> Self {
        if let Some(shard) = self.header.origin.shard {
            let launches = &mut self.header.plan.launches;
            launches.retain(|launch| shard.has(launch.invocation));
            let micro = &mut self.header.plan.micro.launches;
            micro.retain(|launch| shard.has(launch.invocation));
        }
        self
    }

    /// Load a run's directory, or a packed run. A last line cut short by a kill is left out;
    /// any other line that can't be read is an error with its number.
    ///
    /// # Errors
    /// If [`RunFiles`] refuses it, a record can't be read, or a record names what the plan doesn't
    /// have.
    pub fn load(place: &Path) -> Result<Self, DataError> {
        Self::read(&RunFiles::open(place)?)
    }

    /// Add launches that were recorded since the run was loaded, with the result of loading it
    /// again.
    pub fn add(&mut self, logs: impl IntoIterator<Item = LaunchLog>) {
        let is_twin = |log: &LaunchLog| is_twin(&log.launch.target);
        let (twins, launches): (Vec<_>, Vec<_>) = logs.into_iter().partition(is_twin);
        self.launches.extend(launches);
        self.twins.extend(twins);
        let targets = &self.header.plan.targets;
        for logs in [&mut self.launches, &mut self.twins] {
            logs.sort_by_cached_key(|log| {
                let id = original(&log.launch.target);
                let place = targets.iter().position(|target| target.id == id);
                (place, log.file.clone())
            });
        }
    }

    /// Number of readings of counters that the run holds.
    pub fn readings(&self) -> usize {
        let logs = self.launches.iter().chain(&self.twins);
        logs.map(|log| log.telemetry.len()).sum()
    }

    /// Add launches of micro suites, as [`Run::add`] does.
    pub fn add_micro(&mut self, logs: impl IntoIterator<Item = MicroLog>) {
        self.micro.extend(logs);
        let suites = &self.header.plan.micro.suites;
        self.micro.sort_by_cached_key(|log| {
            let id = &log.launch.suite;
            let place = suites.iter().position(|suite| suite.id == *id);
            (place, log.file.clone())
        });
    }

    /// Read again what tracing added to its directory.
    ///
    /// # Errors
    /// As for [`Run::load`], for these files.
    pub fn reload_kernels(&mut self, run_dir: &Path) -> Result<(), DataError> {
        self.kernels = TracedLaunch::load_all(&RunFiles::open(run_dir)?)?;
        Ok(())
    }

    /// Load a run from files that are open.
    ///
    /// # Errors
    /// As for [`Run::load`].
    pub fn read(files: &RunFiles) -> Result<Self, DataError> {
        let text = files.text(HEADER)?.unwrap_or_default();
        let header = RunHeader::parse(&files.path(HEADER), files.id(), &text)?;
        let mut launches = Vec::new();
        let mut twins = Vec::new();
        for target in &header.plan.targets {
            launches.extend(logs_of(files, &target.id)?);
            twins.extend(logs_of(files, &twin_name(&target.id))?);
        }
        let verify = read_lines::<VerifyRecord>(files, "verify.jsonl")?
            .into_iter()
            .map(|record| (record.target.clone(), record))
            .collect();
        let checks = read_lines::<CheckRecord>(files, "check.jsonl")?
            .into_iter()
            .map(|check| (check.key(), check))
            .collect();
        let run = Self {
            launches,
            twins,
            verify,
            checks,
            budget: read_json_if_there(files, "budget.json")?,
            calibration: read_json_if_there(files, "calibration.json")?,
            capacities: read_lines(files, "capacity.jsonl")?,
            micro: MicroLog::load_all(files, &header.plan.micro)?,
            kernels: TracedLaunch::load_all(files)?,
            header,
        };
        references::check_records(&run, files)?;
        Ok(run)
    }
}

impl RunHeader {
    /// Read a run's `run.json` alone.
    ///
    /// # Errors
    /// If the place isn't a run, or `run.json` contradicts itself or its place.
    pub fn load(place: &Path) -> Result<Self, DataError> {
        let (id, text) = RunFiles::header(place)?;
        Self::parse(&place.join(HEADER), &id, &text)
    }

    /// Parse a header; `id` is the name of the directory or packed file.
    fn parse(path: &Path, id: &str, text: &str) -> Result<Self, DataError> {
        let header: Self = parse_json(path, text)?;
        if header.format != FORMAT {
            let message = format!(
                "is format {}, this program reads format {FORMAT}",
                header.format
            );
            return Err(DataError::new(path, message));
        }
        if header.id != id {
            let message = format!(
                "is of run {:?}, and lies in {id:?}: a run keeps its name, so call this {:?} again or remove the copy",
                header.id, header.id
            );
            return Err(DataError::new(path, message));
        }
        references::check_header(path, &header)?;
        Ok(header)
    }
}

/// Read the records under one name; empty where nothing was launched under it.
fn logs_of(files: &RunFiles, dir: &str) -> Result<Vec<LaunchLog>, DataError> {
    let mut logs = Vec::new();
    for name in files.names_in(dir, ".jsonl") {
        let Some(log) = read_log::<LaunchLog>(files, name)? else {
            continue;
        };
        if log.launch.target != dir {
            let message = format!(
                "is a record of {}, and lies in the directory of {dir}: put it back",
                log.launch.target
            );
            return Err(DataError::at(&files.path(name), 1, message));
        }
        logs.push(log);
    }
    Ok(logs)
}

fn read_json_if_there<T: serde::de::DeserializeOwned>(
    files: &RunFiles,
    name: &str,
) -> Result<Option<T>, DataError> {
    let text = files.text(name)?;
    text.map(|text| parse_json(&files.path(name), &text))
        .transpose()
}
