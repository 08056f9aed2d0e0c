//! Scales each tensor of a model so that a random network behaves like a trained one.
//!
//! Every number is a function of (seed, tensor name, index), rounded to bf16. Nothing is learned
//! and nothing is stored; `stream` writes the tensors out.

use half::bf16;

use crate::architecture::Architecture;
use crate::outliers;
use crate::prng;
use crate::spec::ModelSpec;
pub use crate::tensors::{Role, TensorDef, tensors};

// How the constants were set. `cargo run --release -p models --example measure` prints the mean
// divergence (nats, top 32 ids and the rest, what the parity gate sees) of quantised files and of
// mistakes. The aim was the largest ratio between the weakest mistake and q4_k_m, at logits like a
// trained model's. As set, on tiny-llama / tiny-llama3, after prompts of 10 to 600 tokens:
//
//   logit standard deviation 2.5; margin of the best id: mean 0.7, above 0.3 in two of three
//   q8_0 0.0008–0.0017, q4_k_m 0.05–0.08; greedy output: 110–122 distinct ids of 128
//   RoPE base ×10 or ÷10: 0.4–1.3; scaling dropped (tiny-llama3, from 200 tokens on): 0.45
//   decode one position off: 0.24–0.45; two heads swapped: 0.28–0.70; stale keys: 0.47–1.2
//   one layer zeroed: 0.31–1.04
//
// On llama-3.2-1b-shape (36 tokens): standard deviation 2.5, margin 0.6, q8_0 0.0007, q4_k_m 0.03,
// decode one off 0.14, base ×10 0.17. Its last layer zeroed makes only 0.035: one of sixteen layers
// cannot be told from 4-bit noise there, so that mistake is for the tiny models to find.
//
// Quantisation noise is 7 % of a q4_k weight, and a random network passes all of it on; that is
// what bounds every constant from above.

/// Standard deviation of the logits over the vocabulary, in nats. Divergences grow with its square:
/// at 2.75 q4_k_m comes to 0.1.
const LOGIT_STD: f64 = 2.5;
/// The same for every model except a Llama with tied embeddings. llama.cpp gives embeddings that
/// are not tied 4 bits and not 6, and a Qwen3's queries and keys are normalised: at 2.5 their
/// q4_k_m came to 0.10–0.14, at 2 it comes to 0.05–0.07, with the mildest mistake at 0.18.
const LOGIT_STD_OTHERS: f64 = 2.0;
/// Standard deviation of an attention score (after the division by √head_dim), in nats. The larger,
/// the fewer tokens a head reads, and the stronger a position error is against quantisation noise:
/// at 1.6 attention averages over so many tokens that a swapped head isn't noticed after 600.
const SCORE_STD: f64 = 2.5;
/// Variance that all layers together add to the residual stream, in units of the embedding's. At 4,
/// noise from the first layers is amplified so often that all divergences draw together; at 1, the
/// embedding dominates and the mistakes weaken.
const LAYERS_VARIANCE: f64 = 1.5;
/// How much later layers add than earlier ones: the variance rises from `1 - DEPTH_RAMP` times the
/// mean at the bottom to `1 + DEPTH_RAMP` at the top. An early error is amplified on its way and a
/// late one is not, so without the ramp a zeroed last layer shows half as clearly as a first one.
const DEPTH_RAMP: f64 = 0.7;
/// Standard deviation of the gate before SiLU: large enough that SiLU's curve matters, without
/// outliers in the product, which would cost an int8 activation block its resolution.
const GATE_STD: f64 = 1.0;
/// Root mean square of SiLU(gate) · up for that gate and a unit up projection.
const GATED_RMS: f64 = 0.6;
/// Root mean square of a head's output, a mixture of a few tokens, for unit values. It is set low,
/// which makes attention's contribution larger: five of the seven mistakes happen in attention.
const MIXED_RMS: f64 = 0.5;
/// Standard deviation of a query or a key before the norm of its heads, which normalises it: an
/// engine that leaves the norm out has scores that are far too large.
const HEAD_STD: f64 = 2.0;
/// Spread of the norm weights around 1, so that an engine which forgets them is found out.
const NORM_SPREAD: f32 = 0.2;

/// Relative share of the attention score that a RoPE pair carries, by its frequency in radians per
/// position. An equal share for all hides position errors: most pairs hardly turn from one token to
/// the next, and many never turn at all.
fn score_share(frequency: f64) -> f64 {
    match frequency {
        // These turn by a good part of a circle at each token, so they show a position that is one
        // off.
        f if f >= 0.4 => 10.0,
        f if f >= 0.02 => 1.0,
        // These turn once in some hundred tokens, so they show that tiny-llama3's scaling was
        // dropped.
        f if f >= 0.0015 => 3.0,
        _ => 0.2,
    }
}

/// The scaling of a tensor: `weight = std · gain(row) · normal`, or `std · (1 + NORM_SPREAD ·
/// normal)` for norms, with the gain of a column where the norm is a head's.
struct Scale {
    std: f64,
    /// Gain of a row (in a head's norm: of a column), by its index within the head or, in the MLP,
    /// by its index. Empty: 1 everywhere.
    gains: Vec<f64>,
    /// Gain of a column, by its index. Empty: 1 everywhere.
    column_gains: Vec<f64>,
}

