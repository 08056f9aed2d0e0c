//! Measures the machine's limits, to which MBU and MFU are relative, when a run is opened.

use base::repo::Repo;
use harness::{devices, machine};
use provision::build;
use schema::plan::Plan;
use schema::registry::Registry;
use std::collections::BTreeMap;

/// Measure the limits of the processor, and of every device that the plan's targets compute on and
/// that the registry has a program for; return them as facts of the run. What can't be measured is
/// reported and left out, because no measured time depends on it.
pub(super) fn measured(repo: &Repo, registry: &Registry, plan: &Plan) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    // The processor's limits take seconds to measure, so a run that won't be published skips them.
    if plan.publishable {
        eprintln!("Measuring this machine's limits: memory bandwidth and FLOP/s");
        facts = machine::ceilings().facts();
    }
    let mut planned = registry.limits.clone();
    planned.retain(|backend, _| plan.targets.iter().any(|target| target.backend == *backend));
    if planned.is_empty() {
        return facts;
    }
    let here = devices::of_backends(registry);
    planned.retain(|backend, _| matches!(here.get(backend), Some(Ok(_))));
    for (backend, how) in &planned {
        eprintln!("Measuring the limits of {backend}'s device");
        let id = build::limits_id(backend);
        let program = build::program(repo, registry, &id, how);
        let program = program.map_err(|failure| failure.to_string());
        match program.and_then(|program| devices::limits::measured(backend, &program)) {
            Ok(limits) => facts.extend(limits),
            Err(why) => watch::warn(format!(
                "the limits of {backend} couldn't be measured, so the report has no shares of them: {why}"
            )),
        }
    }
    facts
}
