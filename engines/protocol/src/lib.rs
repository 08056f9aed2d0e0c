//! The contract between the harness and an engine: the messages on the wire and
//! the runtime that every Rust adapter shares.
//!
//! The loop, the batching and the timing stand here once, so that an adapter is
//! only "load a model, feed tokens, give the next ones". What this crate
//! deliberately does not know: any engine, any weight format, any statistic of a
//! run (the little summary of a request made by hand aside).
//!
//! `wire` is all that the harness needs; `serve` (a feature) is all that an
//! adapter needs: implement [`engine::Engine`] and write
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     protocol::main::<MyEngine>()
//! }
//! ```
//!
//! or, for an engine that batches by itself, [`scheduler::Scheduler`] and
//! `protocol::main_scheduled`. What times a piece of an engine instead of requests is
//! a micro program: [`micro`]. [`safetensors_files`] finds a model's weights, in shards or not.

pub mod clock;
pub mod engine;
pub mod error_log;
pub mod micro;
mod model_config;
pub mod panicked;
pub mod scheduler;
mod weight_files;
pub mod wire;
pub mod witness;

pub use model_config::{architecture, sliding_window};
pub use weight_files::safetensors_files;

#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
pub use serve::{main, main_scheduled};
