//! Keeps requests in flight with one thread and one connection each: as many as will ever be in
//! flight, or as the user allows. How the server schedules them is not known here.

use crate::endpoint::Endpoint;
use crate::{endpoint, tokens};
use protocol::engine::EngineError;
use protocol::scheduler::{Answer, Job, Scheduler};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
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
        let flights = Arc::new(Flights::default());
        for _ in 0..endpoint.connections {
            let (endpoint, inbox) = (Arc::clone(&endpoint), Arc::clone(&inbox));
            let flights = Arc::clone(&flights);
            std::thread::spawn(move || {
                while let Some(job) = next(&inbox) {
                    serve(&endpoint, &flights, job);
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

fn serve(endpoint: &Endpoint, flights: &Flights, job: Job) {
    let flight = flights.join();
    let answer = answer(endpoint, &job);
    let batch = flights.leave(&flight);
    match answer {
        Ok(answer) => job.done(Answer { batch, ..answer }),
        Err(error) => job.failed(error),
    }
}

fn answer(endpoint: &Endpoint, job: &Job) -> Result<Answer, EngineError> {
    let generated = endpoint.generate(job.prompt_ids(), job.new_tokens(), job.commits());
    let generated = generated.map_err(EngineError::from)?;
    let reply = &generated.reply;
    endpoint.check_prompt(job.prompt_ids(), reply)?;
    let tokens = tokens::tokens(reply, job.new_tokens(), |text| endpoint.count_text(text))
        .map_err(EngineError::internal)?;
    let output_text = tokens.ids.is_empty().then(|| reply.text());
    Ok(Answer {
        started_ns: generated.sent_ns,
        token_ns: tokens.token_ns,
        output_ids: tokens.ids,
        output_text,
        batch: 0,
    })
}

/// Return the bytes that one decode step reads, assuming that the server uses the named file.
fn weight_bytes(load: &Load) -> u64 {
    let path = Path::new(&load.model_dir).join(&load.weights);
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// The requests in flight, each with the largest number that were in flight with it.
#[derive(Default)]
struct Flights(Mutex<Vec<Arc<AtomicU32>>>);

impl Flights {
    fn join(&self) -> Arc<AtomicU32> {
        let mine = Arc::new(AtomicU32::new(0));
        let mut all = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        all.push(Arc::clone(&mine));
        let count = all.len() as u32;
        for flight in all.iter() {
            flight.fetch_max(count, Ordering::Relaxed);
        }
        mine
    }

    /// Remove a request; return the largest number of requests that were in flight while it was.
    fn leave(&self, mine: &Arc<AtomicU32>) -> u32 {
        let mut all = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        all.retain(|flight| !Arc::ptr_eq(flight, mine));
        mine.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_knows_the_most_it_met() {
        let flights = Flights::default();
        let first = flights.join();
        let second = flights.join();
        assert_eq!(flights.leave(&first), 2);
        let third = flights.join();
        assert_eq!(flights.leave(&third), 2);
        assert_eq!(flights.leave(&second), 2);
        let alone = flights.join();
        assert_eq!(flights.leave(&alone), 1);
    }
}
