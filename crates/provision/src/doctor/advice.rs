//! Judges what was read of a machine: what is missing, what that costs, and the command that gets
//! it. Pure: none of the commands is run.

use super::Disk;
use harness::machine::system::{
    CHROMIUM, CLANG, COMPILER, GIT, NODE, Names, PYTHON, install, names_of,
};
use harness::machine::{Cpu, Memory, System, Tools};
use schema::registry::Need;
use serde::Serialize;
use std::collections::BTreeMap;

/// Free bytes below which a build of all engines may not fit.
const BUILD_BYTES: u64 = 30_000_000_000;
/// Free bytes below which the default models may not fit.
const MODELS_BYTES: u64 = 8_000_000_000;

/// How much a finding matters, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing works without it.
    Needed,
    /// Some targets or checks are left out.
    Partial,
    /// Numbers will be lower or noisier than this machine's best.
    Noise,
}

/// Something that is missing or disturbs measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub what: String,
    pub consequence: String,
    /// The command or step that mends it, where there is one.
    pub command: Option<String>,
}

/// Each need, with the names of the engines that have it.
pub(super) type Wanted = BTreeMap<Need, Vec<String>>;

/// Collect all findings, most important first.
pub(super) fn findings(
    cpu: &Cpu,
    memory: &Memory,
    system: &System,
    tools: &Tools,
    disks: &[Disk],
    wanted: &Wanted,
) -> Vec<Finding> {
    let mut all = tool_findings(system, tools, wanted);
    all.extend(clang_finding(cpu, system, tools, wanted));
    all.extend(disk_findings(disks));
    all.extend(noise_findings(cpu, memory, system));
    all.sort_by_key(|finding| finding.severity);
    all
}

fn tool_findings(system: &System, tools: &Tools, wanted: &Wanted) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut miss =
        |here: bool, severity, what: &str, consequence: &str, command: Option<String>| {
            if !here {
                all.push(Finding {
                    severity,
                    what: what.into(),
                    consequence: consequence.into(),
                    command,
                });
            }
        };
    let get = |names: &Names| install(system.packages, names);
    let rustup = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";
    miss(
        tools.rustc.is_here() && tools.cargo.is_here(),
        Severity::Needed,
        "no Rust toolchain",
        "nothing can be built",
        Some(rustup.into()),
    );
    if tools.rust_matches() == Some(false) {
        let pinned = tools.rust_pinned.as_deref().unwrap_or_default();
        let rustc = tools.rustc.found.as_deref().unwrap_or_default();
        miss(
            false,
            Severity::Needed,
            &format!("rustc is {rustc:?}, the project pins {pinned}"),
            "the build may fail, and its numbers are not comparable",
            Some(format!("rustup toolchain install {pinned}")),
        );
    }
    miss(
        tools.cc.is_here() && tools.cxx.is_here(),
        Severity::Needed,
        "no C or C++ compiler",
        "crates with C parts don't build, nor does anything that links",
        get(&COMPILER),
    );
    let has_python = tools.python.is_here() && tools.python_venv.is_here();
    for (need, what, tool) in [
        (Need::Cmake, "no cmake", &tools.cmake),
        (Need::Libclang, "no libclang", &tools.libclang),
    ] {
        // A missing tool costs nothing where no engine needs it or Python can provide it.
        let engines = wanted.get(&need).map(Vec::as_slice).unwrap_or_default();
        let is_provided = has_python && !tools.in_nix_shell;
        miss(
            engines.is_empty() || tool.is_here() || is_provided,
            Severity::Partial,
            what,
            &format!("{} will be unavailable", engines.join(", ")),
            names_of(need).and_then(get),
        );
    }
    miss(
        has_python,
        Severity::Partial,
        "no python3 with venv and ensurepip",
        "engines in Python will be unavailable, the baseline and the reference among them",
        get(&PYTHON),
    );
    miss(
        tools.git.is_here(),
        Severity::Partial,
        "no git",
        "records will not name the revision they were made with",
        get(&GIT),
    );
    for (tool, what, names) in [
        (&tools.node, "no node", &NODE),
        (&tools.chromium, "no chromium", &CHROMIUM),
    ] {
        let browser = "`cargo xtask test` will leave out the checks in a browser";
        let here = tool.is_here();
        miss(here, Severity::Partial, what, browser, get(names));
    }
    all
}

