//! One step of a model of any architecture, from top to bottom.
//!
//! Precision and instruction set are hidden in the products ([`crate::matrix`]) and kernels. The
//! shapes are given in trailing comments, with `n` tokens in a step: `rows` sequences of `len` new
//! tokens each, row after row. The places that a [`Mutation`] changes are marked by its name.
//! Nothing is checked here: [`crate::model`] has done that.

use super::Model;
use crate::kernels::attention::{Attend, KEY_BLOCK};
use crate::matrix::matmul;
use crate::mutation::{Mutation, drop_smallest, round_to_int8};
use crate::pool::SharedMut;
use shape::Shape;

/// One step: `len` new tokens for each of `rows` sequences.
pub(crate) struct Step<'a> {
    /// The token ids, `[n]`, row after row.
    pub ids: &'a [u32],
    /// Number of new tokens per row.
    pub len: usize,
    /// Position of each row's first token.
    pub start: usize,
    /// Whether the logits of this step are needed.
    pub logits: bool,
    /// Whether this is a decode step.
    pub decode: bool,
    /// Whether the last layer's MLP is computed: `true`, unless [`Mutation::GenerateOnly`] leaves
    /// it out.
    pub last_mlp: bool,
}

impl Model {
    /// Feed the tokens; if the logits are needed, leave those of each row in the state.
    pub(crate) fn forward(&mut self, step: &Step<'_>) {
        self.computed += step.ids.len() as u64;
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
        let Shape {
            dim,
            hidden,
            heads,
            kv_heads,
            head_dim,
            eps,
            ..
        } = *config;
        let eps = eps as f32;
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

            // Rotate queries and keys; store keys and values in the cache.
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
                if let Some(norms) = &layer.head_norms {
                    let (queries, keys) = qk.split_at_mut(q_dim);
                    for (heads, weight) in [(queries, &norms.query), (keys, &norms.key)] {
                        for head in heads.chunks_exact_mut(head_dim) {
                            kernels.rms_norm_in_place(head, weight, eps);
                        }
                    }
                }
                for head in qk.chunks_exact_mut(head_dim) {
                    kernels.rotate(head, cos, sin);
                }
                if mutation == Some(Mutation::SwappedHeads) && heads > 1 {
                    let (first, last) = qk[..q_dim].split_at_mut(q_dim - head_dim);
                    first[..head_dim].swap_with_slice(last);
                }
                if mutation == Some(Mutation::KvInt8) {
                    let heads = qk[q_dim..].chunks_exact_mut(head_dim);
                    heads
                        .chain(values.chunks_exact_mut(head_dim))
                        .for_each(round_to_int8);
                }
                let keys = qk[q_dim..].chunks_exact(head_dim);
                for (head, (key, value)) in keys.zip(values.chunks_exact(head_dim)).enumerate() {
                    // SAFETY: each token has a row and position of its own.
                    unsafe { writer.store((index, row, head), base + position, key, value) };
                }
            });

            // In the last layer, only keys and values and the output of each row's last token are
            // needed, so the rest of its work is left out.
            let is_last = index + 1 == weights.layers.len();
            if is_last && !step.logits {
                return;
            }
            let n = if is_last { rows } else { n };
            let token = |i: usize| if is_last { (i + 1) * len - 1 } else { i };
            if is_last {
                for row in 0..rows {
                    x.copy_within(token(row) * dim..(token(row) + 1) * dim, row * dim);
                }
            }
            let x = &mut x[..n * dim]; // [n, dim], n = rows in the last layer
            let attended = &mut attended[..n * q_dim];
            let delta = &mut delta[..n * dim];
            let gate_up = &mut gate_up[..n * 2 * hidden];

            // Every token attends to the positions of its row up to and including its own.
            let outputs = SharedMut::new(attended);
            let scratch = SharedMut::new(&mut state.scores);
            pool.run(n * kv_heads, |worker, task| {
                let (i, head) = (task / kv_heads, task % kv_heads);
                let t = token(i);
                let row = match mutation {
                    Some(Mutation::BatchMask) => 0,
                    _ => t / len,
                };
                let (k, v) = cache.head(index, row, head);
                let visible = base + step.start + t % len + 1;
                let first = head * group * head_dim; // of the queries that share this head
                // SAFETY: (i, head) pairs do not overlap, nor do workers' scratches.
                let (out, scores) = unsafe {
                    let out = outputs.part(i * q_dim + first, group * head_dim);
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
            if is_last && !step.last_mlp {
                break;
            }

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
                if mutation == Some(Mutation::SparseMlp) {
                    drop_smallest(out);
                }
            });
            matmul(pool, kernels, &[&layer.down], input, n, delta);
            kernels.add(x, delta);
        }

        // logits = Wout · norm(x), of each row's last token
        if step.logits {
            let input = operand.fill(pool, kernels, rows, dim, |row, out| {
                kernels.rms_norm(&x[row * dim..][..dim], &weights.norm, eps, out);
            });
            let logits = &mut state.logits[..rows * config.vocabulary]; // [rows, vocabulary]
            matmul(pool, kernels, &[&weights.output], input, rows, logits);
        }
    }
}
