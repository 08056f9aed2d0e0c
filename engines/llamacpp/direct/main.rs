//! llama.cpp driven directly, without the adapter, as its `llama-bench` does it: one sequence
//! through `llama_decode` with threads that persist between steps, and a greedy choice.
//! `cargo xtask bench-adapters` runs it beside `llamacpp-bench` to measure what the adapter costs.
//! It reads the same request by hand as `llamacpp-bench` and prints one JSON object with
//! `output_tok_per_s`.

use llama_cpp_sys_2 as sys;
use serde_json::{Value, json};
use std::error::Error;
use std::ffi::CString;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let ask: Value = serde_json::from_reader(std::io::stdin())?;
    let number = |key: &str| ask[key].as_u64().ok_or(format!("no number {key:?}"));
    let dir = ask["model_path"].as_str().ok_or("no model_path")?;
    let weights = ask["weights"].as_str().ok_or("no weights")?;
    let path = Path::new(dir).join(weights);
    let path = CString::new(path.to_str().ok_or("the path is not UTF-8")?)?;
    let prompt: Vec<i32> = serde_json::from_value(ask["prompt_ids"].clone())?;
    let (new_tokens, iterations) = (number("new_tokens")?, number("iterations")?);
    let (warmup, threads) = (number("warmup")?, number("threads")? as i32);

    // SAFETY: as llama.cpp's own tools call it, each pointer checked and alive until
    // the process ends. (Nothing is freed: the process ends.)
    let (context, vocabulary) = unsafe {
        sys::llama_log_set(Some(quiet), std::ptr::null_mut());
        sys::llama_backend_init();
        let mut params = sys::llama_model_default_params();
        params.n_gpu_layers = 0;
        let model = sys::llama_model_load_from_file(path.as_ptr(), params);
        if model.is_null() {
            return Err("llama.cpp can't load the model".into());
        }
        let mut params = sys::llama_context_default_params();
        params.n_ctx = (prompt.len() as u64 + new_tokens) as u32;
        params.n_threads = threads;
        params.n_threads_batch = threads;
        let context = sys::llama_init_from_model(model, params);
        if context.is_null() {
            return Err("llama.cpp can't make a context".into());
        }
        let mut params = sys::ggml_threadpool_params_default(threads);
        let pool = sys::ggml_threadpool_new(&mut params);
        sys::llama_attach_threadpool(context, pool, pool);
        (
            context,
            sys::llama_vocab_n_tokens(sys::llama_model_get_vocab(model)) as usize,
        )
    };

    let mut seconds = 0.0;
    let mut output = Vec::new();
    for iteration in 0..warmup + iterations {
        output.clear();
        let mut input = prompt.clone();
        let start = Instant::now();
        // SAFETY: the context is open.
        unsafe { sys::llama_memory_clear(sys::llama_get_memory(context), false) };
        for _ in 0..new_tokens {
            // SAFETY: `input` outlives the step, and the last token's logits are a
            // row of the vocabulary's length until the next one.
            let logits = unsafe {
                let batch = sys::llama_batch_get_one(input.as_mut_ptr(), input.len() as i32);
                let status = sys::llama_decode(context, batch);
                if status != 0 {
                    return Err(format!("llama_decode returned {status}").into());
                }
                std::slice::from_raw_parts(sys::llama_get_logits_ith(context, -1), vocabulary)
            };
            let next = greatest(logits);
            output.push(next);
            input.clear();
            input.push(next);
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

/// The index of the greatest value.
fn greatest(values: &[f32]) -> i32 {
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let first = values.iter().position(|&value| value == max);
    first.unwrap_or_default() as i32
}

unsafe extern "C" fn quiet(
    _level: sys::ggml_log_level,
    _text: *const std::ffi::c_char,
    _data: *mut std::ffi::c_void,
) {
}
