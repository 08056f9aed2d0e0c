//! The adapter's binary; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<lmrs_bench::adapter::Lmrs>()
}
