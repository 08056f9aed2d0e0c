//! What this machine can do at best, measured by our own kernels: the denominators
//! of MBU and MFU. No engine runs here, and nothing is taken from data sheets.
//!
//! Not measured: GPUs (no kernel without a CUDA toolchain) and the matrix units of
//! some CPUs (AMX): a number that isn't here must not be replaced by one for other
//! arithmetic, so utilisation in those formats is left out.

use super::{Cpu, Measured, Memory, flops, int8, memory};
use serde::Serialize;

/// What this machine can do at best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// Reading main memory with all usable threads.
    pub memory_bandwidth_bytes_per_s: Measured,
    /// Reading main memory with one thread.
    pub memory_bandwidth_1_thread_bytes_per_s: Measured,
    /// f32 multiply-adds, counted as two, with all usable threads.
    pub flops_f32_per_s: Measured,
    /// int8 multiply-adds into i32, counted as two; absent without a kernel for it.
    pub ops_int8_per_s: Option<Measured>,
}

impl Ceilings {
    /// The names of its facts in a run's provenance. They are measured, so no two runs
    /// have the same, and that is no difference between their machines.
    pub const FACTS: [&str; 4] = [
        "memory_bandwidth_bytes_per_s",
        "memory_bandwidth_1_thread_bytes_per_s",
        "flops_f32_per_s",
        "ops_int8_per_s",
    ];

    /// For a run's provenance, under the names of the fields.
    pub fn facts(&self) -> std::collections::BTreeMap<String, String> {
        let measured = [
            Some(&self.memory_bandwidth_bytes_per_s),
            Some(&self.memory_bandwidth_1_thread_bytes_per_s),
            Some(&self.flops_f32_per_s),
            self.ops_int8_per_s.as_ref(),
        ];
        let mut facts = std::collections::BTreeMap::new();
        for (name, measured) in Self::FACTS.into_iter().zip(measured) {
            let rate = measured.map(|measured| format!("{:.0}", measured.best));
            super::put(&mut facts, name, rate);
        }
        facts
    }
}

/// Measure this machine: about three seconds on all cores.
pub fn ceilings() -> Ceilings {
    measure(&Cpu::read(), &Memory::read())
}

pub(super) fn measure(cpu: &Cpu, memory: &Memory) -> Ceilings {
    let threads = cpu.threads_usable.max(1);
    let buffer_bytes = memory::buffer_bytes(cpu.last_level_cache_bytes(), memory.available_bytes);
    Ceilings {
        memory_bandwidth_bytes_per_s: memory::measure(buffer_bytes, threads),
        memory_bandwidth_1_thread_bytes_per_s: memory::measure(buffer_bytes, 1),
        flops_f32_per_s: flops::measure(threads),
        ops_int8_per_s: int8::measure(threads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_median_of_rates() {
        let measured = Measured::new(10.0, &[2.0, 1.0, 5.0], 1, "x");
        assert_eq!((measured.best, measured.median), (10.0, 5.0));
        let even = Measured::new(10.0, &[1.0, 2.0], 1, "x");
        assert_eq!(even.median, 7.5);
    }

    #[test]
    fn facts_carry_the_names_the_pages_use() {
        let measured = |rate| Measured::new(rate, &[1.0], 1, "x");
        let ceilings = Ceilings {
            memory_bandwidth_bytes_per_s: measured(33e9),
            memory_bandwidth_1_thread_bytes_per_s: measured(17e9),
            flops_f32_per_s: measured(530e9),
            ops_int8_per_s: None,
        };
        let facts = ceilings.facts();
        assert_eq!(facts["memory_bandwidth_bytes_per_s"], "33000000000");
        assert_eq!(facts["flops_f32_per_s"], "530000000000");
        assert!(!facts.contains_key("ops_int8_per_s"));
    }
}
