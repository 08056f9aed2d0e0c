//! An [`Engine`] as an adapter: requests of one shape run together to their end,
//! and nothing is read, written or decided while they do.

use super::batch::{self, Timeline};
use super::input::Lines;
use super::queue::{Queue, Work};
use super::{Adapter, Stop, failed, guarded, score, send};
use crate::engine::{Engine, EngineError};
use crate::wire::{Batching, Event, Hello, Load, Loaded};
use std::io::{self, Read, Write};

/// The adapter.
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

    fn alone(&mut self, prompt_ids: &[u32], new_tokens: u32) -> Result<Timeline, EngineError> {
        let timeline = batch::time(&mut self.engine, &[prompt_ids], new_tokens)?;
        self.engine.after_answer();
        Ok(timeline)
    }

    fn answer<R: Read + Send + 'static, W: Write>(
        self,
        lines: Lines<R>,
        mut out: W,
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
                    Err(stop) => return stop.last_words(&mut out),
                },
                Work::Batch(requests) => match guarded(|| batch::run(&mut engine, &requests)) {
                    Ok(done) => {
                        rows = done.len();
                        done.into_iter().map(Event::Done).collect()
                    }
                    Err(Stop::Failed(err)) => {
                        requests.iter().map(|r| failed(r.id(), &err)).collect()
                    }
                    Err(stop) => return stop.last_words(&mut out),
                },
            };
            queue.finished(rows);
            send(&mut out, &events)?;
            if let Err(stop) = guarded(|| {
                engine.after_answer();
                Ok(())
            }) {
                return stop.last_words(&mut out);
            }
        }
        Ok(0)
    }
}
