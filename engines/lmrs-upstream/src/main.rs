//! `lmrs-upstream-bench`: lm.rs itself, at a pinned revision, behind the protocol.
//! It deliberately mends nothing: where the library falls short, `hello` says so.

mod config;
mod convert;
mod engine;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<engine::Upstream>()
}
