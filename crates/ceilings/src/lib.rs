//! Measures what this machine can do at best, with kernels of our own: the denominators of MBU and
//! MFU. No engine runs here, and nothing is taken from data sheets.
//!
//! The matrix units of some CPUs (AMX) are not measured. A missing number must not be replaced by
//! one for other arithmetic, so utilisation in those formats is left out. GPUs are measured by a
//! program of their own, `engines/gpu-limits`.
//!
//! This is a crate of its own because it is the only part of the harness that must be optimised:
//! unoptimised kernels measure a tenth of the machine (see `profile.dev.package.ceilings` in
//! Cargo.toml).

mod canary;
mod flops;
mod int8;
mod memory;
mod parallel;

pub use canary::Canary;
pub use parallel::Measured;

use serde::Serialize;
use std::collections::BTreeMap;

/// The rates that this machine reaches at best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// Rate of reading main memory with all usable threads (bytes/s).
    pub memory_read_bytes_per_s: Measured,
    /// Rate of reading main memory with one thread (bytes/s).
    pub memory_read_1_thread_bytes_per_s: Measured,
    /// Rate of f32 multiply-adds, each counted as two operations, with all usable threads.
    pub flops_f32_per_s: Measured,
    /// Rate of int8 multiply-adds into i32, each counted as two operations; `None` where there is
    /// no kernel for this CPU.
    pub ops_int8_per_s: Option<Measured>,
}

impl Ceilings {
    /// Whether a fact of a run's provenance is a measured rate, of the processor or of another
    /// device. Such rates differ between any two runs, which is no difference between their
    /// machines.
    pub fn is_rate(fact: &str) -> bool {
        fact.ends_with("_per_s")
    }

    /// The best rates as facts of a run's provenance, under the names of the fields.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let (all, one) = (
            &self.memory_read_bytes_per_s,
            &self.memory_read_1_thread_bytes_per_s,
        );
        let measured = [
            ("memory_read_bytes_per_s", Some(all)),
            ("memory_read_1_thread_bytes_per_s", Some(one)),
            ("flops_f32_per_s", Some(&self.flops_f32_per_s)),
            ("ops_int8_per_s", self.ops_int8_per_s.as_ref()),
        ];
        let measured = measured.into_iter();
        measured
            .filter_map(|(name, rate)| Some((name.to_owned(), format!("{:.0}", rate?.best))))
            .collect()
    }
}

/// Measure all rates with this many threads, which takes about three seconds. Memory is read in a
/// buffer far larger than `last_level_cache` (bytes) and no larger than a quarter of what is
/// `available` (bytes).
pub fn measure(threads: usize, last_level_cache: Option<u64>, available: Option<u64>) -> Ceilings {
    let threads = threads.max(1);
    let buffer_bytes = memory::buffer_bytes(last_level_cache, available);
    Ceilings {
        memory_read_bytes_per_s: memory::measure(buffer_bytes, threads),
        memory_read_1_thread_bytes_per_s: memory::measure(buffer_bytes, 1),
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
            memory_read_bytes_per_s: measured(33e9),
            memory_read_1_thread_bytes_per_s: measured(17e9),
            flops_f32_per_s: measured(530e9),
            ops_int8_per_s: None,
        };
        let facts = ceilings.facts();
        assert_eq!(facts["memory_read_bytes_per_s"], "33000000000");
        assert_eq!(facts["flops_f32_per_s"], "530000000000");
        assert!(!facts.contains_key("ops_int8_per_s"));
        assert!(facts.keys().all(|name| Ceilings::is_rate(name)));
        assert!(Ceilings::is_rate("cuda_flops_f16_per_s") && !Ceilings::is_rate("cpus"));
    }

    /// Unoptimised kernels once measured 2.8 GB/s of a memory that gives 36, unnoticed for a day;
    /// kernels that were compiled in parts measured 21 GB/s of a memory that gives 38, for a week.
    #[test]
    fn every_profile_optimises_this_crate_as_a_whole() {
        let workspace = include_str!("../../../Cargo.toml");
        let profile = workspace.split("[profile.dev.package.ceilings]").nth(1);
        let profile = profile.and_then(|rest| rest.split("\n[").next());
        let lines: Vec<&str> = profile.unwrap_or_default().lines().collect();
        assert!(lines.contains(&"opt-level = 3"), "{lines:?}");
        assert!(lines.contains(&"codegen-units = 1"), "{lines:?}");
    }
}
