//! Frink driven directly, without the adapter: the simplest loop over the same model and file.
//! `cargo xtask bench-adapters` runs it beside `frink-bench` to measure what the adapter costs.
//! It reads the same request by hand as `frink-bench` and prints one JSON object with
//! `output_tok_per_s`.

use frink_gguf::GgufFile;
use frink_models::{BudgetBackend, Decoder, ModelConfig, host_kv_dtype_from_env};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let ask: Value = serde_json::from_reader(std::io::stdin())?;
    let number = |key: &str| ask[key].as_u64().ok_or(format!("no number {key:?}"));
    let dir = ask["model_path"].as_str().ok_or("no model_path")?;
    let weights = ask["weights"].as_str().ok_or("no weights")?;
    let prompt: Vec<usize> = serde_json::from_value(ask["prompt_ids"].clone())?;
    let (new_tokens, iterations) = (number("new_tokens")?, number("iterations")?);
    let warmup = number("warmup")?;
    // SAFETY: nothing else runs yet.
    unsafe {
        std::env::set_var("FRINK_CPU_THREADS", number("threads")?.to_string());
        frink_core::weight_matrix::default_cpu_int_dot_on();
    }
    frink_core::threads::init_cpu_pool();

    let path = Path::new(dir).join(weights);
    let mut config = ModelConfig::from_gguf(&GgufFile::open(&path)?)?;
    config.kv_dtype = host_kv_dtype_from_env(BudgetBackend::Cpu);
    let decoder = Decoder::from_gguf(&path, config)?;
    let mut seconds = 0.0;
    let mut output = Vec::new();
    for iteration in 0..warmup + iterations {
        output.clear();
        let start = Instant::now();
        let mut caches = decoder.config.new_kv_caches();
        let mut logits = decoder.forward_batch_last(&prompt, 0, &mut caches);
        for position in prompt.len()..prompt.len() + new_tokens as usize {
            let mut best = 0;
            for (id, logit) in logits.iter().enumerate() {
                if *logit > logits[best] {
                    best = id;
                }
            }
            output.push(best);
            if output.len() < new_tokens as usize {
                logits = decoder.forward_token(best, position, &mut caches);
            }
        }
        if iteration >= warmup {
            seconds += start.elapsed().as_secs_f64();
        }
    }
    let rate = (new_tokens * iterations) as f64 / seconds;
    println!(
        "{}",
        json!({ "output_tok_per_s": rate, "output_ids": output })
    );
    Ok(())
}
