//! `cargo xtask`: the command line, and the repository's own chores.

// What is printed goes through its macros.
#[macro_use]
extern crate base;

pub mod cli;
pub mod lint;
pub mod test;
pub mod tidy;
pub mod versions;
