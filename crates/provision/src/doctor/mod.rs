//! `cargo xtask doctor`: reports what this machine has, what it can do at best, what is missing and
//! how to get it.
//!
//! It looks and measures (by [`machine`]); it changes nothing, installs nothing, and uses no
//! network.

mod advice;
mod instructions;
mod provision;
mod render;

use crate::fetch::free_bytes;
use advice::{Finding, Severity};
use anyhow::Result;
use base::exit_code;
use base::repo::Repo;
use ceilings::Ceilings;
use harness::devices;
use harness::engine::isa;
use harness::machine::{self, Cpu, Gpu, Memory, Processor, System, Tools};
use instructions::{Outcome, Tried};
use provision::Provision;
use schema::registry::Registry;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Everything the doctor found.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Report {
    pub cpu: Cpu,
    /// The outcome for every vector extension that the processor advertises.
    pub instructions: Vec<Tried>,
    pub memory: Memory,
    /// Operating system, container and hypervisor.
    pub system: System,
    pub gpu: Gpu,
    /// Each backend that needs a device, with the device that it runs on here, or why there is
    /// none.
    pub devices: BTreeMap<String, Result<String, String>>,
    pub tools: Tools,
    /// Who provides what programs are built with: the machine, the flake's shell or the project.
    pub provision: Provision,
    pub disks: Vec<Disk>,
    /// What the machine can do at best, where that was measured.
    pub ceilings: Option<Ceilings>,
    pub findings: Vec<Finding>,
}

/// Free space in a directory that the project writes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Disk {
    /// What is stored there, such as `models`.
    pub what: &'static str,
    pub path: PathBuf,
    /// Bytes that an unprivileged process may still write; `None` where that can't be read.
    pub free_bytes: Option<u64>,
}

/// Print a report of this machine. Unless it is to be quick, the ceilings are measured too. The
/// exit status is 1 where the two commands of the README can't work here.
pub fn command(repo: &Repo, json: bool, quick: bool) -> Result<ExitCode> {
    let report = look(repo, !quick);
    let text = match json {
        true => serde_json::to_string_pretty(&report)?,
        false => render::text(&report),
    };
    println!("{text}");
    let is_needed = |finding: &Finding| finding.severity == Severity::Needed;
    Ok(exit_code(!report.findings.iter().any(is_needed), 1))
}

/// Look at this machine. With `measure` the ceilings are measured too, which loads all cores for
/// some seconds.
fn look(repo: &Repo, measure: bool) -> Report {
    let cpu = Cpu::read();
    let instructions = instructions::try_all(Processor::here());
    let memory = Memory::read();
    let system = System::read();
    let gpu = Gpu::read();
    let tools = Tools::read(&repo.root);
    let places = [("builds", &repo.build_dir), ("models", &repo.models_dir)];
    let disks = places.map(|(what, path)| Disk {
        what,
        path: path.clone(),
        free_bytes: free_bytes(path),
    });
    let ceilings = measure.then(machine::ceilings);
    // Without a registry the needs of engines are unknown.
    let registry = repo.registry().ok();
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
        provision: Provision::read(repo, registry.as_ref(), &tools),
        tools,
        disks: disks.into(),
        ceilings,
        findings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_this_machine_renders_both_ways() {
        let dir = tempfile::tempdir().unwrap();
        let report = look(&Repo::under(dir.path()), false);
        assert!(report.ceilings.is_none());
        assert!(report.disks.iter().all(|disk| disk.free_bytes.is_some()));
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["cpu"]["threads_usable"].as_u64().unwrap() > 0);
        assert!(render::text(&report).contains("usable threads"));
    }
}
