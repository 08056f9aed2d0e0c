//! Cheap checks that can refuse a run before a byte is downloaded or compiled: the gate's limits,
//! context lengths, disk space, access to the model, and whether its golden can be made. Names are
//! checked before.

use anyhow::Result;
use base::names::Refused;
use base::repo::Repo;
use harness::positions;
use harness::verify::setup::limit;
use harness::verify::subject::Subject;
use harness::verify::{architecture, goldens, judges};
use provision::fetch::{Hub, human_bytes};
use provision::{build, fetch};
use schema::golden::{POSITIONS, USUAL_POSITIONS};
use schema::plan::Plan;
use schema::registry::{Registry, Target};
use site::words::join;

pub(super) struct Checks {
    all: Vec<(&'static str, Found)>,
    /// What the gate will check of every target once all is built.
    gate: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// All is well.
    Good(String),
    /// Something will be left out.
    Remark(String),
    /// Nothing could be measured.
    Refusal(String),
}

impl Found {
    fn text(&self) -> &str {
        let (Self::Good(text) | Self::Remark(text) | Self::Refusal(text)) = self;
        text
    }
}

pub(super) fn check(repo: &Repo, registry: &Registry, plan: &Plan) -> Result<Checks> {
    let mut all = Vec::new();
    let limits = repo.parity_limits()?;
    for target in &plan.targets {
        limit(&limits, &target.precision)?;
    }
    if !plan.targets.is_empty() {
        let positions = positions::of_model(repo, &plan.model)?;
        all.push(("lengths", lengths(plan, positions)));
    }
    let hub = Hub::from_env();
    let need = fetch::need(&repo.models()?, &plan.model, &repo.models_dir, &hub)?;
    all.push(("disk", disk(&plan.model, &need)));
    all.push(("access", access(&plan.model, &need)));
    let mut gate = String::new();
    if !plan.targets.is_empty() {
        all.push(("golden", golden(repo, registry, plan)?));
        gate = of_gate(plan, limits.outliers_beside(&plan.model, &plan.targets));
    }
    Ok(Checks { all, gate })
}

impl Checks {
    /// Fail where a check refuses the run, and warn of what will be left out.
    pub fn refuse(&self) -> Result<()> {
        for (_, found) in &self.all {
            match found {
                Found::Good(_) => {}
                Found::Remark(text) => watch::warn(text.clone()),
                Found::Refusal(text) => return Err(Refused(text.clone()).into()),
            }
        }
        Ok(())
    }

