//! The programs of a run: those of its targets, of a judge, of the targets that make its golden
//! where one is missing, and of its micro suites.

use super::first_look::FirstLook;
use anyhow::Result;
use base::repo::Repo;
use harness::devices::Named;
use harness::engine::EngineFailure;
use harness::micro::MicroPrograms;
use harness::programs::Programs;
use harness::verify::goldens;
use harness::{positions, verify};
use provision::{build, fetch};
use schema::plan::Plan;
use schema::registry::{Registry, Target};
use std::collections::{BTreeMap, BTreeSet};
use watch::event::Stage;

/// Maximum number of programs that are listed by name before a run.
const NAMES_MAX: usize = 6;
/// Number of parameters from which every judge but the reference takes long. With 1.2 billion
/// parameters on two cores the reference takes 1.2 s an output, and Candle in f32 takes 3 to 4 s.
const LARGE_PARAMETERS: u64 = 500_000_000;

/// Announce what a plan needs, fetch its model, and build its programs; see [`Building::new`].
pub(super) fn programs(
    repo: &Repo,
    registry: &Registry,
    plan: &Plan,
    look: Option<&FirstLook>,
    named: &Named,
) -> Result<Programs> {
    let building = Building::new(repo, registry, plan, look, named)?;
    eprint!("{}", building.announcement());
    watch::stage(Stage::Fetch);
    fetch::ensure_for_run(repo, plan)?;
    watch::stage(Stage::Build);
    // A first look is taken in between, where the profile has one.
    let mut programs = building.stage.run(|left| match look {
        Some(look) => look.take(left),
        None => Ok(()),
    })?;
    programs.micro.extend(building.micro);
    Ok(programs)
}

/// The programs to be built for a run.
pub(super) struct Building<'a> {
    stage: build::Stage<'a>,
    micro: MicroPrograms,
}

impl<'a> Building<'a> {
    /// Determine which programs a plan needs. Those `named` by the user are built even where their
    /// device is missing.
    pub(super) fn new(
        repo: &'a Repo,
        registry: &'a Registry,
        plan: &Plan,
        look: Option<&'a FirstLook>,
        named: &Named,
    ) -> Result<Self> {
        let mut micro = MicroPrograms::default();
        let wanted = micro.wanted(repo, registry, &plan.micro, named)?;
        let mut targets = plan.targets.clone();
        if !targets.is_empty() {
            targets.extend(judges(repo, registry, plan)?);
            let contexts = positions::of_plan(plan);
            if goldens::is_any_lacking(repo, &plan.model, &plan.targets, &contexts)? {
                targets.extend(verify::judges::to_build(registry));
            }
        }
        let first = look.map_or(&[][..], |look| &look.targets);
        let stage = build::Stage::new(repo, registry, &targets, &wanted, first, named)?;
        Ok(Self { stage, micro })
    }

    /// Describe in a few lines what can't run here, what is to be built, and how long that should
    /// take.
    fn announcement(&self) -> String {
        let lacking = self.without_device();
        let lacking: String = lacking.map(|(id, why)| format!("{id}: {why}\n")).collect();
        lacking + &self.stage.announcement(NAMES_MAX)
    }

    fn without_device(&self) -> impl Iterator<Item = (&str, &EngineFailure)> {
        self.micro
            .without_device()
            .chain(self.stage.without_device())
    }

    /// Describe the same for a dry run, and also what is known to be missing, what is built
    /// already, and the name of every program.
    pub(super) fn report(&self) -> String {
        let targets = grouped_by_reason(self.stage.without_device());
        let micro = grouped_by_reason(self.micro.without_device());
        let micro = micro.map(|line| format!("in micro suites {line}"));
        let unavailable = targets.chain(micro).chain(self.stage.missing());
        let unavailable: Vec<String> = unavailable.collect();
        let mut text = String::new();
        if !unavailable.is_empty() {
            text.push_str("Not available here:\n");
            text.extend(unavailable.iter().map(|line| format!("  {line}\n")));
        }
        let there = self.stage.built_before();
        if !there.is_empty() {
            text.push_str(&format!("Built before: {}\n", there.join(", ")));
        }
        text + &self.stage.announcement(usize::MAX)
    }
}

