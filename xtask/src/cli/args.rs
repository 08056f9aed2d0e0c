//! The options of the verbs that have many, and their conversion to the verbs' own types.

use bench::job;
use clap::{ArgAction, Args};
use harness::plan;
use proofs::verify;
use schema::origin::Shard;
use schema::plan::Until;
use std::path::PathBuf;
use std::time::Duration;
use watch::Control;
use watch::log::Loudness;

/// How much a command tells, whichever it is.
#[derive(Args)]
pub(super) struct LoudnessArgs {
    /// Log what is done on stderr: stages and launches; -vv: also cases and processes; -vvv: also
    /// the protocol's lines. RUST_LOG does the same by target, as in `RUST_LOG=harness=trace`.
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Print only warnings, errors and results, no progress.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
}

impl LoudnessArgs {
    pub(super) fn loudness(&self) -> Loudness {
        Loudness {
            verbose: self.verbose,
            quiet: self.quiet,
        }
    }
}

#[derive(Args)]
pub(super) struct BenchArgs {
    /// How much is measured (`cargo xtask list profiles`); by default gpu where a GPU is found,
    /// else cpu.
    #[arg(long, conflicts_with = "resume")]
    profile: Option<String>,
    /// Engine or target ids, comma-separated; by default the profile's targets.
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    engines: Vec<String>,
    /// Scenario ids, comma-separated; by default all of the profile's, and its micro suites.
    /// `micro/*`: only those suites.
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    scenarios: Vec<String>,
    /// Another model than the profile's: an id (`cargo xtask list models`), `hf:org/repo[@revision]`
    /// or a directory with config.json, tokenizer.json and safetensors.
    #[arg(long, conflicts_with = "resume")]
    model: Option<String>,
    /// Measure the prompts of this file, a JSON object a line: `{"text": "…"}`, or `{"messages":
    /// [{"role": "user", "content": "…"}]}` for the model's chat template. The run, and so a
    /// published one, holds them. Alone it measures nothing else; `--scenarios` adds others.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    prompts: Option<PathBuf>,
    /// Number of blocks, at least the profile's (the default): every target is launched once in
    /// each, and more blocks find smaller differences.
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    invocations: Option<u32>,
    /// Measure further blocks until every target's ratio to the baseline and to the best is known
    /// to ± this many percent (of a target alone, its own value).
    #[arg(long, value_name = "PERCENT", value_parser = Until::parse_percent, conflicts_with_all = ["resume", "shard"])]
    until: Option<f64>,
    /// With --until: stop adding blocks once the run has this many.
    #[arg(long, value_name = "BLOCKS", default_value_t = 40, requires = "until")]
    at_most: u32,
    /// Complete an interrupted run: its id, name, path, or `latest`.
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// Measure the i-th of n parts of the plan (whole blocks), to be merged with the others. Shards
    /// ask prompts of the profile's seed; a whole run draws a new one.
    #[arg(long, value_name = "I/N", conflicts_with = "resume")]
    shard: Option<Shard>,
    /// Measure the cells that this run of the same plan had time for (id, name, path or `latest`);
    /// by default a pilot decides which.
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    budget_from: Option<String>,
    /// Begin no further work after this many minutes; the exit status is then 4, and --resume
    /// continues. By default there is no such limit.
    #[arg(long, value_name = "MINUTES")]
    stop_after: Option<u32>,
    /// Record into this directory instead of runs; with --resume, --budget-from and --save, look
    /// there too.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show a dashboard; without a terminal, plain progress all the same.
    #[arg(long)]
    pub(super) tui: bool,
    /// Begin a run of more than an hour. Without this, such a run is refused on a terminal, unless
    /// --engines, --scenarios, --prompts or --shard narrows it.
    #[arg(long, conflicts_with = "resume")]
    yes: bool,
    /// Give the finished run a name, for `compare NAME`.
    #[arg(long, value_name = "NAME")]
    save: Option<String>,
    /// Say what would be built, fetched and measured, and do nothing.
    #[arg(long, conflicts_with = "tui")]
    dry_run: bool,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Models, comma-separated: ids, `hf:org/repo[@revision]` or directories; by default the tiny
    /// ones.
    #[arg(long, value_delimiter = ',')]
    model: Vec<String>,
    /// Engine or target ids, comma-separated; by default all of the profile's.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// The profile whose targets are verified: see `cargo xtask list`.
    #[arg(long, default_value = "cpu")]
    profile: String,
    /// Test the checks themselves: mutants must fail the gate, and forged stamps must fail the
    /// audit.
    #[arg(long, conflicts_with_all = ["model", "engines", "profile", "bless", "context"])]
    mutants: bool,
    /// Make the goldens anew from the reference first.
    #[arg(long)]
    bless: bool,
    /// Verify contexts of these lengths too (tokens, comma-separated). Beyond 1 024 the golden is
    /// extended to reach them.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    context: Vec<u32>,
    /// Print records instead of a table.
    #[arg(long)]
    json: bool,
    /// Show a dashboard; without a terminal, plain progress all the same.
    #[arg(long)]
    pub(super) tui: bool,
}

impl BenchArgs {
    pub(super) fn options(self, site: bool, control: Control) -> job::Options {
        job::Options {
            profile: self.profile,
            choice: plan::Choice {
                engines: self.engines,
                scenarios: self.scenarios,
                model: self.model,
                prompts: None,
            },
            prompts: self.prompts,
            invocations: self.invocations,
            out: self.out,
            resume: self.resume,
            until: self.until.map(|percent| Until {
                percent,
                blocks_max: self.at_most,
            }),
            shard: self.shard,
            budget_from: self.budget_from,
            stop_after: self
                .stop_after
                .map(|min| Duration::from_secs(60 * u64::from(min))),
            site,
            yes: self.yes,
            save: self.save,
            dry_run: self.dry_run,
            control,
        }
    }
}

impl VerifyArgs {
    pub(super) fn options(self, control: Control) -> verify::Options {
        verify::Options {
            models: self.model,
            profile: self.profile,
            engines: self.engines,
            mutants: self.mutants,
            bless: self.bless,
            contexts: self.context,
            json: self.json,
            control,
        }
    }
}
