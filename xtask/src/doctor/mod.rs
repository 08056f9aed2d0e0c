//! `cargo xtask doctor`: what this machine has, what it could do at best, what is
//! missing and how to get it.
//!
//! Looks and measures; changes nothing, installs nothing, and asks no network.
//! Whatever can't be read is absent, never zero and never a failure. Reading is
//! cheap ([`facts`], a few milliseconds and a few `--version`s); the ceilings take
//! seconds and are measured only on demand ([`ceilings`]).

mod advice;
mod bandwidth;
mod ceilings;
mod cpu;
mod cpuid;
mod flops;
mod gpu;
mod instructions;
mod int8;
mod memory;
mod packages;
mod parallel;
mod provision;
mod render;
mod system;
mod tools;

pub use advice::{Finding, Severity};
pub use ceilings::{Ceilings, Measured, ceilings};
pub use cpu::{Cache, Cpu};
pub use cpuid::Processor;
pub use gpu::{Gpu, GpuDevice};
pub use instructions::{Outcome, Tried};
pub use memory::Memory;
pub use packages::install_command;
pub use provision::Provision;
pub use system::System;
pub use tools::{Tool, Tools, is_here};

use crate::devices;
use crate::engine::isa;
use crate::fetch::free_bytes;
use schema::registry::Registry;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where builds go, for its free space.
    pub build_dir: PathBuf,
    /// Where models go, for its free space.
    pub models_dir: PathBuf,
    /// Whether to measure the ceilings, which loads all cores for some seconds.
    pub measure: bool,
}

/// Everything the doctor found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The processor.
    pub cpu: Cpu,
    /// Every vector extension that it advertises, tried.
    pub instructions: Vec<Tried>,
    /// Main memory.
    pub memory: Memory,
    /// Operating system, container, hypervisor.
    pub system: System,
    /// NVIDIA devices.
    pub gpu: Gpu,
    /// Backend → the device that it runs on here, or why there is none; only those that
    /// need one.
    pub devices: BTreeMap<String, Result<String, String>>,
    /// Programs and libraries.
    pub tools: Tools,
    /// Who provides what programs are built with.
    pub provision: Provision,
    /// Free space where the project writes.
    pub disks: Vec<Disk>,
    /// What the machine can do at best, if it was measured.
    pub ceilings: Option<Ceilings>,
    /// What is missing or would disturb a measurement.
    pub findings: Vec<Finding>,
}

/// Free space in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disk {
    /// What is kept there.
    pub what: String,
    /// Where.
    pub path: PathBuf,
    /// What an unprivileged process may still write.
    pub free_bytes: Option<u64>,
}

/// Look at this machine.
pub fn doctor(repo: &Path, options: &Options) -> Report {
    let cpu = Cpu::read();
    let instructions = instructions::try_all(Processor::here());
    let memory = Memory::read();
    let system = System::read();
    let gpu = Gpu::read();
    let tools = Tools::read(repo);
    let disks = vec![
        disk("builds", &options.build_dir),
        disk("models", &options.models_dir),
    ];
    let ceilings = options.measure.then(|| ceilings::measure(&cpu, &memory));
    // Without a registry nobody is known to want anything.
    let registry = Registry::load(&repo.join("engines/engines.toml")).ok();
    let wanted = registry.as_ref().map(Registry::wanted).unwrap_or_default();
    let devices = registry.as_ref().map(devices::of_backends);
    let mut findings = advice::findings(&cpu, &memory, &system, &tools, &disks, &wanted);
    let limits = registry.as_ref().map(isa::limits).unwrap_or_default();
    findings.extend(instructions::finding(
        Processor::here(),
        &instructions,
        &limits,
    ));
    Report {
        cpu,
        instructions,
        memory,
        system,
        gpu,
        devices: devices.unwrap_or_default(),
        provision: Provision::read(repo, &options.build_dir, &tools),
        tools,
        disks,
        ceilings,
        findings,
    }
}

fn disk(what: &str, path: &Path) -> Disk {
    Disk {
        what: what.to_owned(),
        path: path.to_owned(),
        free_bytes: free_bytes(path),
    }
}

impl Report {
    /// For people: what was found, then what to do about it.
    pub fn to_text(&self) -> String {
        render::text(self)
    }

    /// For programs.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Whether the two commands of the README can work here.
    pub fn is_usable(&self) -> bool {
        self.findings.iter().all(|f| f.severity != Severity::Needed)
    }
}

/// The machine and its tools in a run's provenance. Keys that can't be read are
/// left out. Numbers in keys that end in a unit are plain decimals.
pub fn facts(repo: &Path) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    Cpu::read().add_facts(&mut facts);
    Memory::read().add_facts(&mut facts);
    System::read().add_facts(&mut facts);
    Gpu::read().add_facts(&mut facts);
    Tools::read_compilers(repo).add_facts(&mut facts);
    facts
}

/// Insert `key` where there is a value.
fn put(facts: &mut BTreeMap<String, String>, key: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        facts.insert(key.to_owned(), value.to_string());
    }
}

/// A small file under /proc or /sys, trimmed; `None` if it can't be read or is empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_this_machine_renders_both_ways() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            build_dir: dir.path().join("target"),
            models_dir: dir.path().join("models"),
            measure: false,
        };
        let report = doctor(dir.path(), &options);
        assert!(report.ceilings.is_none());
        assert!(report.disks.iter().all(|disk| disk.free_bytes.is_some()));
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert!(json["cpu"]["threads_usable"].as_u64().unwrap() > 0);
        assert!(report.to_text().contains("usable threads"));
    }

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
