//! A synthetic run's A/A pairs.

use super::launch::{Noise, SPEEDS, launch};
use schema::budget::Budget;
use schema::plan::{Case, PlannedScenario};
use schema::run::Run;
use schema::twin::{Twin, TwinRole, twin_name};

/// The run with two targets that ran twice, each with noise of its own.
pub fn with_twins(mut run: Run, requests: u32) -> Run {
    let mut noise = Noise::new(11);
    let mut twins = Vec::new();
    for (target, role) in [
        ("lmrs.cpu.q8_0", TwinRole::Fastest),
        ("pytorch.cpu.f32", TwinRole::Slowest),
    ] {
        let index = SPEEDS.iter().position(|speed| speed.0 == target);
        let index = index.expect("the target has a speed");
        let plan = &run.header.plan;
        for planned in plan.launches.iter().filter(|l| l.target == target) {
            let of = |s: &&PlannedScenario| s.id == planned.scenario;
            let scenario = plan.scenarios.iter().find(of).expect("it is planned");
            let cases: Vec<Case> = scenario
                .cases
                .iter()
                .filter(|case| planned.cases.contains(&case.id))
                .cloned()
                .collect();
            let log = launch(
                scenario,
                &cases,
                planned.invocation,
                index,
                requests,
                &mut noise,
            );
            let mut log = log.expect("it is a target");
            log.launch.target = twin_name(target);
            log.file = format!("{}/{}", twin_name(target), log.file.display()).into();
            run.twins.push(log);
        }
        twins.push(Twin {
            target: target.into(),
            role,
            cost_s: 12.0,
        });
    }
    run.budget = Some(Budget {
        twins,
        ..Budget::default()
    });
    run
}