fn scale(spec: &ModelSpec, def: &TensorDef) -> Scale {
    let (hidden, inner) = (spec.hidden_size as f64, spec.intermediate_size as f64);
    // The root mean square of a norm's output, which follows from the spread of its weights.
    let normed = (1.0 + f64::from(NORM_SPREAD) * f64::from(NORM_SPREAD)).sqrt();
    let logit_std = match (spec.architecture, spec.tied) {
        (Architecture::Llama, true) => LOGIT_STD,
        _ => LOGIT_STD_OTHERS,
    };
    let embedding = logit_std / (hidden.sqrt() * normed);
    // Each layer adds two contributions of the same size.
    let height = def
        .layer
        .map_or(0.5, |layer| (layer as f64 + 0.5) / spec.num_layers as f64);
    let ramp = 1.0 + DEPTH_RAMP * (2.0 * height - 1.0);
    let variance = LAYERS_VARIANCE * ramp / (2 * spec.num_layers) as f64;
    let contribution = embedding * variance.sqrt();
    let std = match def.role {
        Role::Embedding | Role::Output => embedding,
        Role::Norm | Role::FinalNorm => 1.0,
        // The norm brings heads to a root mean square of 1; its own weights then set the size of
        // the scores.
        Role::Query | Role::Key if spec.architecture.normalises_heads() => {
            HEAD_STD / (hidden.sqrt() * normed)
        }
        Role::HeadNorm => SCORE_STD.sqrt() / normed,
        // The score is a sum of head_dim products divided by √head_dim.
        Role::Query | Role::Key => SCORE_STD.sqrt() / (hidden.sqrt() * normed),
        Role::Value | Role::Up => 1.0 / (hidden.sqrt() * normed),
        Role::Gate => GATE_STD / (hidden.sqrt() * normed),
        Role::AttnOutput => {
            contribution / (((spec.num_heads * spec.head_dim) as f64).sqrt() * MIXED_RMS)
        }
        Role::Down => contribution / (inner.sqrt() * GATED_RMS),
        Role::QueryKeyValue | Role::GateUp => unreachable!("made of its parts"),
    };
    let gains = match def.role {
        Role::Query | Role::Key if spec.architecture.normalises_heads() => Vec::new(),
        Role::Query | Role::Key | Role::HeadNorm => {
            let shares: Vec<f64> = spec
                .rope_frequencies()
                .into_iter()
                .map(score_share)
                .collect();
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            // A pair's share is the variance of a product of two equal gains.
            let pairs: Vec<f64> = shares.iter().map(|s| (s / mean).sqrt().sqrt()).collect();
            // In Hugging Face's layout, pair i is the rows i and i + head_dim / 2.
            [pairs.clone(), pairs].concat()
        }
        _ => Vec::new(),
    };
    let plain = Scale {
        std,
        gains,
        column_gains: Vec::new(),
    };
    match spec.outliers {
        true => with_outliers(spec, def.role, plain),
        false => plain,
    }
}

/// The scaling of a tensor of a model with [`outliers`].
fn with_outliers(spec: &ModelSpec, role: Role, mut scale: Scale) -> Scale {
    match role {
        // All that is written to the residual stream is small; the last norm undoes it.
        Role::Embedding => scale.std *= outliers::RESIDUAL,
        Role::Value => scale.std *= outliers::INNER,
        Role::AttnOutput => scale.std *= outliers::OUTER,
        Role::FinalNorm => scale.std /= outliers::RESIDUAL,
        Role::Up => {
            scale.std *= outliers::INNER;
            scale.gains = outliers::neuron_gains(spec);
        }
        Role::Down => {
            scale.std *= outliers::OUTER;
            let gains = outliers::neuron_gains(spec).into_iter();
            scale.column_gains = gains.map(f64::recip).collect();
        }
        Role::Key | Role::Query => {
            let gains = outliers::key_gains(spec);
            for (of_row, gain) in scale.gains.iter_mut().zip(gains) {
                *of_row *= if role == Role::Key {
                    gain
                } else {
                    gain.recip()
                };
            }
        }
        _ => {}
    }
    scale
}

/// Makes rows of one tensor.
pub struct RowMaker(Maker);

enum Maker {
    /// Makes a tensor that is not fused.
    Own {
        key: u64,
        cols: usize,
        role: Role,
        scale: Scale,
    },
    /// Makes a fused tensor from its parts, each with the row that it begins at.
    Stacked(Vec<(usize, RowMaker)>),
}

impl RowMaker {
    /// Returns the maker for the tensor `def` of `spec`.
    pub fn new(spec: &ModelSpec, def: &TensorDef) -> Self {
        if def.parts.is_empty() {
            return Self(Maker::Own {
                key: prng::stream_key(spec.seed, &def.name),
                cols: def.cols,
                role: def.role,
                scale: scale(spec, def),
            });
        }
        let parts = def.parts.iter().scan(0, |rows, part| {
            let first = *rows;
            *rows += part.rows;
            Some((first, Self::new(spec, part)))
        });
        Self(Maker::Stacked(parts.collect()))
    }

