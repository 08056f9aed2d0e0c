//! A Llama, top to bottom: what it holds, and one step forward.
//!
//! Precision and instruction set are hidden in the products
//! ([`crate::matmul`]) and kernels; the shapes stand in the trailing comments,
//! with `n` tokens in a step: `rows` sequences of `len` new tokens each, row
//! after row. It deliberately does no sampling beyond argmax.

use crate::attention::{Attend, KEY_BLOCK};
use crate::config::Config;
use crate::kernels::Kernels;
use crate::matmul::matmul;
use crate::mutation::Mutation;
use crate::pool::{Pool, SharedMut};
use crate::rope::{RopeTable, Scaling};
use crate::state::{Cache, State};
use crate::weights::{Precision, Weights};
use protocol::engine::EngineError;
use protocol::wire::FailureKind;
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
    /// A deliberate fault, for testing the parity gate.
    pub mutation: Option<Mutation>,
    /// Kernels to compute with.
    pub kernels: Kernels,
}

/// A loaded model and the batch it is working on.
pub struct Model {
    config: Config,
    weights: Weights,
    rope: RopeTable,
    kernels: Kernels,
    pool: Pool,
    state: State,
    cache: Cache,
    max_context: usize,
    max_batch: usize,
    mutation: Option<Mutation>,
    /// Sequences in the current batch.
    rows: usize,
    /// Positions of the current batch that are in the cache.
    length: usize,
    /// Where the current batch begins in the cache; 0 unless a fault moves it.
    base: usize,
}

