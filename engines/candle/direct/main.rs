//! Candle driven directly, without the adapter: the simplest loop over the same model and file.
//! `cargo xtask bench-adapters` runs it beside `candle-bench` to measure what the adapter costs.
//! It reads the same request by hand as `candle-bench` and prints one JSON object with
//! `output_tok_per_s`.

use candle_core::quantized::gguf_file::Content;
use candle_core::{D, Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use serde_json::{Value, json};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let ask: Value = serde_json::from_reader(std::io::stdin())?;
    let number = |key: &str| ask[key].as_u64().ok_or(format!("no number {key:?}"));
    let dir = ask["model_path"].as_str().ok_or("no model_path")?;
    let weights = ask["weights"].as_str().ok_or("no weights")?;
    let prompt: Vec<u32> = serde_json::from_value(ask["prompt_ids"].clone())?;
    let (new_tokens, iterations) = (number("new_tokens")?, number("iterations")?);
    let warmup = number("warmup")?;
    // SAFETY: nothing else runs yet.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", number("threads")?.to_string()) };

    let mut file = File::open(Path::new(dir).join(weights))?;
    let content = Content::read(&mut file)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?;
    let mut seconds = 0.0;
    let mut output = Vec::new();
    for iteration in 0..warmup + iterations {
        output.clear();
        let start = Instant::now();
        model.clear_kv_cache();
        let mut input = Tensor::new(prompt.as_slice(), &Device::Cpu)?.unsqueeze(0)?;
        let mut position = 0;
        for _ in 0..new_tokens {
            let logits = model.forward(&input, position)?;
            position += input.dim(1)?;
            let next = logits.argmax(D::Minus1)?.to_vec1::<u32>()?[0];
            output.push(next);
            input = Tensor::new(&[next], &Device::Cpu)?.unsqueeze(0)?;
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
