//! `tch-bench`: the Llama that the PyTorch engines run, written against the same
//! libtorch from Rust, so that the difference between them is what Python and its
//! layers of modules cost. It deliberately has no kernels of its own and no
//! compiled graphs: every operator is one call into libtorch.

mod config;
mod engine;
mod model;
#[cfg(test)]
mod tests;
mod weights;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<engine::Tch>()
}
