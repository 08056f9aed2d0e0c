//! The parity gate: does a target do the same work as the reference?
//!
//! `architecture` says who isn't asked at all, `gate` judges scores and `output` what was
//! generated (both pure), `target` drives one engine through the questions, `lengths` asks
//! about contexts beyond the usual ones and prompts of every length, `batch` about requests in
//! company, `repeats` about prompts that were asked before, `prefix` about prompts that begin alike,
//! `golden` makes the answers and asks for stories, `judges` says who is asked for them, `goldens` which of them hold, `mutants` tests the gate itself, `of_run` is the gate within a run, `command` is
//! `cargo xtask verify`, `told` what both tell.

pub mod architecture;
pub mod batch;
pub mod gate;
pub mod golden;
pub mod goldens;
pub mod judges;
mod lengths;
pub mod of_run;
pub mod output;
mod prefix;
pub mod question;
mod repeats;
pub mod target;
pub mod told;
