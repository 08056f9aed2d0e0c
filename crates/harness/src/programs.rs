//! The programs of a run's targets after they were built, for code that runs them and needn't know
//! how they were made.

use crate::engine::{EngineFailure, Program};
use crate::micro::MicroPrograms;
use schema::adoption::Built;
use schema::record::{Status, VerifyRecord};
use schema::registry::{Build, Target};
use std::collections::BTreeMap;

/// The programs of the targets that were asked for, or why a program is missing. Targets of one
/// engine that are built alike share one program.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Target id → program id.
    pub of: BTreeMap<String, String>,
    /// Target id → why nothing was compiled for it: its backend has no device here.
    pub lacking: BTreeMap<String, EngineFailure>,
    /// Program id → the program, or why there is none.
    pub made: BTreeMap<String, Result<Made, EngineFailure>>,
    /// Target id → its program limited to the instructions with which it passed the gate.
    lower: BTreeMap<String, Program>,
    /// The programs of the micro suites, which belong to no target.
    pub micro: MicroPrograms,
}

/// A program and how it was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The program, ready to be started.
    pub program: Program,
    /// The id of the engine that it belongs to.
    pub engine: String,
    /// How the program is built.
    pub how: Build,
    /// How Cargo built it; `None` where it was there already, or isn't built by Cargo.
    pub built: Option<Built>,
}

impl Programs {
    /// The program of a target that was asked for.
    pub fn get(&self, target: &Target) -> Result<&Program, &EngineFailure> {
        if let Some(failure) = self.lacking.get(&target.id) {
            return Err(failure);
        }
        if let Some(lower) = self.lower.get(&target.id) {
            return Ok(lower);
        }
        let made = self.made[&self.of[&target.id]].as_ref();
        made.map(|made| &made.program)
    }

    /// As [`Programs::get`], for a target that may not have been asked for.
    pub fn find(&self, target: &Target) -> Result<&Program, EngineFailure> {
        if !self.of.contains_key(&target.id) && !self.lacking.contains_key(&target.id) {
            let reason = "its program was not asked for, so it was not built";
            return Err(EngineFailure::new(Status::Unavailable, reason));
        }
        self.get(target).map_err(Clone::clone)
    }

    /// The id of a target's program, how it is built, and the program; `None` where it wasn't asked
    /// for or isn't there.
    pub fn made(&self, target: &Target) -> Option<(&str, &Build, &Program)> {
        let id = self.of.get(&target.id)?;
        let made = self.made.get(id)?.as_ref().ok()?;
        Some((id, &made.how, &made.program))
    }

    /// The same programs, each target's limited to the instructions that it was judged with.
    pub fn as_judged(mut self, verify: &BTreeMap<String, VerifyRecord>) -> Self {
        for (target, program) in &self.of {
            let limit = verify.get(target).and_then(|r| r.isa_limit.as_ref());
            if let Ok(made) = &self.made[program]
                && let Some(lower) = made.program.kept_to(limit)
            {
                self.lower.insert(target.clone(), lower);
            }
        }
        self
    }

    /// Whether a target was asked for and its program is there.
    pub fn has(&self, target: &Target) -> bool {
        self.of.contains_key(&target.id) && self.get(target).is_ok()
    }
}
