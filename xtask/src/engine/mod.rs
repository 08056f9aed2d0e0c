//! Talking to an engine: a process on the other end of two pipes.
//!
//! `process` owns the operating system's side (start, pipes, death), `session`
//! the protocol's. Neither knows which engine it is.

pub mod process;
pub mod session;

use schema::record::Status;
use std::path::PathBuf;

/// A program that speaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Command line.
    pub argv: Vec<String>,
    /// The files whose content is the program: the binary, or all of a script's modules.
    pub files: Vec<PathBuf>,
}

impl Program {
    /// What identifies the program in a record.
    pub fn sha256(&self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        for file in &self.files {
            bytes.extend(std::fs::read(file)?);
        }
        Ok(schema::run::sha256_hex(&bytes))
    }
}

/// Why an engine gave no answer: the status its record gets, and one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFailure {
    /// For the record.
    pub status: Status,
    /// What, where, why.
    pub reason: String,
}

impl EngineFailure {
    /// A failure of that status.
    pub fn new(status: Status, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }
}

impl std::fmt::Display for EngineFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status.id(), self.reason)
    }
}

impl std::error::Error for EngineFailure {}
