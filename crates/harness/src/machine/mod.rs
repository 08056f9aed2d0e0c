//! Reads the facts of this machine, and has its peak rates measured.
//!
//! Reading changes nothing and uses no network. Whatever can't be read is absent, never zero and
//! never a failure. [`facts`] takes a few milliseconds and runs a few programs with `--version`;
//! the ceilings take seconds and are measured only on demand ([`ceilings()`]), by the crate
//! `ceilings`.

mod cpu;
mod cpuid;
mod gpu;
mod memory;
pub mod system;
mod tools;

pub use cpu::{Cache, Cpu};
pub use cpuid::{Palette, Processor};
pub use gpu::Gpu;
pub use memory::Memory;
pub use system::{PackageManager, System, install_command};
pub use tools::{Tool, Tools, is_here};

use ceilings::{Canary, Ceilings};
use std::collections::BTreeMap;
use std::path::Path;

/// The facts of the machine and its tools for a run's provenance. Keys that can't be read are left
/// out. Numbers in keys that end in a unit are plain decimals.
pub fn facts(repo: &Path) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    Cpu::read().add_facts(&mut facts);
    Memory::read().add_facts(&mut facts);
    System::read().add_facts(&mut facts);
    Gpu::read().add_facts(&mut facts);
    Tools::read_compilers(repo).add_facts(&mut facts);
    facts
}

/// Measure this machine's peak rates: about three seconds on all cores.
pub fn ceilings() -> Ceilings {
    let cpu = Cpu::read();
    let cache = cpu.last_level_cache_bytes();
    ceilings::measure(cpu.threads_usable, cache, Memory::read().available_bytes)
}

/// A canary, which measures the machine's present speed, for engines of `threads` threads.
pub fn canary(threads: u32) -> Canary {
    Canary::new(threads, Memory::read().available_bytes)
}

/// Insert `key` where there is a value.
fn put(facts: &mut BTreeMap<String, String>, key: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        facts.insert(key.to_owned(), value.to_string());
    }
}

/// Read a small file under /proc or /sys, trimmed; `None` if it can't be read or is empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_never_empty_strings() {
        let dir = tempfile::tempdir().unwrap();
        let facts = facts(dir.path());
        assert!(facts.contains_key("cpus"));
        assert!(
            facts.values().all(|value| !value.trim().is_empty()),
            "{facts:?}"
        );
    }
}
