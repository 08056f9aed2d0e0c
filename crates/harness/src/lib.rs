//! The harness: the plan (which requests go to which engine, and when), engine processes and the
//! harness's end of their protocol, the parity gate, the load generator, and records of all of it.
//!
//! No engine's name is in its code: `engines/engines.toml` and an engine's own `hello` say what the
//! engine is and can do. The harness builds nothing and fetches nothing.

#[macro_use]
extern crate base;

pub mod arrivals;
pub mod budget;
pub mod devices;
pub mod engine;
pub mod environment;
pub mod gpu;
pub mod kept;
pub mod machine;
pub mod micro;
pub mod model_work;
pub mod own_prompts;
pub mod plan;
pub mod positions;
pub mod programs;
pub mod prompts;
mod recorder;
pub mod run;
pub mod telemetry;
mod twins;
pub mod verify;
