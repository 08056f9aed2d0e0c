//! `mistralrs-bench`: the adapter as a program. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Candle, below mistral.rs, prefers this to RAYON_NUM_THREADS, which the
    // runtime sets to what the harness asked for.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::remove_var("CANDLE_NUM_THREADS") };
    // Where RUST_BACKTRACE is set, Candle traces every error, also those that
    // mistral.rs expects while loading: half a second each. Panics keep theirs.
    // SAFETY: as above.
    unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
    protocol::main_scheduled::<mistralrs_bench::engine::MistralRs>()
}
