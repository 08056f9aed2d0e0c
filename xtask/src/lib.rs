//! `cargo xtask`: the stages that touch the world, and the pure plan between them.
//!
//! A module a stage. The harness knows no engine by name: what an engine is and
//! can do stands in `engines/engines.toml` and in its own `hello`.

// First, because the others print with its macros.
#[macro_use]
mod say;

pub mod adapters;
mod appender;
pub mod arrivals;
pub mod baselines;
pub mod bench;
pub mod budget;
pub mod build;
pub mod calibrate;
pub mod cli;
pub mod compare;
mod cpu_time;
pub mod deadline;
pub mod devices;
pub mod dist;
pub mod doctor;
pub mod engine;
pub mod environment;
mod exclusive;
pub mod export;
pub mod fetch;
pub mod gpu;
pub mod handicap;
pub mod interrupt;
pub mod lint;
pub mod list;
pub mod machine;
pub mod merge;
pub mod micro;
pub mod model_work;
pub mod names;
pub mod nix_shell;
pub mod own_prompts;
pub mod pace;
pub mod page;
pub mod pins;
pub mod plan;
pub mod positions;
pub mod programs;
pub mod prompts;
pub mod provenance;
pub mod publish;
pub mod random;
pub mod repo;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod shard;
pub mod shelf;
pub mod simulate;
pub mod summary;
mod table;
pub mod telemetry;
pub mod test;
pub mod text;
pub mod tidy;
pub mod trace;
pub mod train;
pub mod twins;
pub mod verify;
pub mod versions;
pub mod watch;
pub mod whole;
