//! `fake-bench`: an engine with known timing that fails on request, so that the harness can be
//! measured and every failure path tested. It runs no model; its tokens depend on the prompt only
//! so that it can be checked by the parity gate.
//!
//! Environment, for tests and `calibrate`: `FAKE_PREFILL_US`, `FAKE_PREFILL_TOKEN_US`,
//! `FAKE_DECODE_US` and `FAKE_ROW_US` set the timing; `FAKE_FAULT_AT` is the batch (from 1, scores
//! included) in which an engine's fault occurs, 3 if unset; `FAKE_TRUTH` names the file to which
//! it appends the true times of its tokens; with `FAKE_MAX_ISA` set, it executes no illegal
//! instruction.

mod engine;
mod fault;
mod model;
mod schedule;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::serve::main_through::<engine::Fake, _>(fault::Spoiler::new)
}

/// Read a number from the environment. An invalid one counts as unset, since only this project's
/// tests set one.
fn number(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
