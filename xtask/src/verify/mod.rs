//! The parity gate: does a target do the same work as the reference?
//!
//! `gate` judges (pure), `target` drives one engine through the questions,
//! `golden` makes the answers, `command` is `cargo xtask verify`.

pub mod command;
pub mod gate;
pub mod golden;
pub mod target;
