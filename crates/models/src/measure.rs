//! Measures how a model behaves: spread of the logits, margins, divergence from another model's
//! answers.
//!
//! All functions are pure; the tests and the `measure` example share them.

use crate::reference::{Cache, Reference, softmax};
use crate::tokenizer::EOS_ID;

/// Spread of one row of logits: (standard deviation in nats, gap between the two largest).
pub fn spread(logits: &[f32]) -> (f64, f64) {
    let n = logits.len() as f64;
    let mean = logits.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = logits
        .iter()
        .map(|&x| (f64::from(x) - mean).powi(2))
        .sum::<f64>()
        / n;
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    (variance.sqrt(), f64::from(sorted[0] - sorted[1]))
}

/// Kullback–Leibler divergence of `other` from `reference` in nats, over the reference's 32 most
/// likely ids and all the rest as one bin, as the parity gate computes it.
pub fn divergence(reference: &[f32], other: &[f32]) -> f64 {
    let (mut p, mut q) = (reference.to_vec(), other.to_vec());
    softmax(&mut p);
    softmax(&mut q);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let (mut sum, mut rest_p, mut rest_q) = (0.0, 1.0, 1.0);
    for &i in &order[..32] {
        let (p, q) = (f64::from(p[i]), f64::from(q[i]).max(1e-30));
        sum += p * (p / q).ln();
        rest_p -= p;
        rest_q -= q;
    }
    if rest_p > 0.0 {
        sum += rest_p * (rest_p / rest_q.max(1e-30)).ln();
    }
    sum
}

/// Perplexity of the model on `windows`: e to the mean cross-entropy (nats) of every id but the
/// first of each window, given the ids before it.
pub fn perplexity(model: &Reference, windows: &[Vec<u32>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for ids in windows {
        let input = &ids[..ids.len() - 1];
        let positions: Vec<usize> = (0..input.len()).collect();
        let mut logits = model.forward(input, &positions, &mut Cache::default(), input.len());
        let rows = logits.chunks_exact_mut(model.spec.vocab_size);
        for (row, target) in rows.zip(&ids[1..]) {
            softmax(row);
            sum -= f64::from(row[*target as usize]).max(1e-30).ln();
            count += 1;
        }
    }
    (sum / f64::from(count)).exp()
}

/// Greedy continuation of `prompt`: up to the end of text, which isn't included, or `count` tokens.
/// The second value is whether the text ended.
pub fn greedy_to_end(model: &Reference, prompt: &[u32], count: usize) -> (Vec<u32>, bool) {
    let mut output = Vec::new();
    for id in continuation(model, prompt).take(count) {
        if id == EOS_ID {
            return (output, true);
        }
        output.push(id);
    }
    (output, false)
}

/// The id with the largest logit; of several, the lowest id.
pub fn argmax(logits: &[f32]) -> u32 {
    let best = logits
        .iter()
        .enumerate()
        .fold((0, f32::NEG_INFINITY), |best, (i, &x)| {
            if x > best.1 { (i, x) } else { best }
        });
    best.0 as u32
}

/// `count` tokens of greedy continuation after `prompt`.
pub fn greedy(model: &Reference, prompt: &[u32], count: usize) -> Vec<u32> {
    continuation(model, prompt).take(count).collect()
}

/// The greedy continuation of `prompt`, token by token.
fn continuation<'a>(model: &'a Reference, prompt: &[u32]) -> impl Iterator<Item = u32> + use<'a> {
    let mut cache = Cache::default();
    let mut ids = prompt.to_vec();
    let mut position = 0;
    std::iter::from_fn(move || {
        let positions: Vec<usize> = (position..position + ids.len()).collect();
        position += ids.len();
        ids = vec![argmax(&model.forward(&ids, &positions, &mut cache, 1))];
        Some(ids[0])
    })
}
