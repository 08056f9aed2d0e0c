//! An engine behind the common runtime, with known timing and every fault that an engine can have
//! without corrupting the stream.

use crate::fault::Fault;
use crate::model::Row;
use crate::number;
use crate::schedule::{Schedule, Truth, wait_until};
use protocol::clock::now_ns;
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, FailureKind, Hello, Load, Loaded};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// The vocabulary if there is no `config.json`, since tests of the harness need no model.
const DEFAULT_VOCABULARY: u32 = 512;
/// Number of positions beyond which the faults of long contexts occur.
const POSITIONS: u32 = 1200;

/// The engine's fault and state.
pub struct Fake {
    fault: Fault,
    /// Number of the batch in which the fault occurs, from 1.
    fault_at: u32,
    schedule: Schedule,
    vocabulary: u32,
    rows: Vec<Row>,
    /// Number of batches begun so far.
    batches: u32,
    prompt_tokens: usize,
    /// The previous prompt, if it was alone; `None` if prompts are not kept.
    kept: Option<Vec<u32>>,
    /// Number of this prompt's tokens that were kept from the previous one.
    reused: usize,
    /// Every prompt that was alone, for the fault that caches them all.
    asked: HashSet<Vec<u32>>,
    started_ns: u64,
    /// Number of tokens emitted in this batch.
    steps: u32,
    truth: Truth,
}

impl Fake {
    /// Return the next token of each row, at the time it is due.
    fn emit(&mut self) -> Vec<u32> {
        let next = self.rows.iter().map(|&row| self.next(row)).collect();
        let prefilled = self.prompt_tokens - self.reused;
        let due_ns = self.started_ns + self.schedule.due_ns(prefilled, self.rows.len(), self.steps);
        self.steps += 1;
        wait_until(due_ns);
        self.truth.step(due_ns, now_ns());
        next
    }

    fn next(&self, row: Row) -> u32 {
        let is_wrong = match self.fault {
            Fault::Wrong => true,
            Fault::WrongAfter4n => self.prompt_tokens.is_multiple_of(4),
            Fault::WrongAfter37 => self.prompt_tokens % 64 == 37,
            // Every prompt shares the first token, so reusing that one alone is no fault.
            Fault::WrongReuse => self.reused > 1,
            Fault::WrongFar => row.position() > POSITIONS,
            _ => false,
        };
        (row.next(self.vocabulary) + u32::from(is_wrong)) % self.vocabulary
    }

    /// Whether the fault occurs in this batch.
    fn strikes(&self) -> bool {
        self.batches == self.fault_at
    }
}

