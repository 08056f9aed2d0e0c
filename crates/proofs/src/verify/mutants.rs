//! `cargo xtask verify --mutants`: tests the gate itself. A mutant is a target that is deliberately
//! wrong in one way; each must fail under the limits of *every* precision. The audit of stamps is
//! tested too, with engines that report false stamps.

use anyhow::{Result, bail};
use base::repo::Repo;
use harness::devices::Named;
use harness::engine::Program;
use harness::engine::load::load_request;
use harness::engine::session::Session;
use harness::programs::Programs;
use harness::run::audit::Audit;
use harness::run::issue;
use harness::run::load::{CasePrompts, PromptQueue};
use harness::verify::golden::Maker;
use harness::verify::setup::{BATCHES, GateSetup, Outliers, default_timeouts, threads};
use harness::verify::subject::Subject;
use harness::verify::target::verify;
use harness::verify::{goldens, judges};
use models::ModelSpec;
use provision::build;
use schema::golden::Limit;
use schema::plan::Case;
use schema::record::{AuditResult, RequestRecord, Status};
use schema::registry::{Registry, Target};
use schema::scenario::LoadShape;
use std::process::ExitCode;

/// The model and the context (tokens) for mutants that are wrong only there: a model with scaled
/// RoPE, at the longest context of a profile.
const FAR: (&str, u32) = ("tiny-llama3", 8256);

/// Run the command. Exit status 3 where a mutant passes the gate.
pub fn run(repo: &Repo, registry: &Registry) -> Result<ExitCode> {
    let mutants = registry.mutants();
    let (far_model, far) = (FAR.0, &[FAR.1]);
    let far_subject = Subject::model(far_model);
    let judges = match goldens::lacking(repo, far_subject, far)?.is_nothing() {
        true => Vec::new(),
        false => judges::to_build(registry),
    };
    let programs = build::build(
        repo,
        registry,
        mutants.iter().chain(&judges),
        &Named::default(),
    )?;
    let maker = Maker {
        repo,
        registry,
        programs: &programs,
        subject: far_subject,
        threads: threads(),
    };
    goldens::ensure(&maker, far)?;
    let limits = repo.parity_limits()?;
    let mut survivors = 0;
    for mutant in &mutants {
        let program = program_of(&programs, mutant)?;
        let limits = limits.precision.iter();
        let mut judged_by: Vec<_> = limits
            .filter(|(precision, _)| is_seen_by(mutant, precision))
            .collect();
        judged_by.sort_by(|(_, a), (_, b)| b.kl_nats_max.total_cmp(&a.kl_nats_max));
        let mut seen_by: Vec<(&String, &Limit)> = Vec::new();
        for (precision, limit) in judged_by {
            base::interrupt::check()?;
            // A mutant that fails under some limits also fails under tighter ones (see the test
            // beside `judge_scores`), so the widest limits are tested first.
            let wider = seen_by.iter().find(|(_, wider)| limit.is_within(wider));
            let verdict = match wider {
                Some((wider, _)) => format!("seen, for {wider} allows all that these do"),
                None => match seen(repo, mutant, program, limit)? {
                    Some((model, why)) => {
                        seen_by.push((precision, limit));
                        format!("seen on {model}: {why}")
                    }
                    None => {
                        survivors += 1;
                        "NOT SEEN: the gate is blind to it".to_owned()
                    }
                },
            };
            println!("{:<28} by {precision:<7} limits: {verdict}", mutant.id);
        }
    }
    survivors += forgers(repo, registry)?;
    if survivors > 0 {
        watch::error(format!("{survivors} mutants passed"));
        return Ok(ExitCode::from(3));
    }
    println!(
        "the gate sees every mutant under every limit that must see it, the audit every forged stamp"
    );
    Ok(ExitCode::SUCCESS)
}

fn program_of<'a>(programs: &'a Programs, target: &Target) -> Result<&'a Program> {
    let program = programs.get(target);
    program.map_err(|failure| anyhow::anyhow!("{}: {failure}", target.id))
}

/// Whether the gate must reject a mutant under a precision's limits. At f32 a mutant's error is
/// that of the mutation alone, so it must exceed the limits of every precision. At a coarser
/// precision it has that precision's noise too, and is judged by its limits only.
fn is_seen_by(mutant: &Target, precision: &str) -> bool {
    mutant.precision == "f32" || mutant.precision == precision
}

