//! A reference of the model, in f64 and plain loops: no cache, no batch, nothing shared with the
//! code under test. Written from the formulas of the Llama paper.

use super::fixture::{HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS, LAYERS, Tiny};
use std::f64::consts::PI;

/// Return the logits after the last of `ids`.
pub fn logits(tiny: &Tiny, ids: &[u32]) -> Vec<f64> {
    let table = tiny.values("model.embed_tokens.weight");
    let mut stream: Vec<Vec<f64>> = ids
        .iter()
        .map(|id| table[*id as usize * HIDDEN..][..HIDDEN].to_vec())
        .collect();
    for layer in 0..LAYERS {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        let normed: Vec<_> = stream
            .iter()
            .map(|x| tiny.norm(&name("input_layernorm"), x))
            .collect();
        let project = |part: &str, heads: usize, turn: bool| -> Vec<Vec<f64>> {
            let norm = name(&format!("self_attn.{part}_norm"));
            let part = name(&format!("self_attn.{part}_proj"));
            let project = |(position, x): (usize, &Vec<f64>)| {
                let mut y = tiny.linear(&part, x, heads * HEAD_DIM);
                // Qwen3's query and key heads have a norm.
                if tiny.tensors.contains_key(&format!("{norm}.weight")) {
                    for head in y.chunks_mut(HEAD_DIM) {
                        head.copy_from_slice(&tiny.norm(&norm, head));
                    }
                }
                if turn {
                    y.chunks_mut(HEAD_DIM)
                        .for_each(|head| tiny.rotate(head, position));
                }
                y
            };
            normed.iter().enumerate().map(project).collect()
        };
        let q = project("q", HEADS, true);
        let k = project("k", KV_HEADS, true);
        let v = project("v", KV_HEADS, false);
        for (position, x) in stream.iter_mut().enumerate() {
            let mut attended = Vec::new();
            for head in 0..HEADS {
                let of = |all: &Vec<f64>, head: usize| all[head * HEAD_DIM..][..HEAD_DIM].to_vec();
                let shared = head / (HEADS / KV_HEADS);
                let query = of(&q[position], head);
                let score =
                    |key: &Vec<f64>| dot(&query, &of(key, shared)) / (HEAD_DIM as f64).sqrt();
                let weights: Vec<f64> = k[..=position].iter().map(|key| score(key).exp()).collect();
                let sum: f64 = weights.iter().sum();
                attended.extend((0..HEAD_DIM).map(|i| {
                    let value = |(w, v): (&f64, &Vec<f64>)| w * of(v, shared)[i];
                    weights.iter().zip(&v).map(value).sum::<f64>() / sum
                }));
            }
            add(
                x,
                &tiny.linear(&name("self_attn.o_proj"), &attended, HIDDEN),
            );
            let normed = tiny.norm(&name("post_attention_layernorm"), x);
            let gate = tiny.linear(&name("mlp.gate_proj"), &normed, INNER);
            let up = tiny.linear(&name("mlp.up_proj"), &normed, INNER);
            let both = gate
                .iter()
                .zip(&up)
                .map(|(g, u)| g / (1.0 + (-g).exp()) * u);
            let both: Vec<f64> = both.collect();
            add(x, &tiny.linear(&name("mlp.down_proj"), &both, HIDDEN));
        }
    }
    let last = tiny.norm("model.norm", stream.last().unwrap());
    let tied = tiny.config["tie_word_embeddings"] == true;
    let head = if tied {
        "model.embed_tokens"
    } else {
        "lm_head"
    };
    tiny.linear(head, &last, super::fixture::VOCABULARY)
}

impl Tiny {
    fn values(&self, name: &str) -> Vec<f64> {
        self.tensors[name].1.iter().map(|v| f64::from(*v)).collect()
    }

    fn linear(&self, name: &str, x: &[f64], out: usize) -> Vec<f64> {
        let weight = self.values(&format!("{name}.weight"));
        let mut y: Vec<f64> = weight.chunks(x.len()).map(|row| dot(row, x)).collect();
        if self.tensors.contains_key(&format!("{name}.bias")) {
            add(&mut y, &self.values(&format!("{name}.bias")));
        }
        assert_eq!(y.len(), out);
        y
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let scale = (dot(x, x) / x.len() as f64 + 1e-5).sqrt();
        let weight = self.values(&format!("{name}.weight"));
        x.iter().zip(weight).map(|(x, w)| x / scale * w).collect()
    }

    /// Rotate the pairs (i, i + half) by position · θ^(−2i/d), with the scaling of Llama 3.1.
    fn rotate(&self, head: &mut [f64], position: usize) {
        let half = head.len() / 2;
        let scaling = &self.config["rope_scaling"];
        for i in 0..half {
            let mut frequency = 10_000f64.powf(-2.0 * i as f64 / head.len() as f64);
            if let Some(factor) = scaling["factor"].as_f64() {
                let number = |key: &str| scaling[key].as_f64().unwrap();
                let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
                let turns = number("original_max_position_embeddings") * frequency / (2.0 * PI);
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                frequency *= kept + (1.0 - kept) / factor;
            }
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (a, b) = (head[i], head[i + half]);
            (head[i], head[i + half]) = (a * cos - b * sin, b * cos + a * sin);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