/// One step: `len` new tokens for each of `rows` sequences.
struct Step<'a> {
    ids: &'a [u32], // [n], row after row
    len: usize,
    /// Position of each row's first token.
    start: usize,
    /// Whether anybody will look at the logits.
    logits: bool,
    /// Whether this is a decode step.
    decode: bool,
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

        let mut positions = max_context;
        match mutation {
            Some(Mutation::RopeBase) => config.rope.theta *= 10.0,
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
        let rope = RopeTable::new(&config.rope, config.head_dim, max_context + 1);
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
            rows,
            length,
            base,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
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
    /// token of each.
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
        self.length = 0;
        let chunk = (self.state.room / rows).max(1);
        while self.length < len {
            let start = self.length;
            let end = (start + chunk).min(len);
            let ids: Vec<u32> = prompts
                .iter()
                .flat_map(|prompt| &prompt[start..end])
                .copied()
                .collect();
            let logits = end == len;
            self.forward(&Step {
                ids: &ids,
                len: end - start,
                start,
                logits,
                decode: false,
            });
            self.length = end;
        }
        self.greedy()
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
        self.forward(&Step {
            ids: tokens,
            len: 1,
            start,
            logits: true,
            decode: true,
        });
        self.length += 1;
        self.greedy()
    }

    /// Logits of a row after the last step.
    ///
    /// # Errors
    /// If the batch has no such row.
    pub fn logits(&self, row: usize) -> Result<&[f32], EngineError> {
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
            .map(|row| match self.kernels.argmax(self.logits(row)?) {
                Some(id) => Ok(id as u32),
                None => Err(EngineError::internal(
                    "the logits are not finite; check the weights",
                )),
            })
            .collect()
    }

    fn forward(&mut self, step: &Step<'_>) {
        let Self {
            config,
            weights,
            rope,
            kernels,
            pool,
            state,
            cache,
            mutation,
            ..
        } = self;
        let (kernels, mutation, base) = (*kernels, *mutation, self.base);
        let Config {
            dim,
            hidden,
            heads,
            kv_heads,
            head_dim,
            eps,
            ..
        } = *config;
        let (q_dim, kv_dim, group) = (config.q_dim(), config.kv_dim(), config.group());
        let qkv_dim = q_dim + 2 * kv_dim;
        let (len, n) = (step.len, step.ids.len());
        let rows = n / len;

        let x = &mut state.x[..n * dim]; // [n, dim]
        let qkv = &mut state.qkv[..n * qkv_dim]; // [n, q_dim + 2 kv_dim]
        let attended = &mut state.attended[..n * q_dim]; // [n, q_dim]
        let delta = &mut state.delta[..n * dim]; // [n, dim]
        let gate_up = &mut state.gate_up[..n * 2 * hidden]; // [n, 2 hidden]
        let operand = &mut state.operand;
        let scores_len = state.scores.len() / pool.threads();

        // x = embedding[id]
        for (x, id) in x.chunks_exact_mut(dim).zip(step.ids) {
            weights.embedding().read_row(*id as usize, x);
        }

        for (index, layer) in weights.layers.iter().enumerate() {
            // qkv = W · norm(x)
            let input = operand.fill(pool, kernels, n, dim, |t, out| {
                kernels.rms_norm(&x[t * dim..][..dim], &layer.attention_norm, eps, out);
            });
            matmul(
                pool,
                kernels,
                &[&layer.wq, &layer.wk, &layer.wv],
                input,
                n,
                qkv,
            );

            // Rotate queries and keys; remember keys and values.
            let writer = cache.writer();
            let tokens = SharedMut::new(qkv);
            pool.run(n, |_, t| {
                // SAFETY: tokens do not overlap.
                let qkv = unsafe { tokens.part(t * qkv_dim, qkv_dim) };
                let (row, position) = (t / len, step.start + t % len);
                let angle = match mutation {
                    Some(Mutation::Position) if step.decode => position + 1,
                    _ => position,
                };
                let (cos, sin) = rope.at(angle);
                let (qk, values) = qkv.split_at_mut(q_dim + kv_dim);
                for head in qk.chunks_exact_mut(head_dim) {
                    kernels.rotate(head, cos, sin);
                }
                if mutation == Some(Mutation::SwappedHeads) && heads > 1 {
                    let (first, last) = qk[..q_dim].split_at_mut(q_dim - head_dim);
                    first[..head_dim].swap_with_slice(last);
                }
                let keys = qk[q_dim..].chunks_exact(head_dim);
                for (head, (key, value)) in keys.zip(values.chunks_exact(head_dim)).enumerate() {
                    // SAFETY: each token has a row and position of its own.
                    unsafe { writer.store((index, row, head), base + position, key, value) };
                }
            });

            // Every token attends to the positions of its row up to its own.
            let outputs = SharedMut::new(attended);
            let scratch = SharedMut::new(&mut state.scores);
            pool.run(n * kv_heads, |worker, task| {
                let (t, head) = (task / kv_heads, task % kv_heads);
                let row = match mutation {
                    Some(Mutation::BatchMask) => 0,
                    _ => t / len,
                };
                let (k, v) = cache.head(index, row, head);
                let visible = base + step.start + t % len + 1;
                let first = head * group * head_dim; // of the queries that share this head
                // SAFETY: (token, head) pairs do not overlap, nor do workers' scratches.
                let (out, scores) = unsafe {
                    let out = outputs.part(t * q_dim + first, group * head_dim);
                    (out, scratch.part(worker * scores_len, scores_len))
                };
                kernels.attend(Attend {
                    q: &qkv[t * qkv_dim + first..][..group * head_dim],
                    k,
                    v,
                    len: visible,
                    dim: head_dim,
                    scale: 1.0 / (head_dim as f32).sqrt(),
                    scores: &mut scores[..group * visible.next_multiple_of(KEY_BLOCK)],
                    out,
                });
            });

            // x += Wo · attended
            let input = operand.fill(pool, kernels, n, q_dim, |t, out| {
                out.copy_from_slice(&attended[t * q_dim..][..q_dim]);
            });
            matmul(pool, kernels, &[&layer.wo], input, n, delta);
            kernels.add(x, delta);

            // gate, up = W · norm(x)
            let input = operand.fill(pool, kernels, n, dim, |t, out| {
                kernels.rms_norm(&x[t * dim..][..dim], &layer.feed_forward_norm, eps, out);
            });
            matmul(pool, kernels, &[&layer.gate, &layer.up], input, n, gate_up);

            // x += Wdown · (silu(gate) · up)
            let input = operand.fill(pool, kernels, n, hidden, |t, out| {
                let (gate, up) = gate_up[t * 2 * hidden..][..2 * hidden].split_at(hidden);
                out.copy_from_slice(gate);
                kernels.silu_mul(out, up);
            });
            matmul(pool, kernels, &[&layer.down], input, n, delta);
            kernels.add(x, delta);
        }

        // logits = Wout · norm(x), of each row's last token
        if step.logits {
            let input = operand.fill(pool, kernels, rows, dim, |row, out| {
                let last = (row + 1) * len - 1;
                kernels.rms_norm(&x[last * dim..][..dim], &weights.norm, eps, out);
            });
            let logits = &mut state.logits[..rows * config.vocabulary]; // [rows, vocabulary]
            matmul(pool, kernels, &[&weights.output], input, rows, logits);
        }
    }
}
