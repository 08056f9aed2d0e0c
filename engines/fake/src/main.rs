//! `fake-bench`: an engine whose timing is known and which fails on request, so
//! that the harness can be measured and every failure path tested. It runs no
//! model; that its tokens depend on the prompt only serves the parity gate.
//!
//! Environment, for tests and `calibrate`:
//! `FAKE_PREFILL_US`, `FAKE_PREFILL_TOKEN_US`, `FAKE_DECODE_US`, `FAKE_ROW_US` set the timing;
//! `FAKE_FAULT_AT` is the batch (from 1, scores included) in which a fault of the
//! engine strikes, 3 where unset; `FAKE_TRUTH` names the file to which it appends
//! when it really emitted what; with `FAKE_MAX_ISA` set, it executes nothing illegal.

mod engine;
mod fault;
mod model;
mod schedule;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::serve::main_through::<engine::Fake, _>(fault::Spoiler::new)
}

/// A number from the environment; nonsense counts as unset, since only our own
/// tests ever set one.
fn number(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