/// Requests in a launch of the instrument or a forger, and tokens of each request.
const LAUNCH: (u32, u32) = (20, 16);

/// Test the audit of stamps: it must find each variant of the instrument that reports false stamps
/// in one launch, and pass the instrument itself. Return how many are judged wrongly.
fn forgers(repo: &Repo, registry: &Registry) -> Result<u32> {
    let Some(instrument) = &registry.instrument else {
        return Ok(0);
    };
    let target = registry.known_target(&instrument.target);
    let programs = build::build(repo, registry, [&target], &Named::default())?;
    let program = program_of(&programs, &target)?.clone();
    let program = program.with_env(instrument.env.clone().into_iter().collect());
    let mut wrong = 0;
    for variant in std::iter::once(&target.variant).chain(&instrument.forgers) {
        base::interrupt::check()?;
        let mut load = load_request(&target, &repo.root, 1, 64, 1);
        load.weights = "none".into();
        load.variant = variant.clone();
        let session = Session::open_watched(&program, &load, &default_timeouts())?;
        let (found, requests) = audited(session)?;
        let Some(found) = found else {
            bail!("stamps can't be audited: there is no room for a temporary file");
        };
        let is_true = *variant == target.variant;
        let judged = stats::witness::judge(&found, requests.iter());
        wrong += u32::from(judged.is_ok() != is_true);
        let verdict = match judged {
            Ok(()) if is_true => "its stamps are true".to_owned(),
            Ok(()) => "NOT SEEN: the audit is blind to it".to_owned(),
            Err(why) if is_true => format!("CALLED FALSE: {why}"),
            Err(why) => format!("seen: {why}"),
        };
        let name = if is_true { &target.id } else { variant };
        println!("{name:<28} by its stamps: {verdict}");
    }
    Ok(wrong)
}

/// Make requests one after the other. Return what the audit found of their stamps, or `None` where
/// the engine's tokens can't be watched, and the requests.
fn audited(mut session: Session) -> Result<(Option<AuditResult>, Vec<RequestRecord>)> {
    let (requests, new_tokens) = LAUNCH;
    let case = Case {
        requests,
        new_tokens,
        ..Case::default()
    };
    let prompts = (0..requests).map(|prompt| vec![1, 2 + prompt]).collect();
    let prompts = CasePrompts {
        untimed: PromptQueue::new(0, Vec::new()),
        timed: PromptQueue::new(0, prompts),
    };
    let mut audit = Audit::new(&session, 1);
    audit.begin();
    audit.watch();
    let records = issue::timed(&mut session, LoadShape::Serial, &case, 0, None, prompts)?;
    records.iter().for_each(|record| audit.answered(record));
    let found = audit.end();
    session.close()?;
    Ok((found, records))
}

/// Return the first model on which the gate rejects the mutant, and the reason; `None` where it
/// passes on all.
fn seen(
    repo: &Repo,
    mutant: &Target,
    program: &Program,
    limit: &Limit,
) -> Result<Option<(&'static str, String)>> {
    // A mutant that passes on a model goes through all checks there, so the one that shows what the
    // others hide is asked first, and the far context, which takes the longest, else last.
    let shown_by = match mutant.variant.as_str() {
        "kv_int8" | "rms_epsilon" | "sparse_mlp" => "tiny-outliers",
        "rope_far" | "rope_scaling" => FAR.0,
        _ => "",
    };
    let mut models = ModelSpec::SMALL;
    models.sort_by_key(|model| (*model != shown_by, *model == FAR.0));
    for model in models {
        let context = (model == FAR.0).then_some(FAR.1);
        let golden = goldens::load(repo, Subject::model(model), context.as_slice())?;
        let setup = GateSetup {
            golden: &golden,
            limit,
            model_dir: &repo.model_dir(model),
            threads: threads(),
            batches: &BATCHES,
            prefix_cache: true,
            outliers: Outliers::None,
            timeouts: default_timeouts(),
        };
        let record = verify(mutant, program, &setup);
        match record.status {
            Status::WrongOutput => return Ok(Some((model, record.reason))),
            // A mutation of something that the model lacks (RoPE scaling, say) has no effect on it.
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
