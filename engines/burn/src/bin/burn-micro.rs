//! `burn-micro`: runs pieces of this engine for the micro suites, on every backend except
//! libtorch.

fn main() -> std::process::ExitCode {
    protocol::micro::main::<burn_bench::micro::Micro>()
}
