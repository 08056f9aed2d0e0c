//! `burn-tch-bench`: serves the libtorch backend, and no other.

fn main() -> std::process::ExitCode {
    protocol::main::<burn_bench::engine::Burn>()
}
