//! `burn-bench`: every backend but libtorch.

fn main() -> std::process::ExitCode {
    protocol::main::<burn_bench::engine::Burn>()
}
