//! `burn-tch-micro`: the same on the libtorch backend, and no other.

fn main() -> std::process::ExitCode {
    protocol::micro::main::<burn_bench::micro::Micro>()
}
