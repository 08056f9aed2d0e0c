//! `candle-bench`: Candle's own models behind the protocol, as a user of `candle-transformers`
//! gets them: `llama`, `mistral`, `phi3` and `qwen3` for safetensors, `quantized_llama`,
//! `quantized_phi3` and `quantized_qwen3` for GGUF. The adapter deliberately fixes nothing and
//! tunes nothing; `hello` reports the library's defects.

mod config;
mod engine;
mod gguf;
mod model;
mod plain;
mod quantised;
mod safetensors;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Candle prefers this variable to RAYON_NUM_THREADS, which the runtime sets to the number that
    // the harness asked for.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::remove_var("CANDLE_NUM_THREADS") };
    protocol::main::<engine::Candle>()
}
