//! Formats the report for people: one fact a line, then what to do. Pure, and without colours, so
//! that the text can be pasted into an issue as it is.

use super::{Finding, Outcome, Provision, Report, Severity, instructions};
use ceilings::{Ceilings, Measured};
use harness::machine::{Gpu, Tool};
use std::fmt::Write;

pub(super) fn text(report: &Report) -> String {
    let mut page = Page::default();
    machine(&mut page, report);
    gpu(&mut page, &report.gpu);
    devices(&mut page, report);
    tools(&mut page, report);
    provision(&mut page, &report.provision);
    page.heading("Disk");
    for disk in &report.disks {
        let free = known(disk.free_bytes.map(gigabytes));
        let place = disk.path.display();
        page.line(disk.what, &format!("{free} free at {place}"));
    }
    page.heading("Ceilings");
    match &report.ceilings {
        Some(measured) => ceilings(&mut page, measured),
        None => page.line("", "not measured"),
    }
    findings(&mut page, report);
    page.text
}

/// A text of lines `label  value`, under headings.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{gap}{heading}");
    }

    fn line(&mut self, label: &str, value: &str) {
        let _ = writeln!(self.text, "  {label:<16} {value}");
    }

    fn maybe(&mut self, label: &str, value: Option<impl ToString>) {
        self.line(label, &known(value));
    }
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or("unknown".to_owned(), |value| value.to_string())
}

fn machine(page: &mut Page, report: &Report) {
    let (cpu, memory, system) = (&report.cpu, &report.memory, &report.system);
    page.heading("Machine");
    page.maybe("CPU", cpu.model.as_ref());
    let (cores, logical) = (known(cpu.cores), known(cpu.logical));
    let usable = cpu.threads_usable;
    let threads = format!("{usable} usable threads; {cores} cores, {logical} logical processors");
    page.line("threads", &threads);
    let flags = cpu.flags.join(" ");
    page.maybe("ISA", (!flags.is_empty()).then_some(flags));
    for (outcome, words) in [
        (Outcome::Works, "works when tried"),
        (
            Outcome::IllegalInstruction,
            "ILLEGAL INSTRUCTION when tried",
        ),
        (Outcome::Refused, "the kernel gives it to no program"),
        (Outcome::Failed, "could not be tried"),
    ] {
        let flags = instructions::flags(&report.instructions, outcome);
        if !flags.is_empty() {
            page.line("", &format!("{words}: {}", flags.join(" ")));
        }
    }
    let caches: Vec<_> = cpu
        .caches
        .iter()
        .map(|c| format!("L{} {} × {}", c.level, c.instances, kibibytes(c.size_bytes)))
        .collect();
    page.maybe("caches", (!caches.is_empty()).then(|| caches.join(", ")));
    page.maybe("governor", cpu.governor.as_ref());
    let size = |bytes: Option<u64>| known(bytes.map(gigabytes));
    let (total, available) = (size(memory.total_bytes), size(memory.available_bytes));
    let swap = size(memory.swap_bytes);
    let sizes = format!("{total} ({available} available, swap {swap})");
    page.line("memory", &sizes);
    let transparent = known(memory.transparent_huge_pages.as_deref());
    let reserved = size(memory.huge_pages_bytes);
    let huge = format!("transparent: {transparent}; reserved: {reserved}");
    page.line("huge pages", &huge);
    page.maybe("OS", system.os.as_ref());
    page.maybe("kernel", system.kernel.as_ref());
    let seen = [&system.hypervisor, &system.container];
    let seen: Vec<&str> = seen.into_iter().flatten().map(String::as_str).collect();
    let virtualised = match seen.as_slice() {
        [] => "none seen",
        seen => &seen.join(", "),
    };
    page.line("virtualisation", virtualised);
    page.maybe("load, 1 min", system.load_1_min);
    if let Some(limit) = system.cpu_limit {
        page.line("CPU limit", &format!("{limit} processors"));
    }
    if let Some(limit) = system.memory_limit_bytes {
        page.line("memory limit", &gigabytes(limit));
    }
}

