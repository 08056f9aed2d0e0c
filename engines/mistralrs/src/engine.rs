//! The adapter proper: requests in, tokens out, as mistral.rs schedules them. How
//! a model gets into memory is `load`'s, what a request looks like `request`'s.

use crate::in_flight::InFlight;
use crate::load::Eos;
use crate::request::{Forcer, Recorder, finished, request};
use crate::{gguf, load};
use mistralrs::{CustomLogitsProcessor, Request, Response};
use protocol::clock::now_ns;
use protocol::engine::EngineError;
use protocol::scheduler::{Answer, Job, Scheduler};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded, PROTOCOL};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender};

/// Of mistralrs and mistralrs-core, which are released together. A test compares
/// it with the lockfile.
const VERSION: &str = "0.8.1";

/// The engine.
pub struct MistralRs {
    /// Before the runtime: when it goes, mistral.rs ends its thread.
    _runner: Arc<mistralrs::MistralRs>,
    queue: Sender<Request>,
    positions: usize,
    in_flight: InFlight,
    runtime: Runtime,
}

impl MistralRs {
    /// Into mistral.rs' queue; the stream that answers.
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
}

impl Scheduler for MistralRs {
    fn hello(load: &Load) -> Hello {
        let mut capabilities = Capabilities {
            batching: Batching::Continuous,
            score: true,
            parallel_score: false,
            position_gap: None,
            notes: notes(load),
        };
        if load::is_gguf(load) {
            gguf::describe(&load::weights(load), &mut capabilities);
        }
        Hello {
            protocol: PROTOCOL,
            engine: "mistralrs".to_string(),
            version: VERSION.to_string(),
            build: BTreeMap::from([("features".to_string(), features())]),
            capabilities,
        }
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        // mistral.rs computes on threads of its own; this one only waits for it.
        // Not the single-threaded kind: on that, mistral.rs leaves out its dry run.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .map_err(EngineError::internal)?;
        let loading = load::load(load, &runtime, Eos::Ignored)?;
        let queue = loading
            .runner
            .get_sender(None)
            .map_err(EngineError::internal)?;
        let engine = Self {
            _runner: loading.runner,
            queue,
            positions: loading.positions,
            in_flight: InFlight::default(),
            runtime,
        };
        let loaded = Loaded {
            load_ns: 0,
            weight_bytes: loading.weight_bytes,
            kv_bytes_per_token: loading.kv_bytes_per_token,
        };
        Ok((engine, loaded))
    }

    fn submit(&mut self, job: Job) {
        let new_tokens = job.new_tokens() as usize;
        let recorder = Arc::new(Recorder::new(new_tokens));
        let seat = self.in_flight.join();
        let started_ns = now_ns();
        let stream = match self.enqueue(job.prompt_ids(), new_tokens, recorder.clone()) {
            Ok(stream) => stream,
            Err(error) => return job.failed(error),
        };
        self.runtime.spawn(async move {
            let ended = finished(stream).await;
            let batch = seat.peak();
            // Before the answer: what it sets off is not in flight together with it.
            drop(seat);
            match ended.and_then(|()| recorder.take()) {
                Ok(recorded) => job.done(Answer {
                    started_ns,
                    token_ns: recorded.token_ns,
                    output_ids: recorded.ids,
                    output_text: None,
                    batch,
                }),
                Err(error) => job.failed(error),
            }
        });
    }

    fn forced_logits(
        &mut self,
        prompt: &[u32],
        forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let forcer = Arc::new(Forcer::new(forced));
        let stream = self.enqueue(prompt, forced.len() + 1, forcer.clone())?;
        self.runtime.block_on(finished(stream))?;
        Ok(forcer.take())
    }
}

fn features() -> String {
    let features = [
        ("cuda", cfg!(feature = "cuda")),
        ("cudnn", cfg!(feature = "cudnn")),
        ("flash-attn", cfg!(feature = "flash-attn")),
        ("metal", cfg!(feature = "metal")),
        ("mkl", cfg!(feature = "mkl")),
    ];
    let enabled = features.iter().filter(|(_, enabled)| *enabled);
    let names: Vec<&str> = enabled.map(|(name, _)| *name).collect();
    names.join(" ")
}

/// What a reader of the numbers must know.
fn notes(load: &Load) -> Vec<String> {
    let mut notes = vec![
        "A token's time is when mistral.rs has its logits on the host, seen by a logits \
         processor: its stream keeps back tokens that end within a character."
            .to_string(),
        "A request counts as started when it is handed over: time in mistral.rs' own queue is \
         part of its prefill. `batch` is the most that were in flight with it."
            .to_string(),
        "Prefix cache off. A request for one token costs mistral.rs a second step, after the \
         token."
            .to_string(),
    ];
    notes.push(if load::paged(&load.backend) {
        "Paged attention, with a cache as large as the scenario needs.".to_string()
    } else {
        "No paged attention on the CPU: only sequences of equal length share a step.".to_string()
    });
    if load.variant == "isq" {
        notes.push(
            "Quantised in place from safetensors while loading (ISQ); an output head tied to the \
             embedding stays unquantised."
                .to_string(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn the_version_is_the_lockfiles() {
        let lock = include_str!("../Cargo.lock");
        for package in ["mistralrs", "mistralrs-core"] {
            let entry = format!("name = \"{package}\"\nversion = \"{VERSION}\"\n");
            assert!(lock.contains(&entry), "{package} is not {VERSION}");
        }
    }
}
