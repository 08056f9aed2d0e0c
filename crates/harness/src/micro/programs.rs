//! The programs of the micro suites that a run plans, or why a program is missing.

use crate::devices::Named;
use crate::engine::{self, EngineFailure};
use anyhow::Result;
use base::repo::Repo;
use schema::micro::{MicroPlan, PlannedSuite, Program, Variant};
use schema::record::Status;
use schema::registry::Registry;
use std::collections::BTreeMap;

/// The programs of a run's micro suites.
#[derive(Clone, Debug, Default)]
pub struct MicroPrograms {
    /// Program id → the program, or why it couldn't be built.
    made: BTreeMap<String, Result<engine::Program, EngineFailure>>,
    /// Backend and variant id → why nothing was compiled for the variant.
    lacking: BTreeMap<(String, String), EngineFailure>,
}

fn key(variant: &Variant) -> (String, String) {
    (variant.backend.clone(), variant.id.clone())
}

impl MicroPrograms {
    /// The programs of a plan, each once, in its order, without those whose device is missing here
    /// and whose variant isn't `named`. One that `engines/micro.toml` doesn't know is noted as
    /// missing.
    pub fn wanted(
        &mut self,
        repo: &Repo,
        registry: &Registry,
        plan: &MicroPlan,
        named: &Named,
    ) -> Result<Vec<Program>> {
        let known = repo.micro_registry()?;
        let mut wanted: Vec<Program> = Vec::new();
        for variant in plan.suites.iter().flat_map(of_suite) {
            if let Some(failure) = named.lacking(registry, &variant.backend, &variant.id) {
                self.lacking.insert(key(variant), failure);
                continue;
            }
            let id = &variant.program;
            if wanted.iter().any(|program| program.id == *id) || self.made.contains_key(id) {
                continue;
            }
            match known.program(id) {
                Some(program) => wanted.push(program.clone()),
                None => {
                    let reason = format!("engines/micro.toml has no program {id:?}");
                    let failure = EngineFailure::new(Status::Unavailable, reason);
                    self.insert(id, Err(failure));
                }
            }
        }
        Ok(wanted)
    }

    /// The ids of variants whose device is missing here, and why.
    pub fn without_device(&self) -> impl Iterator<Item = (&str, &EngineFailure)> {
        let lacking = self.lacking.iter();
        lacking.map(|((_, id), failure)| (id.as_str(), failure))
    }

    /// Add the programs of `others`.
    pub fn extend(&mut self, others: Self) {
        self.made.extend(others.made);
        self.lacking.extend(others.lacking);
    }

    /// Add the program with this id, or why it couldn't be built.
    pub fn insert(&mut self, id: &str, made: Result<engine::Program, EngineFailure>) {
        self.made.insert(id.to_owned(), made);
    }

    /// The program of a variant, or why there is none.
    pub fn get(&self, variant: &Variant) -> Result<&engine::Program, EngineFailure> {
        if let Some(failure) = self.lacking.get(&key(variant)) {
            return Err(failure.clone());
        }
        match self.made.get(&variant.program) {
            Some(made) => made.as_ref().map_err(Clone::clone),
            None => Err(EngineFailure::new(
                Status::Unavailable,
                format!("{:?} was not built", variant.program),
            )),
        }
    }

    /// Program id → SHA-256, for the programs that were built.
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
