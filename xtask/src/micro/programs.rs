//! The programs of the micro suites that a run plans, or why there is none.

use crate::engine::{self, EngineFailure};
use crate::repo::Repo;
use anyhow::Result;
use schema::micro::{MicroPlan, PlannedSuite, Program, Variant};
use std::collections::BTreeMap;

/// By program id.
#[derive(Debug, Default)]
pub struct MicroPrograms(BTreeMap<String, Result<engine::Program, EngineFailure>>);

impl MicroPrograms {
    /// The programs that a plan names, each once, in its order. One that `engines/micro.toml`
    /// doesn't know is noted as missing.
    pub fn wanted(&mut self, repo: &Repo, plan: &MicroPlan) -> Result<Vec<Program>> {
        let known = repo.micro_registry()?;
        let mut wanted: Vec<Program> = Vec::new();
        for variant in plan.suites.iter().flat_map(of_suite) {
            let id = &variant.program;
            if wanted.iter().any(|program| program.id == *id) || self.0.contains_key(id) {
                continue;
            }
            match known.program(id) {
                Some(program) => wanted.push(program.clone()),
                None => self.insert(
                    id,
                    Err(EngineFailure::new(
                        schema::record::Status::Unavailable,
                        format!("engines/micro.toml has no program {id:?}"),
                    )),
                ),
            }
        }
        Ok(wanted)
    }

    /// These too.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// One was built, or why not.
    pub fn insert(&mut self, id: &str, made: Result<engine::Program, EngineFailure>) {
        self.0.insert(id.to_owned(), made);
    }

    /// The program of a variant.
    pub fn get(&self, variant: &Variant) -> Result<&engine::Program, EngineFailure> {
        match self.0.get(&variant.program) {
            Some(made) => made.as_ref().map_err(Clone::clone),
            None => Err(EngineFailure::new(
                schema::record::Status::Unavailable,
                format!("{:?} was not built", variant.program),
            )),
        }
    }

    /// Program id → sha256, of those there are.
    pub fn sha256(&self) -> Result<BTreeMap<String, String>> {
        let there = self.0.iter();
        there
            .filter_map(|(id, made)| Some((id, made.as_ref().ok()?)))
            .map(|(id, program)| Ok((id.clone(), program.sha256()?)))
            .collect()
    }
}

fn of_suite(suite: &PlannedSuite) -> impl Iterator<Item = &Variant> {
    suite.variants.iter().chain([&suite.reference])
}
