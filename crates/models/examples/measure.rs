//! Measures how a model's scales behave:
//! `cargo run --release -p models --example measure -- tiny-llama`.
//!
//! It prints the spread of the logits, margins, repetition, and the divergence that quantisation
//! and seven mistakes cause. The constants in `weights.rs` were set by these numbers.

use anyhow::{Context, Result};
use models::measure::{divergence, greedy, spread};
use models::reference::{Cache, Reference};
use models::{ModelFile, ModelSpec};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let id = args.next().unwrap_or_else(|| "tiny-llama".into());
    let long: usize = args.next().map_or(Ok(600), |n| n.parse())?;
    let spec = ModelSpec::named(&id).with_context(|| format!("no model named {id:?}"))?;
    let exact = Reference::new(&spec, ModelFile::Safetensors);
    let ids = |n: usize, salt: u64| -> Vec<u32> {
        let key = models::prng::stream_key(salt, "measure");
        let trained = spec.tokenizer_vocab as u64 - 3;
        (0..n as u64)
            .map(|i| 3 + (models::prng::bits(key, i) % trained) as u32)
            .collect()
    };

    for (prompt, scored) in [(10, 32), (50, 32), (200, 32), (long, 32)] {
        let ids = ids(prompt + scored, prompt as u64);
        let truth = run(&exact, &ids, prompt, 0);
        let rows = || truth.chunks_exact(spec.vocab_size);
        let spreads: Vec<(f64, f64)> = rows().map(spread).collect();
        let mean =
            |f: fn(&(f64, f64)) -> f64| spreads.iter().map(f).sum::<f64>() / spreads.len() as f64;
        let clear = spreads.iter().filter(|s| s.1 > 0.3).count();
        let own: f64 = rows()
            .zip(&ids[prompt..])
            .map(|(r, &id)| f64::from(r[id as usize]))
            .sum::<f64>()
            / scored as f64;
        println!(
            "prompt {prompt}: logit std {:.2}, margin mean {:.2}, > 0.3 in {clear}/{scored}, own logit {own:.2}",
            mean(|s| s.0),
            mean(|s| s.1)
        );
        let report = |name: &str, logits: &[f32]| {
            let all: Vec<f64> = rows()
                .zip(logits.chunks_exact(spec.vocab_size))
                .map(|(a, b)| divergence(a, b))
                .collect();
            let agree = rows()
                .zip(logits.chunks_exact(spec.vocab_size))
                .filter(|(a, b)| models::measure::argmax(a) == models::measure::argmax(b))
                .count();
            println!(
                "  {name:24} KL mean {:.2e} max {:.2e}, argmax {agree}/{scored}",
                all.iter().sum::<f64>() / all.len() as f64,
                all.iter().fold(0.0f64, |m, x| m.max(*x))
            );
        };
        for file in [ModelFile::GgufF16, ModelFile::GgufQ8_0, ModelFile::GgufQ4KM] {
            report(
                file.name(),
                &run(&Reference::new(&spec, file), &ids, prompt, 0),
            );
        }
        for (name, base) in [("rope base x10", 10.0), ("rope base /10", 0.1)] {
            let other = ModelSpec {
                rope_theta: spec.rope_theta * base,
                ..spec.clone()
            };
            let mutant = Reference {
                frequencies: models::reference::frequencies(&other),
                ..exact.clone()
            };
            report(name, &run(&mutant, &ids, prompt, 0));
        }
        if spec.rope_scaling.is_some() {
            let mutant = Reference {
                frequencies: spec.rope_frequencies(),
                ..exact.clone()
            };
            report("rope scaling dropped", &run(&mutant, &ids, prompt, 0));
        }
        report("decode position + 1", &run(&exact, &ids, prompt, 1));
        let mut swapped = exact.clone();
        let dim = spec.head_dim;
        for layer in &mut swapped.layers {
            for row in layer.o_proj.chunks_exact_mut(spec.num_heads * dim) {
                for i in 0..dim {
                    row.swap(i, dim + i);
                }
            }
        }
        report("heads 0, 1 swapped", &run(&swapped, &ids, prompt, 0));
        let mut stale = ids.clone();
        stale[..prompt / 2]
            .iter_mut()
            .for_each(|id| *id = 3 + (*id + 1000) % (spec.tokenizer_vocab as u32 - 3));
        report("stale first half", &run(&exact, &stale, prompt, 0));
        for zeroed in 0..spec.num_layers {
            let mut mutant = exact.clone();
            mutant.layers[zeroed].o_proj.fill(0.0);
            mutant.layers[zeroed].down_proj.fill(0.0);
            report(
                &format!("layer {zeroed} zeroed"),
                &run(&mutant, &ids, prompt, 0),
            );
        }
    }
    for prompt in [10, 50, 200] {
        let output = greedy(&exact, &ids(prompt, 7), 128);
        let distinct: std::collections::HashSet<_> = output.iter().collect();
        println!(
            "greedy after {prompt}: {} distinct of {}",
            distinct.len(),
            output.len()
        );
    }
    Ok(())
}

/// Returns the logits after each id from index `prompt` on; these ids stand `shift` positions too
/// far.
fn run(model: &Reference, ids: &[u32], prompt: usize, shift: usize) -> Vec<f32> {
    let positions: Vec<usize> = (0..ids.len())
        .map(|p| if p < prompt { p } else { p + shift })
        .collect();
    model.forward(ids, &positions, &mut Cache::default(), ids.len() - prompt)
}
