//! `cargo xtask`: the command line, the order of the main job, and the repository's own chores.

// What is printed goes through its macros.
#[macro_use]
extern crate base;

pub mod adapters;
pub mod bench;
pub mod calibrate;
pub mod cli;
pub mod handicap;
pub mod lint;
pub mod list;
pub mod reproduce;
pub mod simulate;
pub mod test;
pub mod tidy;
pub mod trace;
pub mod train;
pub mod verify;
pub mod versions;
