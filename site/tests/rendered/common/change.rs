//! Changes of the synthetic world that several tests make: runs of a large model beside one
//! another, runs that lack something, and what the registry says of engines.

use super::{World, usual};
use schema::budget::Budget;
use schema::key::CellKey;
use schema::launch_log::LaunchLog;
use schema::model::Model;
use schema::record::{Ready, Telemetry};
use schema::registry::Build;
use schema::run::Run;

/// Turn a synthetic run into one of a large model.
pub fn large(world: &mut World, index: usize) {
    let id = "synthetic-1b";
    if world.models.get(id).is_none() {
        world.models.models.push(Model {
            id: id.into(),
            name: "Synthetic 1B".into(),
            parameters: 1_235_814_400,
            about: "invented, of real size.".into(),
            ..Model::default()
        });
    }
    let run = &mut world.runs[index];
    run.header.plan.model = id.into();
    for record in run.verify.values_mut() {
        record.model = id.into();
    }
}

/// A world with a run, and with a copy of that run under this id.
pub fn with_copy(id: &str) -> World {
    let mut world = usual();
    let mut copy = world.runs[0].clone();
    copy.header.id = id.into();
    world.runs.push(copy);
    world
}

/// The usual run, of a large model, so that choices rest on it.
pub fn of_1b() -> World {
    let mut world = usual();
    large(&mut world, 0);
    world
}

/// Two equal runs of a large model, the second under this id.
pub fn two_of_1b(id: &str) -> World {
    let mut world = with_copy(id);
    large(&mut world, 0);
    large(&mut world, 1);
    world
}

/// A run of a tiny model, and the same of a large one, `run-of-1b`.
pub fn small_and_1b() -> World {
    let mut world = with_copy("run-of-1b");
    large(&mut world, 1);
    world
}

/// Take scenarios out of a run.
pub fn without(run: &mut Run, scenarios: &[&str]) {
    let stays = |scenario: &str| !scenarios.contains(&scenario);
    let plan = &mut run.header.plan;
    plan.scenarios.retain(|s| stays(&s.id));
    plan.launches.retain(|l| stays(&l.scenario));
    run.launches.retain(|log| stays(&log.launch.scenario));
}

/// Take an engine's targets out of a run's plan.
pub fn without_engine(run: &mut Run, engine: &str) {
    let planned = &mut run.header.plan.targets;
    planned.retain(|target| target.engine != engine);
}

/// Let a run have had no time for these cells.
pub fn no_time(run: &mut Run, cells: impl IntoIterator<Item = CellKey>) {
    let cells = cells.into_iter();
    let over = cells.map(|of| fixtures::over(&of.target, &of.scenario, &of.case, "no time"));
    run.budget = Some(Budget {
        over: over.collect(),
        ..Budget::default()
    });
}

/// Let the GPU be lost when a case of sustained load begins, in one launch of one target: this
/// disturbs the launch, and no other counter shows it.
pub fn lose_gpu(run: &mut Run, case: &str, why: &str) {
    let is_it = |log: &&mut LaunchLog| {
        let of = &log.launch;
        of.target == "candle.cpu.f32" && of.scenario == "sustained" && of.invocation == 2
    };
    let log = run.launches.iter_mut().find(is_it).expect("it is there");
    let mut ends = log.case_ends.iter();
    let end = ends.find(|end| end.case == case).expect("it is complete");
    log.telemetry = vec![Telemetry {
        case: case.into(),
        t_ns: end.start_ns,
        gpu_lost: Some(why.into()),
        ..Telemetry::default()
    }];
}

/// What a run's launches report of their engines.
pub fn reports(run: &mut Run) -> impl Iterator<Item = &mut Ready> {
    run.launches.iter_mut().flat_map(|log| &mut log.ready)
}

/// Let these engines be in Rust, and no others.
pub fn in_rust(world: &mut World, is_it: impl Fn(&str) -> bool) {
    for engine in &mut world.registry.engines {
        engine.in_rust = is_it(&engine.id);
    }
}

/// Let these engines be our own, and no others.
pub fn ours(world: &mut World, is_it: impl Fn(&str) -> bool) {
    for engine in &mut world.registry.engines {
        engine.ours = is_it(&engine.id);
    }
}

/// Let every engine but Candle come as a Python package.
pub fn only_candle_is_a_crate(world: &mut World) {
    for engine in &mut world.registry.engines {
        if engine.id != "candle" {
            engine.build = Build::Python {
                script: "a.py".into(),
                requirements: "a.lock".into(),
                environment: "venv".into(),
                modules: None,
            };
        }
    }
}