    /// Format the results, a line each.
    pub fn report(&self) -> String {
        let mut text = "Checked before anything is fetched or built:\n".to_owned();
        for (about, found) in &self.all {
            text += &format!("  {about}: {}\n", found.text());
        }
        text + &self.gate
    }
}

fn lengths(plan: &Plan, positions: Option<u32>) -> Found {
    let contexts = positions::of_plan(plan);
    let (shortest, longest) = match contexts.as_slice() {
        [] => return Found::Good("no contexts".into()),
        [first, ..] => (*first, contexts[contexts.len() - 1]),
    };
    let model = &plan.model;
    let Some(positions) = positions else {
        return Found::Good(format!(
            "contexts of up to {longest} tokens; the positions of {model} are known once it is here"
        ));
    };
    if shortest > positions {
        return Found::Refusal(format!(
            "every case of profile {} needs {shortest} positions or more, and {model} has {positions}: choose another profile or model",
            plan.profile
        ));
    }
    match positions::too_long(plan, positions).as_slice() {
        [] => Found::Good(format!(
            "contexts of up to {longest} tokens, {model} has {positions} positions"
        )),
        cases => Found::Remark(format!(
            "{model} has {positions} positions, so these cases stay unverified and are not timed: {}",
            cases.join(", ")
        )),
    }
}

fn disk(model: &str, need: &fetch::Need) -> Found {
    let place = need.place.display();
    match (need.files.as_slice(), need.free) {
        ([], _) => Found::Good(format!("{model} is complete")),
        (_, Some(free)) if free < need.bytes => Found::Refusal(format!(
            "{model} needs about {} in {place}, where {} are free: make room, or choose another directory with HF_HOME or BENCH_MODELS_DIR",
            human_bytes(need.bytes),
            human_bytes(free)
        )),
        (_, free) => {
            let size = match need.bytes {
                0 => "an unknown size".to_owned(),
                bytes => format!("about {}", human_bytes(bytes)),
            };
            let free = free.map_or("unknown".to_owned(), human_bytes);
            Found::Good(format!(
                "{size} of {model} to download or make; free in {place}: {free}"
            ))
        }
    }
}

fn access(model: &str, need: &fetch::Need) -> Found {
    match need.lacks_token {
        true => Found::Refusal(format!(
            "{model} is gated and there is no token: accept its terms on its page, and name a token in HF_TOKEN"
        )),
        false => Found::Good("no token is lacking".into()),
    }
}

fn golden(repo: &Repo, registry: &Registry, plan: &Plan) -> Result<Found> {
    let model = &plan.model;
    // Ask only about the model's own golden. Where that for a file of few bits is missing, only the
    // targets of that file are left out.
    let lacking = goldens::lacking(repo, Subject::model(model), &positions::of_plan(plan))?;
    if lacking.is_nothing() {
        return Ok(Found::Good(format!(
            "there is one of {model} that reaches as far"
        )));
    }
    let [reference, cross_check] = judges::candidates(registry);
    let ids = |all: &[Target]| all[0].id.clone();
    let far = match lacking.far.as_slice() {
        [] => String::new(),
        far => format!(" for contexts of {} tokens", listed(far)),
    };
    let how = format!(
        "{} will be asked{far}; it counts if {} agrees",
        ids(&reference),
        ids(&cross_check)
    );
    if !lacking.usual {
        return Ok(Found::Good(how));
    }
    // Without any golden, nothing can be verified and so nothing measured.
    let names = fetch::file_names(&repo.models()?, model)?;
    let weights = &reference[0].weights;
    let index = format!("{weights}.index.json");
    if !names.iter().any(|name| name == weights || *name == index) {
        return Ok(Found::Refusal(format!(
            "no golden of {model} is committed, and none can be made: it has no {weights}, which the reference {} reads; add it to data/models.toml, or choose another model",
            ids(&reference)
        )));
    }
    let model_dir = repo.model_dir(model);
    for judge in [&reference, &cross_check] {
        let why = judge.iter().map(|target| {
            build::why_missing(repo, registry, target).or_else(|| {
                let refused = architecture::refused(registry, target, &model_dir)?;
                Some(refused.reason)
            })
        });
        let why: Option<Vec<String>> = why.collect();
        if let Some(first) = why.as_ref().and_then(|why| why.first()) {
            return Ok(Found::Refusal(format!(
                "no golden of {model} is committed, and {}, which is needed to make one, can't do so here: {first}",
                ids(judge)
            )));
        }
    }
    Ok(Found::Good(format!("none is committed: {how}")))
}

/// Describe what the gate checks of every target before it is timed.
fn of_gate(plan: &Plan, outliers: Option<&str>) -> String {
    let batches = positions::batches(plan);
    let mut far = positions::of_plan(plan);
    far.retain(|&context| context > USUAL_POSITIONS);
    let far = match far.as_slice() {
        [] => String::new(),
        far => format!(
            "  the last {POSITIONS} positions of contexts of {} tokens, each target as far as it goes\n",
            listed(far)
        ),
    };
    let outliers = outliers.map_or(String::new(), |model| {
        format!(
            "  its log-probabilities on {model}, where shortcuts show that {} hides\n",
            plan.model
        )
    });
    format!(
        "To be checked of every target before it is timed:\n  \
         its log-probabilities and choices at {POSITIONS} positions of each golden prompt, up to {USUAL_POSITIONS} positions\n  \
         prompts of every length modulo 64\n  \
         its outputs with {} in flight\n{far}{outliers}\
         and of every distinct timed output: that the reference accepts it\n",
        listed(&batches)
    )
}

/// Format numbers as `1, 4 and 8`.
fn listed(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    join(&words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::plan;
    use std::path::PathBuf;

    #[test]
    fn lengths_refuse_only_where_nothing_fits() {
        let plan = plan(); // its contexts are of 26 and 516 tokens
        assert!(matches!(lengths(&plan, Some(516)), Found::Good(_)));
        assert!(matches!(lengths(&plan, None), Found::Good(_)));
        let Found::Remark(text) = lengths(&plan, Some(515)) else {
            panic!("the longer case does not fit");
        };
        assert!(text.contains("s/p500") && !text.contains("s/p10"), "{text}");
        assert!(matches!(lengths(&plan, Some(25)), Found::Refusal(_)));
    }

    #[test]
    fn a_disk_that_is_too_small_and_a_missing_token_refuse() {
        let mut need = fetch::Need {
            files: vec!["model.safetensors".into()],
            bytes: 3_800_000_000,
            place: PathBuf::from("models"),
            free: Some(1_000_000_000),
            lacks_token: true,
        };
        let Found::Refusal(text) = disk("m", &need) else {
            panic!("it does not fit");
        };
        assert!(text.contains("3.8 GB") && text.contains("1.0 GB"), "{text}");
        assert!(access("m", &need).text().contains("HF_TOKEN"));
        need.free = Some(4_000_000_000);
        need.lacks_token = false;
        assert!(matches!(disk("m", &need), Found::Good(_)));
        assert!(matches!(access("m", &need), Found::Good(_)));
    }

    #[test]
    fn numbers_are_listed_as_one_reads_them() {
        assert_eq!(listed(&[8]), "8");
        assert_eq!(listed(&[1, 4, 8]), "1, 4 and 8");
    }
}
