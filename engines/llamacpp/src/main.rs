//! `llamacpp-bench`: llama.cpp behind the protocol, the common alternative to an engine in Rust.
//! Requests share its steps as in `llama-server`: [`slots`] decides what a step feeds, [`llama`]
//! feeds it. A parameter that the request doesn't determine keeps llama.cpp's default, except one:
//! all sequences share a cache (`kv_unified`), as in `llama-server` if the number of slots isn't
//! given.

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
