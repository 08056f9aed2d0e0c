//! `mistralrs-bench`: the adapter as a program. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Candle, below mistral.rs, prefers this to RAYON_NUM_THREADS, which the
    // runtime sets to what the harness asked for.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::remove_var("CANDLE_NUM_THREADS") };
    protocol::main_scheduled::<mistralrs_bench::engine::MistralRs>()
}
