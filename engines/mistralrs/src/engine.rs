//! The adapter: requests in, tokens out, as mistral.rs schedules them. The module `load` loads a
//! model, `request` makes the requests.

use crate::load::Eos;
use crate::request::{Forcer, Recorder, finished, request};
use crate::{gguf, load};
use mistralrs::{CustomLogitsProcessor, Request, Response};
use protocol::clock::now_ns;
use protocol::engine::EngineError;
use protocol::scheduler::{InFlight, Job, Scheduler};
use protocol::wire::{Batching, Capabilities, Done, Hello, Load, Loaded};
use protocol::witness::Commits;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender};

/// The version of mistralrs and mistralrs-core, which are released together. A test compares it
/// with the lockfile.
const VERSION: &str = "0.8.1";

/// A running mistral.rs with its runtime.
pub struct MistralRs {
    /// Declared before the runtime, so that it is dropped first: mistral.rs then ends its thread.
    _runner: Arc<mistralrs::MistralRs>,
    handle: Handle,
    runtime: Runtime,
}

/// The parts of the engine that a request needs.
#[derive(Clone)]
struct Handle {
    queue: Sender<Request>,
    positions: usize,
    /// One permit for each request that mistral.rs may have at a time, granted in order of
    /// arrival.
    turns: Arc<Semaphore>,
    in_flight: InFlight,
}

impl Handle {
    /// Put a request into mistral.rs' queue; return the stream that answers it.
    fn enqueue(
        &self,
        prompt: &[u32],
        new_tokens: usize,
        processor: Arc<dyn CustomLogitsProcessor>,
    ) -> Result<Receiver<Response>, EngineError> {
        let end = prompt.len() + new_tokens;
        if end > self.positions {
            return Err(EngineError::unsupported(format!(
                "position {end} is beyond the {} that the model is made for",
                self.positions
            )));
        }
        let (request, stream) = request(prompt, new_tokens, processor);
        self.queue
            .try_send(request)
            .map_err(|err| EngineError::internal(format!("mistral.rs takes no request: {err}")))?;
        Ok(stream)
    }

    /// Run a request, from its turn to its last token.
    async fn run(
        &self,
        prompt: &[u32],
        new_tokens: usize,
        commits: Commits,
    ) -> Result<Done, EngineError> {
        let recorder = Arc::new(Recorder::new(new_tokens, commits));
        let _turn = self.turns.acquire().await.map_err(EngineError::internal)?;
        let seat = self.in_flight.join();
        let started_ns = now_ns();
        finished(self.enqueue(prompt, new_tokens, recorder.clone())?).await?;
        let recorded = recorder.take()?;
        Ok(Done {
            started_ns,
            token_ns: recorded.token_ns,
            output_ids: recorded.ids,
            batch: seat.leave(),
            ..Done::default()
        })
    }
}

async fn answer(handle: Handle, job: Job) {
    // The request has left `in_flight` before it is answered: requests that follow the answer must
    // not count as in flight together with it.
    let (prompt, new_tokens) = (job.prompt_ids(), job.new_tokens() as usize);
    let commits = job.commits().clone();
    match handle.run(prompt, new_tokens, commits).await {
        Ok(answer) => job.done(answer),
        Err(error) => job.failed(error),
    }
}

impl Scheduler for MistralRs {
    fn hello(load: &Load) -> Hello {
        let mut capabilities = Capabilities {
            prefix_cache: load::keeps_prompts(load),
            notes: notes(load),
            ..Capabilities::new(batching(load))
        };
        if load.is_gguf() {
            gguf::describe(&load.weights_path(), &mut capabilities);
        }
        let features = protocol::features!("cuda" "cudnn" "flash-attn" "metal" "mkl");
        Hello::new("mistralrs", VERSION, capabilities).with_build("features", features)
    }

