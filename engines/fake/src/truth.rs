//! What was really emitted when, by readings of the clock that the runtime has
//! no part in: the harness is calibrated against this file.
//!
//! One JSON object a line and batch, in order: `batch` (from 1, scores
//! included), `rows`, `prompt_ids` of each row, `started_ns`, `due_ns` and
//! `token_ns` of each step.

use serde_json::json;
use std::fs::File;
use std::io::Write;

/// Where the truth goes, and the batch under way.
pub struct Truth {
    /// `None`: nobody asked. It is noted all the same, so that asking does not
    /// change the timing.
    file: Option<File>,
    batch: Batch,
}

/// One batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// From 1.
    pub number: u32,
    /// Of each row.
    pub prompt_ids: Vec<Vec<u32>>,
    /// `prefill` was entered.
    pub started_ns: u64,
    /// When each step should have ended.
    pub due_ns: Vec<u64>,
    /// When each step did end.
    pub token_ns: Vec<u64>,
}

impl Truth {
    /// Append to the file named by `FAKE_TRUTH`, if any.
    pub fn from_env() -> std::io::Result<Self> {
        let file = match std::env::var_os("FAKE_TRUTH") {
            None => None,
            Some(path) => Some(File::options().create(true).append(true).open(path)?),
        };
        Ok(Self {
            file,
            batch: Batch::default(),
        })
    }

    /// Begin a batch, with room for many steps: the next allocation is far off.
    pub fn begin(&mut self, number: u32, prompts: &[&[u32]], started_ns: u64) {
        self.batch = Batch {
            number,
            prompt_ids: prompts.iter().map(|prompt| prompt.to_vec()).collect(),
            started_ns,
            due_ns: Vec::with_capacity(4096),
            token_ns: Vec::with_capacity(4096),
        };
    }

    /// A step ended.
    pub fn step(&mut self, due_ns: u64, ended_ns: u64) {
        self.batch.due_ns.push(due_ns);
        self.batch.token_ns.push(ended_ns);
    }

    /// Write the batch down; nothing where there is none.
    pub fn write(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let Some(file) = self.file.as_mut().filter(|_| !batch.token_ns.is_empty()) else {
            return;
        };
        let line = json!({
            "batch": batch.number,
            "rows": batch.prompt_ids.len(),
            "prompt_ids": batch.prompt_ids,
            "started_ns": batch.started_ns,
            "due_ns": batch.due_ns,
            "token_ns": batch.token_ns,
        });
        if let Err(err) = file.write_all(format!("{line}\n").as_bytes()) {
            eprintln!("cannot write FAKE_TRUTH: {err}");
        }
    }
}
