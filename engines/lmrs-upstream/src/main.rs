//! `lmrs-upstream-bench`: lm.rs itself, at a pinned revision, behind the protocol. It deliberately
//! fixes nothing; `hello` reports the library's defects.

mod config;
mod convert;
mod engine;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<engine::Upstream>()
}
