//! Keeps requests in flight with one thread and one connection each: as many as will ever be in
//! flight, or as the user allows. How the server schedules them is not known here.

use crate::endpoint::Endpoint;
use crate::{endpoint, tokens};
use protocol::engine::EngineError;
use protocol::scheduler::{InFlight, Job, Scheduler};
use protocol::wire::{Batching, Capabilities, Done, Hello, Load, Loaded};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// The handle that passes jobs to the threads.
pub struct OpenAi {
    jobs: Sender<Job>,
}

impl Scheduler for OpenAi {
    fn hello(load: &Load) -> Hello {
        let found = endpoint::find(load);
        let batching = match &found {
            Ok(endpoint) if endpoint.serves_one_at_a_time() => Batching::None,
            _ => Batching::Continuous,
        };
        let (version, build, notes) = match &found {
            Ok(endpoint) => (
                endpoint.version.clone(),
                endpoint.facts.clone(),
                endpoint.notes(),
            ),
            // `load` reports the error.
            Err(_) => ("unknown".to_owned(), Default::default(), Vec::new()),
        };
        let capabilities = Capabilities {
            score: false,
            notes,
            ..Capabilities::new(batching)
        };
        Hello {
            build,
            ..Hello::new("openai", version, capabilities)
        }
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        let endpoint = endpoint::find(load)?;
        let (jobs, inbox) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let in_flight = InFlight::default();
        for _ in 0..endpoint.connections {
            let (endpoint, inbox) = (Arc::clone(&endpoint), Arc::clone(&inbox));
            let in_flight = in_flight.clone();
            std::thread::spawn(move || {
                while let Some(job) = next(&inbox) {
                    serve(&endpoint, &in_flight, job);
                }
            });
        }
        let loaded = Loaded {
            weight_bytes: weight_bytes(load),
            // The size of the server's cache is not known to a client.
            kv_bytes_per_token: 0,
            ..Loaded::default()
        };
        Ok((Self { jobs }, loaded))
    }

    fn submit(&mut self, job: Job) {
        // A job that can't be sent is dropped, which answers it with an error.
        let _ = self.jobs.send(job);
    }

    fn forced_logits(
        &mut self,
        _prompt: &[u32],
        _forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        Err(EngineError::unsupported(
            "the API gives no log-probabilities of forced tokens",
        ))
    }
}

fn next(inbox: &Mutex<Receiver<Job>>) -> Option<Job> {
    inbox.lock().ok()?.recv().ok()
}

fn serve(endpoint: &Endpoint, in_flight: &InFlight, job: Job) {
    let seat = in_flight.join();
    let answer = answer(endpoint, &job);
    let batch = seat.leave();
    match answer {
        Ok(answer) => job.done(Done { batch, ..answer }),
        Err(error) => job.failed(error),
    }
}

fn answer(endpoint: &Endpoint, job: &Job) -> Result<Done, EngineError> {
    let generated = endpoint.generate(job.prompt_ids(), job.new_tokens(), job.commits());
    let generated = generated.map_err(EngineError::from)?;
    let reply = &generated.reply;
    endpoint.check_prompt(job.prompt_ids(), reply)?;
    let tokens = tokens::tokens(reply, job.new_tokens(), |text| endpoint.count_text(text))
        .map_err(EngineError::internal)?;
    let output_text = tokens.ids.is_empty().then(|| reply.text());
    Ok(Done {
        started_ns: generated.sent_ns,
        token_ns: tokens.token_ns,
        output_ids: tokens.ids,
        output_text,
        ..Done::default()
    })
}

/// Return the bytes that one decode step reads, assuming that the server uses the named file.
fn weight_bytes(load: &Load) -> u64 {
    std::fs::metadata(load.weights_path()).map_or(0, |file| file.len())
}
