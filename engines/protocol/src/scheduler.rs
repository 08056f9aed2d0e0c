//! The trait that an adapter implements if its engine has a scheduler of its own: requests join
//! and leave between steps, and the engine decides how they share a step. The adapter of an engine
//! without a scheduler implements [`crate::engine::Engine`] instead.

mod in_flight;

pub use in_flight::{InFlight, Seat};

use crate::engine::EngineError;
use crate::wire::{Done, Event, Generate, Hello, Load, Loaded};
use crate::witness::{Commits, Witness};

/// An inference engine with its own scheduler. One value serves one process.
pub trait Scheduler: Sized {
    /// Describe the engine, as in [`crate::engine::Engine::hello`].
    fn hello(load: &Load) -> Hello;

    /// Load the model, as in [`crate::engine::Engine::load`].
    fn load(load: &Load) -> Result<(Self, Loaded), EngineError>;

    /// Hand a request to the scheduler and return at once, without waiting for any of its work.
    /// The job may be answered from any thread, by its [`Job::done`] or [`Job::failed`].
    fn submit(&mut self, job: Job);

    /// Return the raw logits (`vocabulary` long each, up to an additive constant) after `prompt`
    /// and then after each of the `forced` tokens, fed one per step through the very path that
    /// `submit` runs: `forced.len() + 1` rows. Called only for the gate, with nothing else in
    /// flight; never called if `hello` says `score: false`.
    fn forced_logits(
        &mut self,
        prompt: &[u32],
        forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError>;

    /// Return the backends to try, as in [`crate::engine::Engine::backends_by_hand`].
    fn backends_by_hand() -> &'static [&'static str] {
        &["cpu"]
    }
}

/// A request on its way through a scheduler. If it is dropped unanswered, it is answered with an
/// error, so that no bug or panic leaves the harness waiting.
pub struct Job {
    generate: Generate,
    received_ns: u64,
    commits: Commits,
    reply: Option<Box<dyn FnOnce(Event) + Send>>,
}

impl Job {
    /// Create a job whose answer is passed to `reply`.
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

    /// Return the same job, with its tokens committed to `witness` so that the harness can observe
    /// them.
    pub fn witnessed(mut self, witness: &Witness) -> Self {
        self.commits = witness.commits(self.generate.id);
        self
    }

    /// Return the handle that must stamp each token when it is known on the host.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Token ids of the prompt; never empty.
    pub fn prompt_ids(&self) -> &[u32] {
        &self.generate.prompt_ids
    }

    /// Number of tokens to generate, at least 1; EOS is ignored.
    pub fn new_tokens(&self) -> u32 {
        self.generate.new_tokens
    }

    /// When the request's line was read (ns).
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// Answer the request with its output, whose tokens [`Job::commits`] has stamped. The id and
    /// `received_ns` are the request's, whatever `done` has in their place.
    pub fn done(mut self, done: Done) {
        let done = Done {
            id: self.generate.id,
            received_ns: self.received_ns,
            ..done
        };
        self.send(Event::Done(done));
    }

    /// Answer the request with an error; the engine can go on.
    pub fn failed(mut self, error: EngineError) {
        self.fail(error);
    }

    fn fail(&mut self, error: EngineError) {
        self.send(Event::Error(error.failure(Some(self.generate.id))));
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
