//! `burn-bench`: serves every backend except libtorch.

fn main() -> std::process::ExitCode {
    protocol::main::<burn_bench::engine::Burn>()
}
