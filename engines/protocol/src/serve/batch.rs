//! This module runs and times one batch from its first prompt token to its last output token. All
//! memory is allocated before the clock starts, and answers are written after it stops; between
//! two time stamps there is one call into the engine, and the commit of the tokens it returned.
//!
//! It also makes an adapter of an [`Engine`]: requests of one shape run together to their end, and
//! nothing is read, written or decided while they do.

use super::input::Lines;
use super::queue::{Queue, Waiting, Work};
use super::{Adapter, Stop, failed, guarded, score, send};
use crate::clock::now_ns;
use crate::engine::{Engine, EngineError};
use crate::wire::{Batching, Done, Event, Hello, Load, Loaded};
use crate::witness::Witness;
use std::io;
use std::io::{Read, Write};

/// The time stamps and output of a batch; all rows share the times.
#[derive(Debug)]
pub struct Timeline {
    /// When the engine began (ns).
    pub started_ns: u64,
    /// When each step's tokens were on the host (ns); `new_tokens` entries.
    pub token_ns: Vec<u64>,
    /// Output ids, `new_tokens × rows`, step by step. Empty if the engine returns text and no ids.
    pub tokens: Vec<u32>,
    /// The output as text, from an engine that returns no ids.
    pub text: Option<String>,
}

impl Timeline {
    /// Return the output ids of one row.
    pub fn row(&self, row: usize) -> Vec<u32> {
        let rows = self.tokens.len() / self.token_ns.len();
        self.tokens
            .iter()
            .skip(row)
            .step_by(rows.max(1))
            .copied()
            .collect()
    }
}

/// Run requests of one shape as one batch; return their answers in the same order. Each token is
/// committed when it is known.
pub fn run(
    engine: &mut impl Engine,
    batch: &[Waiting],
    witness: &Witness,
) -> Result<Vec<Done>, EngineError> {
    let prompts: Vec<&[u32]> = batch
        .iter()
        .map(|w| w.generate.prompt_ids.as_slice())
        .collect();
    let new_tokens = batch.first().map_or(0, |w| w.generate.new_tokens);
    let commit = |step: usize, tokens: &[u32]| {
        for (waiting, &token) in batch.iter().zip(tokens) {
            witness.commit(waiting.id(), step, token);
        }
    };
    let timeline = time(engine, &prompts, new_tokens, commit)?;
    let done = |(row, waiting): (usize, &Waiting)| Done {
        id: waiting.id(),
        received_ns: waiting.received_ns,
        started_ns: timeline.started_ns,
        token_ns: timeline.token_ns.clone(),
        output_ids: timeline.row(row),
        output_text: None,
        batch: batch.len() as u32,
    };
    Ok(batch.iter().enumerate().map(done).collect())
}

/// Prefill `prompts` and decode until every row has `new_tokens` (≥ 1) tokens. Each step's tokens
/// are passed to `commit` as soon as they are stamped.
pub fn time(
    engine: &mut impl Engine,
    prompts: &[&[u32]],
    new_tokens: u32,
    commit: impl Fn(usize, &[u32]),
) -> Result<Timeline, EngineError> {
    let rows = prompts.len();
    let mut token_ns = Vec::with_capacity(new_tokens as usize);
    let mut tokens = Vec::with_capacity(new_tokens as usize * rows);

    let started_ns = now_ns();
    let mut next = engine.prefill(prompts)?;
    token_ns.push(now_ns());
    commit(0, &next);
    check_rows(&next, rows)?;
    tokens.extend_from_slice(&next);
    for step in 1..new_tokens as usize {
        next = engine.decode(&next)?;
        token_ns.push(now_ns());
        commit(step, &next);
        check_rows(&next, rows)?;
        tokens.extend_from_slice(&next);
    }
    Ok(Timeline {
        started_ns,
        token_ns,
        tokens,
        text: None,
    })
}

fn check_rows(next: &[u32], rows: usize) -> Result<(), EngineError> {
    if next.len() == rows {
        return Ok(());
    }
    Err(EngineError::internal(format!(
        "the engine gave {} tokens for {rows} rows",
        next.len()
    )))
}

/// The adapter of an [`Engine`].
pub struct Batched<E> {
    engine: E,
    max_batch: usize,
    max_context: u32,
}

impl<E: Engine> Adapter for Batched<E> {
    fn backends_by_hand() -> &'static [&'static str] {
        E::backends_by_hand()
    }

    fn hello(load: &Load) -> Hello {
        E::hello(load)
    }

    fn load(load: &Load, hello: &Hello) -> Result<(Self, Loaded), EngineError> {
        let (engine, loaded) = E::load(load)?;
        let max_batch = match hello.capabilities.batching {
            Batching::None => 1,
            Batching::StaticEqualLength | Batching::Continuous => load.max_batch.max(1) as usize,
        };
        let adapter = Self {
            engine,
            max_batch,
            max_context: load.max_context,
        };
        Ok((adapter, loaded))
    }

    fn run_alone(&mut self, prompt_ids: &[u32], new_tokens: u32) -> Result<Timeline, EngineError> {
        let timeline = time(&mut self.engine, &[prompt_ids], new_tokens, |_, _| ())?;
        self.engine.after_answer();
        Ok(timeline)
    }

    fn answer<R: Read + Send + 'static, W: Write>(
        self,
        lines: Lines<R>,
        mut out: W,
        witness: Witness,
    ) -> io::Result<u8> {
        let mut engine = self.engine;
        let mut queue = Queue::new(lines.into_inbox(), self.max_batch, self.max_context);
        while let Some(work) = queue.next() {
            let mut rows = 0;
            let events = match work {
                Work::Reject(failure) => vec![Event::Error(failure)],
                Work::Score(request) => match guarded(|| score::run(&mut engine, &request)) {
                    Ok(scored) => vec![Event::Scored(scored)],
                    Err(Stop::Failed(err)) => vec![failed(request.id, &err)],
                    Err(stop) => return stop.report_fatal(&mut out),
                },
                Work::Batch(requests) => match guarded(|| run(&mut engine, &requests, &witness)) {
                    Ok(done) => {
                        rows = done.len();
                        done.into_iter().map(Event::Done).collect()
                    }
                    Err(Stop::Failed(err)) => {
                        requests.iter().map(|r| failed(r.id(), &err)).collect()
                    }
                    Err(stop) => return stop.report_fatal(&mut out),
                },
            };
            queue.finished(rows);
            send(&mut out, &events)?;
            if let Err(stop) = guarded(|| {
                engine.after_answer();
                Ok(())
            }) {
                return stop.report_fatal(&mut out);
            }
        }
        Ok(0)
    }
}
