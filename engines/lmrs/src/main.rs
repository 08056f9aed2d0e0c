//! The adapter's binary; all of its code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<lmrs_bench::adapter::Lmrs>()
}
