//! `frink-bench`: Frink's decoder of GGUF files behind the protocol, set up as Frink's own
//! programs set it up.

mod engine;
mod file;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: nothing else runs yet.
    unsafe {
        // Frink prefers this variable to RAYON_NUM_THREADS, which the runtime sets to the number
        // that the harness asked for.
        std::env::remove_var("FRINK_CPU_THREADS");
        // Its programs begin with this: the library alone would compute prompts in f32.
        frink_core::weight_matrix::default_cpu_int_dot_on();
    }
    protocol::main::<engine::Frink>()
}
