//! The parity gate: does a target do the same work as the reference?
//!
//! `gate` judges scores and `output` what was generated (both pure), `target`
//! drives one engine through the questions, `batch` asks those about requests in
//! company, `golden` makes the answers, `mutants` tests the gate itself, `command`
//! is `cargo xtask verify`.

pub mod batch;
pub mod command;
pub mod gate;
pub mod golden;
pub mod mutants;
pub mod output;
pub mod question;
pub mod target;
