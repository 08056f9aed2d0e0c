//! `cargo xtask submit RUN`: checks whether a contributed run can be published, from its record
//! alone. Where all checks pass, it packs the run as `publish` does and writes the text of a pull
//! request beside the runs. Nothing is pushed.
//!
//! CI runs the same checks with `--check-only` on each record that a pull request adds.

mod checks;
mod proposal;
#[cfg(test)]
mod tests;

use crate::publish;
use crate::results::Results;
use crate::summary::{Analysed, Summary};
use anyhow::{Context, Result};
use base::exit_code;
use base::files::write_whole;
use base::repo::Repo;
use base::text::{aligned, line};
use checks::{Check, checks};
use proposal::Proposal;
use schema::run::Run;
use schema::run_files::{RunFiles, SUFFIX};
use serde::Serialize;
use site::words::plural;
use std::path::PathBuf;
use std::process::ExitCode;

/// Maximum number of characters of a finding that is printed.
const FINDING_CHARS_MAX: usize = 600;

/// What the command line says.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Run id, path, or `latest`.
    pub run: String,
    /// Look for it in this directory instead of runs and data/results.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Check it and write nothing.
    #[arg(long)]
    pub check_only: bool,
    /// Print what was found as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The report that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    run: &'a str,
    passes: bool,
    checks: &'a [Check],
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<&'a Proposal>,
}

/// Run `cargo xtask submit`. Exit status 3 where a check fails.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let place = Results::new(repo, options.out.as_deref()).find(&options.run)?;
    let files = RunFiles::open(&place)?;
    let run = Run::read(&files)?;
    let packed = match files.is_packed() {
        true => {
            std::fs::read(&place).with_context(|| format!("{} can't be read", place.display()))?
        }
        false => publish::pack(&files)?,
    };
    let analysed = Analysed::new(repo, &run)?;
    let (cells, suites) = (&analysed.analysis.cells, &analysed.suites);
    let checks = checks(&run, cells, suites, packed.len() as u64);
    let passes = checks.iter().all(|check| check.passes);
    let proposal = match passes && !options.check_only {
        true => Some(propose(repo, &run, &analysed, &packed, &checks)?),
        false => None,
    };
    let id = run.header.id.as_str();
    if options.json {
        let report = Report {
            run: id,
            passes,
            checks: &checks,
            proposal: proposal.as_ref(),
        };
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", screen(id, &checks));
        if let Some(proposal) = &proposal {
            print!("{}", proposal.steps());
        }
    }
    if proposal.is_some() {
        publish::warn_of_prompts(&run.header);
    }
    Ok(exit_code(passes, 3))
}

/// Format each check as a line, and the verdict after them.
fn screen(id: &str, checks: &[Check]) -> String {
    let rows = checks.iter().map(|check| {
        let finding = line(&check.finding, FINDING_CHARS_MAX);
        [check.result().to_owned(), check.name.to_owned(), finding]
    });
    let failed = checks.iter().filter(|check| !check.passes).count() as u64;
    let verdict = match failed {
        0 => format!("{id} can be submitted."),
        n => format!(
            "{id} can't be submitted: {}.",
            plural(n, "check fails", "checks fail")
        ),
    };
    format!("{}{verdict}\n", aligned(rows))
}

/// Pack the run and write the text of its pull request.
fn propose(
    repo: &Repo,
    run: &Run,
    analysed: &Analysed,
    packed: &[u8],
    checks: &[Check],
) -> Result<Proposal> {
    let id = &run.header.id;
    let file = repo.published_dir().join(format!("{id}{SUFFIX}"));
    publish::write(&file, packed)?;
    let dir = repo.runs_dir();
    std::fs::create_dir_all(&dir).with_context(|| format!("{} can't be made", dir.display()))?;
    let text = dir.join(format!("{id}.pull-request.md"));
    let summary = Summary::from_records(run, analysed);
    let proposal = Proposal::new(repo, id, &file, &text);
    let written = proposal::text(run, &summary, checks, packed.len() as u64, &proposal);
    write_whole(&text, written)?;
    Ok(proposal)
}
