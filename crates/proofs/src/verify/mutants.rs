//! `cargo xtask verify --mutants`: the gate itself under test. A mutant is a target
//! that is deliberately wrong in one way; each must fail under the limits of *every*
//! precision.

use anyhow::{Result, bail};
use base::repo::Repo;
use harness::engine::Program;
use harness::verify::golden::Maker;
use harness::verify::question::{BATCHES, Question, default_patience, threads};
use harness::verify::target::verify;
use harness::verify::{goldens, judges};
use models::ModelSpec;
use provision::build;
use schema::golden::Limit;
use schema::record::Status;
use schema::registry::{Registry, Target};
use std::process::ExitCode;

/// The model and the context (tokens) at which a mutant is looked for that is right at all others:
/// a model with scaled RoPE, at the longest context of a profile.
const FAR: (&str, u32) = ("tiny-llama3", 8256);

/// Run it. Exit status 3 where a mutant passes the gate.
pub fn run(repo: &Repo, registry: &Registry) -> Result<ExitCode> {
    let mutants = registry.mutants();
    let (far_model, far) = (FAR.0, &[FAR.1]);
    let judges = match goldens::lacking(repo, far_model, far)?.is_nothing() {
        true => Vec::new(),
        false => judges::to_build(registry),
    };
    let programs = build::build(repo, registry, mutants.iter().chain(&judges))?;
    let maker = Maker {
        repo,
        registry,
        programs: &programs,
        model: far_model,
        threads: threads(),
    };
    goldens::ensure(&maker, far)?;
    let limits = repo.parity_limits()?;
    let mut survivors = 0;
    for mutant in &mutants {
        let program = programs
            .get(mutant)
            .map_err(|failure| anyhow::anyhow!("{}: {failure}", mutant.id))?;
        // At f32 a mutant's error is the mutation's alone: it must be over the
        // limits of every precision. At a coarser one it carries that precision's
        // noise too, and is judged by that precision's own.
        let judged_by = limits
            .precision
            .iter()
            .filter(|(precision, _)| mutant.precision == "f32" || **precision == mutant.precision);
        for (precision, limit) in judged_by {
            base::interrupt::check()?;
            let verdict = match seen(repo, mutant, program, limit)? {
                Some((model, why)) => format!("seen on {model}: {why}"),
                None => {
                    survivors += 1;
                    "NOT SEEN: the gate is blind to it".to_owned()
                }
            };
            println!("{:<28} by {precision:<7} limits: {verdict}", mutant.id);
        }
    }
    if survivors > 0 {
        watch::error(format!("{survivors} mutants passed the gate"));
        return Ok(ExitCode::from(3));
    }
    println!("the gate sees every mutant at every precision");
    Ok(ExitCode::SUCCESS)
}

/// The first model on which the gate sees the mutant, and what it says.
fn seen(
    repo: &Repo,
    mutant: &Target,
    program: &Program,
    limit: &Limit,
) -> Result<Option<(&'static str, String)>> {
    // The far context comes last: it takes longer than all others.
    let usual = ModelSpec::SMALL.into_iter().filter(|model| *model != FAR.0);
    let usual = usual.map(|model| (model, None));
    for (model, context) in usual.chain([(FAR.0, Some(FAR.1))]) {
        let golden = goldens::load(repo, model, context.as_slice())?;
        let question = Question {
            golden: &golden,
            limit,
            model_dir: &repo.model_dir(model),
            threads: threads(),
            batches: &BATCHES,
            prefix_cache: true,
            patience: default_patience(),
        };
        let record = verify(mutant, program, &question).record;
        match record.status {
            Status::WrongOutput => return Ok(Some((model, record.reason))),
            // A mutation of what the model hasn't (its RoPE scaling, say) isn't one.
            Status::Ok | Status::Unsupported => {}
            other => bail!(
                "{} on {model} could not be asked: {}: {}",
                mutant.id,
                other.id(),
                record.reason
            ),
        }
    }
    Ok(None)
}
