//! A model: what it holds, how it is loaded, and what can be asked of it. The
//! arithmetic of a step is in [`forward`].
//!
//! It deliberately does no sampling beyond argmax, and forms no batches.

mod forward;

use crate::kernels::Kernels;
use crate::mutation::Mutation;
use crate::pool::Pool;
use crate::rope::RopeTable;
use crate::state::{Cache, State};
use crate::weights::{Precision, Weights};
use forward::Step;
use protocol::engine::EngineError;
use protocol::wire::FailureKind;
use shape::{Scaling, Shape};
use std::cell::Cell;
use std::path::Path;

/// What to load and how large to make it.
pub struct Options<'a> {
    /// Directory of `config.json` and the weights.
    pub model_dir: &'a Path,
    /// File in it.
    pub weights: &'a str,
    /// How to store and multiply.
    pub precision: Precision,
    /// Compute threads, at least 1.
    pub threads: usize,
    /// Longest sequence, in tokens.
    pub max_context: usize,
    /// Most sequences in a batch.
    pub max_batch: usize,
    /// Whether a prompt goes on from what the cache holds of the one before it.
    pub prefix_cache: bool,
    /// A deliberate fault, for testing the parity gate.
    pub mutation: Option<Mutation>,
    /// Kernels to compute with.
    pub kernels: Kernels,
}

/// A loaded model and the batch it is working on.
pub struct Model {
    pub(crate) config: Shape,
    pub(crate) weights: Weights,
    pub(crate) rope: RopeTable,
    pub(crate) kernels: Kernels,
    pub(crate) pool: Pool,
    pub(crate) state: State,
    pub(crate) cache: Cache,
    pub(crate) max_context: usize,
    pub(crate) max_batch: usize,
    pub(crate) mutation: Option<Mutation>,
    pub(crate) prefix_cache: bool,
    /// What was fed of a batch of one sequence, position by position; empty for other batches.
    pub(crate) fed: Vec<u32>,
    /// Tokens pushed through the layers since it was loaded.
    pub(crate) computed: u64,
    /// Sequences in the current batch.
    pub(crate) rows: usize,
    /// Positions of the current batch that are in the cache.
    pub(crate) length: usize,
    /// Where the current batch begins in the cache; 0 unless a fault moves it.
    pub(crate) base: usize,
    /// Whether somebody has looked at the logits of the last step; only a fault asks.
    pub(crate) looked_at: Cell<bool>,
}

