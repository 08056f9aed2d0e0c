//! The smallest adapter with a scheduler of its own, for the runtime's own tests: a thread
//! advances every job by one token per round, counting upwards from the last id of its prompt. It
//! has no model, and misbehaves on request (see `submit`).

use protocol::clock::now_ns;
use protocol::engine::EngineError;
use protocol::scheduler::{Job, Scheduler};
use protocol::wire::{Batching, Capabilities, Done, Hello, Load, Loaded};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The size of the vocabulary.
const VOCABULARY: u32 = 16;

struct Relay {
    jobs: Sender<Job>,
}

impl Scheduler for Relay {
    fn hello(_load: &Load) -> Hello {
        Hello::new("relay", "1", Capabilities::new(Batching::Continuous))
    }

    fn load(_load: &Load) -> Result<(Self, Loaded), EngineError> {
        let (jobs, inbox) = channel();
        std::thread::spawn(move || rounds(&inbox));
        let loaded = Loaded {
            weight_bytes: 1,
            kv_bytes_per_token: 2,
            ..Loaded::default()
        };
        Ok((Self { jobs }, loaded))
    }

    /// A prompt of 3 tokens runs out of memory, one of 4 panics, the job of one of 5 is dropped.
    fn submit(&mut self, job: Job) {
        match job.prompt_ids().len() {
            3 => job.failed(EngineError::oom("no room")),
            4 => panic!("four!"),
            5 => drop(job),
            _ => self.jobs.send(job).expect("the thread lives"),
        }
    }

    /// A prompt of 3 tokens gives one row too few.
    fn forced_logits(
        &mut self,
        prompt: &[u32],
        forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let fed = prompt.last().into_iter().chain(forced);
        let rows = fed.map(|id| {
            let next = (id + 1) % VOCABULARY;
            let logit = |id| if id == next { 2f32.ln() } else { 0.0 };
            (0..VOCABULARY).map(logit).collect()
        });
        Ok(rows.skip(usize::from(prompt.len() == 3)).collect())
    }
}

fn rounds(inbox: &Receiver<Job>) {
    let mut running: Vec<(Job, u32, Done)> = Vec::new();
    loop {
        let job = if running.is_empty() {
            match inbox.recv() {
                Ok(job) => Some(job),
                Err(_) => return,
            }
        } else {
            inbox.try_recv().ok()
        };
        if let Some(job) = job {
            let last = *job.prompt_ids().last().expect("never empty");
            let answer = Done {
                started_ns: now_ns(),
                ..Done::default()
            };
            running.push((job, last, answer));
        }
        let batch = running.len() as u32;
        for (job, last, answer) in &mut running {
            *last = (*last + 1) % VOCABULARY;
            let index = answer.output_ids.len();
            answer.token_ns.push(job.commits().token(index, *last));
            answer.output_ids.push(*last);
            answer.batch = answer.batch.max(batch);
        }
        let finished = |(job, _, answer): &(Job, u32, Done)| {
            answer.output_ids.len() == job.new_tokens() as usize
        };
        for (job, _, answer) in running.extract_if(.., |entry| finished(entry)) {
            job.done(answer);
        }
    }
}

fn main() -> ExitCode {
    protocol::main_scheduled::<Relay>()
}
