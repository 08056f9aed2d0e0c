//! `tch-bench`: the same Llama as in the PyTorch engines, written in Rust on libtorch, without
//! Python and its layers of modules. Its libtorch is the one that the newest `tch` binds, which is
//! newer than the baseline's. It deliberately has no kernels of its own and no compiled graphs:
//! every operator is one call into libtorch.

mod engine;
mod model;
#[cfg(test)]
mod tests;
mod weights;

use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::main::<engine::Tch>()
}