/// The finding that Clang is missing: without it an engine's C++ may be unable to use the CPU's
/// matrix unit.
fn clang_finding(cpu: &Cpu, system: &System, tools: &Tools, wanted: &Wanted) -> Option<Finding> {
    let engines = wanted.get(&Need::Clang)?;
    let has_amx = cpu.flags.iter().any(|flag| flag == "amx_int8");
    (has_amx && !tools.clang.is_here()).then(|| Finding {
        severity: Severity::Noise,
        what: "no clang".into(),
        consequence: format!(
            "{} may be compiled without AMX, which GCC up to 12 gets wrong",
            engines.join(", ")
        ),
        command: install(system.packages, &CLANG),
    })
}

fn disk_findings(disks: &[Disk]) -> Vec<Finding> {
    disks
        .iter()
        .filter_map(|disk| {
            let (wanted, variable) = match disk.what {
                "builds" => (BUILD_BYTES, "CARGO_TARGET_DIR"),
                _ => (MODELS_BYTES, "BENCH_MODELS_DIR"),
            };
            let free = disk.free_bytes.filter(|&free| free < wanted)?;
            Some(Finding {
                severity: Severity::Partial,
                what: format!(
                    "only {:.1} GB free for {} at {}",
                    free as f64 / 1e9,
                    disk.what,
                    disk.path.display()
                ),
                consequence: format!(
                    "everything together takes about {} GB",
                    wanted / 1_000_000_000
                ),
                command: Some(format!("set {variable} to a directory on a larger disk")),
            })
        })
        .collect()
}

