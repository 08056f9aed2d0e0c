//! What an adapter implements whose engine has a scheduler of its own: requests
//! join and leave between steps, and how they share a step is the engine's
//! business. An engine without one implements [`crate::engine::Engine`] instead.

use crate::engine::EngineError;
use crate::wire::{Done, Event, Failure, Generate, Hello, Load, Loaded};
use crate::witness::{Commits, Witness};

/// An inference engine that schedules by itself. One value serves one process.
pub trait Scheduler: Sized {
    /// As [`crate::engine::Engine::hello`].
    fn hello(load: &Load) -> Hello;

    /// As [`crate::engine::Engine::load`].
    fn load(load: &Load) -> Result<(Self, Loaded), EngineError>;

    /// Hand a request to the scheduler and return at once, without waiting for any
    /// of its work. The job is answered from any thread, through itself.
    fn submit(&mut self, job: Job);

    /// Raw logits (`vocabulary` long each, any additive constant) after `prompt`
    /// and then after each of the `forced` tokens, fed one a step through the very
    /// path that `submit` runs: `forced.len() + 1` rows. Only the gate asks, with
    /// nothing else in flight; never called where `hello` says `score: false`.
    fn forced_logits(
        &mut self,
        prompt: &[u32],
        forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError>;

    /// As [`crate::engine::Engine::backends_by_hand`].
    fn backends_by_hand() -> &'static [&'static str] {
        &["cpu"]
    }
}

/// A request on its way through a scheduler. One that is dropped unanswered is
/// answered with an error, so that no bug or panic leaves the harness waiting.
pub struct Job {
    generate: Generate,
    received_ns: u64,
    commits: Commits,
    reply: Option<Box<dyn FnOnce(Event) + Send>>,
}

/// What came of a [`Job`]. `started_ns ≤ token_ns[0] ≤ …`, on [`crate::clock`].
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The scheduler took it up: its first work began.
    pub started_ns: u64,
    /// When each output token was known on the host, by [`Job::commits`]; `new_tokens` entries.
    pub token_ns: Vec<u64>,
    /// The output tokens; `new_tokens` entries, or none with `output_text`.
    pub output_ids: Vec<u32>,
    /// The output as text, from an engine that gives no ids.
    pub output_text: Option<String>,
    /// Largest number of requests it shared a step with, itself included.
    pub batch: u32,
}

impl Job {
    /// A job whose answer goes to `reply`.
    pub fn new(
        generate: Generate,
        received_ns: u64,
        reply: impl FnOnce(Event) + Send + 'static,
    ) -> Self {
        Self {
            generate,
            received_ns,
            commits: Commits::default(),
            reply: Some(Box::new(reply)),
        }
    }

    /// The same job, whose tokens are committed so that the harness can watch them.
    pub fn witnessed(mut self, witness: &Witness) -> Self {
        self.commits = witness.commits(self.generate.id);
        self
    }

    /// What its tokens must be stamped by, each when it is known on the host.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// The prompt, never empty.
    pub fn prompt_ids(&self) -> &[u32] {
        &self.generate.prompt_ids
    }

    /// How many tokens to generate, at least 1; end-of-sequence is ignored.
    pub fn new_tokens(&self) -> u32 {
        self.generate.new_tokens
    }

    /// When its request was read.
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// It is done.
    pub fn done(mut self, answer: Answer) {
        let done = Done {
            id: self.generate.id,
            received_ns: self.received_ns,
            started_ns: answer.started_ns,
            token_ns: answer.token_ns,
            output_ids: answer.output_ids,
            output_text: answer.output_text,
            batch: answer.batch,
        };
        self.send(Event::Done(done));
    }

    /// It failed; the engine lives on.
    pub fn failed(mut self, error: EngineError) {
        self.fail(error);
    }

    fn fail(&mut self, error: EngineError) {
        self.send(Event::Error(Failure {
            id: Some(self.generate.id),
            kind: error.kind,
            message: error.message,
        }));
    }

    fn send(&mut self, event: Event) {
        if let Some(reply) = self.reply.take() {
            reply(event);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.fail(EngineError::internal(
                "the engine dropped the request without an answer",
            ));
        }
    }
}
