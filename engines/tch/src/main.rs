//! `tch-bench`: the same Llama as in the PyTorch engines, written in Rust against the same
//! libtorch, so that the difference between them is the cost of Python and its layers of modules.
//! It deliberately has no kernels of its own and no compiled graphs: every operator is one call
//! into libtorch.

mod engine;
mod model;
#[cfg(test)]
mod tests;
mod weights;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<engine::Tch>()
}
