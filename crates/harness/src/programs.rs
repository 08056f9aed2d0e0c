//! The programs of a run's targets, as building them left them: who runs them needs to know no
//! more about how they were made.

use crate::engine::{EngineFailure, Program};
use crate::micro::MicroPrograms;
use schema::adoption::Built;
use schema::record::{Status, VerifyRecord};
use schema::registry::{Build, Target};
use std::collections::BTreeMap;

/// The programs of the targets asked for, or why there is none. Targets of one
/// engine that are built alike share one.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Target id → program id.
    pub of: BTreeMap<String, String>,
    /// Target id → why nothing was compiled for it: what it runs on isn't here.
    pub lacking: BTreeMap<String, EngineFailure>,
    /// Program id → the program, or why there is none.
    pub made: BTreeMap<String, Result<Made, EngineFailure>>,
    /// Target id → its program kept to fewer instructions, as it passed the gate.
    lower: BTreeMap<String, Program>,
    /// Those of the micro suites, which no target has.
    pub micro: MicroPrograms,
}

/// A program and how it came to be.
#[derive(Clone, Debug)]
pub struct Made {
    /// How it is started.
    pub program: Program,
    /// Whose it is.
    pub engine: String,
    /// How it is built.
    pub how: Build,
    /// `None`: it was there already, or isn't Cargo's.
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

    /// A target's program, what it is called and how it came to be; `None` where it
    /// wasn't asked for or isn't there.
    pub fn made(&self, target: &Target) -> Option<(&str, &Build, &Program)> {
        let id = self.of.get(&target.id)?;
        let made = self.made.get(id)?.as_ref().ok()?;
        Some((id, &made.how, &made.program))
    }

    /// The same, each target's program kept to the instructions that it was judged with.
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
