//! Plans which micro suites a run measures and in which order, from suites, programs, profile and
//! seed. Pure.

use crate::plan::Choice;
use anyhow::{Result, anyhow, bail};
use base::names::{Kind, UnknownName};
use base::random::{SplitMix64, hash};
use schema::key::twin_name;
use schema::micro::{
    DIR, MicroLaunch, MicroPlan, MicroRegistry, PlannedSuite, Suite, SuiteCase, SuiteVariants,
    Variant, asks_for, is_micro, scenario_id,
};
use schema::profile::{MicroSizes, Profile};

/// The micro suites of a run: empty where the profile has none, where only other
/// scenarios (or the user's prompts) were asked for, or where there are no programs for them.
pub fn plan(
    profile: &Profile,
    suites: &[Suite],
    registry: &MicroRegistry,
    choice: &Choice,
) -> Result<MicroPlan> {
    let wanted: Vec<&String> = choice.scenarios.iter().filter(|s| is_micro(s)).collect();
    let others = !choice.scenarios.is_empty() || choice.prompts.is_some();
    if wanted.is_empty() && others {
        return Ok(MicroPlan::default());
    }
    let is_suite = |wanted: &str| suites.iter().any(|suite| asks_for(wanted, &suite.id));
    if let Some(unknown) = wanted.iter().find(|wanted| !is_suite(wanted))
        && !suites.is_empty()
    {
        let known = suites.iter().map(|suite| scenario_id(&suite.id)).collect();
        return Err(UnknownName::new(Kind::Scenario, unknown, known).into());
    }
    let Some(sizes) = &profile.micro else {
        return match wanted.first() {
            None => Ok(MicroPlan::default()),
            Some(wanted) => bail!(
                "profile {:?} doesn't measure {wanted:?}: choose one that does, or add its sizes as [micro] to data/profiles/{0}.toml",
                profile.id
            ),
        };
    };
    for wanted in &wanted {
        if !sizes.suites.keys().any(|suite| asks_for(wanted, suite)) {
            let known = sizes.suites.keys().map(|s| format!("{DIR}/{s}"));
            bail!(
                "no micro suite {wanted:?} in profile {:?}: there are {DIR}/*, {}",
                profile.id,
                known.collect::<Vec<_>>().join(", ")
            );
        }
    }
    if registry.suites.is_empty() {
        return match wanted.first() {
            None => Ok(MicroPlan::default()),
            Some(wanted) => bail!(
                "no programs for {wanted:?}: engines/micro.toml names none here (a bundle has no micro suites; run them from a checkout)"
            ),
        };
    }
    let mut planned = Vec::new();
    for (id, cases) in &sizes.suites {
        if !wanted.is_empty() && !wanted.iter().any(|w| asks_for(w, id)) {
            continue;
        }
        planned.extend(suite(profile, sizes, id, cases, suites, registry, choice)?);
    }
    if planned.is_empty() && !wanted.is_empty() {
        bail!(
            "nothing to run: no micro variant of {} on {}",
            choice.engines.join(", "),
            backends(profile, sizes).join(" or ")
        );
    }
    let launches = order(&planned, profile.invocations, profile.seed);
    Ok(MicroPlan {
        suites: planned,
        launches,
    })
}

/// One suite with its sizes resolved; `None` where no variant of it is wanted.
fn suite(
    profile: &Profile,
    sizes: &MicroSizes,
    id: &str,
    cases: &[String],
    suites: &[Suite],
    registry: &MicroRegistry,
    choice: &Choice,
) -> Result<Option<PlannedSuite>> {
    let fail = |what: String| anyhow!("data/profiles/{}.toml: [micro.suites] {what}", profile.id);
    let suite = suites.iter().find(|suite| suite.id == id);
    let suite = suite.ok_or_else(|| fail(format!("{id}: not in data/scenarios/{DIR}")))?;
    let contenders = registry.suites.iter().find(|suite| suite.id == id);
    let contenders = contenders.ok_or_else(|| fail(format!("{id}: not in engines/micro.toml")))?;
    let mut chosen: Vec<SuiteCase> = Vec::new();
    for case in cases {
        let found = suite.cases.iter().find(|known| known.id == *case);
        let found = found.ok_or_else(|| fail(format!("{id}: it has no case {case:?}")))?;
        chosen.push(found.clone());
    }
    if cases.is_empty() {
        chosen.clone_from(&suite.cases);
    }
    let variants = variants(backends(profile, sizes), contenders, choice);
    if variants.is_empty() && choice.engines.is_empty() {
        return Err(fail(format!(
            "{id}: none of its variants is on {}: name their backends in [micro] backends",
            backends(profile, sizes).join(" or ")
        )));
    }
    if variants.is_empty() {
        return Ok(None);
    }
    for variant in variants.iter().chain([&contenders.reference]) {
        if !suite.limits.contains_key(&variant.precision) {
            bail!(
                "data/scenarios/{DIR}/{id}.toml: [limits] has none for {:?}, which {:?} computes in",
                variant.precision,
                variant.id
            );
        }
    }
    let ns = |ms: f64| (ms * 1e6) as u64;
    Ok(Some(PlannedSuite {
        id: id.to_owned(),
        version: suite.version,
        work: suite.work,
        limits: suite.limits.clone(),
        baseline: contenders.baseline.clone(),
        reference: contenders.reference.clone(),
        variants,
        cases: chosen,
        samples: sizes.samples,
        sample_ns: ns(sizes.sample_ms),
        warmup_ns: ns(sizes.warmup_ms),
        cell_ns: ns(sizes.cell_s * 1e3),
    }))
}

