//! The command line: every verb, its options and an example. Other modules implement the verbs.

mod help;

use crate::{test, tidy};
use anyhow::Result;
use base::repo::Repo;
use base::say;
use bench::{beside, handicap, job, list, reproduce, trace};
use clap::{Parser, Subcommand};
use harness::devices;
use proofs::{adapters, calibrate, simulate, verify, watching};
use provision::{dist, doctor, fetch, train};
use runs::results::Results;
use runs::{compare, export, merge, page, publish, submit};
use std::path::PathBuf;
use std::process::ExitCode;
use watch::log::Loudness;

/// The benchmark that Rust teams trust when they choose an LLM inference engine.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    version,
    max_term_width = 100,
    help_template = help::template()
)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    loudness: Loudness,
}

#[derive(Subcommand)]
enum Verb {
    /// The main job: fetch, build, verify, measure, render. Ends with the path of the report.
    #[command(
        after_help = "Example:\n  cargo xtask bench-all\n  cargo xtask bench-all --profile smoke\n  cargo xtask bench-all --dry-run\n  cargo xtask bench-all --model hf:org/repo\n  cargo xtask bench-all --prompts mine.jsonl\n  cargo xtask bench-all --resume latest"
    )]
    BenchAll(job::Options),
    /// The same for a part, without rendering the report.
    #[command(
        after_help = "Example:\n  cargo xtask bench --engines lmrs,candle --scenarios single_request\n  cargo xtask bench --engines lmrs --until 5%\n  cargo xtask bench --shard 1/2"
    )]
    Bench(job::Options),
    /// Measure what our adapters cost: each engine through its adapter and driven directly, in
    /// interleaved pairs on the same file. The exit status is 3 where one costs more than 2 %.
    #[command(
        after_help = "Example:\n  cargo xtask bench-adapters\n  cargo xtask bench-adapters --engines candle --model llama-3.2-1b-shape --pairs 3"
    )]
    BenchAdapters(adapters::Options),
    /// Measure the harness's own error against an engine of known timing. The exit status is 3
    /// where it is over its limit.
    #[command(
        after_help = "Example:\n  cargo xtask calibrate\n  cargo xtask calibrate --watching\n  cargo xtask calibrate --load\n  cargo xtask calibrate --verdicts --percent 10\n  cargo xtask calibrate --verdicts --percent 2 --until 1%"
    )]
    Calibrate(calibrate::Options),
    /// Put the targets of a profile (`cpu`, unless you say otherwise) through the parity gate.
    #[command(
        after_help = "Example:\n  cargo xtask verify\n  cargo xtask verify --model tiny-llama --engines candle\n  cargo xtask verify --mutants"
    )]
    Verify(verify::Options),
    /// Make or download models and verify their hashes.
    #[command(
        after_help = "Example:\n  cargo xtask fetch tiny-llama\n  HF_TOKEN=… cargo xtask fetch llama-3.2-1b"
    )]
    Fetch(fetch::CommandOptions),
    /// Build engines, each once, in release, and say what can't be built here.
    #[command(
        after_help = "Example:\n  cargo xtask build\n  cargo xtask build lmrs candle\n  cargo xtask build --cuda"
    )]
    Build {
        /// Engine or target ids of engines/engines.toml; none: all that a normal run uses.
        engines: Vec<String>,
        /// Build the engines for NVIDIA GPUs instead. This needs no GPU; a missing CUDA toolkit is
        /// downloaded.
        #[arg(long)]
        cuda: bool,
        /// Print what each program costs as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Pack programs, data and harness into archives for machines without a toolchain.
    #[command(
        after_help = "Example:\n  cargo xtask dist\n  cargo xtask dist lmrs candle --target-cpu x86-64-v3\n  cargo xtask dist --cuda"
    )]
    Dist(dist::Options),
    /// Show what this machine has, its measured ceilings, what is missing and how to get it.
    #[command(after_help = "Example:\n  cargo xtask doctor\n  cargo xtask doctor --json")]
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Skip the measurement of memory bandwidth and FLOP/s (a few seconds).
        #[arg(long)]
        quick: bool,
    },
    /// List engines, targets, scenarios, profiles, models or runs.
    #[command(
        after_help = "Example:\n  cargo xtask list\n  cargo xtask list targets\n  cargo xtask list runs --json"
    )]
    List(list::Options),
    /// Print a run as tidy rows, a table or another program's format.
    #[command(after_help = "Example:\n  cargo xtask export latest --format csv > run.csv")]
    Export {
        /// Run id, path, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
        /// How the rows are written.
        #[arg(long, value_enum, default_value = "json")]
        format: export::Format,
        /// Directory of the runs, where it isn't runs and data/results.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Compare two runs, cell by cell: faster, slower, equal, undecided or not comparable; and what
    /// differs around them. The exit status is 1 where B is slower beyond chance and noise, or
    /// fails at what worked in A; 2 where it can't be said.
    #[command(
        after_help = "Example:\n  cargo xtask compare 20260101-120000-cpu-1a2b latest\n  cargo xtask bench --save main   # and, when the code has changed, once more without\n  cargo xtask compare main\n  cargo xtask compare A B --metric itl_ns --format json"
    )]
    Compare(compare::Options),
    /// Put the shards of one plan together into one run. The shards aren't changed.
    #[command(
        after_help = "Example:\n  cargo xtask bench --shard 1/2 --out shards   # and 2/2 with its --prompt-seed, here or elsewhere\n  cargo xtask merge shards/*"
    )]
    Merge(merge::Options),
    /// Do a run again from its record alone, judge every cell as `compare` does, and say what
    /// differs around it. The exit status is 1 where a cell differs, 2 where it can't be said.
    #[command(
        after_help = "Example:\n  cargo xtask reproduce latest\n  cargo xtask reproduce ../record/run.json --scenarios single_request"
    )]
    Reproduce(reproduce::Options),
    /// Pack a run into one file in data/results, which is what the published site shows.
    #[command(after_help = "Example:\n  cargo xtask publish latest")]
    Publish(publish::Options),
    /// Check a run for publication by others, pack it, and write the text of a pull request.
    /// Pushes nothing. Exit status 3 where a check fails.
    #[command(
        after_help = "Example:\n  cargo xtask submit latest\n  cargo xtask submit latest --check-only --json"
    )]
    Submit(submit::Options),
    /// Render target/site from the records.
    #[command(
        after_help = "Example:\n  cargo xtask site\n  cargo xtask site --serve\n  cargo xtask site latest --base-url https://example.org/bench --records"
    )]
    Site(page::Options),
    /// Trace the kernels of a run's CUDA targets, in launches that aren't timed. bench-all
    /// does it by itself where there is a GPU.
    #[command(
        after_help = "Example:\n  cargo xtask trace\n  cargo xtask trace latest --engines candle"
    )]
    Trace {
        /// Run id, path, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
        /// Engine or target ids, comma-separated; by default all on CUDA. What was traced
        /// before is traced again.
        #[arg(long, value_delimiter = ',')]
        engines: Vec<String>,
        /// Directory of the runs, where it isn't runs and data/results.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Test the statistics on synthetic experiments of known truth, at every profile's sizes. The
    /// exit status is 3 where an interval covers under 93 or over 97 %, or over 5 % of equal
    /// targets are called different.
    #[command(
        after_help = "Example:\n  cargo xtask simulate\n  cargo xtask simulate --experiments 200 --json\n  cargo xtask simulate --write"
    )]
    Simulate(simulate::Options),
    /// Train a small Llama on text made here, and make a model of it that every engine loads.
    #[command(
        after_help = "Example:\n  cargo xtask train\n  cargo xtask train --steps 50 --seed 1\n  cargo xtask train --resume latest --tui"
    )]
    Train(train::Options),
    /// Run every check of this repository.
    #[command(
        after_help = "Example:\n  cargo xtask test\n  cargo xtask test --quick\n  cargo xtask test --all-engines"
    )]
    Test {
        /// Leave out what needs built engines, and the tests under `engines`.
        #[arg(long)]
        quick: bool,
        /// Also the tests of the engines that take long to build, and the gate on every
        /// target that a CPU runs: half an hour of compiling the first time.
        #[arg(long, conflicts_with = "quick")]
        all_engines: bool,
    },
    /// Check the house rules: headers, lengths, links, banned words.
    #[command(
        after_help = "Example:\n  cargo xtask tidy\n  cargo xtask tidy --json\n  cargo xtask tidy --write"
    )]
    Tidy {
        /// Draw the map of crates and modules in ARCHITECTURE.md anew.
        #[arg(long, conflicts_with = "json")]
        write: bool,
        /// Print the complaints as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a shell's completions for this command line, with the names of this checkout.
    #[command(after_help = help::HELP)]
    Completions {
        /// The shell that they are for.
        shell: help::Shell,
    },
    /// Print Vulkan's devices. It is a process of its own, because asking a driver can crash it.
    #[command(name = devices::vulkan::VERB, hide = true)]
    ProbeVulkan,
}

