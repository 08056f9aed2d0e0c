//! The known timing: when each token is due, and a file of when it was really emitted.
//!
//! Each step waits until it is due. Deadlines are absolute, counted from the start of the batch,
//! so that delays don't add up.
//!
//! The file holds the times at which tokens were really emitted, by readings of the clock that are
//! independent of the runtime: the harness is calibrated against it.
//!
//! It has one JSON object per batch, on a line of its own, in order: `batch` (from 1, scores
//! included), `rows`, `prompt_ids` of each row, `started_ns`, and `due_ns` and `token_ns` of each
//! step.

use crate::number;
use protocol::clock::now_ns;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// Closer than this to a deadline it spins, because a sleep may end this late (ns).
const SPIN_NS: u64 = 200_000;

/// The durations that make up the known timing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Time before the first token, for any prompt.
    prefill_ns: f64,
    /// Additional time before the first token, for each token of the prompt.
    prefill_token_ns: f64,
    /// Time between tokens.
    decode_ns: f64,
    /// Additional time between tokens, for each row of the batch.
    row_ns: f64,
}

impl Schedule {
    /// Read the timing from the environment; by default 2 ms + 0.02 ms per prompt token, then 1 ms
    /// per step for any number of rows. All times are multiplied by `factor`.
    pub fn from_env(factor: f64) -> Self {
        let ns = |name, default_us| number(name).unwrap_or(default_us) * 1_000.0 * factor;
        Self {
            prefill_ns: ns("FAKE_PREFILL_US", 2_000.0),
            prefill_token_ns: ns("FAKE_PREFILL_TOKEN_US", 20.0),
            decode_ns: ns("FAKE_DECODE_US", 1_000.0),
            row_ns: ns("FAKE_ROW_US", 0.0),
        }
    }

    /// Return when the token of `step` (from 0) is due, relative to the start of a batch of `rows`
    /// rows (ns).
    pub fn due_ns(&self, prompt_tokens: usize, rows: usize, step: u32) -> u64 {
        let prefill = self.prefill_ns + self.prefill_token_ns * prompt_tokens as f64;
        let decode = self.decode_ns + self.row_ns * rows as f64;
        (prefill + decode * f64::from(step)).round() as u64
    }
}

/// Return at `deadline_ns` on the common clock, or at once if it has passed.
pub fn wait_until(deadline_ns: u64) {
    loop {
        let left_ns = deadline_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return;
        }
        if left_ns > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The file of true times, and the batch in progress.
pub struct Truth {
    /// `None` if the file wasn't asked for. The times are recorded all the same, so that asking
    /// for them doesn't change the timing.
    file: Option<File>,
    batch: Batch,
}

/// The true times of one batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// The batch's number, from 1.
    pub number: u32,
    /// The prompt of each row.
    pub prompt_ids: Vec<Vec<u32>>,
    /// When `prefill` was entered (ns).
    pub started_ns: u64,
    /// When each step should have ended (ns).
    pub due_ns: Vec<u64>,
    /// When each step did end (ns).
    pub token_ns: Vec<u64>,
}

impl Truth {
    /// Append to the file that `FAKE_TRUTH` names, if it is set.
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

    /// Begin a batch, with room for many steps, so that usually no step allocates.
    pub fn begin(&mut self, number: u32, prompts: &[&[u32]], started_ns: u64) {
        self.batch = Batch {
            number,
            prompt_ids: prompts.iter().map(|prompt| prompt.to_vec()).collect(),
            started_ns,
            due_ns: Vec::with_capacity(4096),
            token_ns: Vec::with_capacity(4096),
        };
    }

    /// Record that a step ended.
    pub fn step(&mut self, due_ns: u64, ended_ns: u64) {
        self.batch.due_ns.push(due_ns);
        self.batch.token_ns.push(ended_ns);
    }

    /// Append the batch to the file; do nothing if there is no file or no batch.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_from_the_start_of_the_batch() {
        let schedule = Schedule {
            prefill_ns: 2e6,
            prefill_token_ns: 2e4,
            decode_ns: 1_000_000.4,
            row_ns: 0.0,
        };
        assert_eq!(schedule.due_ns(50, 1, 0), 3_000_000);
        // The exact sum is rounded once, so that 10 × 0.4 ns are not lost.
        assert_eq!(schedule.due_ns(50, 1, 10), 13_000_004);
        assert_eq!(schedule.due_ns(50, 8, 10), 13_000_004, "a perfect batch");
        let by_row = Schedule {
            row_ns: 1e5,
            ..schedule
        };
        assert_eq!(by_row.due_ns(50, 8, 10), 21_000_004);
    }

    #[test]
    fn never_returns_early() {
        let deadline_ns = now_ns() + 300_000;
        wait_until(deadline_ns);
        assert!(now_ns() >= deadline_ns);
        wait_until(0);
    }
}
