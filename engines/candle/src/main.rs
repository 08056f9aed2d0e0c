//! `candle-bench`: Candle's own Llama models behind the protocol, as a user of
//! `candle-transformers` gets them: `llama` for safetensors, `quantized_llama`
//! for GGUF. It deliberately mends nothing and tunes nothing; where the library
//! falls short, `hello` says so.

mod engine;
mod gguf;
mod safetensors;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Candle prefers this to RAYON_NUM_THREADS, which the runtime sets to what
    // the harness asked for.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::remove_var("CANDLE_NUM_THREADS") };
    protocol::main::<engine::Candle>()
}
