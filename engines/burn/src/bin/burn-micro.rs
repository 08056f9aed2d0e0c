//! `burn-micro`: the pieces of this engine by themselves, on every backend but libtorch.

fn main() -> std::process::ExitCode {
    protocol::micro::main::<burn_bench::micro::Micro>()
}
