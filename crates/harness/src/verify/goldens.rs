//! Finds the golden that holds for a model: the committed one; where there is none, or where it
//! doesn't reach as far as a plan, the one that this machine makes and keeps beside the model's
//! files. `golden` makes it.

use super::golden::Maker;
use super::subject::Subject;
use crate::engine::EngineFailure;
use crate::positions;
use crate::programs::Programs;
use anyhow::{Context, Result, bail};
use base::files::write_whole;
use base::repo::Repo;
use schema::golden::{Golden, ParityLimits, USUAL_POSITIONS};
use schema::hash::sha256_hex;
use schema::model::weights_identity;
use schema::plan::Plan;
use schema::record::Status;
use schema::registry::{Registry, Target};
use schema::run::RunHeader;
use std::collections::BTreeMap;

/// The goldens of one model, by the weights that the reference read (`None`: the model's own). `Err`
/// says why there is none for that file.
pub struct Goldens {
    limits: ParityLimits,
    by_weights: BTreeMap<Option<String>, Result<Golden, String>>,
}

impl Goldens {
    /// Load the goldens of these targets, with the prompts that contexts of these lengths (tokens)
    /// need. `Err` where the model has no golden with its own weights.
    pub fn load(repo: &Repo, model: &str, targets: &[Target], contexts: &[u32]) -> Result<Self> {
        let limits = repo.parity_limits()?;
        let mut by_weights = BTreeMap::new();
        for subject in Subject::all(model, &limits, targets) {
            let golden = match (load(repo, subject, contexts), subject.own_weights) {
                (Err(error), Some(_)) => Err(format!("{error:#}")),
                (golden, _) => Ok(golden?),
            };
            by_weights.insert(subject.own_weights.map(str::to_owned), golden);
        }
        Ok(Self { limits, by_weights })
    }

    /// The golden of a target, which must be one of those that this was loaded for.
    pub fn for_target(&self, target: &Target) -> Result<&Golden, EngineFailure> {
        self.of_target(target)
            .map_err(|why| EngineFailure::new(Status::Unverified, why))
    }

    /// The golden of a target as [`Goldens::for_target`] gives it, or the reason alone.
    pub(super) fn of_target(&self, target: &Target) -> Result<&Golden, &str> {
        let own = self.limits.own_weights(target).map(str::to_owned);
        self.by_weights[&own].as_ref().map_err(String::as_str)
    }
}

/// The fact of a run that holds the SHA-256 of its golden, as far as its plan needs it.
const SHA256: &str = "golden_sha256";

/// The parts of a golden that a plan needs and that are missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Whether there is no golden with the usual prompts.
    pub usual: bool,
    /// Contexts (tokens) beyond the usual ones that the model reaches and the golden doesn't.
    pub far: Vec<u32>,
}

impl Lacking {
    /// Whether nothing is missing.
    pub fn is_nothing(&self) -> bool {
        !self.usual && self.far.is_empty()
    }
}

/// The goldens that there are for a model.
struct Kept {
    committed: Option<Golden>,
    made_here: Option<Golden>,
}

impl Kept {
    fn read(repo: &Repo, subject: Subject) -> Result<Self> {
        let path = repo.golden_path(subject.model, subject.own_weights);
        let committed = match path.exists() {
            true => Some(committed(repo, subject)?),
            false => None,
        };
        Ok(Self {
            committed,
            made_here: made_here(repo, subject)?,
        })
    }

    /// Where the golden comes from, as far as these contexts (tokens) need it.
    fn origin(&self, contexts: &[u32]) -> Option<String> {
        let far_here = self.far_made_here(contexts);
        let by = |made: &Golden| format!("{}, {} agreeing", made.reference, made.cross_check);
        match (&self.committed, &self.made_here) {
            (Some(_), Some(made)) if !far_here.is_empty() => Some(format!(
                "committed, and for contexts of {} tokens made here by {}",
                far_here.join(" and "),
                by(made)
            )),
            (Some(_), _) => Some("committed".to_owned()),
            (None, Some(made)) => Some(format!("made here by {}", by(made))),
            (None, None) => None,
        }
    }