fn gpu(page: &mut Page, gpu: &Gpu) {
    page.heading("GPU");
    if let Some(reason) = &gpu.absent {
        page.line("", reason);
    }
    if gpu.driver.is_some() {
        page.maybe("driver", gpu.driver.as_ref());
        page.maybe("CUDA", gpu.cuda.as_ref());
    }
    for (index, device) in gpu.devices.iter().enumerate() {
        page.maybe(&format!("device {index}"), device.name.as_ref());
        page.maybe("  memory", device.memory_bytes.map(gigabytes));
        page.maybe(
            "  power limit",
            device.power_limit_mw.map(|mw| format!("{} W", mw / 1000)),
        );
        let clock = |mhz: Option<u32>| known(mhz.map(|mhz| format!("{mhz} MHz")));
        let (sm, memory) = (device.sm_clock_mhz_max, device.memory_clock_mhz_max);
        let clocks = format!("SM up to {}, memory up to {}", clock(sm), clock(memory));
        page.line("  clocks", &clocks);
        if let Some(mig) = device.mig {
            page.line("  MIG", if mig { "on" } else { "off" });
        }
    }
}

fn devices(page: &mut Page, report: &Report) {
    page.heading("Backends that need a device");
    for (backend, found) in &report.devices {
        let words = match found {
            Ok(device) => format!("runs on {device}"),
            Err(why) => format!("{why}: compiled only for targets named in full"),
        };
        page.line(backend, &words);
    }
}

fn tools(page: &mut Page, report: &Report) {
    let tools = &report.tools;
    page.heading("Tools");
    let pin = match tools.rust_matches() {
        Some(true) => " (as pinned)",
        Some(false) => " (NOT the pinned one)",
        None => "",
    };
    let show = |tool: &Tool| tool.found.clone().unwrap_or_else(|| "missing".into());
    page.line("rustc", &format!("{}{pin}", show(&tools.rustc)));
    for (name, tool) in [
        ("cargo", &tools.cargo),
        ("C compiler", &tools.cc),
        ("C++ compiler", &tools.cxx),
        ("cmake", &tools.cmake),
        ("libclang", &tools.libclang),
        ("clang", &tools.clang),
        ("python3", &tools.python),
        ("python3 modules", &tools.python_venv),
        ("git", &tools.git),
        ("nix", &tools.nix),
        ("node", &tools.node),
        ("chromium", &tools.chromium),
    ] {
        page.line(name, &show(tool));
    }
}

fn provision(page: &mut Page, provision: &Provision) {
    page.heading("Who provides what programs are built with");
    for (label, words) in [
        ("Nix shell", &provision.nix_shell),
        ("Python packages", &provision.python),
        ("libtorch", &provision.libtorch),
        ("CUDA toolkit", &provision.cuda_toolkit),
        ("cmake", &provision.cmake),
        ("libclang", &provision.libclang),
    ] {
        page.line(label, words);
    }
}

fn ceilings(page: &mut Page, ceilings: &Ceilings) {
    let mut rate = |label: &str, measured: &Measured, scale: f64, unit: &str| {
        page.line(
            label,
            &format!(
                "{:.1} {unit} (median {:.1}, {} thread{}, {})",
                measured.best / scale,
                measured.median / scale,
                measured.threads,
                if measured.threads == 1 { "" } else { "s" },
                measured.kernel
            ),
        );
    };
    let memory = &ceilings.memory_read_bytes_per_s;
    rate("memory read", memory, 1e9, "GB/s");
    rate("", &ceilings.memory_read_1_thread_bytes_per_s, 1e9, "GB/s");
    rate("f32", &ceilings.flops_f32_per_s, 1e9, "GFLOP/s");
    match &ceilings.ops_int8_per_s {
        Some(measured) => rate("int8", measured, 1e12, "TOP/s"),
        None => page.line("int8", "no kernel for this CPU"),
    }
}

fn findings(page: &mut Page, report: &Report) {
    for (severity, heading) in [
        (Severity::Needed, "Nothing works without"),
        (Severity::Partial, "Some things are left out"),
        (Severity::Noise, "Numbers may be lower or noisier"),
    ] {
        let of_severity = |finding: &&Finding| finding.severity == severity;
        for (index, finding) in report.findings.iter().filter(of_severity).enumerate() {
            if index == 0 {
                page.heading(heading);
            }
            let _ = writeln!(page.text, "  {}: {}", finding.what, finding.consequence);
            if let Some(command) = &finding.command {
                let _ = writeln!(page.text, "    → {command}");
            }
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn kibibytes(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}
