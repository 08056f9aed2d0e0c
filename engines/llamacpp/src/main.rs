//! `llamacpp-bench`: llama.cpp behind the protocol, the common alternative to an engine in Rust.
//! Requests share its steps as in `llama-server`: [`slots`] decides what a step feeds, [`llama`]
//! feeds it. Every parameter that llama.cpp has a default for keeps it, but for the cache: the
//! sequences share one (`kv_unified`), as in `llama-server` where the number of slots isn't given.

mod describe;
mod device;
mod file;
mod llama;
mod log;
mod scheduler;
mod slots;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main_scheduled::<scheduler::LlamaCpp>()
}
