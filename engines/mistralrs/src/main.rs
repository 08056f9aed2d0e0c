//! `mistralrs-bench`: the adapter as a program. All of its code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Candle, which mistral.rs uses, prefers this variable to RAYON_NUM_THREADS, which the runtime
    // sets to the number that the harness asked for.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::remove_var("CANDLE_NUM_THREADS") };
    // If RUST_BACKTRACE is set, Candle makes a backtrace of every error, also of those that
    // mistral.rs expects while loading, which takes half a second each. Panics keep their
    // backtraces.
    // SAFETY: as above.
    unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
    protocol::main_scheduled::<mistralrs_bench::engine::MistralRs>()
}
