//! The expected outputs of the micro suites, computed in f64 by plain loops, spread over threads.

use crate::gpt::{EPS, GptConfig, LinearWeights, NormWeights};
use crate::sdpa::{Inputs, Shape};
use rayon::prelude::*;

/// Compute `softmax(q·kᵀ/√dim)·v`, batch × heads × positions × dimension.
pub fn sdpa(inputs: &Inputs, shape: &Shape) -> Vec<f64> {
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (q, k, v) = (wide(&inputs.q), wide(&inputs.k), wide(&inputs.v));
    let (seq, dim) = (shape.seq, shape.dim);
    let mut out = vec![0.0; shape.values()];
    out.par_chunks_mut(dim).enumerate().for_each(|(row, out)| {
        let head = row / seq * seq;
        let visible = match shape.causal {
            true => row % seq + 1,
            false => seq,
        };
        let query = &q[row * dim..][..dim];
        let of = |all: &[f64], position: usize| -> std::ops::Range<usize> {
            debug_assert!((head + position + 1) * dim <= all.len());
            (head + position) * dim..(head + position + 1) * dim
        };
        let scores: Vec<f64> = (0..visible)
            .map(|position| dot(query, &k[of(&k, position)]) * shape.scale())
            .collect();
        for (position, share) in softmax(&scores).into_iter().enumerate() {
            for (out, value) in out.iter_mut().zip(&v[of(&v, position)]) {
                *out += share * value;
            }
        }
    });
    out
}

/// Compute the logits of every token, batch × seq × vocab.
pub fn gpt(config: &GptConfig, seed: u64) -> Vec<f64> {
    let (weights, ids) = (config.weights(seed), config.ids(seed));
    let rows = ids.chunks(config.seq);
    let rows: Vec<Vec<f64>> = rows
        .map(|ids| {
            let mut x: Vec<Vec<f64>> = ids
                .iter()
                .enumerate()
                .map(|(at, &id)| {
                    let token = row(&weights.embedding, id as usize, config.hidden);
                    let place = row(&weights.positions, at, config.hidden);
                    token
                        .iter()
                        .zip(place)
                        .map(|(&a, &b)| f64::from(a) + f64::from(b))
                        .collect()
                })
                .collect();
            for block in &weights.blocks {
                let qkv: Vec<Vec<f64>> = x
                    .par_iter()
                    .map(|x| linear(&block.qkv, &norm(&block.attention_norm, x)))
                    .collect();
                let attended: Vec<Vec<f64>> = (0..x.len())
                    .into_par_iter()
                    .map(|at| attend(config, &qkv, at))
                    .collect();
                x.par_iter_mut().zip(attended).for_each(|(x, attended)| {
                    add(x, &linear(&block.output, &attended));
                    let up = linear(&block.up, &norm(&block.mlp_norm, x));
                    let up: Vec<f64> = up.into_iter().map(gelu).collect();
                    add(x, &linear(&block.down, &up));
                });
            }
            let logits = x
                .par_iter()
                .map(|x| linear(&weights.head, &norm(&weights.norm, x)));
            logits.collect::<Vec<_>>().concat()
        })
        .collect();
    rows.concat()
}

/// Compute the attention of the token at `at` over itself and those before it, for all heads.
fn attend(config: &GptConfig, qkv: &[Vec<f64>], at: usize) -> Vec<f64> {
    let (hidden, dim) = (config.hidden, config.head_dim());
    let mut out = vec![0.0; hidden];
    for head in 0..config.heads {
        let part = head * dim..(head + 1) * dim;
        let key = |position: usize| &qkv[position][hidden..][part.clone()];
        let scores: Vec<f64> = (0..=at)
            .map(|position| dot(&qkv[at][part.clone()], key(position)) / (dim as f64).sqrt())
            .collect();
        for (position, share) in softmax(&scores).into_iter().enumerate() {
            let value = &qkv[position][2 * hidden..][part.clone()];
            for (out, value) in out[part.clone()].iter_mut().zip(value) {
                *out += share * value;
            }
        }
    }
    out
}

fn row(table: &[f32], index: usize, width: usize) -> &[f32] {
    &table[index * width..][..width]
}

fn linear(layer: &LinearWeights, x: &[f64]) -> Vec<f64> {
    (0..layer.out)
        .map(|out| {
            let weights = row(&layer.weight, out, layer.input);
            let product: f64 = weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
            product + f64::from(layer.bias[out])
        })
        .collect()
}

fn norm(layer: &NormWeights, x: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / (variance + EPS).sqrt();
    let weights = layer.weight.iter().zip(&layer.bias);
    x.iter()
        .zip(weights)
        .map(|(x, (&w, &b))| (x - mean) * scale * f64::from(w) + f64::from(b))
        .collect()
}

/// `x·Φ(x)`, computed with the error function (Hendrycks and Gimpel 2016).
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / sum).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_a_weighted_mean_of_the_values_that_are_seen() {
        let shape = |causal| Shape {
            batch: 2,
            heads: 1,
            seq: 2,
            dim: 1,
            causal,
        };
        let inputs = Inputs {
            q: vec![1.0, 1.0, 0.0, 2.0],
            k: vec![0.0, 1.0, 5.0, 5.0],
            v: vec![1.0, 3.0, 2.0, 6.0],
        };
        // Scores 0 and 1 give the shares 1/(1+e) and e/(1+e); equal scores give the plain mean.
        let e = std::f64::consts::E;
        let mixed = (1.0 + 3.0 * e) / (1.0 + e);
        let close = |a: &[f64], b: [f64; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(
            &sdpa(&inputs, &shape(false)),
            [mixed, mixed, 4.0, 4.0]
        ));
        assert!(close(&sdpa(&inputs, &shape(true)), [1.0, mixed, 2.0, 4.0]));
    }

    #[test]
    fn a_token_sees_those_before_it_and_not_those_after() {
        let config = GptConfig {
            vocab: 11,
            hidden: 8,
            layers: 2,
            heads: 2,
            positions: 6,
            batch: 2,
            seq: 5,
        };
        let logits = gpt(&config, 3);
        assert_eq!(logits.len(), 2 * 5 * 11);
        // A shorter sequence of the same ids must have the same logits.
        let shorter = GptConfig {
            batch: 1,
            seq: 3,
            ..config
        };
        assert_eq!(config.ids(3)[..3], shorter.ids(3));
        let short = gpt(&shorter, 3);
        assert!(
            short
                .iter()
                .zip(&logits)
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
        let spread = logits.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        assert!(spread > 0.5, "{spread}");
    }

    #[test]
    fn gelu_has_its_published_values() {
        for (x, y) in [
            (0.0, 0.0),
            (1.0, 0.841_344_746_068_542_9),
            (-1.0, -0.158_655_253_931_457_1),
        ] {
            assert!((gelu(x) - y).abs() < 1e-12, "{x}");
        }
    }
}
