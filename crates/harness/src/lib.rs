//! The harness: what is asked of which engine and when, engines and the protocol's other side, the
//! parity gate, the load generator, and records of all of it.
//!
//! It knows no engine by name: what an engine is and can do stands in `engines/engines.toml` and in
//! its own `hello`. It builds nothing and fetches nothing.

#[macro_use]
extern crate base;

pub mod arrivals;
pub mod budget;
pub mod devices;
pub mod engine;
pub mod environment;
pub mod gpu;
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
pub mod twins;
pub mod verify;