    /// Writes row `row` (in Hugging Face's order) into `out`, whose length is the tensor's `cols`.
    pub fn fill(&self, row: usize, out: &mut [f32]) {
        let (key, cols, role, scale) = match &self.0 {
            Maker::Own {
                key,
                cols,
                role,
                scale,
            } => (*key, *cols, *role, scale),
            Maker::Stacked(parts) => {
                let at = parts.partition_point(|(first, _)| *first <= row) - 1;
                let (first, part) = &parts[at];
                return part.fill(row - first, out);
            }
        };
        let gains = &scale.gains;
        let gain = |index: usize| match gains.is_empty() {
            true => 1.0,
            false => gains[index % gains.len()],
        };
        let std = (scale.std * gain(row)) as f32;
        let first = (row * cols) as u64;
        for (index, x) in (first..).zip(out.iter_mut()) {
            let value = match role {
                Role::Norm => 1.0 + prng::normal(key, index, NORM_SPREAD),
                Role::FinalNorm => {
                    let sign = final_norm_sign(key, index);
                    sign * std * (1.0 + prng::normal(key, index, NORM_SPREAD))
                }
                Role::HeadNorm => {
                    let std = (scale.std * gain(index as usize)) as f32;
                    std * (1.0 + prng::normal(key, index, NORM_SPREAD))
                }
                _ => prng::normal(key, index, std),
            };
            *x = bf16::from_f32(value).to_f32();
        }
        for (x, gain) in out.iter_mut().zip(&scale.column_gains) {
            *x *= *gain as f32;
        }
    }
}

/// Sign of the final norm's weights: negative in half of the places, one of each neighbouring pair.
///
/// The output matrix is the embedding matrix, so a token's own embedding, which is still in the
/// residual stream, would win its own logit by far and the model would repeat its input. With the
/// signs, the output reads a space that is uncorrelated with the one the input was written to.
fn final_norm_sign(key: u64, index: u64) -> f32 {
    let flip = prng::bits(!key, index / 2) & 1;
    if index & 1 == flip { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiny_model_has_about_ten_million_weights() {
        let count = |spec| tensors(&spec).iter().map(TensorDef::len).sum::<usize>();
        assert_eq!(count(ModelSpec::tiny_llama()), 9_966_080);
        // meta-llama/Llama-3.2-1B has 1 235 814 400.
        assert_eq!(count(ModelSpec::llama_3_2_1b_shape()), 1_235_814_400);
        assert_eq!(count(ModelSpec::llama_150m_shape()), 150_436_608);
        for spec in ModelSpec::all() {
            let tiny = spec.id.starts_with("tiny-");
            let id = spec.id.clone();
            assert!(!tiny || count(spec) <= 10_000_000, "{id}");
        }
    }

    #[test]
    fn a_fused_tensor_has_the_rows_of_its_parts() {
        let fused = ModelSpec::tiny_phi3();
        let plain = ModelSpec {
            architecture: Architecture::Llama,
            ..ModelSpec::tiny_phi3()
        };
        let all: usize = tensors(&plain).iter().map(TensorDef::len).sum();
        let defs = tensors(&fused);
        assert_eq!(defs.iter().map(TensorDef::len).sum::<usize>(), all);
        let row = |spec: &ModelSpec, name: &str, row: usize| {
            let defs = tensors(spec);
            let def = defs.iter().find(|def| def.name.contains(name)).unwrap();
            let mut out = vec![0.0; def.cols];
            RowMaker::new(spec, def).fill(row, &mut out);
            out
        };
        // 512 rows of queries, 256 of keys, 256 of values; 768 of gate, 768 of up.
        for (name, at, part, within) in [
            ("1.self_attn.qkv_proj", 511, "1.self_attn.q_proj", 511),
            ("1.self_attn.qkv_proj", 512, "1.self_attn.k_proj", 0),
            ("1.self_attn.qkv_proj", 1023, "1.self_attn.v_proj", 255),
            ("3.mlp.gate_up_proj", 0, "3.mlp.gate_proj", 0),
            ("3.mlp.gate_up_proj", 770, "3.mlp.up_proj", 2),
        ] {
            let (whole, own) = (row(&fused, name, at), row(&plain, part, within));
            assert_eq!(whole, own, "{name} {at}");
        }
    }

    #[test]
    fn weights_are_representable_in_bf16_and_signs_balance() {
        let spec = ModelSpec::tiny_llama();
        let def = tensors(&spec).pop().unwrap();
        let mut row = vec![0.0; def.cols];
        RowMaker::new(&spec, &def).fill(0, &mut row);
        assert!(row.iter().all(|x| bf16::from_f32(*x).to_f32() == *x));
        assert_eq!(row.iter().filter(|x| **x < 0.0).count(), def.cols / 2);
    }
}
