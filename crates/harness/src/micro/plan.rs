//! Suites + programs + profile + seed → what is measured of the micro suites, and in
//! which order. Pure.

use crate::plan::{Choice, SplitMix64};
use anyhow::{Result, anyhow, bail};
use base::names::{Kind, UnknownName};
use base::random::hash;
use schema::key::twin_name;
use schema::micro::{
    Contenders, DIR, MicroLaunch, MicroPlan, MicroRegistry, PlannedSuite, Suite, SuiteCase,
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
                "profile {:?} has no size for {wanted:?}: add [micro] to data/profiles/{0}.toml",
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

/// Those on the backends, and of the engines named on the command line; one named in full
/// wherever it is, as a target is. With them the baseline, whatever it is on, because every
/// ratio needs it. None where there is nothing that could stand against it.
fn variants(backends: &[String], contenders: &Contenders, choice: &Choice) -> Vec<Variant> {
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

/// Blocks of launches; inside a block the suites in a random order, and inside a suite
/// its variants, the baseline's twin among them.
fn order(suites: &[PlannedSuite], invocations: u32, seed: u64) -> Vec<MicroLaunch> {
    // A stream of its own: the engines' order must not depend on the suites there are.
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
mod tests;
