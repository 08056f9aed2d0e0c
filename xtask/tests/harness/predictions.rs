//! Tests that the command which each prediction names can settle it: its plan holds the cells that
//! the prediction is about.

use base::repo::Repo;
use bench::job;
use clap::Parser;
use runs::results::Results;
use schema::hypothesis::{CaseSelector, Claim, Hypothesis, Place};
use schema::micro::scenario_id;
use schema::plan::Plan;
use schema::registry::Target;
use xtask::cli::Cli;

/// Split a command line into words as a shell splits those that we write.
fn words(command: &str) -> Vec<String> {
    let words = command.split_whitespace().filter(|word| *word != "cargo");
    words.map(|word| word.replace('\'', "")).collect()
}

/// Return the plan of `cargo xtask bench-all …` on a machine without a GPU.
fn plan_of(repo: &Repo, command: &str) -> Plan {
    let cli = Cli::try_parse_from(words(command)).expect("it is a command line of ours");
    let mut options = cli.bench_all().expect("it measures");
    options.profile.get_or_insert_with(|| "cpu".into());
    let registry = repo.registry().unwrap();
    let results = Results::at(&repo.runs_dir());
    job::planned(repo, &registry, &results, &options)
        .unwrap_or_else(|error| panic!("{command}: {error:#}"))
        .into_plan()
}

/// Return what a prediction needs and a plan doesn't hold; empty where it holds all.
fn lacks(hypothesis: &Hypothesis, place: &Place, plan: &Plan) -> Vec<String> {
    let mut lacks = Vec::new();
    let variants = plan.micro.suites.iter().flat_map(|suite| &suite.variants);
    let targets: Vec<(String, String, bool)> = match hypothesis.speaks_of_suites() {
        true => variants
            .map(|v| {
                let here = place.backends.is_empty() || place.backends.contains(&v.backend);
                (v.id.clone(), v.engine.clone(), here)
            })
            .collect(),
        false => {
            let of = |t: &Target| (t.id.clone(), t.engine.clone(), place.has(t));
            plan.targets.iter().map(of).collect()
        }
    };
    let mut need = |is_there: bool, what: &str| {
        if !is_there {
            lacks.push(what.to_owned());
        }
    };
    for id in &hypothesis.of.targets {
        need(targets.iter().any(|(own, _, here)| own == id && *here), id);
    }
    for id in &hypothesis.of.engines {
        need(targets.iter().any(|(_, own, here)| own == id && *here), id);
    }
    if let Claim::Ratio { against, .. } = &hypothesis.claim {
        let any = against
            .iter()
            .any(|id| targets.iter().any(|(own, ..)| own == id));
        need(any, &against.join(" or "));
    }
    for id in &hypothesis.scenarios {
        let suites = plan.micro.suites.iter().map(|suite| scenario_id(&suite.id));
        let scenarios = plan.scenarios.iter().map(|scenario| scenario.id.clone());
        need(suites.chain(scenarios).any(|own| own == *id), id);
    }
    if let CaseSelector::Value(value) = hypothesis.at {
        let named = |id: &String| hypothesis.scenarios.contains(id);
        let scenarios = plan.scenarios.iter().filter(|s| named(&s.id));
        let has = scenarios
            .into_iter()
            .any(|s| s.cases.iter().any(|case| case.axis_value(s.axis) == value));
        need(has, &format!("a case at {value}"));
    }
    need(plan.publishable, "samples enough to publish");
    lacks
}

#[test]
fn every_prediction_names_a_command_that_settles_it() {
    let repo = Repo::find().unwrap();
    let (registry, scenarios) = (repo.registry().unwrap(), repo.scenarios().unwrap());
    let all = repo.hypotheses(&registry, &scenarios).unwrap().unwrap();
    let models = repo.models().unwrap();
    for hypothesis in &all.hypotheses {
        let place = all.place(&hypothesis.place).unwrap();
        let command = hypothesis.command(place);
        let plan = plan_of(&repo, command);
        let lacks = lacks(hypothesis, place, &plan);
        assert!(
            lacks.is_empty(),
            "{}: `{command}` has no {lacks:?}",
            hypothesis.id
        );
        if let Some(least) = place.parameters_min {
            let model = models.get(&plan.model).unwrap();
            assert!(model.parameters >= least, "{}: `{command}`", hypothesis.id);
        }
    }
}

#[test]
fn a_command_whose_plan_lacks_something_is_found() {
    let repo = Repo::find().unwrap();
    let (registry, scenarios) = (repo.registry().unwrap(), repo.scenarios().unwrap());
    let all = repo.hypotheses(&registry, &scenarios).unwrap().unwrap();
    let lmrs = all.hypotheses.iter().find(|h| h.id == "speed-up-lmrs");
    let lmrs = lmrs.expect("it is in the file");
    let place = all.place(&lmrs.place).unwrap();
    // The profile by itself has lm.rs, but not the baseline at f32.
    let found = lacks(lmrs, place, &plan_of(&repo, &place.command));
    assert_eq!(found, [registry.baseline]);
}