fn backends<'a>(profile: &'a Profile, sizes: &'a MicroSizes) -> &'a [String] {
    match sizes.backends.as_slice() {
        [] => &profile.backends,
        own => own,
    }
}

/// The variants on one of `backends`; where the command line names engines, only those of these
/// engines. A variant named in full is taken whatever its backend, as a target is. The baseline is
/// added, whatever its backend, because every ratio needs it. Empty where no variant is wanted.
fn variants(backends: &[String], contenders: &SuiteVariants, choice: &Choice) -> Vec<Variant> {
    let wanted = |variant: &&Variant| {
        let usual = backends.contains(&variant.backend);
        let engines = &choice.engines;
        engines.contains(&variant.id)
            || usual && (engines.is_empty() || engines.contains(&variant.engine))
    };
    if !contenders.variants.iter().any(|variant| wanted(&variant)) {
        return Vec::new();
    }
    let variants = contenders.variants.iter();
    variants
        .filter(|variant| variant.id == contenders.baseline || wanted(variant))
        .cloned()
        .collect()
}

/// The order of all launches, in blocks: inside a block the suites are in a random order, and so
/// are the variants of a suite and its baseline's twin.
fn order(suites: &[PlannedSuite], invocations: u32, seed: u64) -> Vec<MicroLaunch> {
    // Own random numbers: the order of the engines' launches must not depend on the suites.
    let mut random = SplitMix64(seed ^ hash(DIR));
    let mut launches = Vec::new();
    for invocation in 0..invocations {
        let mut suites: Vec<&PlannedSuite> = suites.iter().collect();
        random.shuffle(&mut suites);
        for suite in suites {
            let mut names: Vec<String> = suite.variants.iter().map(|v| v.id.clone()).collect();
            if names.contains(&suite.baseline) {
                names.push(twin_name(&suite.baseline));
            }
            random.shuffle(&mut names);
            launches.extend(names.into_iter().map(|variant| MicroLaunch {
                invocation,
                suite: suite.id.clone(),
                variant,
            }));
        }
    }
    launches
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::repo::Repo;
    use schema::key::is_twin;

    const REGISTRY: &str = r#"
    [[program]]
    id = "p"
    build = { kind = "prebuilt", path = "p" }
    [[suite]]
    id = "s"
    baseline = "a"
    reference = { id = "reference", about = "", program = "p", run = "r", backend = "cpu", precision = "f32" }
    variant = [
        { id = "a", about = "", engine = "one", program = "p", run = "a", backend = "cpu", precision = "f32" },
        { id = "b", about = "", engine = "two", program = "p", run = "b", backend = "cpu", precision = "f32" },
        { id = "c", about = "", engine = "two", program = "p", run = "c", backend = "cuda", precision = "f32" },
    ]
    "#;

    const SUITE: &str = r#"
    id = "s"
    version = 1
    title = ""
    question = ""
    analysis = ""
    work = "flop"
    limits = { f32 = 1e-5 }
    [[case]]
    id = "x"
    label = "x"
    params = { n = 1 }
    [[case]]
    id = "y"
    label = "y"
    params = { n = 2 }
    "#;

    const PROFILE: &str = r#"
    id = "p"
    about = ""
    publishable = false
    model = "m"
    backends = ["cpu"]
    invocations = 3
    seed = 1
    threads = 0
    warmup_requests = 1
    request_timeout_s = 1
    load_timeout_s = 1
    [scenarios]
    [micro]
    samples = 4
    sample_ms = 0.5
    warmup_ms = 1
    suites = { s = ["y"] }
    "#;

    fn planned(seed: u64, scenarios: &[&str], engines: &[&str]) -> Result<MicroPlan> {
        planned_with(PROFILE, seed, scenarios, engines)
    }

    fn planned_with(
        profile: &str,
        seed: u64,
        scenarios: &[&str],
        engines: &[&str],
    ) -> Result<MicroPlan> {
        let mut profile: Profile = toml::from_str(profile).unwrap();
        profile.seed = seed;
        let suite: Suite = toml::from_str(SUITE).unwrap();
        let registry: MicroRegistry = toml::from_str(REGISTRY).unwrap();
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let choice = Choice {
            engines: owned(engines),
            scenarios: owned(scenarios),
            ..Choice::default()
        };
        plan(&profile, &[suite], &registry, &choice)
    }

    fn ids(plan: &MicroPlan) -> Vec<&str> {
        let variants = plan.suites[0].variants.iter();
        variants.map(|variant| variant.id.as_str()).collect()
    }

    #[test]
    fn a_block_has_every_variant_once_and_the_baseline_twice() {
        let plan = planned(1, &[], &[]).unwrap();
        let suite = &plan.suites[0];
        assert_eq!(suite.cases.len(), 1, "the profile names one");
        assert_eq!((suite.sample_ns, suite.warmup_ns), (500_000, 1_000_000));
        for block in 0..3 {
            let of_block = plan.launches.iter().filter(|l| l.invocation == block);
            let mut names: Vec<&str> = of_block.map(|l| l.variant.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["a", "a@twin", "b"], "c is on another backend");
        }
        assert!(plan.launches.is_sorted_by_key(|launch| launch.invocation));
        assert!(plan.launches.iter().any(|launch| is_twin(&launch.variant)));
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        assert_eq!(planned(1, &[], &[]).unwrap(), planned(1, &[], &[]).unwrap());
        let orders = (1..6).map(|seed| planned(seed, &[], &[]).unwrap().launches);
        let orders: Vec<_> = orders.collect();
        assert!(orders.iter().any(|order| *order != orders[0]));
    }

    #[test]
    fn names_narrow_it_and_what_is_not_there_is_refused() {
        assert_eq!(planned(1, &["micro/*"], &[]).unwrap().suites.len(), 1);
        let both = planned(1, &["micro/s", "other"], &[]).unwrap();
        assert_eq!(both.suites.len(), 1);
        assert!(planned(1, &["other"], &[]).unwrap().is_empty());
        let refused = planned(1, &["micro/t"], &[]).unwrap_err();
        assert!(refused.to_string().contains("micro/s"), "{refused}");
        let two = planned(1, &["micro/*"], &["two"]).unwrap();
        // The baseline stays, and runs twice, because there is no ratio without it.
        assert_eq!(ids(&two), ["a", "b"]);
        assert_eq!(two.launches.len(), 9);
        // Named in full, a variant runs on a backend that the profile doesn't have.
        let in_full = planned(1, &["micro/*"], &["c"]).unwrap();
        assert_eq!(ids(&in_full), ["a", "c"]);
        assert!(planned(1, &[], &["three"]).unwrap().is_empty());
        assert!(planned(1, &["micro/*"], &["three"]).is_err());
    }

    #[test]
    fn backends_of_its_own_choose_and_the_baseline_is_on_any() {
        let with = |backends: &str| {
            let own = format!("[micro]\nbackends = {backends}");
            planned_with(&PROFILE.replace("[micro]", &own), 1, &[], &[])
        };
        assert_eq!(ids(&with(r#"["cuda"]"#).unwrap()), ["a", "c"]);
        assert_eq!(ids(&with(r#"["cpu", "cuda"]"#).unwrap()), ["a", "b", "c"]);
        // A suite that the profile names and no variant can run is a mistake in the profile.
        let refused = with(r#"["metal"]"#).unwrap_err().to_string();
        assert!(
            refused.contains("s: none of its variants is on metal"),
            "{refused}"
        );
    }

    #[test]
    fn every_suite_of_a_real_profile_has_its_baseline_and_something_to_hold_against_it() {
        let repo = Repo::find().unwrap();
        let suites = repo.suites().unwrap();
        let registry = repo.micro_registry().unwrap();
        for name in ["cpu", "gpu", "smoke"] {
            let profile = repo.profile(name).unwrap();
            let sizes = profile.micro.as_ref().unwrap();
            let plan = plan(&profile, &suites, &registry, &Choice::default()).unwrap();
            assert_eq!(plan.suites.len(), sizes.suites.len(), "{name}");
            for suite in &plan.suites {
                let ids: Vec<&str> = suite.variants.iter().map(|v| &*v.id).collect();
                assert!(
                    ids.len() > 1 && ids.contains(&&*suite.baseline),
                    "{name}: {ids:?}"
                );
            }
            if name == "gpu" {
                let on_gpu =
                    |suite: &&PlannedSuite| suite.variants.iter().any(|v| v.backend == "cuda");
                assert!(plan.suites.iter().filter(on_gpu).count() >= 2);
            }
        }
    }

    #[test]
    fn a_bundle_without_programs_plans_none_and_says_so_where_one_is_asked_for() {
        let profile: Profile = toml::from_str(PROFILE).unwrap();
        let suites: [Suite; 1] = [toml::from_str(SUITE).unwrap()];
        let choice = |scenarios: &[&str]| Choice {
            scenarios: scenarios.iter().map(|s| (*s).to_owned()).collect(),
            ..Choice::default()
        };
        let none = MicroRegistry::default();
        let nothing = plan(&profile, &suites, &none, &choice(&[])).unwrap();
        assert!(nothing.is_empty());
        let refused = plan(&profile, &suites, &none, &choice(&["micro/*"])).unwrap_err();
        assert!(refused.to_string().contains("bundle"), "{refused:?}");
    }
}