impl Model {
    /// Load a model.
    ///
    /// # Errors
    /// If the files or the options do not fit; see [`crate::weights::load`].
    pub fn load(options: &Options<'_>) -> Result<Self, EngineError> {
        let Options {
            threads,
            max_context,
            max_batch,
            prefix_cache,
            mutation,
            kernels,
            ..
        } = *options;
        if threads == 0 || max_context == 0 || max_batch == 0 {
            return Err(EngineError::new(
                FailureKind::BadRequest,
                "threads, max_context and max_batch must be at least 1",
            ));
        }
        let pool = Pool::new(threads).map_err(|error| {
            EngineError::internal(format!("cannot start {threads} threads ({error})"))
        })?;
        let Options {
            model_dir,
            weights,
            precision,
            ..
        } = *options;
        let (mut config, mut weights) = crate::weights::load(model_dir, weights, precision, &pool)?;
        config.within_window(max_context)?;

        let mut positions = max_context;
        match mutation {
            Some(Mutation::RopeBase) => config.rope.theta *= 10.0,
            Some(Mutation::RmsEpsilon) => config.eps *= 10.0,
            Some(Mutation::RopeScaling) if config.rope.scaling == Scaling::None => {
                return Err(EngineError::unsupported(
                    "variant `rope_scaling`: this model has no RoPE scaling to drop",
                ));
            }
            Some(Mutation::RopeScaling) => config.rope.scaling = Scaling::None,
            Some(Mutation::ZeroedLayer) => drop(weights.layers.remove(config.layers / 2)),
            // Room for the previous sequence before the new one.
            Some(Mutation::StaleKv) => positions *= 2,
            _ => {}
        }

        // One position more than can be asked for: a fault looks one too far.
        let mut rope = RopeTable::new(&config.rope, config.head_dim, max_context + 1);
        if mutation == Some(Mutation::RopeFar) {
            rope = rope.ending_at(4096);
        }
        let memory = || {
            let cache = Cache::new(&config, max_batch, positions)?;
            let state = State::new(&config, precision, max_batch, cache.capacity, threads)?;
            Ok((cache, state))
        };
        let (cache, state) = memory().map_err(|error: std::io::Error| {
            let message = format!(
                "no memory for {max_batch} sequences of {positions} positions ({error}); \
                 ask for a smaller batch or context"
            );
            EngineError::new(FailureKind::Oom, message)
        })?;
        let (rows, length, base) = (0, 0, 0);
        Ok(Self {
            config,
            weights,
            rope,
            kernels,
            pool,
            state,
            cache,
            max_context,
            max_batch,
            mutation,
            prefix_cache,
            fed: Vec::with_capacity(max_context),
            computed: 0,
            rows,
            length,
            base,
            looked_at: Cell::new(false),
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Shape {
        &self.config
    }

    /// Bytes of weights that a decode step reads.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.decode_bytes()
    }

    /// Bytes of cache that a position takes.
    pub fn kv_bytes_per_token(&self) -> u64 {
        Cache::bytes_per_token(&self.config)
    }

    /// Forget everything, feed prompts of one length, return the greedy next
    /// token of each. With a prefix cache a prompt alone goes on from where it
    /// leaves the sequence before it; its last token is always fed.
    ///
    /// # Errors
    /// If there are too many prompts, they are too long, empty or of unequal
    /// length, or a token is not in the vocabulary.
    pub fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        let bad = |what: String| EngineError::new(FailureKind::BadRequest, what);
        let (rows, len) = (
            prompts.len(),
            prompts.first().map_or(0, |prompt| prompt.len()),
        );
        if rows == 0 || len == 0 || prompts.iter().any(|prompt| prompt.len() != len) {
            return Err(bad("a batch needs prompts of one length, at least 1".into()));
        }
        if rows > self.max_batch || len > self.max_context {
            return Err(bad(format!(
                "{rows} prompts of {len} tokens, but the model was loaded for {} of {}",
                self.max_batch, self.max_context
            )));
        }
        for prompt in prompts {
            self.check(prompt)?;
        }
        self.base = match self.mutation {
            // The previous sequence stays where it is and is attended to.
            Some(Mutation::StaleKv) => self.length,
            _ => 0,
        };
        self.rows = rows;
        self.looked_at.set(false);
        self.length = match prompts {
            [prompt] if self.prefix_cache => self.kept(prompt),
            _ => 0,
        };
        self.fed.truncate(self.length);
        let chunk = (self.state.room / rows).max(1);
        while self.length < len {
            let start = self.length;
            let end = (start + chunk).min(len);
            let mut ids: Vec<u32> = prompts
                .iter()
                .flat_map(|prompt| &prompt[start..end])
                .copied()
                .collect();
            if self.mutation == Some(Mutation::PromptLength) && len % 64 == 37 {
                ids.fill(0);
            }
            let logits = end == len;
            self.forward(&Step {
                ids: &ids,
                len: end - start,
                start,
                logits,
                decode: false,
                last_mlp: true,
            });
            self.length = end;
        }
        if let [prompt] = prompts {
            self.fed.extend_from_slice(&prompt[self.fed.len()..]);
        }
        self.greedy()
    }

    /// How many positions of the sequence in the cache a prompt begins with, one less than it
    /// has at most: its last token's logits are wanted.
    fn kept(&self, prompt: &[u32]) -> usize {
        let pairs = self.fed.iter().zip(prompt);
        let alike = pairs.take_while(|(fed, id)| fed == id).count();
        let kept = match self.mutation {
            // Key and value of the first token that differs stay.
            Some(Mutation::PrefixLength) if alike < self.fed.len() => alike + 1,
            // Its sequences begin where the one before ends.
            Some(Mutation::StaleKv) => 0,
            _ => alike,
        };
        kept.min(prompt.len() - 1)
    }

    /// Feed one token per row, return the greedy next token of each.
    ///
    /// # Errors
    /// If the context is full, or the tokens do not fit the batch or vocabulary.
    pub fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        let bad = |what: String| EngineError::new(FailureKind::BadRequest, what);
        if tokens.len() != self.rows || self.rows == 0 {
            let (tokens, rows) = (tokens.len(), self.rows);
            return Err(bad(format!("{tokens} tokens for a batch of {rows}")));
        }
        if self.length >= self.max_context {
            return Err(bad(format!(
                "the context of {} tokens is full",
                self.max_context
            )));
        }
        self.check(tokens)?;
        let start = self.length;
        // Who scores has looked at the step before this one; who generates has not.
        let is_scored = self.looked_at.take();
        self.forward(&Step {
            ids: tokens,
            len: 1,
            start,
            logits: true,
            decode: true,
            last_mlp: is_scored || self.mutation != Some(Mutation::GenerateOnly),
        });
        self.length += 1;
        if self.rows == 1 {
            self.fed.extend_from_slice(tokens);
        }
        self.greedy()
    }

    /// Logits of a row after the last step.
    ///
    /// # Errors
    /// If the batch has no such row.
    pub fn logits(&self, row: usize) -> Result<&[f32], EngineError> {
        self.looked_at.set(true);
        self.logits_of(row)
    }

    fn logits_of(&self, row: usize) -> Result<&[f32], EngineError> {
        if row >= self.rows {
            let rows = self.rows;
            let message = format!("row {row} of a batch of {rows}");
            return Err(EngineError::new(FailureKind::BadRequest, message));
        }
        Ok(&self.state.logits[row * self.config.vocabulary..][..self.config.vocabulary])
    }

    fn check(&self, ids: &[u32]) -> Result<(), EngineError> {
        match ids
            .iter()
            .find(|id| **id as usize >= self.config.vocabulary)
        {
            None => Ok(()),
            Some(id) => {
                let vocabulary = self.config.vocabulary;
                let message = format!("token {id} is not in the vocabulary of {vocabulary}");
                Err(EngineError::new(FailureKind::BadRequest, message))
            }
        }
    }

    fn greedy(&self) -> Result<Vec<u32>, EngineError> {
        (0..self.rows)
            .map(|row| match self.kernels.argmax(self.logits_of(row)?) {
                Some(id) => Ok(id as u32),
                None => Err(EngineError::internal(
                    "the logits are not finite; check the weights",
                )),
            })
            .collect()
    }
}
