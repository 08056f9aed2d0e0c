//! What is planned of the micro suites: equal inputs give equal plans, every variant
//! runs once in a block and the baseline twice, and names on the command line narrow it.

use super::*;
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
    assert_eq!(
        planned(1, &["micro/s", "other"], &[]).unwrap().suites.len(),
        1
    );
    assert!(planned(1, &["other"], &[]).unwrap().is_empty());
    let refused = planned(1, &["micro/t"], &[]).unwrap_err();
    assert!(refused.to_string().contains("micro/s"), "{refused}");
    let two = planned(1, &["micro/*"], &["two"]).unwrap();
    // The baseline stays, and runs twice: there is no ratio without it.
    let ids: Vec<&str> = two.suites[0].variants.iter().map(|v| &*v.id).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(two.launches.len(), 9);
    // Named in full, a variant runs on a backend that the profile has not.
    let in_full = planned(1, &["micro/*"], &["c"]).unwrap();
    let ids: Vec<&str> = in_full.suites[0].variants.iter().map(|v| &*v.id).collect();
    assert_eq!(ids, ["a", "c"]);
    assert!(planned(1, &[], &["three"]).unwrap().is_empty());
    assert!(planned(1, &["micro/*"], &["three"]).is_err());
}

#[test]
fn backends_of_its_own_choose_and_the_baseline_is_on_any() {
    let with = |backends: &str| {
        let own = format!("[micro]\nbackends = {backends}");
        planned_with(&PROFILE.replace("[micro]", &own), 1, &[], &[])
    };
    let ids = |plan: MicroPlan| -> Vec<String> {
        let variants = plan.suites[0].variants.iter();
        variants.map(|v| v.id.clone()).collect()
    };
    assert_eq!(ids(with(r#"["cuda"]"#).unwrap()), ["a", "c"]);
    assert_eq!(ids(with(r#"["cpu", "cuda"]"#).unwrap()), ["a", "b", "c"]);
    // A suite that the profile names and nobody can run is a mistake in the profile.
    let refused = with(r#"["metal"]"#).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("s: none of its variants is on metal"),
        "{refused}"
    );
}

#[test]
fn every_suite_of_a_real_profile_has_its_baseline_and_something_to_hold_against_it() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let suites = Suite::load_all(&root.join("data/scenarios/micro")).unwrap();
    let registry = MicroRegistry::load(&root.join("engines/micro.toml")).unwrap();
    for name in ["cpu", "gpu", "smoke"] {
        let profile = Profile::load(&root.join(format!("data/profiles/{name}.toml"))).unwrap();
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
            let on_gpu = |suite: &&PlannedSuite| suite.variants.iter().any(|v| v.backend == "cuda");
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
    assert!(
        plan(&profile, &suites, &none, &choice(&[]))
            .unwrap()
            .is_empty()
    );
    let refused = plan(&profile, &suites, &none, &choice(&["micro/*"])).unwrap_err();
    assert!(refused.to_string().contains("bundle"), "{refused:?}");
}
