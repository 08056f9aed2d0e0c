//! `llamacpp-bench`: llama.cpp behind the protocol, what a user would pick
//! instead of an engine in Rust. Requests share its steps the way `llama-server`
//! lets them: [`slots`] decides what a step feeds, [`llama`] feeds it.
//! Everything that is a choice of llama.cpp's stays at its default.

mod argmax;
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
