//! Basics that the other crates of the harness share: the paths of a checkout, the command line,
//! names, files that are written whole, random numbers, interrupts, printing, and exit statuses.

// First, because the others print with its macros.
#[macro_use]
pub mod say;

pub mod argv;
pub mod cpu_time;
pub mod exclusive;
pub mod files;
pub mod interrupt;
pub mod names;
pub mod nix_shell;
pub mod pace;
pub mod repo;
pub mod shelf;
pub mod text;

pub use splitmix as random;

use std::process::ExitCode;

/// Return the exit status of a command that did its work: success, or `fault` where what it found
/// isn't as it should be.
pub fn exit_code(is_good: bool, fault: u8) -> ExitCode {
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(fault),
    }
}