impl Engine for Fake {
    fn hello(load: &Load) -> Hello {
        let fault = Fault::from_variant(&load.variant).unwrap_or(Fault::None);
        fault.choose();
        let capabilities = Capabilities {
            prefix_cache: fault != Fault::Forgets,
            notes: vec!["Runs no model: waits, then gives made-up tokens.".to_string()],
            ..Capabilities::new(Batching::StaticEqualLength)
        };
        Hello::new("fake", env!("CARGO_PKG_VERSION"), capabilities)
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        let fault = Fault::from_variant(&load.variant).ok_or_else(|| {
            let known = Fault::variants();
            EngineError::unsupported(format!("no variant {:?}; there are: {known}", load.variant))
        })?;
        match fault {
            Fault::CrashLoad => std::process::abort(),
            Fault::HangLoad => hang(),
            Fault::OomLoad => return as_asked(FailureKind::Oom),
            Fault::Unsupported => return as_asked(FailureKind::Unsupported),
            Fault::Unavailable => return as_asked(FailureKind::Unavailable),
            _ => {}
        }
        // It reads no weights, but a weight file that is named must exist.
        let dir = Path::new(&load.model_dir);
        let are_there = protocol::safetensors_files(dir, &load.weights).is_ok();
        if load.weights != "none" && !are_there {
            return Err(EngineError::internal("no such file").in_file(&load.weights_path()));
        }
        let engine = Self {
            fault,
            fault_at: number("FAKE_FAULT_AT").map_or(3, |at| at as u32),
            schedule: Schedule::from_env(if fault == Fault::Slow { 1.1 } else { 1.0 }),
            vocabulary: vocabulary(dir)?,
            rows: Vec::new(),
            batches: 0,
            prompt_tokens: 0,
            kept: (load.prefix_cache && fault != Fault::Forgets).then(Vec::new),
            reused: 0,
            asked: HashSet::new(),
            started_ns: 0,
            steps: 0,
            truth: Truth::from_env()
                .map_err(|err| EngineError::internal(format!("cannot open FAKE_TRUTH: {err}")))?,
        };
        let loaded = Loaded {
            weight_bytes: 1 << 20,
            kv_bytes_per_token: 1 << 10,
            ..Loaded::default()
        };
        Ok((engine, loaded))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        self.started_ns = now_ns();
        self.batches += 1;
        self.steps = 0;
        self.truth.begin(self.batches, prompts, self.started_ns);
        if self.fault == Fault::Oom && self.strikes() {
            return as_asked(FailureKind::Oom);
        }
        if self.fault == Fault::CrashPrefill && self.strikes() {
            std::process::abort();
        }
        self.prompt_tokens = prompts.first().map_or(0, |prompt| prompt.len());
        if self.fault == Fault::Short && self.prompt_tokens > POSITIONS as usize {
            return Err(EngineError::unsupported(format!(
                "a prompt of {} tokens is longer than {POSITIONS}",
                self.prompt_tokens
            )));
        }
        self.reused = 0;
        if self.fault == Fault::Caches
            && let [prompt] = prompts
            && !self.asked.insert(prompt.to_vec())
        {
            self.reused = prompt.len();
        }
        if let Some(kept) = &mut self.kept {
            let alone = match prompts {
                [prompt] => *prompt,
                _ => &[],
            };
            let alike = kept.iter().zip(alone).take_while(|(a, b)| a == b).count();
            self.reused = alike.min(alone.len().saturating_sub(1));
            *kept = alone.to_vec();
        }
        self.rows = prompts.iter().map(|prompt| Row::new(prompt)).collect();
        Ok(self.emit())
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        match self.fault {
            Fault::Crash if self.strikes() => std::process::abort(),
            Fault::Exit if self.strikes() => std::process::exit(3),
            Fault::OomKill if self.strikes() => kill_self(libc::SIGKILL),
            Fault::Sigill if self.strikes() && std::env::var_os("FAKE_MAX_ISA").is_none() => {
                kill_self(libc::SIGILL)
            }
            Fault::SigillAlways if self.strikes() => kill_self(libc::SIGILL),
            Fault::Orphan if self.strikes() => leave_a_child(),
            Fault::Hang if self.strikes() => hang(),
            _ => {}
        }
        for (row, &id) in self.rows.iter_mut().zip(tokens) {
            *row = row.feed(id);
        }
        Ok(self.emit())
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let row = self.rows[row];
        Ok(row.logits(self.vocabulary, self.next(row)))
    }

    fn after_answer(&mut self) {
        self.truth.write();
        if self.fault == Fault::FloodStderr {
            eprintln!("{}", "flood ".repeat((1 << 20) / 6));
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if self.fault == Fault::CrashExit {
            std::process::abort();
        }
    }
}

fn as_asked<T>(kind: FailureKind) -> Result<T, EngineError> {
    Err(EngineError::new(kind, "as asked for by the variant"))
}

fn kill_self(signal: libc::c_int) -> ! {
    // SAFETY: no handler of ours: the process ends here.
    unsafe { libc::raise(signal) };
    hang()
}

fn leave_a_child() -> ! {
    let _ = std::process::Command::new("sleep").arg("3600").spawn();
    std::process::exit(3)
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Return the `vocab_size` of the model that this engine stands for.
fn vocabulary(model_dir: &Path) -> Result<u32, EngineError> {
    let path = model_dir.join("config.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(DEFAULT_VOCABULARY);
    };
    let config: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let size = config.and_then(|config| config.get("vocab_size")?.as_u64());
    let size = size
        .and_then(|size| u32::try_from(size).ok())
        .filter(|&size| size > 0);
    size.ok_or_else(|| EngineError::internal("no vocab_size").in_file(&path))
}
