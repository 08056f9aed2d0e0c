//! Generates greedy tokens of a Llama with Candle: the Rust counterpart of
//! `engines/pytorch/small_program.py`. Tests compare the output of both with that of the adapters.
//!
//!     cargo run --release -p candle-bench --example small_program MODEL_DIR NEW_TOKENS ID...

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use std::error::Error;
use std::path::Path;

/// Return the `new_tokens` greedy ids that follow `prompt`.
pub fn generate(
    model_dir: &Path,
    prompt: &[u32],
    new_tokens: usize,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let device = Device::Cpu;
    let config = std::fs::read(model_dir.join("config.json"))?;
    let config: LlamaConfig = serde_json::from_slice(&config)?;
    let config = config.into_config(false);
    let weights = [model_dir.join("model.safetensors")];
    // SAFETY: the file isn't changed while it is mapped.
    let weights = unsafe { VarBuilder::from_mmaped_safetensors(&weights, DType::F32, &device)? };
    let model = Llama::load(weights, &config)?;
    let mut cache = Cache::new(true, DType::F32, &config, &device)?;
    let mut ids = Tensor::new(prompt, &device)?.unsqueeze(0)?;
    let (mut position, mut output) = (0, Vec::new());
    for _ in 0..new_tokens {
        let logits = model.forward(&ids, position, &mut cache)?;
        position += ids.dim(1)?;
        let next = logits.argmax(1)?;
        output.push(next.to_vec1::<u32>()?[0]);
        ids = next.unsqueeze(0)?;
    }
    Ok(output)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model_dir), Some(new_tokens)) = (arguments.next(), arguments.next()) else {
        return Err("usage: small_program MODEL_DIR NEW_TOKENS ID...".into());
    };
    let prompt: Result<Vec<u32>, _> = arguments.map(|id| id.parse()).collect();
    let output = generate(Path::new(&model_dir), &prompt?, new_tokens.parse()?)?;
    println!("{output:?}");
    Ok(())
}