impl Cli {
    /// Return the options of `bench-all`; `None` for another verb.
    pub fn bench_all(self) -> Option<job::Options> {
        match self.verb {
            Verb::BenchAll(options) => Some(job::Options {
                site: true,
                ..options
            }),
            _ => None,
        }
    }

    /// Run the verb.
    pub fn run(self) -> Result<ExitCode> {
        watch::log::install(self.loudness);
        let repo = Repo::find()?;
        if repo.is_elsewhere() {
            eprintln!(
                "note: no engines/engines.toml here or above, so the checkout that this program was built from is used: {}",
                repo.root.display()
            );
        }
        let done = |()| ExitCode::SUCCESS;
        match self.verb {
            Verb::BenchAll(options) => watched(&repo, options, true),
            Verb::Bench(options) => watched(&repo, options, false),
            Verb::BenchAdapters(options) => adapters::run(&repo, &options),
            Verb::Calibrate(options) if options.verdicts => handicap::command(&repo, &options),
            Verb::Calibrate(options) if options.load => beside::command(&repo, &options),
            Verb::Calibrate(options) if options.watching => {
                watching::command(&repo, options.processes, options.quick, options.json)
            }
            Verb::Calibrate(options) => calibrate::instrument(&repo, options.quick, options.json),
            Verb::Verify(options) => watch::session(options.tui, |control| {
                verify::run(&repo, &verify::Options { control, ..options })
            }),
            Verb::Fetch(options) => fetch::command(&repo, &options).map(done),
            Verb::Build {
                engines,
                cuda,
                json,
            } => provision::build::command(&repo, &engines, cuda, json),
            Verb::Dist(options) => dist::command(&repo, &options),
            Verb::Doctor { json, quick } => doctor::command(&repo, json, quick),
            Verb::List(options) => list::command(&repo, &options).map(done),
            Verb::Export { run, format, out } => {
                let place = Results::new(&repo, out.as_deref()).find(&run)?;
                let run = schema::run::Run::load(&place)?.as_far_as_measured();
                export::command(&run, &repo.scenarios()?, &repo.registry()?, format).map(done)
            }
            Verb::Compare(options) => judged(compare::command(&repo, &options)),
            Verb::Merge(options) => merge::command(&repo, &options),
            Verb::Reproduce(options) => judged(reproduce::command(&repo, &options)),
            Verb::Publish(options) => publish::command(&repo, &options),
            Verb::Submit(options) => submit::command(&repo, &options),
            Verb::Site(options) => page::command(&repo, &options),
            Verb::Trace { run, engines, out } => {
                let place = Results::new(&repo, out.as_deref()).find(&run)?;
                trace::command(&repo, &place, &engines)
            }
            Verb::Simulate(options) => simulate::command(&repo, &options),
            Verb::Train(options) => train::command(&repo, &options),
            Verb::Test { quick, all_engines } => test::test(&repo, quick, all_engines).map(done),
            Verb::Tidy { write: true, .. } => tidy::write(&repo).map(done),
            Verb::Tidy { json: true, .. } => tidy::as_json(&repo),
            Verb::Tidy { .. } => tidy::command(&repo).map(done),
            Verb::Completions { shell } => help::completions(&repo, shell).map(done),
            Verb::ProbeVulkan => {
                devices::vulkan::probe();
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn watched(repo: &Repo, options: job::Options, site: bool) -> Result<ExitCode> {
    watch::session(options.tui, |control| {
        let options = job::Options {
            site,
            control,
            ..options
        };
        job::bench(repo, &options)
    })
}

/// Replace an error's exit status by 2, where status 1 is a verdict (of `compare` or `reproduce`).
fn judged(verdict: Result<ExitCode>) -> Result<ExitCode> {
    match verdict.and_then(|code| say::check_stdout().map(|()| code)) {
        Err(error) if !base::interrupt::requested() => {
            watch::error(format!("{error:#}"));
            Ok(ExitCode::from(2))
        }
        verdict => verdict,
    }
}