fn noise_findings(cpu: &Cpu, memory: &Memory, system: &System) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut note = |what: String, consequence: &str, command: Option<&str>| {
        all.push(Finding {
            severity: Severity::Noise,
            what,
            consequence: consequence.into(),
            command: command.map(Into::into),
        });
    };
    // This process adds 1 to the load. A finished build fades from the average within minutes.
    let threads = cpu.threads_usable;
    let busy = 1.0 + threads as f64 / 4.0;
    if let Some(load) = system.load_1_min.filter(|&load| load > busy) {
        note(
            format!("the machine is busy: load {load} on {threads} threads"),
            "whatever is measured now comes out too low, the ceilings too",
            Some("uptime  # wait until the first number is near 0"),
        );
    }
    if let Some(governor) = cpu.governor.as_deref().filter(|&g| g != "performance") {
        note(
            format!("the frequency governor is {governor}"),
            "clocks follow the load, so short work runs slower than long work",
            Some("sudo cpupower frequency-set -g performance"),
        );
    }
    if memory.transparent_huge_pages.as_deref() == Some("never") {
        note(
            "transparent huge pages are off".into(),
            "streaming through weights costs more TLB misses",
            Some("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        );
    }
    if let Some(hypervisor) = &system.hypervisor {
        note(
            format!("a virtual machine (hypervisor: {hypervisor})"),
            "other guests may share its cores, caches and memory bandwidth",
            None,
        );
    }
    if let Some(limit) = system.cpu_limit {
        note(
            format!("the container may use {limit} processors' worth of time"),
            "a quota throttles in bursts, which shows as latency spikes",
            Some("give the container whole processors (--cpuset-cpus) and no quota"),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::machine::{PackageManager, Tool};

    fn complete() -> Tools {
        let here = || Tool {
            found: Some("1".into()),
        };
        Tools {
            rust_pinned: None,
            in_nix_shell: false,
            rustc: here(),
            cargo: here(),
            cc: here(),
            cxx: here(),
            cmake: here(),
            libclang: here(),
            clang: here(),
            python: here(),
            python_venv: here(),
            git: here(),
            nix: here(),
            node: here(),
            chromium: here(),
        }
    }

    fn judge(system: &System, tools: &Tools) -> Vec<Finding> {
        let (cpu, memory) = (Cpu::default(), Memory::default());
        findings(&cpu, &memory, system, tools, &[], &wanted())
    }

    fn wanted() -> Wanted {
        [
            (Need::Cmake, vec!["A".into(), "B".into()]),
            (Need::Clang, vec!["A".into()]),
        ]
        .into()
    }

    #[test]
    fn a_complete_quiet_machine_needs_nothing() {
        assert_eq!(judge(&System::default(), &complete()), []);
        // Nix is optional: its absence costs nothing.
        let tools = Tools {
            nix: Tool::default(),
            ..complete()
        };
        assert_eq!(judge(&System::default(), &tools), []);
    }

    #[test]
    fn what_is_missing_comes_with_its_command() {
        let tools = Tools {
            cmake: Tool::default(),
            cxx: Tool::default(),
            in_nix_shell: true,
            ..complete()
        };
        let system = System {
            packages: Some(PackageManager::Dnf),
            ..System::default()
        };
        let found = judge(&system, &tools);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].severity, Severity::Needed);
        assert_eq!(
            found[0].command.as_deref(),
            Some("sudo dnf install -y gcc gcc-c++ make")
        );
        assert_eq!(found[1].consequence, "A, B will be unavailable");
        // No engine needs libclang here.
        let tools_less = Tools {
            libclang: Tool::default(),
            ..tools.clone()
        };
        assert_eq!(judge(&system, &tools_less), found);
        // For an unknown distribution no command is guessed.
        assert_eq!(judge(&System::default(), &tools)[0].command, None);
    }

    #[test]
    fn what_python_can_get_is_not_missing() {
        let without = |python: bool| Tools {
            cmake: Tool::default(),
            clang: Tool::default(),
            python_venv: match python {
                true => complete().python_venv,
                false => Tool::default(),
            },
            ..complete()
        };
        assert_eq!(judge(&System::default(), &without(true)), []);
        let found = judge(&System::default(), &without(false));
        let what: Vec<&str> = found.iter().map(|f| f.what.as_str()).collect();
        assert_eq!(what, ["no cmake", "no python3 with venv and ensurepip"]);
    }

    #[test]
    fn clang_is_missed_where_the_cpu_has_amx() {
        let tools = Tools {
            clang: Tool::default(),
            ..complete()
        };
        let found = |flag: &str| {
            let cpu = Cpu {
                flags: vec![flag.into()],
                ..Cpu::default()
            };
            let (memory, system) = (Memory::default(), System::default());
            findings(&cpu, &memory, &system, &tools, &[], &wanted())
        };
        assert_eq!(found("avx2"), []);
        assert!(found("amx_int8")[0].consequence.contains("without AMX"));
    }

    #[test]
    fn another_compiler_than_the_pinned_one_is_told() {
        let tools = Tools {
            rust_pinned: Some("1.95.0".into()),
            rustc: Tool {
                found: Some("rustc 1.90.0 (x)".into()),
            },
            ..complete()
        };
        let found = judge(&System::default(), &tools);
        assert_eq!(
            found[0].command.as_deref(),
            Some("rustup toolchain install 1.95.0")
        );
    }

    #[test]
    fn little_space_and_noise_are_told_last() {
        let disk = Disk {
            what: "models",
            path: "/m".into(),
            free_bytes: Some(1_500_000_000),
        };
        let cpu = Cpu {
            governor: Some("powersave".into()),
            ..Cpu::default()
        };
        let system = System {
            hypervisor: Some("kvm".into()),
            load_1_min: Some(15.5),
            ..System::default()
        };
        let memory = Memory::default();
        let found = findings(&cpu, &memory, &system, &complete(), &[disk], &wanted());
        assert_eq!(found.len(), 4);
        assert_eq!(found[0].what, "only 1.5 GB free for models at /m");
        assert_eq!(found[1].severity, Severity::Noise);
    }
}