    fn golden(self) -> Option<Golden> {
        match (self.committed, self.made_here) {
            (Some(committed), Some(made)) => Some(committed.with_long_prompts_of(made)),
            (committed, made) => committed.or(made),
        }
    }

    /// Those of the contexts (tokens) for which only the golden made here has a prompt.
    fn far_made_here(&self, contexts: &[u32]) -> Vec<String> {
        let reaches = |golden: &Option<Golden>, context: u32| {
            golden
                .as_ref()
                .is_some_and(|golden| golden.reaches(context))
        };
        let is_only_here = |context: &&u32| {
            **context > USUAL_POSITIONS
                && reaches(&self.made_here, **context)
                && !reaches(&self.committed, **context)
        };
        let contexts = contexts.iter().filter(is_only_here);
        contexts.map(u32::to_string).collect()
    }
}

/// Load the golden of a model as far as there is one, with the prompts that contexts of these
/// lengths (tokens) need; refused where it was made from other weights than the model's.
pub fn load(repo: &Repo, subject: Subject, contexts: &[u32]) -> Result<Golden> {
    let golden = Kept::read(repo, subject)?.golden();
    let golden = golden.with_context(|| {
        let Subject { model, own_weights } = subject;
        format!(
            "there is no golden for {} ({} or {}): make one with `cargo xtask verify --model {model} --bless`, which needs the reference engine",
            subject.in_words(),
            repo.golden_path(model, own_weights).display(),
            repo.own_golden_path(model, own_weights).display()
        )
    })?;
    Ok(golden.for_contexts(contexts))
}

/// The parts that are missing for contexts of these lengths (tokens), as far as that is known while
/// the model's files may not be here.
pub fn lacking(repo: &Repo, subject: Subject, contexts: &[u32]) -> Result<Lacking> {
    let golden = Kept::read(repo, subject)?.golden();
    let positions = positions::of_model(repo, subject.model)?.unwrap_or(u32::MAX);
    let has_usual = |golden: &Golden| golden.prompts.iter().any(|prompt| !prompt.is_long());
    let is_lacked = |&context: &u32| {
        let reaches = |golden: &Golden| golden.reaches(context);
        context > USUAL_POSITIONS && context <= positions && !golden.as_ref().is_some_and(reaches)
    };
    Ok(Lacking {
        usual: !golden.as_ref().is_some_and(has_usual),
        far: contexts.iter().copied().filter(is_lacked).collect(),
    })
}

