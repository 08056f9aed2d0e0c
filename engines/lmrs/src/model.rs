//! A loaded model: its contents, how it is loaded, and its operations. The arithmetic of a step is
//! in [`forward`].
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
use shape::{Scaling, Shape};
use std::cell::Cell;
use std::path::Path;

/// The model to load, and the sizes to load it for.
pub struct Options<'a> {
    /// Directory that contains `config.json` and the weights.
    pub model_dir: &'a Path,
    /// The weights' file name in it.
    pub weights: &'a str,
    /// How to store and multiply the weights.
    pub precision: Precision,
    /// Number of compute threads, at least 1.
    pub threads: usize,
    /// Longest sequence, in tokens.
    pub max_context: usize,
    /// Largest number of sequences in a batch.
    pub max_batch: usize,
    /// Whether a prompt reuses what the cache holds of the previous sequence with the same
    /// beginning.
    pub prefix_cache: bool,
    /// A deliberate fault, for testing the parity gate.
    pub mutation: Option<Mutation>,
    /// The kernels to compute with.
    pub kernels: Kernels,
}

/// A loaded model and its current batch.
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
    /// The tokens of a batch of one sequence, position by position; empty for larger batches.
    pub(crate) fed: Vec<u32>,
    /// Number of tokens that went through the layers since the model was loaded.
    pub(crate) computed: u64,
    /// Number of sequences in the current batch.
    pub(crate) rows: usize,
    /// Number of positions of the current batch that are in the cache.
    pub(crate) length: usize,
    /// Position in the cache at which the current batch begins; 0 unless a fault moves it.
    pub(crate) base: usize,
    /// Whether the logits of the last step were read; only a fault depends on it.
    pub(crate) logits_read: Cell<bool>,
}

impl Model {
    /// Load the model that `options` name.
    ///
    /// # Errors
    /// Fails if the files or the options are not valid; see [`crate::weights::load`].
    pub fn load(options: &Options<'_>) -> Result<Self, EngineError> {
        let Options {
            model_dir,
            weights,
            precision,
            threads,
            max_context,
            max_batch,
            prefix_cache,
            mutation,
            kernels,
        } = *options;
        if threads == 0 || max_context == 0 || max_batch == 0 {
            return Err(EngineError::bad_request(
                "threads, max_context and max_batch must be at least 1",
            ));
        }
        let pool = Pool::new(threads).map_err(|error| {
            EngineError::internal(format!("cannot start {threads} threads ({error})"))
        })?;
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
            // Room for the previous sequence in front of the new one.
            Some(Mutation::StaleKv) => positions *= 2,
            _ => {}
        }

        // One position more than can be asked for, because a fault reads one position too far.
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
            EngineError::oom(format!(
                "no memory for {max_batch} sequences of {positions} positions ({error}); \
                 ask for a smaller batch or context"
            ))
        })?;
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
            rows: 0,
            length: 0,
            base: 0,
            logits_read: Cell::new(false),
        })
    }

    /// Return the model's shape.
    pub fn config(&self) -> &Shape {
        &self.config
    }

    /// Return the bytes of weights that a decode step reads.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.decode_bytes()
    }

    /// Return the bytes that a position's keys and values take in the cache, without padding.
    pub fn kv_bytes_per_token(&self) -> u64 {
        Cache::bytes_per_token(&self.config)
    }

    /// Discard the current batch, feed prompts of one length, and return the greedy next token of
    /// each. With a prefix cache, a single prompt continues from its common beginning with the
    /// previous sequence; its last token is always fed.
    ///
    /// # Errors
    /// Fails if there are too many prompts, if they are too long, empty or of unequal length, or
    /// if a token is not in the vocabulary.
    pub fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        let (rows, len) = (
            prompts.len(),
            prompts.first().map_or(0, |prompt| prompt.len()),
        );
        if rows == 0 || len == 0 || prompts.iter().any(|prompt| prompt.len() != len) {
            return Err(EngineError::bad_request(
                "a batch needs prompts of one length, at least 1",
            ));
        }
        if rows > self.max_batch || len > self.max_context {
            return Err(EngineError::bad_request(format!(
                "{rows} prompts of {len} tokens, but the model was loaded for {} of {}",
                self.max_batch, self.max_context
            )));
        }
        for prompt in prompts {
            protocol::check_ids(prompt, self.config.vocabulary)?;
        }
        self.base = match self.mutation {
            // The previous sequence stays in the cache and is attended to.
            Some(Mutation::StaleKv) => self.length,
            _ => 0,
        };
        self.rows = rows;
        self.logits_read.set(false);
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

    /// Return how many positions at the beginning of a prompt are in the cache already, at most
    /// one less than its length, because the logits of its last token are wanted.
    fn kept(&self, prompt: &[u32]) -> usize {
        let pairs = self.fed.iter().zip(prompt);
        let alike = pairs.take_while(|(fed, id)| fed == id).count();
        let kept = match self.mutation {
            // The key and value of the first token that differs are kept.
            Some(Mutation::PrefixLength) if alike < self.fed.len() => alike + 1,
            // With this fault, a sequence begins in the cache where the previous one ends.
            Some(Mutation::StaleKv) => 0,
            _ => alike,
        };
        kept.min(prompt.len() - 1)
    }

    /// Feed one token per row, and return the greedy next token of each.
    ///
    /// # Errors
    /// Fails if the context is full, or if the tokens do not fit the batch or the vocabulary.
    pub fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        if tokens.len() != self.rows || self.rows == 0 {
            let (tokens, rows) = (tokens.len(), self.rows);
            let what = format!("{tokens} tokens for a batch of {rows}");
            return Err(EngineError::bad_request(what));
        }
        if self.length >= self.max_context {
            return Err(EngineError::bad_request(format!(
                "the context of {} tokens is full",
                self.max_context
            )));
        }
        protocol::check_ids(tokens, self.config.vocabulary)?;
        let start = self.length;
        // A scoring caller has read the logits of the previous step; a generating caller has not.
        let is_scored = self.logits_read.take();
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

    /// Return the logits of a row after the last step.
    ///
    /// # Errors
    /// Fails if the batch has no such row.
    pub fn logits(&self, row: usize) -> Result<&[f32], EngineError> {
        self.logits_read.set(true);
        self.logits_of(row)
    }

    fn logits_of(&self, row: usize) -> Result<&[f32], EngineError> {
        if row >= self.rows {
            let rows = self.rows;
            let message = format!("row {row} of a batch of {rows}");
            return Err(EngineError::bad_request(message));
        }
        Ok(&self.state.logits[row * self.config.vocabulary..][..self.config.vocabulary])
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