/// Group targets and variants by the reason why they are unavailable, a line for each reason.
fn grouped_by_reason<'a>(
    lacking: impl Iterator<Item = (&'a str, &'a EngineFailure)>,
) -> impl Iterator<Item = String> {
    let mut of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (id, why) in lacking {
        let why = why.reason.replace(&format!("name {id} in"), "name it in");
        of.entry(why).or_default().push(id);
    }
    of.into_iter()
        .map(|(why, ids)| format!("{}: {why}", ids.join(", ")))
}

/// Return the judges that a run of this plan uses: those whose programs cost nothing more, because
/// the plan needs them or they were built before. A large model gets the reference too, because it
/// scores a whole output in one pass and so saves more time than its download takes. If this leaves
/// no judge, the cross-check is used. A judge is also returned for a device, where that needs no
/// further build.
fn judges(repo: &Repo, registry: &Registry, plan: &Plan) -> Result<Vec<Target>> {
    let planned = plan.targets.iter().map(|t| registry.program_id(t));
    let planned: BTreeSet<Option<String>> = planned.collect();
    let models = repo.models()?;
    let model = models.get(&plan.model);
    let is_large = model.is_some_and(|model| model.parameters >= LARGE_PARAMETERS);
    let [reference, cross_check] = registry.judges();
    let is_free = |judge: &Target| {
        planned.contains(&registry.program_id(judge)) || build::is_built(repo, registry, judge)
    };
    let wants_reference = is_large || is_free(&reference);
    let wants_cross_check = is_free(&cross_check) || !wants_reference;
    let places = verify::judges::candidates(registry);
    let judges = [
        (reference, wants_reference),
        (cross_check, wants_cross_check),
    ];
    let mut all = Vec::new();
    for ((judge, is_wanted), places) in judges.into_iter().zip(places) {
        if is_wanted {
            all.extend(usable_places(registry, &judge, places, is_free));
        }
    }
    Ok(all)
}

/// Return the places where `judge` may run with its own program, or with one that needs no build.
fn usable_places(
    registry: &Registry,
    judge: &Target,
    places: Vec<Target>,
    is_free: impl Fn(&Target) -> bool,
) -> Vec<Target> {
    let own = registry.program_id(judge);
    let serves = |place: &Target| registry.program_id(place) == own || is_free(place);
    places.into_iter().filter(serves).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::record::Status;

    #[test]
    fn a_judge_serves_on_a_device_where_that_costs_no_further_program() {
        let registry = Repo::find().unwrap().registry().unwrap();
        let all = registry.targets();
        for judge in registry.judges() {
            let is_place = |t: &&Target| {
                t.engine == judge.engine && t.precision == judge.precision && t.variant.is_empty()
            };
            let places: Vec<Target> = all.iter().filter(is_place).cloned().collect();
            assert_eq!(places.len(), 2, "a processor and a GPU");
            let one_program = registry.program_id(&places[0]) == registry.program_id(&places[1]);
            let served =
                |is_free| usable_places(&registry, &judge, places.clone(), |_| is_free).len();
            assert_eq!(served(true), 2);
            assert_eq!(served(false), 1 + usize::from(one_program));
        }
    }

    #[test]
    fn what_lacks_the_same_is_said_together() {
        let failure = |id: &str, why: &str| {
            let reason = format!("{why}: install it, or name {id} in full");
            EngineFailure::new(Status::Unavailable, reason)
        };
        let all = [
            ("a", failure("a", "no GPU")),
            ("gpu", failure("gpu", "no gpu")),
            ("b", failure("b", "no GPU")),
        ];
        let lines = grouped_by_reason(all.iter().map(|(id, why)| (*id, why)));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "a, b: no GPU: install it, or name it in full",
                "gpu: no gpu: install it, or name it in full"
            ]
        );
    }
}