/// Whether anything is missing for these targets; see [`lacking`].
pub fn is_any_lacking(
    repo: &Repo,
    model: &str,
    targets: &[Target],
    contexts: &[u32],
) -> Result<bool> {
    for subject in Subject::all(model, &repo.parity_limits()?, targets) {
        if !lacking(repo, subject, contexts)?.is_nothing() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Make sure that a model has a golden for contexts of these lengths (tokens). Its files and the
/// programs of [`to_build`](super::judges::to_build) must be there. `Err` only where there is no
/// golden with the model's own weights: contexts that can't be reached stay unverified, and so do
/// the targets of a file whose weights the reference can't read.
pub fn ensure(maker: &Maker, contexts: &[u32]) -> Result<()> {
    match (make_lacking(maker, contexts), maker.subject.own_weights) {
        (Err(error), Some(_)) => {
            base::interrupt::check()?;
            watch::warn(format!("{error:#}"));
            Ok(())
        }
        (made, _) => made,
    }
}

fn make_lacking(maker: &Maker, contexts: &[u32]) -> Result<()> {
    let (repo, subject) = (maker.repo, maker.subject);
    let model = subject.in_words();
    let lacking = lacking(repo, subject, contexts)?;
    if lacking.usual {
        eprintln!("No golden (the reference's answers) of {model} is committed: making one");
        let golden = maker.usual().with_context(|| {
            format!(
                "{model} can't be verified, so it can't be measured: no golden of it is committed, and none can be made here (`cargo xtask doctor` says what is missing)"
            )
        })?;
        write(repo, subject, &golden)?;
    }
    let mut far = lacking.far;
    let wanted = far.last().copied();
    let mut first_failure = None;
    while let Some(longest) = far.last() {
        eprintln!("The golden of {model} is made to reach contexts of {longest} tokens");
        match maker.far(&far) {
            Ok(golden) => {
                write(repo, subject, &golden)?;
                break;
            }
            Err(error) => {
                base::interrupt::check()?;
                first_failure.get_or_insert(error);
                far.pop();
            }
        }
    }
    if let (Some(error), Some(wanted)) = (first_failure, wanted) {
        let reached = far.last().copied().unwrap_or(USUAL_POSITIONS);
        watch::warn(format!(
            "No golden of {model} reaches contexts of {wanted} tokens, only {reached}: what is longer stays unverified and is not timed: {error:#}"
        ));
    }
    Ok(())
}

/// Make sure that a plan's model has a golden; a plan without targets needs none.
pub fn ensure_for(
    repo: &Repo,
    registry: &Registry,
    programs: &Programs,
    plan: &Plan,
) -> Result<()> {
    if plan.targets.is_empty() {
        return Ok(());
    }
    for subject in Subject::all(&plan.model, &repo.parity_limits()?, &plan.targets) {
        let maker = Maker {
            repo,
            registry,
            programs,
            subject,
            threads: plan.threads,
        };
        ensure(&maker, &positions::of_plan(plan))?;
    }
    Ok(())
}

/// The same as [`ensure_for`] for a run that is resumed; refused where the rest of its targets
/// would be compared with another golden than the targets before.
pub fn ensure_as_recorded(
    repo: &Repo,
    registry: &Registry,
    programs: &Programs,
    header: &RunHeader,
) -> Result<()> {
    let plan = &header.plan;
    let then = &header.provenance.facts;
    let then: Vec<_> = then
        .iter()
        .filter(|(fact, _)| fact.starts_with(SHA256))
        .collect();
    let is_the_same = || -> Result<bool> {
        let now = facts(repo, plan)?;
        Ok(then
            .iter()
            .all(|(fact, sha256)| now.get(*fact) == Some(*sha256)))
    };
    if !then.is_empty() && is_the_same()? {
        return Ok(());
    }
    ensure_for(repo, registry, programs, plan)?;
    if !is_the_same()? {
        let (id, model) = (&header.id, &plan.model);
        bail!("run {id} was verified against another golden of {model}; start a new run");
    }
    Ok(())
}

/// The facts of a run's provenance about the goldens that its targets are compared with: the SHA-256
/// of as much of each as the plan needs, that of the model with outliers included, where those of
/// the plan's model come from, and how far they reach (tokens).
pub fn facts(repo: &Repo, plan: &Plan) -> Result<BTreeMap<String, String>> {
    let mut facts = BTreeMap::new();
    if plan.targets.is_empty() {
        return Ok(facts);
    }
    let contexts = positions::of_plan(plan);
    let limits = repo.parity_limits()?;
    for subject in Subject::all(&plan.model, &limits, &plan.targets) {
        let kept = Kept::read(repo, subject)?;
        let origin = kept.origin(&contexts);
        let Some((origin, golden)) = origin.zip(kept.golden()) else {
            continue;
        };
        let golden = golden.for_contexts(&contexts);
        let mut add = |fact: &str, value: String| {
            facts.insert(fact_of(fact, subject), value);
        };
        add(SHA256, sha256_hex(golden.to_json().as_bytes()));
        add("golden_origin", origin);
        add("golden_positions", golden.positions().to_string());
    }
    let beside = limits
        .outliers_beside(&plan.model, &plan.targets)
        .into_iter();
    for subject in beside.flat_map(|model| Subject::all(model, &limits, &plan.targets)) {
        if let Some(golden) = Kept::read(repo, subject)?.golden() {
            let golden = golden.for_contexts(&[]);
            let name = fact_of(&format!("{SHA256}_outliers"), subject);
            facts.insert(name, sha256_hex(golden.to_json().as_bytes()));
        }
    }
    Ok(facts)
}

/// The name of a fact about a golden with these weights.
fn fact_of(fact: &str, subject: Subject) -> String {
    match subject.own_weights {
        Some(weights) => format!("{fact}_{weights}"),
        None => fact.to_owned(),
    }
}

/// Load the committed golden; refused where it was made from other weights than the model's.
fn committed(repo: &Repo, subject: Subject) -> Result<Golden> {
    let Subject { model, own_weights } = subject;
    let path = repo.golden_path(model, own_weights);
    let golden = Golden::load(&path)?;
    if golden.model != model {
        bail!(
            "{}: is of model {:?}, and its name says {model}; make it anew with `cargo xtask verify --model {model} --bless`",
            path.display(),
            golden.model
        );
    }
    if !is_of_weights(repo, subject, &golden)? {
        bail!(
            "{}: was made from weights {}…, which data/models.lock does not have for {model}; make it anew with `cargo xtask verify --model {model} --bless`",
            path.display(),
            golden.weights_sha256.get(..12).unwrap_or_default()
        );
    }
    Ok(golden)
}

/// The golden that was made here, if it may be used: of these weights, by the registry's reference
/// and its cross-check. Any other is ignored, and made anew.
fn made_here(repo: &Repo, subject: Subject) -> Result<Option<Golden>> {
    let path = repo.own_golden_path(subject.model, subject.own_weights);
    let Ok(golden) = Golden::load(&path) else {
        return Ok(None);
    };
    let registry = repo.registry()?;
    let [reference, cross_check] = registry.judges();
    let is_by = |name: &str, judge: &Target| {
        let id = name.split(' ').next().unwrap_or_default();
        let targets = registry.targets();
        let by = targets.iter().find(|target| target.id == id);
        by.is_some_and(|t| t.engine == judge.engine && t.precision == judge.precision)
    };
    let is_usable = golden.model == subject.model
        && is_by(&golden.reference, &reference)
        && is_by(&golden.cross_check, &cross_check)
        && is_of_weights(repo, subject, &golden)?;
    Ok(is_usable.then_some(golden))
}

fn is_of_weights(repo: &Repo, subject: Subject, golden: &Golden) -> Result<bool> {
    let lock = repo.models_lock()?;
    let Some(files) = lock.models.get(subject.model) else {
        return Ok(false);
    };
    let is_it = |sha256: &String| *sha256 == golden.weights_sha256;
    if let Some(weights) = subject.own_weights {
        return Ok(files.get(weights).is_some_and(is_it));
    }
    let weights = repo.registry()?.judges().map(|judge| judge.weights);
    let whole = || {
        weights
            .iter()
            .find_map(|name| weights_identity(files, name))
    };
    Ok(files.values().any(is_it) || whole().as_ref().is_some_and(is_it))
}

/// Write the golden that was made here beside the model's files, merged with the one there before.
fn write(repo: &Repo, subject: Subject, made: &Golden) -> Result<()> {
    let mut golden = made.clone();
    if let Some(before) = made_here(repo, subject)? {
        golden.cross_check_kl_nats = golden.cross_check_kl_nats.max(before.cross_check_kl_nats);
        for (name, before) in [
            (&mut golden.reference, before.reference),
            (&mut golden.cross_check, before.cross_check),
        ] {
            if !before.split(" and ").any(|before| before == *name) {
                *name = format!("{before} and {name}");
            } else {
                *name = before;
            }
        }
        let new = std::mem::take(&mut golden.prompts);
        golden.prompts = before.prompts;
        golden
            .prompts
            .retain(|old| !new.iter().any(|prompt| prompt.name == old.name));
        golden.prompts.extend(new);
    }
    let path = repo.own_golden_path(subject.model, subject.own_weights);
    write_whole(&path, golden.to_json())?;
    eprintln!(
        "{}: made by {}, {} agrees (worst mean KL {:.1e} nats)",
        path.display(),
        made.reference,
        made.cross_check,
        made.cross_check_kl_nats
    );
    Ok(())
}
