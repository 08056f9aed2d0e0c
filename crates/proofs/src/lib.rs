//! Tests of the engines and of the benchmark itself, outside a run: the gate alone and against its
//! mutants, the harness's own error, the cost of watching an engine's tokens, the statistics on
//! data of known truth, and the cost of the adapters.

// The macros that print.
#[macro_use]
extern crate base;

pub mod adapters;
pub mod calibrate;
pub mod simulate;
pub mod verify;
pub mod watching;
