//! The programs of a run: those of its targets, of a judge and of its micro suites.

use super::first_look::FirstLook;
use crate::build::{self, Programs};
use crate::micro::MicroPrograms;
use crate::repo::Repo;
use crate::watch;
use crate::watch::event;
use anyhow::Result;
use schema::plan::Plan;
use schema::registry::{Registry, Target};
use std::collections::BTreeSet;

/// What is to be built.
pub(super) struct Building<'a> {
    stage: build::Stage<'a>,
    micro: MicroPrograms,
    look: Option<&'a FirstLook<'a>>,
}

impl<'a> Building<'a> {
    /// For a plan; says at once what that is and how long it should take.
    pub(super) fn of(
        repo: &'a Repo,
        registry: &'a Registry,
        plan: &Plan,
        look: Option<&'a FirstLook>,
    ) -> Result<Self> {
        let mut micro = MicroPrograms::default();
        let wanted = micro.wanted(repo, registry, &plan.micro)?;
        let mut targets = plan.targets.clone();
        if !targets.is_empty() {
            targets.extend(judges(registry, plan));
        }
        let first = look.map_or(&[][..], |look| &look.targets);
        let stage = build::Stage::new(repo, registry, &targets, &wanted, first)?;
        eprint!("{}", stage.announcement());
        Ok(Self { stage, micro, look })
    }

    /// Build it, with a first look in between where there is to be one.
    pub(super) fn programs(self) -> Result<Programs> {
        watch::stage(event::Stage::Build);
        let mut programs = self.stage.run(|left| match self.look {
            Some(look) => look.take(left),
            None => Ok(()),
        })?;
        programs.micro.extend(self.micro);
        Ok(programs)
    }
}

/// A judge whose program is built anyway costs nothing; one there should be.
fn judges(registry: &Registry, plan: &Plan) -> Vec<Target> {
    let planned = plan.targets.iter().map(|t| registry.program_id(t));
    let planned: BTreeSet<Option<String>> = planned.collect();
    let (free, others): (Vec<Target>, Vec<Target>) = registry
        .judges()
        .into_iter()
        .partition(|judge| planned.contains(&registry.program_id(judge)));
    match free.is_empty() {
        true => others.into_iter().skip(1).collect(),
        false => free,
    }
}
