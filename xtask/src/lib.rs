//! `cargo xtask`: the command line, and the chores of this repository (tidy, lint, test).

// The macros that print.
#[macro_use]
extern crate base;

pub mod cli;
pub mod lint;
pub mod test;
pub mod tidy;
pub mod versions;
