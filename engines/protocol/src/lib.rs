//! This crate defines the contract between the harness and an engine: the messages on the wire,
//! and the runtime that every Rust adapter shares.
//!
//! The request loop, the batching and the timing are implemented here once, so that an adapter
//! only loads a model, feeds it tokens and returns the next ones. This crate deliberately knows no
//! engine, no weight format and no statistic of a run (except the short summary of a request made
//! by hand).
//!
//! The harness needs only [`wire`]. An adapter needs only `serve` (a feature): it implements
//! [`engine::Engine`] and writes
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     protocol::main::<MyEngine>()
//! }
//! ```
//!
//! or, for an engine that batches by itself, [`scheduler::Scheduler`] and
//! `protocol::main_scheduled`. A program that times a piece of an engine instead of requests is a
//! micro program: [`micro`]. [`safetensors_files`] finds the files of a model's weights, sharded
//! or not. [`engine::testing`] is for the tests of adapters.

mod argmax;
pub mod clock;
pub mod engine;
pub mod error_log;
mod ids;
pub mod micro;
mod model_config;
pub mod panicked;
mod precision;
pub mod scheduler;
mod weight_files;
pub mod wire;
pub mod witness;

pub use argmax::argmax;
pub use ids::check_ids;
pub use model_config::{architecture, sliding_window, window_gap};
pub use precision::{check_precision, main_type};
pub use weight_files::{only_safetensors, safetensors_files};

/// Return which of these Cargo features the calling crate was compiled with, separated by spaces:
/// `features!("cuda" "metal")`.
#[macro_export]
macro_rules! features {
    ($($name:literal)*) => {{
        let all: &[(&str, bool)] = &[$(($name, cfg!(feature = $name))),*];
        let on = all.iter().filter(|(_, on)| *on).map(|(name, _)| *name);
        on.collect::<Vec<_>>().join(" ")
    }};
}

#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
pub use serve::{main, main_scheduled};
