//! Entry point of `cargo xtask`: parses the command line, runs the verb, and turns an error into a
//! message and an exit status. 0 = done, 1 = failed, 2 = wrong usage (also an unknown name, or
//! something that this machine can't provide), 3 = done, but some cell or target failed, 4 =
//! `--stop-after` ended the run, which can be resumed, 130 = interrupted. A closed pipe changes
//! none of that: `cargo xtask export | head` ends with 0.

use clap::Parser;
use std::process::ExitCode;
use xtask::cli::Cli;

fn main() -> ExitCode {
    base::interrupt::install();
    watch::error_log::install();
    match Cli::try_parse() {
        Ok(cli) => watch::conclude(cli.run()),
        Err(usage) => watch::usage(&usage),
    }
}
