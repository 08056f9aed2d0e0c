//! Chooses the targets that make goldens: the registry's reference and the target that it is
//! checked against, each on a device where the registry has such a target and one is here, else on
//! the processor.

use crate::devices;
use crate::engine::session::{Session, Timeouts};
use crate::programs::Programs;
use anyhow::{Result, bail};
use protocol::wire::Load;
use schema::registry::{Registry, Target};
use std::time::Duration;

/// How long loading and answering may take: on a processor, a reference takes minutes to read 8 K
/// tokens with a large model.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The targets that can be the reference, and those that can check it, each with the fastest first.
pub fn candidates(registry: &Registry) -> [Vec<Target>; 2] {
    let found = devices::of_backends(registry);
    let is_here = |backend: &str| found.get(backend).is_some_and(Result::is_ok);
    candidates_where(registry, is_here)
}

fn candidates_where(registry: &Registry, is_here: impl Fn(&str) -> bool) -> [Vec<Target>; 2] {
    registry.judges().map(|judge| {
        let is_same = |other: &Target| {
            let kind = |t: &Target| {
                let (engine, variant) = (t.engine.clone(), t.variant.clone());
                (engine, variant, t.precision.clone(), t.weights.clone())
            };
            other.id != judge.id && !other.hidden && kind(other) == kind(&judge)
        };
        let mut all = registry.targets();
        all.retain(|target| is_same(target) && is_here(&target.backend));
        all.push(judge);
        all
    })
}

/// The targets whose programs are needed to make a golden: the first of each list, and those of the
/// list that share its program.
pub fn to_build(registry: &Registry) -> Vec<Target> {
    let needed = |judge: Vec<Target>| {
        let program = registry.program_id(&judge[0]);
        let is_made = move |target: &Target| registry.program_id(target) == program;
        judge.into_iter().filter(is_made)
    };
    candidates(registry).into_iter().flat_map(needed).collect()
}

/// Start the first of `judge` that loads; otherwise say why each does not.
pub(super) fn open<'a>(
    programs: &Programs,
    judge: &'a [Target],
    load: impl Fn(&Target) -> Load,
) -> Result<(&'a Target, Session)> {
    let timeouts = Timeouts::outside_a_run(PATIENCE, PATIENCE);
    let mut why = Vec::new();
    for target in judge {
        base::interrupt::check()?;
        let program = match programs.find(target) {
            Ok(program) => program,
            Err(failure) => {
                why.push(format!("{}: {failure}", target.id));
                continue;
            }
        };
        match Session::open(program, &load(target), &timeouts) {
            Ok(session) => return Ok((target, session)),
            Err(failure) => {
                let last = failure.stderr_tail.lines().last().unwrap_or_default();
                why.push(format!("{}: {failure} {last}", target.id));
            }
        }
    }
    bail!("{}", why.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::repo::Repo;

    #[test]
    fn a_device_that_is_here_is_asked_before_the_processor() {
        let registry = Repo::find().unwrap().registry().unwrap();
        let ids = |judge: &[Target]| -> Vec<String> {
            judge.iter().map(|target| target.id.clone()).collect()
        };
        let [reference, cross_check] = candidates_where(&registry, |_| false);
        assert_eq!(ids(&reference).join(" "), registry.reference);
        assert_eq!(ids(&cross_check).join(" "), registry.cross_check);
        for judge in candidates_where(&registry, |backend| backend == "cuda") {
            assert_eq!(judge.len(), 2, "{:?}", ids(&judge));
            assert_eq!(judge[0].backend, "cuda");
            assert_eq!(judge[0].precision, judge[1].precision);
            assert_eq!(judge[0].engine, judge[1].engine);
        }
    }
}