    fn backends_by_hand() -> &'static [&'static str] {
        if cfg!(feature = "cuda") {
            &["cuda", "cpu"]
        } else if cfg!(feature = "metal") {
            &["metal", "cpu"]
        } else {
            &["cpu"]
        }
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        // mistral.rs computes on threads of its own; this one only waits for it. A single-threaded
        // runtime won't do, because on one mistral.rs leaves out its dry run.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .map_err(EngineError::internal)?;
        let loading = load::load(load, &runtime, Eos::Ignored)?;
        let queue = loading
            .runner
            .get_sender(None)
            .map_err(EngineError::internal)?;
        let turns = match batching(load) {
            Batching::Continuous => load.max_batch.max(1) as usize,
            Batching::None | Batching::StaticEqualLength => 1,
        };
        let handle = Handle {
            queue,
            positions: loading.positions,
            turns: Arc::new(Semaphore::new(turns)),
            in_flight: InFlight::default(),
        };
        let engine = Self {
            _runner: loading.runner,
            handle,
            runtime,
        };
        Ok((engine, loading.loaded))
    }

    fn submit(&mut self, job: Job) {
        self.runtime.spawn(answer(self.handle.clone(), job));
    }

    fn forced_logits(
        &mut self,
        prompt: &[u32],
        forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let forcer = Arc::new(Forcer::new(forced));
        let stream = self
            .handle
            .enqueue(prompt, forced.len() + 1, forcer.clone())?;
        self.runtime.block_on(finished(stream))?;
        Ok(forcer.take())
    }
}

/// How requests are batched. mistral.rs batches continuously, but its attention for one token per
/// row on the CPU (`flash_attn_cpu_single_q`) keeps one scratch buffer for all rows: all but the
/// last come out wrong. Nor does its scheduler keep to a limit of one.
fn batching(load: &Load) -> Batching {
    if load.backend == "cpu" {
        Batching::None
    } else {
        Batching::Continuous
    }
}

/// Return the remarks that a reader of the numbers must know.
fn notes(load: &Load) -> Vec<String> {
    let mut notes = vec![
        "A token's time is when mistral.rs has its logits on the host, seen by a logits \
         processor: its stream keeps back tokens that end within a character."
            .to_string(),
        "A request for one token costs mistral.rs a second step, after the token.".to_string(),
    ];
    notes.push(match load.prefix_cache {
        true => "Prefix cache on, as by mistral.rs' default: on the CPU it keeps every sequence \
                 that has ended, and evicts none."
            .to_string(),
        false => "Prefix cache off.".to_string(),
    });
    notes.push(if batching(load) == Batching::None {
        "One request at a time, held back by the adapter: on the CPU mistral.rs 0.8.1 mixes up \
         the rows of a batch."
            .to_string()
    } else {
        "A request counts as started when it is handed over: time in mistral.rs' own queue is \
         part of its prefill. `batch` is the most that were in flight with it."
            .to_string()
    });
    if load::paged(&load.backend) {
        notes.push("Paged attention, with a cache as large as the scenario needs.".to_string());
    }
    if load.backend == "cuda" && !cfg!(any(feature = "cudnn", feature = "flash-attn")) {
        notes.push(
            "Built without its features cudnn and flash-attn, which mistral.rs' installation guide \
             adds to cuda on cards of compute capability 8.0 or more."
                .to_string(),
        );
    }
    if load.backend == "cpu" && (load.is_gguf() || load.variant == "isq") {
        notes.push("Keys and values are f16, mistral.rs' own choice on the CPU.".to_string());
        notes.push(
            "Its candle-core 0.10.2 multiplies quantised weights by one token of the prompt at a \
             time on the CPU (`matmul` in `quantized/k_quants.rs`), so that prefill reads the \
             weights once a token; candle-core 0.11 takes 16 tokens at a time."
                .to_string(),
        );
    }
    if load.variant == "isq" {
        notes.push(
            "Quantised in place from safetensors while loading (ISQ); an output head tied to the \
             embedding stays f16."
                .to_string(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::VERSION;
    use protocol::engine::testing::assert_locked;

    #[test]
    fn the_version_is_the_lockfiles() {
        let lock = include_str!("../Cargo.lock");
        assert_locked(lock, &["mistralrs", "mistralrs-core"], VERSION);
    }
}
