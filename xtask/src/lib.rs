//! `cargo xtask`: the stages that touch the world, and the pure plan between them.
//!
//! A module a stage. The harness knows no engine by name: what an engine is and
//! can do stands in `engines/engines.toml` and in its own `hello`.

pub mod doctor;
pub mod fetch;
