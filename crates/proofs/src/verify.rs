//! `cargo xtask verify`: puts targets through the gate on demand, outside a run.

mod mutants;

use anyhow::{Result, bail};
use base::exit_code;
use base::files::write_whole;
use base::repo::Repo;
use harness::devices::Named;
use harness::engine::session::Timeouts;
use harness::plan::profile_targets;
use harness::programs::Programs;
use harness::verify::golden::Maker;
use harness::verify::goldens::Goldens;
use harness::verify::setup::{BATCHES, GateSetup, Outliers, default_timeouts, limit, threads};
use harness::verify::subject::Subject;
use harness::verify::target::{not_verified, verify};
use harness::verify::{architecture, golden, goldens, judges, told};
use models::ModelSpec;
use provision::fetch::brought;
use provision::{build, fetch};
use schema::golden::Golden;
use schema::record::{Status, VerifyRecord};
use schema::registry::{Registry, Target};
use std::process::ExitCode;
use watch::Control;
use watch::event::{Event, Stage};

/// Options of the command, as the command line gives them.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Models, comma-separated: ids, `hf:org/repo[@revision]` or directories; by default the tiny
    /// ones.
    #[arg(long, value_delimiter = ',')]
    pub model: Vec<String>,
    /// Engine or target ids, comma-separated; by default all of the profile's.
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// The profile whose targets are verified: see `cargo xtask list`.
    #[arg(long, default_value = "cpu")]
    pub profile: String,
    /// Test the checks themselves: mutants must fail the gate, and forged stamps must fail the
    /// audit.
    #[arg(long, conflicts_with_all = ["model", "engines", "profile", "bless", "context"])]
    pub mutants: bool,
    /// Make the goldens anew from the reference first.
    #[arg(long)]
    pub bless: bool,
    /// Verify contexts of these lengths too (tokens, comma-separated). Beyond 1 024 the golden is
    /// extended to reach them.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    pub context: Vec<u32>,
    /// Print records instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Show a dashboard; without a terminal, plain progress all the same.
    #[arg(long)]
    pub tui: bool,
    /// The handle by which the user pauses, skips or stops parts of the work.
    #[arg(skip)]
    pub control: Control,
}

/// Run the command. Exit status 3 where a target fails the gate, a named target's program is
/// missing, or a mutant passes.
pub fn run(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let models = ModelSpec::named_or_small(&brought::ids(repo, &options.model)?);
    let targets = match options.mutants {
        true => Vec::new(), // they are hidden, and no profile's
        false => profile_targets(
            &repo.profile(&options.profile)?,
            &registry.targets(),
            &options.engines,
        )?,
    };
    watch::emit(Event::Title(models.join(", ")));
    watch::stage(Stage::Fetch);
    fetch::ensure(repo, &models)?;
    for model in &models {
        fetch::ensure_for(repo, model, &targets)?;
    }
    watch::stage(Stage::Build);
    if options.mutants {
        return mutants::run(repo, &registry);
    }
    let mut makes = options.bless;
    let limits = repo.parity_limits()?;
    for model in &models {
        makes = makes || goldens::is_any_lacking(repo, model, &targets, &options.context)?;
    }
    let judges = match makes {
        true => judges::to_build(&registry),
        false => Vec::new(),
    };
    let programs = build::build(
        repo,
        &registry,
        targets.iter().chain(&judges),
        &Named::new(&options.engines),
    )?;
    let mut failed = 0;
    watch::stage(Stage::Gate);
    for model in &models {
        told::group(model, targets.iter(), |_| false);
    }
    for model in &models {
        for subject in Subject::all(model, &limits, &targets) {
            let maker = Maker {
                repo,
                registry: &registry,
                programs: &programs,
                subject,
                threads: threads(),
            };
            if options.bless {
                let asked = maker.whole(&options.context)?;
                write_golden(repo, subject, &asked.golden)?;
                golden::write(repo, &asked)?;
            } else {
                goldens::ensure(&maker, &options.context)?;
            }
        }
        let goldens = Goldens::load(repo, model, &targets, &options.context)?;
        for target in &targets {
            options.control.checkpoint()?;
            told::begin(model, target);
            options.control.skippable();
            let record = verify_one(repo, &registry, &programs, target, model, &goldens, options)?;
            let skipped = options.control.skipped();
            if record.status == Status::NotRun {
                if !skipped || base::interrupt::requested() {
                    bail!("interrupted");
                }
                told::skipped();
                continue;
            }
            if options.json {
                println!("{}", serde_json::to_string(&record)?);
            } else {
                print_line(&record);
            }
            told::end(&record, programs.get(target).is_err());
            // A user who names an engine wants it verified: a missing program is then a failure.
            let lacks = !options.engines.is_empty() && programs.get(target).is_err();
            failed += u32::from(lacks || told::is_failure(record.status));
        }
    }
    if failed > 0 {
        eprintln!("{failed} did not pass the gate: they would not be timed");
    }
    Ok(exit_code(failed == 0, 3))
}

fn verify_one(
    repo: &Repo,
    registry: &Registry,
    programs: &Programs,
    target: &Target,
    model: &str,
    goldens: &Goldens,
    options: &Options,
) -> Result<VerifyRecord> {
    let model_dir = repo.model_dir(model);
    if let Some(failure) = architecture::refused(registry, target, &model_dir) {
        return Ok(not_verified(target, model, &failure));
    }
    let limits = repo.parity_limits()?;
    let limit = limit(&limits, &target.precision)?;
    let (program, golden) = match (programs.get(target), goldens.for_target(target)) {
        (Ok(program), Ok(golden)) => (program, golden),
        (Err(failure), _) => return Ok(not_verified(target, model, failure)),
        (Ok(_), Err(failure)) => return Ok(not_verified(target, model, &failure)),
    };
    let setup = GateSetup {
        golden,
        limit,
        model_dir: &model_dir,
        threads: threads(),
        batches: &BATCHES,
        prefix_cache: true,
        outliers: Outliers::alone(&limits, model),
        timeouts: Timeouts {
            control: options.control.clone(),
            ..default_timeouts()
        },
    };
    Ok(verify(target, program, &setup))
}

fn print_line(record: &VerifyRecord) {
    let kl = record
        .kl_nats
        .map_or(String::new(), |kl| format!("KL {kl:.1e} nats"));
    let agreement = record.argmax_agreement.map_or(String::new(), |share| {
        format!("argmax {:.1} % of decisive", 100.0 * share)
    });
    let scope = record
        .verified_positions
        .map_or(String::new(), |n| format!("≤ {n} positions"));
    let verdict = match record.status {
        Status::Ok => "pass",
        other => other.id(),
    };
    println!(
        "{:<14} {:<28} {verdict:<13} {kl:<16} {agreement:<26} {scope}",
        record.model, record.target
    );
    if !record.reason.is_empty() {
        println!("{:14} └ {}", "", record.reason);
    }
}

fn write_golden(repo: &Repo, subject: Subject, golden: &Golden) -> Result<()> {
    let path = repo.golden_path(subject.model, subject.own_weights);
    write_whole(&path, golden.to_json())?;
    println!(
        "{}: made by {}, {} agrees (worst mean KL {:.1e} nats)",
        path.display(),
        golden.reference,
        golden.cross_check,
        golden.cross_check_kl_nats
    );
    Ok(())
}
