//! `burn-tch-micro`: runs pieces of this engine for the micro suites, on the libtorch backend
//! only.

fn main() -> std::process::ExitCode {
    protocol::micro::main::<burn_bench::micro::Micro>()
}
