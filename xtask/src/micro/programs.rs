//! The programs of the micro suites that a run plans, or why there is none.

use crate::build;
use crate::devices;
use crate::engine::{EngineFailure, Program};
use crate::repo::Repo;
use anyhow::Result;
use schema::micro::{MicroPlan, PlannedSuite, Variant};
use schema::registry::Registry;
use std::collections::BTreeMap;

/// Each once.
#[derive(Clone, Debug, Default)]
pub struct MicroPrograms {
    /// By program id.
    made: BTreeMap<String, Result<Program, EngineFailure>>,
    /// Backend and variant id → why nothing was compiled for it.
    lacking: BTreeMap<(String, String), EngineFailure>,
}

fn key(variant: &Variant) -> (String, String) {
    (variant.backend.clone(), variant.id.clone())
}

impl MicroPrograms {
    /// Build each program that the plan names, once, but for what has nothing to run on here.
    pub fn build(repo: &Repo, registry: &Registry, plan: &MicroPlan) -> Result<Self> {
        let known = repo.micro_registry()?;
        let mut programs = Self::default();
        for variant in plan.suites.iter().flat_map(of_suite) {
            if let Some(failure) = devices::lacking(registry, &variant.backend, &variant.id) {
                let said = format!("{}: {failure}", variant.id);
                if programs.lacking.insert(key(variant), failure).is_none() {
                    eprintln!("{said}");
                }
                continue;
            }
            if programs.made.contains_key(&variant.program) {
                continue;
            }
            crate::interrupt::check()?;
            let made = match known.program(&variant.program) {
                Some(program) => build::micro(repo, registry, program),
                None => Err(EngineFailure::new(
                    schema::record::Status::Unavailable,
                    format!("engines/micro.toml has no program {:?}", variant.program),
                )),
            };
            if let Err(failure) = &made {
                eprintln!("{}: {failure}", variant.program);
            }
            programs.made.insert(variant.program.clone(), made);
        }
        Ok(programs)
    }

    /// The program of a variant.
    pub fn get(&self, variant: &Variant) -> Result<&Program, EngineFailure> {
        if let Some(failure) = self.lacking.get(&key(variant)) {
            return Err(failure.clone());
        }
        match self.made.get(&variant.program) {
            Some(made) => made.as_ref().map_err(Clone::clone),
            None => Err(EngineFailure::new(
                schema::record::Status::Unavailable,
                format!("{:?} was not built", variant.program),
            )),
        }
    }

    /// Program id → sha256, of those there are.
    pub fn sha256(&self) -> Result<BTreeMap<String, String>> {
        let there = self.made.iter();
        there
            .filter_map(|(id, made)| Some((id, made.as_ref().ok()?)))
            .map(|(id, program)| Ok((id.clone(), program.sha256()?)))
            .collect()
    }
}

fn of_suite(suite: &PlannedSuite) -> impl Iterator<Item = &Variant> {
    suite.variants.iter().chain([&suite.reference])
}
