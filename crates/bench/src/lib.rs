//! The main job: it chooses what to measure, checks what could refuse the run, then builds, runs
//! the gate, measures and reports, in this order. Further modules repeat the job in part or in
//! another way.

// The macros that print.
#[macro_use]
extern crate base;

pub mod beside;
pub mod handicap;
pub mod job;
pub mod list;
pub mod reproduce;
pub mod trace;
mod trial;
