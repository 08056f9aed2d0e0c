//! What is proved of the engines and of the instrument outside a run: the gate by itself and
//! against its mutants, the harness's own error, what watching an engine costs it, the statistics on
//! data of known truth, and what the adapters cost.

// What is printed goes through its macros.
#[macro_use]
extern crate base;

pub mod adapters;
pub mod calibrate;
pub mod simulate;
pub mod verify;
pub mod watching;
