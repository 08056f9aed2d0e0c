//! `cargo xtask compare A [B]`: compares two runs, cell by cell, and lists what differs around
//! them. `stats` judges, `digest` selects what a reader wants of the judgement, and `print` formats
//! it.
//!
//! Exit status: 1 where the second run is worse (a cell is slower beyond chance and noise, or its
//! engine fails where it worked before), else 0; 2 where the runs can't be compared at all.

mod digest;
mod print;
#[cfg(test)]
mod tests;

use crate::results::Results;
use anyhow::Result;
use base::repo::Repo;
use base::{exit_code, names};
use harness::environment::{self, Difference};
use schema::run::Run;
use schema::scenario::Scenario;
use stats::agreement::Agreement;
use stats::analysis::{MetricId, Verdict};
use stats::between::{Between, Change, between};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The run before: its id, path, the name that `bench --save` gave it, or `latest`.
    pub a: String,
    /// The run after.
    #[arg(default_value = "latest")]
    pub b: String,
    /// Compare on this metric instead of each scenario's leading one.
    #[arg(long)]
    pub metric: Option<String>,
    /// Directory of the runs, where it isn't runs and data/results.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print every cell and every difference, not only what changed.
    #[arg(long)]
    pub all: bool,
    /// How to print; JSON always has everything.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// As `--format json`.
    #[arg(long, hide = true, conflicts_with = "format")]
    pub json: bool,
}

/// How to print a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a terminal.
    Text,
    /// Markdown for a comment, under 60 kB.
    Md,
    /// For programs.
    Json,
}

impl Format {
    /// The format for a verb that has only the flag `--json`.
    pub fn from_flag(json: bool) -> Self {
        match json {
            true => Self::Json,
            false => Self::Text,
        }
    }
}

/// Compare and print.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let results = Results::new(repo, options.out.as_deref());
    let metric = options.metric.as_deref().map(names::metric).transpose()?;
    let a = Run::load(&results.find(&options.a)?)?.as_far_as_measured();
    let b = Run::load(&results.find(&options.b)?)?.as_far_as_measured();
    let comparison = Comparison::new(a, b, &repo.scenarios()?, metric);
    let format = match options.json {
        true => Format::Json,
        false => options.format,
    };
    print!("{}", comparison.print(format, options.all)?);
    Ok(exit_code(comparison.count().regressions == 0, 1))
}

/// The description of one of the compared runs.
struct Subject {
    id: String,
    started: String,
    plan_sha256: String,
    /// Id, profile, invocations and revision, in one line.
    line: String,
}

impl Subject {
    fn new(run: Run) -> Self {
        let header = run.header;
        let revision = header.provenance.git_revision.as_deref();
        Self {
            line: format!(
                "{} · {} · {} invocations · revision {}",
                header.id,
                header.plan.profile,
                header.plan.invocations,
                revision.map_or("unknown", |r| r.get(..12).unwrap_or(r))
            ),
            id: header.id,
            started: header.started,
            plan_sha256: header.plan_sha256,
        }
    }
}

/// Two runs and the differences between them.
pub struct Comparison {
    a: Subject,
    b: Subject,
    changes: Vec<Change>,
    agreement: Agreement,
    environment: Vec<Difference>,
}

/// The number of cells with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Count {
    /// Number of all cells.
    pub cells: usize,
    /// Cells that are faster in the second run.
    pub faster: usize,
    /// Cells that are slower in the second run.
    pub slower: usize,
    /// Cells whose difference is too small to matter.
    pub equal: usize,
    /// Cells whose samples show none of faster, slower and equal.
    pub undecided: usize,
    /// Cells that one run has no number for, or for which the runs were asked for different work.
    pub not_comparable: usize,
    /// Cells not comparable because they were measured in the first run and failed in the second.
    pub broken: usize,
    /// Cells that are slower or broken.
    pub regressions: usize,
}

impl Comparison {
    /// Compare `b` with `a`, which was measured before it.
    pub fn new(a: Run, b: Run, scenarios: &[Scenario], metric: Option<MetricId>) -> Self {
        let Between { changes, agreement } = between(&a, &b, scenarios, metric);
        let environment = environment::runs(&a, &b);
        Self {
            a: Subject::new(a),
            b: Subject::new(b),
            changes,
            agreement,
            environment,
        }
    }

    /// Count the cells with each verdict.
    pub fn count(&self) -> Count {
        let of = |verdict| self.changes.iter().filter(|c| c.verdict == verdict).count();
        Count {
            cells: self.changes.len(),
            faster: of(Verdict::Better),
            slower: of(Verdict::Worse),
            equal: of(Verdict::Equal),
            undecided: of(Verdict::Undecided),
            not_comparable: of(Verdict::Unknown),
            broken: self.changes.iter().filter(|c| c.broken).count(),
            regressions: self.changes.iter().filter(|c| c.is_regression()).count(),
        }
    }

    /// Format the comparison: with `all` every cell and difference, else only what changed.
    pub fn print(&self, format: Format, all: bool) -> Result<String> {
        match format {
            Format::Text => Ok(print::text(self, all)),
            Format::Md => Ok(print::markdown(self, all)),
            Format::Json => print::json(self),
        }
    }
}
